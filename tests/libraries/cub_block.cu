// CUB's block-wide primitives: one small kernel each, 128 threads unless it says otherwise.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cuda/std/functional>

constexpr int T = 128, I = 4;
#define KERNEL extern "C" __global__ void

template <cub::BlockReduceAlgorithm A, class V> __device__ void reduce(const V* x, V* out) {
  using R = cub::BlockReduce<V, T, A>;
  __shared__ typename R::TempStorage s;
  V total = R(s).Sum(x[blockIdx.x * T + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}
KERNEL block_reduce_raking(const int* x, int* out) { reduce<cub::BLOCK_REDUCE_RAKING>(x, out); }
KERNEL block_reduce_commutative(const int* x, int* out) { reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(x, out); }
KERNEL block_reduce_warps(const float* x, float* out) { reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(x, out); }
KERNEL block_reduce_double(const double* x, double* out) { reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(x, out); }

KERNEL block_reduce_max_items(const int* x, int n, int* out) {
  using R = cub::BlockReduce<int, T>;
  __shared__ R::TempStorage s;
  int best = R(s).Reduce(threadIdx.x < n ? x[threadIdx.x] : 0, cuda::maximum<>{}, n);
  if (threadIdx.x == 0) *out = best;
}

KERNEL block_reduce_2d(const int* x, int* out) {
  using R = cub::BlockReduce<int, 16, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 8>;
  __shared__ R::TempStorage s;
  int total = R(s).Sum(x[threadIdx.y * 16 + threadIdx.x]);
  if (threadIdx.x == 0 && threadIdx.y == 0) *out = total;
}

KERNEL block_arg_min(const float* x, int* at, float* least) {
  using Pair = cub::KeyValuePair<int, float>;
  using R = cub::BlockReduce<Pair, T>;
  __shared__ R::TempStorage s;
  Pair best = R(s).Reduce(Pair((int)threadIdx.x, x[threadIdx.x]), cub::ArgMin());
  if (threadIdx.x == 0) { *at = best.key; *least = best.value; }
}

template <cub::BlockScanAlgorithm A> __device__ void scan(const int* x, int* out, int* total) {
  using S = cub::BlockScan<int, T, A>;
  __shared__ typename S::TempStorage s;
  int items[I], sum;
  for (int i = 0; i < I; ++i) items[i] = x[threadIdx.x * I + i];
  S(s).ExclusiveSum(items, items, sum);
  for (int i = 0; i < I; ++i) out[threadIdx.x * I + i] = items[i];
  if (threadIdx.x == 0) *total = sum;
}
KERNEL block_scan_raking(const int* x, int* out, int* total) { scan<cub::BLOCK_SCAN_RAKING>(x, out, total); }
KERNEL block_scan_memoize(const int* x, int* out, int* total) { scan<cub::BLOCK_SCAN_RAKING_MEMOIZE>(x, out, total); }
KERNEL block_scan_warps(const int* x, int* out, int* total) { scan<cub::BLOCK_SCAN_WARP_SCANS>(x, out, total); }

KERNEL block_scan_max(const int* x, int* out) {
  using S = cub::BlockScan<int, T>;
  __shared__ S::TempStorage s;
  int found;
  S(s).InclusiveScan(x[threadIdx.x], found, cuda::maximum<>{});
  out[threadIdx.x] = found;
}

struct Running {
  int sum;
  __device__ int operator()(int more) { int old = sum; sum += more; return old; }
};
KERNEL block_scan_prefix(const int* x, int n, int* out) {
  using S = cub::BlockScan<int, T>;
  __shared__ S::TempStorage s;
  Running running{0};
  for (int first = 0; first < n; first += T) {
    int value = x[first + threadIdx.x];
    S(s).InclusiveSum(value, value, running);
    out[first + threadIdx.x] = value;
    __syncthreads();
  }
}

KERNEL block_radix_sort(const unsigned* x, unsigned* out) {
  using S = cub::BlockRadixSort<unsigned, T, I>;
  __shared__ S::TempStorage s;
  unsigned keys[I];
  for (int i = 0; i < I; ++i) keys[i] = x[threadIdx.x * I + i];
  S(s).Sort(keys);
  for (int i = 0; i < I; ++i) out[threadIdx.x * I + i] = keys[i];
}
KERNEL block_radix_sort_pairs(const float* x, float* out, int* from) {
  using S = cub::BlockRadixSort<float, T, I, int>;
  __shared__ S::TempStorage s;
  float keys[I];
  int values[I];
  for (int i = 0; i < I; ++i) keys[i] = x[values[i] = threadIdx.x * I + i];
  S(s).SortDescendingBlockedToStriped(keys, values);
  for (int i = 0; i < I; ++i) { out[i * T + threadIdx.x] = keys[i]; from[i * T + threadIdx.x] = values[i]; }
}

KERNEL block_radix_rank(const unsigned* x, int* out) {
  using Rank = cub::BlockRadixRank<T, 5, false>;
  __shared__ Rank::TempStorage s;
  unsigned keys[I];
  int ranks[I];
  for (int i = 0; i < I; ++i) keys[i] = x[threadIdx.x * I + i];
  Rank(s).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(0, 5));
  for (int i = 0; i < I; ++i) out[threadIdx.x * I + i] = ranks[i];
}

KERNEL block_merge_sort(const int* x, int* out) {
  using S = cub::BlockMergeSort<int, T, I>;
  __shared__ S::TempStorage s;
  int keys[I];
  for (int i = 0; i < I; ++i) keys[i] = x[threadIdx.x * I + i];
  S(s).Sort(keys, cuda::std::less<int>{});
  for (int i = 0; i < I; ++i) out[threadIdx.x * I + i] = keys[i];
}
KERNEL block_merge_sort_pairs(const int* x, int n, int* out, int* from) {
  using S = cub::BlockMergeSort<int, T, I, int>;
  __shared__ S::TempStorage s;
  int keys[I], values[I];
  for (int i = 0; i < I; ++i) {
    values[i] = threadIdx.x * I + i;
    keys[i] = values[i] < n ? x[values[i]] : 0;
  }
  S(s).StableSort(keys, values, cuda::std::greater<int>{}, n, -1);
  for (int i = 0; i < I; ++i)
    if (threadIdx.x * I + i < n) { out[threadIdx.x * I + i] = keys[i]; from[threadIdx.x * I + i] = values[i]; }
}

template <cub::BlockHistogramAlgorithm A> __device__ void histogram(const unsigned char* x, unsigned* out) {
  using H = cub::BlockHistogram<unsigned char, T, I, 32, A>;
  __shared__ typename H::TempStorage s;
  __shared__ unsigned bins[32];
  unsigned char items[I];
  for (int i = 0; i < I; ++i) items[i] = x[threadIdx.x * I + i];
  H(s).Histogram(items, bins);
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = bins[threadIdx.x];
}
KERNEL block_histogram_sort(const unsigned char* x, unsigned* out) { histogram<cub::BLOCK_HISTO_SORT>(x, out); }
KERNEL block_histogram_atomic(const unsigned char* x, unsigned* out) { histogram<cub::BLOCK_HISTO_ATOMIC>(x, out); }

template <cub::BlockLoadAlgorithm L, cub::BlockStoreAlgorithm S> __device__ void load_store(int* x, int n, int* out) {
  using Load = cub::BlockLoad<int, T, I, L>;
  using Store = cub::BlockStore<int, T, I, S>;
  __shared__ union { typename Load::TempStorage load; typename Store::TempStorage store; } s;
  int items[I], first = blockIdx.x * T * I;
  if (n - first >= T * I) Load(s.load).Load(x + first, items);
  else Load(s.load).Load(x + first, items, n - first, -1);
  for (int i = 0; i < I; ++i) items[i] += threadIdx.x * I + i;
  __syncthreads();
  if (n - first >= T * I) Store(s.store).Store(out + first, items);
  else Store(s.store).Store(out + first, items, n - first);
}
KERNEL load_store_direct(int* x, int n, int* out) { load_store<cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>(x, n, out); }
KERNEL load_store_vectorize(int* x, int n, int* out) { load_store<cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_STORE_VECTORIZE>(x, n, out); }
KERNEL load_store_transpose(int* x, int n, int* out) { load_store<cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>(x, n, out); }
KERNEL load_store_warp_transpose(int* x, int n, int* out) { load_store<cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>(x, n, out); }
KERNEL load_store_timesliced(int* x, int n, int* out) { load_store<cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED, cub::BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED>(x, n, out); }

KERNEL block_exchange(const int* x, int* striped, int* scattered) {
  using E = cub::BlockExchange<int, T, I>;
  __shared__ E::TempStorage s;
  int items[I], ranks[I];
  for (int i = 0; i < I; ++i) items[i] = x[threadIdx.x * I + i];
  E(s).BlockedToStriped(items, items);
  for (int i = 0; i < I; ++i) striped[threadIdx.x * I + i] = items[i];
  __syncthreads();
  for (int i = 0; i < I; ++i) { items[i] = x[threadIdx.x * I + i]; ranks[i] = T * I - 1 - (threadIdx.x * I + i); }
  E(s).ScatterToBlocked(items, items, ranks);
  for (int i = 0; i < I; ++i) scattered[threadIdx.x * I + i] = items[i];
}

KERNEL block_shuffle(const int* x, int* up, int* rotated) {
  using S = cub::BlockShuffle<int, T>;
  __shared__ S::TempStorage s;
  int items[I], last;
  for (int i = 0; i < I; ++i) items[i] = x[threadIdx.x * I + i];
  last = items[I - 1];
  S(s).Up(items, items);
  for (int i = 0; i < I; ++i) up[threadIdx.x * I + i] = threadIdx.x + i ? items[i] : 0;
  __syncthreads();
  S(s).Rotate(last, last, 5);
  rotated[threadIdx.x] = last;
}

KERNEL block_discontinuity(const int* x, int* heads, int* tails) {
  using D = cub::BlockDiscontinuity<int, T>;
  __shared__ D::TempStorage s;
  int items[I], h[I], t[I];
  for (int i = 0; i < I; ++i) items[i] = x[threadIdx.x * I + i];
  D(s).FlagHeadsAndTails(h, t, items, cuda::std::not_equal_to<int>{});
  for (int i = 0; i < I; ++i) { heads[threadIdx.x * I + i] = h[i]; tails[threadIdx.x * I + i] = t[i]; }
}

KERNEL block_adjacent_difference(const int* x, int n, int* left, int* right) {
  using D = cub::BlockAdjacentDifference<int, T>;
  __shared__ D::TempStorage s;
  int items[I], l[I], r[I];
  for (int i = 0; i < I; ++i) items[i] = threadIdx.x * I + i < n ? x[threadIdx.x * I + i] : 0;
  D(s).SubtractLeftPartialTile(items, l, cuda::std::minus<int>{}, n);
  __syncthreads();
  D(s).SubtractRightPartialTile(items, r, cuda::std::minus<int>{}, n);
  for (int i = 0; i < I; ++i)
    if (threadIdx.x * I + i < n) { left[threadIdx.x * I + i] = l[i]; right[threadIdx.x * I + i] = r[i]; }
}

KERNEL block_run_length_decode(const int* values, const int* lengths, int* out) {
  using D = cub::BlockRunLengthDecode<int, T, 2, I>;
  __shared__ D::TempStorage s;
  int items[2], counts[2], total, decoded[I];
  for (int i = 0; i < 2; ++i) { items[i] = values[threadIdx.x * 2 + i]; counts[i] = lengths[threadIdx.x * 2 + i]; }
  D decode(s, items, counts, total);
  for (int first = 0; first < total; first += T * I) {
    decode.RunLengthDecode(decoded, first);
    for (int i = 0; i < I; ++i) {
      int at = first + threadIdx.x * I + i;
      if (at < total) out[at] = decoded[i];
    }
  }
}

KERNEL stream_compaction(const int* x, int* out, int* count) {
  using S = cub::BlockScan<int, T>;
  __shared__ S::TempStorage s;
  int value = x[threadIdx.x], keep = value % 3 == 0, at, all;
  S(s).ExclusiveSum(keep, at, all);
  if (keep) out[at] = value;
  if (threadIdx.x == 0) *count = all;
}
