// CUB's warp-wide and thread-level primitives.
#include <cub/thread/thread_load.cuh>
#include <cub/thread/thread_search.cuh>
#include <cub/thread/thread_sort.cuh>
#include <cub/thread/thread_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>
#include <cuda/std/functional>

#define KERNEL extern "C" __global__ void

KERNEL warp_reduce(const int* x, int* out) {
  using R = cub::WarpReduce<int>;
  __shared__ R::TempStorage s[4];
  int warp = threadIdx.x / 32, total = R(s[warp]).Sum(x[threadIdx.x]);
  if (threadIdx.x % 32 == 0) out[warp] = total;
}
KERNEL warp_reduce_float_max(const float* x, int n, float* out) {
  using R = cub::WarpReduce<float, 16>;
  __shared__ R::TempStorage s[8];
  int part = threadIdx.x / 16;
  float best = R(s[part]).Reduce(x[threadIdx.x], cuda::maximum<>{}, n);
  if (threadIdx.x % 16 == 0) out[part] = best;
}
KERNEL warp_reduce_odd(const int* x, int* out) {
  using R = cub::WarpReduce<int, 7>;
  __shared__ R::TempStorage s;
  int total = 0;
  if (threadIdx.x < 7) total = R(s).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *out = total;
}
KERNEL warp_segmented_sum(const int* x, const int* heads, int* out) {
  using R = cub::WarpReduce<int>;
  __shared__ R::TempStorage s;
  int total = R(s).HeadSegmentedSum(x[threadIdx.x], heads[threadIdx.x]);
  if (heads[threadIdx.x]) out[threadIdx.x] = total;
}
KERNEL warp_scan(const int* x, int* inclusive, int* exclusive) {
  using S = cub::WarpScan<int>;
  __shared__ S::TempStorage s[4];
  int i, e;
  S(s[threadIdx.x / 32]).Scan(x[threadIdx.x], i, e, 0, cuda::std::plus<>{});
  inclusive[threadIdx.x] = i;
  exclusive[threadIdx.x] = e;
}
KERNEL warp_scan_double(const double* x, double* out) {
  using S = cub::WarpScan<double, 8>;
  __shared__ S::TempStorage s[16];
  double value;
  S(s[threadIdx.x / 8]).InclusiveSum(x[threadIdx.x], value);
  out[threadIdx.x] = value;
}
KERNEL warp_broadcast(const int* x, int* out) {
  using S = cub::WarpScan<int>;
  __shared__ S::TempStorage s[4];
  out[threadIdx.x] = S(s[threadIdx.x / 32]).Broadcast(x[threadIdx.x], 11);
}
KERNEL warp_merge_sort(const int* x, int* out) {
  using S = cub::WarpMergeSort<int, 4, 16>;
  __shared__ S::TempStorage s[4];
  int keys[4];
  for (int i = 0; i < 4; ++i) keys[i] = x[threadIdx.x * 4 + i];
  S(s[threadIdx.x / 16]).Sort(keys, cuda::std::less<int>{});
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = keys[i];
}
template <cub::WarpExchangeAlgorithm A> __device__ void exchange(const int* x, int* out) {
  using E = cub::WarpExchange<int, 4, 32, A>;
  __shared__ typename E::TempStorage s[2];
  int items[4];
  for (int i = 0; i < 4; ++i) items[i] = x[threadIdx.x * 4 + i];
  E(s[threadIdx.x / 32]).BlockedToStriped(items, items);
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = items[i];
}
KERNEL warp_exchange_smem(const int* x, int* out) { exchange<cub::WARP_EXCHANGE_SMEM>(x, out); }
template <cub::WarpLoadAlgorithm L, cub::WarpStoreAlgorithm S> __device__ void load_store(int* x, int n, int* out) {
  using Load = cub::WarpLoad<int, 4, L, 32>;
  using Store = cub::WarpStore<int, 4, S, 32>;
  __shared__ union U { typename Load::TempStorage load; typename Store::TempStorage store; } s[2];
  int warp = threadIdx.x / 32, first = warp * 128, items[4];
  Load(s[warp].load).Load(x + first, items, n - first, 7);
  for (int i = 0; i < 4; ++i) items[i] *= 2;
  __syncwarp();
  Store(s[warp].store).Store(out + first, items, n - first);
}
KERNEL warp_load_store_transpose(int* x, int n, int* out) { load_store<cub::WARP_LOAD_TRANSPOSE, cub::WARP_STORE_TRANSPOSE>(x, n, out); }
KERNEL warp_load_store_striped(int* x, int n, int* out) { load_store<cub::WARP_LOAD_STRIPED, cub::WARP_STORE_STRIPED>(x, n, out); }
KERNEL thread_sort_search(const int* x, const int* wanted, int* sorted, int* at) {
  int keys[8], none[8];
  for (int i = 0; i < 8; ++i) keys[i] = cub::ThreadLoad<cub::LOAD_LDG>(x + threadIdx.x * 8 + i);
  cub::StableOddEvenSort(keys, none, cuda::std::less<int>{});
  for (int i = 0; i < 8; ++i) cub::ThreadStore<cub::STORE_CG>(sorted + threadIdx.x * 8 + i, keys[i]);
  at[threadIdx.x] = cub::LowerBound(keys, 8, wanted[threadIdx.x]);
}
