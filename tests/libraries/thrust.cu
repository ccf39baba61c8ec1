// Thrust's algorithms within a thread.
#include <thrust/binary_search.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

extern "C" __global__ void thrust_in_a_thread(const int* x, int* unique, int* sums, int* found) {
  int* mine = unique + threadIdx.x * 12;
  for (int i = 0; i < 12; ++i) mine[i] = x[threadIdx.x * 12 + i];
  thrust::inclusive_scan(thrust::seq, mine, mine + 12, sums + threadIdx.x * 12);
  int* end = thrust::unique(thrust::seq, mine, mine + 12);
  found[threadIdx.x] = thrust::lower_bound(thrust::seq, mine, end, 0) - mine + 100 * thrust::reduce(thrust::seq, mine, end);
  while (end != mine + 12) *end++ = 0;
}

extern "C" __global__ void thrust_sort(const int* x, int* sorted) {
  int* mine = sorted + threadIdx.x * 12;
  for (int i = 0; i < 12; ++i) mine[i] = x[threadIdx.x * 12 + i];
  thrust::sort(thrust::seq, mine, mine + 12);
}
