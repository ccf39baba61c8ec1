// Stream compaction: warp-aggregated atomics by __ballot_sync and __popc.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "helper_cuda.h"

struct IsPositive {
  __host__ __device__ bool operator()(int v) const { return v > 0; }
};

__device__ __forceinline__ uint32_t lane_mask_lt() {
  uint32_t mask;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  return mask;
}

template <class Predicate>
__global__ void copy_if(const int *src, int *dst, int *count, int n, Predicate keep) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = i < n ? src[i] : 0;
  const bool kept = i < n && keep(value);
  const uint32_t votes = __ballot_sync(0xffffffffu, kept);
  if (!votes) return;
  const int leader = __ffs(votes) - 1;
  int base = 0;
  if (threadIdx.x % 32 == leader) base = atomicAdd(count, __popc(votes));
  base = __shfl_sync(0xffffffffu, base, leader);
  if (kept) dst[base + __popc(votes & lane_mask_lt())] = value;
}

int main() {
  const int n = 5000;
  std::vector<int> host(n), result(n);
  for (int i = 0; i < n; ++i) host[i] = (i * 7919) % 101 - 50;
  int *src, *dst, *count, kept;
  checkCudaErrors(cudaMalloc(&src, n * sizeof(int)));
  checkCudaErrors(cudaMalloc(&dst, n * sizeof(int)));
  checkCudaErrors(cudaMalloc(&count, sizeof(int)));
  checkCudaErrors(cudaMemset(count, 0, sizeof(int)));
  checkCudaErrors(cudaMemcpy(src, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  copy_if<IsPositive><<<(n + 127) / 128, 128>>>(src, dst, count, n, IsPositive{});
  checkCudaErrors(cudaMemcpy(&kept, count, sizeof(int), cudaMemcpyDeviceToHost));
  checkCudaErrors(cudaMemcpy(result.data(), dst, kept * sizeof(int), cudaMemcpyDeviceToHost));
  const auto expected = std::count_if(host.begin(), host.end(), IsPositive{});
  printf("%d of %d kept, expected %ld\n", kept, n, (long)expected);
  return kept == expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
