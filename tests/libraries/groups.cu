// Cooperative groups: tiles, coalesced and labeled groups, collectives, copies, clusters, the grid.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/std/functional>

#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;

template <int N> __device__ void tile_sum(const int* x, int* out) {
  auto tile = cg::tiled_partition<N>(cg::this_thread_block());
  int value = x[threadIdx.x];
  for (int i = tile.size() / 2; i; i /= 2) value += tile.shfl_down(value, i);
  if (tile.thread_rank() == 0) out[tile.meta_group_rank()] = value;
}
KERNEL tile_sum_32(const int* x, int* out) { tile_sum<32>(x, out); }
KERNEL tile_sum_8(const int* x, int* out) { tile_sum<8>(x, out); }

KERNEL tile_dynamic(const int* x, int n, int* out) {
  auto tile = cg::tiled_partition(cg::this_thread_block(), n);
  int value = x[threadIdx.x];
  tile.sync();
  if (tile.thread_rank() == 0) {
    for (int i = 1; i < tile.size(); ++i) value += x[threadIdx.x + i];
    out[threadIdx.x / n] = value;
  }
}

KERNEL tile_votes(const int* x, unsigned* out) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int value = x[threadIdx.x];
  unsigned word = tile.ballot(value > 0) | tile.any(value > 900) << 16 | tile.all(value > -900) << 17;
  out[threadIdx.x] = word ^ tile.match_any(value & 3) << 8 ^ tile.shfl_xor(value, 5);
}

KERNEL tile_shuffles(const int* x, long long* out) {
  auto tile = cg::tiled_partition<4>(cg::tiled_partition<32>(cg::this_thread_block()));
  long long wide = (long long)x[threadIdx.x] << 33 | threadIdx.x;
  out[threadIdx.x] = tile.shfl(wide, 2) + 3 * tile.shfl_up(wide, 1);
}

KERNEL tile_big(const int* x, int* out) {
  __shared__ cg::block_tile_memory<256> scratch;
  auto block = cg::this_thread_block(scratch);
  auto tile = cg::tiled_partition<128>(block);
  int total = cg::reduce(tile, x[threadIdx.x], cg::plus<int>());
  out[threadIdx.x] = total + tile.shfl(x[threadIdx.x], 77);
  tile.sync();
}

KERNEL reduce_operators(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int v = x[threadIdx.x];
  int all[] = {cg::reduce(warp, v, cg::plus<int>()), cg::reduce(warp, v, cg::less<int>()), cg::reduce(warp, v, cg::greater<int>()),
               cg::reduce(warp, v, cg::bit_and<int>()), cg::reduce(warp, v, cg::bit_or<int>()), cg::reduce(warp, v, cg::bit_xor<int>())};
  if (warp.thread_rank() == 0) for (int i = 0; i < 6; ++i) out[warp.meta_group_rank() * 6 + i] = all[i];
}

KERNEL reduce_floats(const float* x, float* sum, float* most) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  sum[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], cg::plus<float>());
  most[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], [](float a, float b) { return a > b ? a : b; });
}

KERNEL reduce_store_async(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cg::reduce_store_async(warp, out + warp.meta_group_rank(), x[threadIdx.x], cg::plus<int>());
}

KERNEL reduce_update_async(const int* x, cuda::atomic<int, cuda::thread_scope_device>* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cg::reduce_update_async(warp, *out, x[threadIdx.x], cg::plus<int>());
}

KERNEL tile_scan(const int* x, int* inclusive, int* exclusive) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  inclusive[threadIdx.x] = cg::inclusive_scan(tile, x[threadIdx.x]);
  int most = cg::exclusive_scan(tile, x[threadIdx.x], cg::greater<int>());
  exclusive[threadIdx.x] = tile.thread_rank() ? most : 0;
}

KERNEL coalesced_scan(const int* x, int* out) {
  int value = x[threadIdx.x];
  if (value > 0) {
    auto active = cg::coalesced_threads();
    out[threadIdx.x] = cg::inclusive_scan(active, value) * 100 + active.thread_rank();
  }
}

KERNEL coalesced_reduce(const int* x, int* out) {
  int value = x[threadIdx.x];
  if (value % 3) {
    auto active = cg::coalesced_threads();
    int total = cg::reduce(active, value, cg::plus<int>());
    out[threadIdx.x] = total + active.shfl(value, active.size() - 1) * 7;
  }
}

KERNEL coalesced_shuffles(const int* x, int* out) {
  int value = x[threadIdx.x];
  if (value & 1) {
    auto active = cg::coalesced_threads();
    out[threadIdx.x] = active.shfl_up(value, 1) + 2 * active.shfl_down(value, 1) + (active.any(value > 900) ? 5 : 0);
  }
}

KERNEL aggregated_counter(const int* x, int* count, int* kept) {
  int value = x[blockIdx.x * blockDim.x + threadIdx.x];
  if (value > 0) {
    auto active = cg::coalesced_threads();
    int first;
    if (active.thread_rank() == 0) first = atomicAdd(count, active.size());
    int at = active.shfl(first, 0) + active.thread_rank();
    kept[at] = 1;
  }
}

KERNEL labeled_groups(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto mine = cg::labeled_partition(warp, x[threadIdx.x] & 3);
  out[threadIdx.x] = cg::reduce(mine, x[threadIdx.x], cg::plus<int>()) * 64 + mine.size();
}

KERNEL binary_groups(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto mine = cg::binary_partition(warp, x[threadIdx.x] > 100);
  out[threadIdx.x] = mine.shfl(x[threadIdx.x], 0) * 64 + mine.thread_rank();
}

KERNEL copy_async_block(const int4* x, int4* out) {
  __shared__ int4 s[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, x, cuda::aligned_size_t<16>(sizeof s));
  cg::wait(block);
  for (int i = threadIdx.x; i < 256; i += 128) out[i] = s[255 - i];
}

KERNEL copy_async_stages(const int* x, int n, int* out) {
  __shared__ int s[2][128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s[0], x, 512);
  for (int i = 0; i < n; ++i) {
    if (i + 1 < n) {
      cg::memcpy_async(block, s[(i + 1) % 2], x + (i + 1) * 128, 512);
      cg::wait_prior<1>(block);
    } else {
      cg::wait(block);
    }
    out[i * 128 + threadIdx.x] = s[i % 2][threadIdx.x ^ 33];
    block.sync();
  }
}

KERNEL copy_async_bytes(const char* x, int n, char* out) {
  __shared__ char s[300];
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  if (tile.meta_group_rank() == 0) {
    cg::memcpy_async(tile, s, x + 1, n);
    cg::wait(tile);
    for (int i = tile.thread_rank(); i < n; i += 32) out[i] = s[i];
  }
}

KERNEL invoke_once(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cg::invoke_one(warp, [&] { atomicAdd(out, x[threadIdx.x / 32]); });
  int same = cg::invoke_one_broadcast(warp, [&] { return x[warp.meta_group_rank()] * 2; });
  out[1 + threadIdx.x] = same;
}

KERNEL block_barrier_tokens(const int* x, int* out) {
  __shared__ int s[128];
  auto block = cg::this_thread_block();
  s[block.thread_rank()] = x[block.thread_rank()];
  auto token = block.barrier_arrive();
  int own = x[threadIdx.x] * 2;
  block.barrier_wait(cuda::std::move(token));
  out[threadIdx.x] = own + s[127 - threadIdx.x];
}

KERNEL grid_sync(const int* x, int* part, int* out) {
  auto grid = cg::this_grid();
  part[grid.thread_rank()] = x[grid.thread_rank()];
  grid.sync();
  out[grid.thread_rank()] = part[grid.size() - 1 - grid.thread_rank()];
}

KERNEL grid_ranks(long long* out) {
  auto grid = cg::this_grid();
  out[grid.thread_rank()] = grid.size() * 1000 + grid.block_rank() * 10 + grid.num_blocks();
}

#if __CUDA_ARCH__ >= 900
KERNEL cluster_histogram(const int* x, int* out) {
  __shared__ int bins[16];
  auto cluster = cg::this_cluster();
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  cluster.sync();
  int bin = x[blockIdx.x * blockDim.x + threadIdx.x] & 31;
  atomicAdd(cluster.map_shared_rank(bins, bin / 16) + bin % 16, 1);
  cluster.sync();
  if (threadIdx.x < 16) atomicAdd(out + cluster.block_rank() * 16 + threadIdx.x, bins[threadIdx.x]);
}

KERNEL cluster_ring(const int* x, int* out) {
  __shared__ int s[32];
  auto cluster = cg::this_cluster();
  s[threadIdx.x] = x[cluster.thread_rank()];
  auto token = cluster.barrier_arrive();
  cluster.barrier_wait(cuda::std::move(token));
  unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  out[cluster.thread_rank()] = cluster.map_shared_rank(s, next)[threadIdx.x] + cluster.query_shared_rank(cluster.map_shared_rank(s, next));
  cluster.sync();
}
#endif
