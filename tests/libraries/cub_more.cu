// CUB's tile state of single-pass scans, newer block primitives, atomics between blocks; WMMA.
#include <cub/agent/single_pass_scan_operators.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_load_to_shared.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_topk.cuh>
#include <cub/warp/warp_reduce_batched.cuh>
#include <cuda/std/array>
#include <cuda/std/functional>
#include <cuda/std/span>
#include <mma.h>

#define KERNEL extern "C" __global__ void
constexpr int T = 64, I = 4;

KERNEL look_back_scan(const int* x, unsigned long long* words, int* out) {
  using State = cub::ScanTileState<int>;
  using Prefix = cub::TilePrefixCallbackOp<int, cuda::std::plus<>, State>;
  using Scan = cub::BlockScan<int, T>;
  __shared__ Prefix::TempStorage p;
  __shared__ Scan::TempStorage s;
  State state;
  state.Init(gridDim.x, words, 0);
  int at = blockIdx.x * T + threadIdx.x, value = x[at];
  if (blockIdx.x == 0) {
    int total;
    Scan(s).InclusiveSum(value, value, total);
    if (threadIdx.x == 0) state.SetInclusive(0, total);
  } else {
    Prefix prefix(state, p, cuda::std::plus<>{}, blockIdx.x);
    Scan(s).InclusiveSum(value, value, prefix);
  }
  out[at] = value;
}

KERNEL block_load_to_shared(const int* x, int n, int* out) {
  using Load = cub::detail::BlockLoadToShared<T>;
  __shared__ Load::TempStorage s;
  __shared__ alignas(16) char bytes[cub::detail::LoadToSharedBufferSizeBytes<int>(300)];
  Load load(s);
  cuda::std::span<int> got = load.CopyAsync(cuda::std::span<char>(bytes), cuda::std::span<const int>(x + 1, n));
  load.Wait(load.Commit());
  for (int i = threadIdx.x; i < n; i += T) out[i] = got[n - 1 - i];
}

KERNEL block_top_k(const int* x, int* out) {
  using Top = cub::detail::block_topk<int, T, I>;
  __shared__ Top::TempStorage s;
  int keys[I];
  for (int i = 0; i < I; ++i) keys[i] = x[threadIdx.x * I + i];
  Top(s).max_keys<true>(keys, 16, T * I);
  if (threadIdx.x < 16 / I)
    for (int i = 0; i < I; ++i) atomicAdd(out, keys[i]);
}

KERNEL warp_reduce_batched(const int* x, int* out) {
  using R = cub::WarpReduceBatched<int, 8, 32>;
  __shared__ R::TempStorage s[2];
  cuda::std::array<int, 8> items;
  for (int i = 0; i < 8; ++i) items[i] = x[i * T + threadIdx.x];
  int sum = R(s[threadIdx.x / 32]).Sum(items);
  if (threadIdx.x % 32 < 8) out[threadIdx.x / 32 * 8 + threadIdx.x % 32] = sum;
}

KERNEL radix_rank_match(const unsigned* x, int* out) {
  using Rank = cub::BlockRadixRankMatch<T, 4, false>;
  __shared__ Rank::TempStorage s;
  unsigned keys[I];
  int ranks[I];
  for (int i = 0; i < I; ++i) keys[i] = x[threadIdx.x / 32 * 32 * I + i * 32 + threadIdx.x % 32];
  Rank(s).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(0, 4));
  for (int i = 0; i < I; ++i) out[threadIdx.x / 32 * 32 * I + i * 32 + threadIdx.x % 32] = ranks[i];
}

KERNEL segmented_tail(const float* x, const int* heads, float* out) {
  using Pair = cub::KeyValuePair<int, float>;
  using Scan = cub::BlockScan<Pair, T>;
  __shared__ Scan::TempStorage s;
  Pair mine(heads[threadIdx.x], x[threadIdx.x]);
  Scan(s).InclusiveScan(mine, mine, cub::ReduceBySegmentOp<cuda::std::plus<>>());
  out[threadIdx.x] = mine.value;
}

KERNEL wmma_product(const half* a, const half* b, float* c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, half, col_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 0.0f);
  load_matrix_sync(fa, a, 16);
  load_matrix_sync(fb, b, 16);
  mma_sync(fc, fa, fb, fc);
  store_matrix_sync(c, fc, 16, mem_row_major);
}

struct Padded {
  char kind;
  int value;
  short where;
};
__device__ Padded padded(const int* x, int i) { return {char(x[i] & 7), x[i], short(i)}; }
__device__ int packed(Padded p) { return p.value * 64 + p.kind * 8 + (p.where & 7); }
struct Larger {
  __device__ Padded operator()(Padded a, Padded b) const { return b.value > a.value ? b : a; }
};

KERNEL padded_reduce(const int* x, int* out) {
  using R = cub::BlockReduce<Padded, T>;
  __shared__ R::TempStorage s;
  Padded best = R(s).Reduce(padded(x, threadIdx.x), Larger{});
  if (threadIdx.x == 0) *out = packed(best);
}
struct Tailed {
  long long value;
  int where;
};
KERNEL padded_shuffle(const int* x, int* out) {
  Tailed item{(long long)x[threadIdx.x] << 20, int(threadIdx.x)};
  out[threadIdx.x] = cub::ShuffleIndex<32>(item, 3, 0xffffffff).where;
}
KERNEL padded_scan(const int* x, int* out) {
  using S = cub::BlockScan<Padded, T>;
  __shared__ S::TempStorage s;
  Padded item = padded(x, threadIdx.x);
  S(s).InclusiveScan(item, item, Larger{});
  out[threadIdx.x] = packed(item);
}
KERNEL padded_exchange(const int* x, int* out) {
  using E = cub::BlockExchange<Padded, T, 2>;
  __shared__ E::TempStorage s;
  Padded items[2] = {padded(x, threadIdx.x * 2), padded(x, threadIdx.x * 2 + 1)};
  E(s).BlockedToStriped(items, items);
  for (int i = 0; i < 2; ++i) out[i * T + threadIdx.x] = packed(items[i]);
}
KERNEL padded_sort(const unsigned* keys, const int* x, int* out) {
  using S = cub::BlockRadixSort<unsigned, T, 2, Padded>;
  __shared__ S::TempStorage s;
  unsigned k[2] = {keys[threadIdx.x * 2], keys[threadIdx.x * 2 + 1]};
  Padded items[2] = {padded(x, threadIdx.x * 2), padded(x, threadIdx.x * 2 + 1)};
  S(s).Sort(k, items);
  for (int i = 0; i < 2; ++i) out[threadIdx.x * 2 + i] = packed(items[i]);
}
