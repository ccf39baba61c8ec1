// libcu++: barriers, pipelines, asynchronous copies, atomics, semaphores, ranges of numbers, one small kernel each.
#include <cuda/annotated_ptr>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/bit>
#include <cuda/cmath>
#include <cuda/functional>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda/semaphore>
#include <cuda/std/algorithm>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/mdspan>
#include <cuda/std/numeric>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/utility>
#include <cuda/warp>
#include <cooperative_groups.h>

#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;
using Block = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init

KERNEL barrier_arrive_wait(const int* x, int* out) {
  __shared__ Block bar;
  __shared__ int s[128];
  if (threadIdx.x == 0) init(&bar, 128);
  __syncthreads();
  int value = x[threadIdx.x];
  for (int i = 0; i < 4; ++i) {
    s[threadIdx.x] = value;
    bar.wait(bar.arrive());
    value += s[(threadIdx.x + 1) % 128];
    bar.arrive_and_wait();
  }
  out[threadIdx.x] = value;
}

KERNEL barrier_producer_consumer(const int* x, int* out) {
  __shared__ Block ready, empty;
  __shared__ int s[64];
  if (threadIdx.x == 0) { init(&ready, 128); init(&empty, 128); }
  __syncthreads();
  bool producer = threadIdx.x < 64;
  int lane = threadIdx.x % 64;
  for (int i = 0; i < 4; ++i) {
    if (producer) {
      if (i) empty.arrive_and_wait();
      s[lane] = x[i * 64 + lane];
      (void)ready.arrive();
    } else {
      ready.arrive_and_wait();
      out[i * 64 + lane] = s[63 - lane];
      if (i < 3) (void)empty.arrive();
    }
  }
}

KERNEL barrier_memcpy_async(const int4* x, int4* out) {
  __shared__ Block bar;
  __shared__ int4 s[128];
  if (threadIdx.x == 0) init(&bar, 128);
  __syncthreads();
  cuda::memcpy_async(s + threadIdx.x, x + threadIdx.x, cuda::aligned_size_t<16>(16), bar);
  bar.arrive_and_wait();
  out[threadIdx.x] = s[127 - threadIdx.x];
}

KERNEL barrier_memcpy_async_group(const int* x, int* out) {
  __shared__ Block bar;
  __shared__ alignas(16) int s[512];
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&bar, 128);
  block.sync();
  cuda::memcpy_async(block, s, x, cuda::aligned_size_t<16>(sizeof s), bar);
  bar.arrive_and_wait();
  for (int i = threadIdx.x; i < 512; i += 128) out[i] = s[511 - i];
}

KERNEL barrier_bulk_copy(const int* x, int* out) {
  __shared__ Block bar;
  __shared__ alignas(128) int s[256];
  if (threadIdx.x == 0) {
    init(&bar, 128);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }
  __syncthreads();
  Block::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(s, x, cuda::aligned_size_t<16>(sizeof s), bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof s);
  } else {
    token = bar.arrive();
  }
  bar.wait(cuda::std::move(token));
  s[threadIdx.x] += 1;
  s[threadIdx.x + 128] += 2;
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out, s, sizeof s);
    cuda::ptx::cp_async_bulk_commit_group();
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
  }
}

KERNEL barrier_drop(const int* x, int* out) {
  __shared__ Block bar;
  __shared__ int s[128];
  if (threadIdx.x == 0) init(&bar, 128);
  __syncthreads();
  s[threadIdx.x] = x[threadIdx.x];
  for (int n = 64; n; n /= 2) {
    if (threadIdx.x >= 2 * n) { bar.arrive_and_drop(); return; }
    bar.arrive_and_wait();
    if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n];
  }
  if (threadIdx.x >= 2) return;
  if (threadIdx.x == 0) *out = s[0];
}

KERNEL barrier_parity(const int* x, int* out) {
  __shared__ Block bar;
  __shared__ int s[64];
  if (threadIdx.x == 0) init(&bar, 64);
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x < 64) {
      s[threadIdx.x] = x[i * 64 + threadIdx.x];
      (void)bar.arrive();
    } else {
      bar.wait_parity(i & 1);
      out[i * 64 + threadIdx.x - 64] = s[threadIdx.x - 64] * 2;
    }
    __syncthreads();
  }
}

KERNEL pipeline_stages(const int* x, int n, int* out) {
  constexpr int STAGES = 3;
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
  __shared__ int s[STAGES][128];
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int next = 0;
  for (int tile = 0; tile < n; ++tile) {
    for (; next < n && next < tile + STAGES; ++next) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[next % STAGES], x + next * 128, cuda::aligned_size_t<4>(512), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    out[tile * 128 + threadIdx.x] = s[tile % STAGES][127 - threadIdx.x];
    pipe.consumer_release();
  }
}

KERNEL pipeline_roles(const int* x, int n, int* out) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ int s[2][64];
  auto block = cg::this_thread_block();
  auto role = threadIdx.x < 64 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  for (int tile = 0; tile < n; ++tile) {
    if (role == cuda::pipeline_role::producer) {
      pipe.producer_acquire();
      cuda::memcpy_async(&s[tile % 2][threadIdx.x], x + tile * 64 + threadIdx.x, sizeof(int), pipe);
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      out[tile * 64 + threadIdx.x - 64] = s[tile % 2][127 - threadIdx.x];
      pipe.consumer_release();
    }
  }
}

KERNEL pipeline_thread(const int4* x, int4* out) {
  __shared__ int4 s[2][64];
  auto pipe = cuda::make_pipeline();
  int t = threadIdx.x;
  for (int i = 0; i < 2; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(&s[i][t], x + i * 64 + t, cuda::aligned_size_t<16>(16), pipe);
    pipe.producer_commit();
  }
  cuda::pipeline_consumer_wait_prior<1>(pipe);
  out[t] = s[0][t];
  pipe.consumer_release();
  pipe.consumer_wait();
  out[64 + t] = s[1][t];
  pipe.consumer_release();
}

KERNEL atomic_ref_sums(const int* x, int* sum, int* most, unsigned* bits, float* total) {
  cuda::atomic_ref<int, cuda::thread_scope_device> s(*sum), m(*most);
  cuda::atomic_ref<unsigned, cuda::thread_scope_system> b(*bits);
  cuda::atomic_ref<float, cuda::thread_scope_device> f(*total);
  int value = x[blockIdx.x * blockDim.x + threadIdx.x];
  s.fetch_add(value, cuda::std::memory_order_relaxed);
  m.fetch_max(value);
  b.fetch_xor(value, cuda::std::memory_order_acq_rel);
  f.fetch_add(1.5f);
}

KERNEL atomic_compare_exchange(const int* x, unsigned long long* out) {
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> a(*out);
  unsigned long long old = a.load(cuda::std::memory_order_relaxed), more = x[threadIdx.x] & 15;
  while (!a.compare_exchange_weak(old, old + more * more)) {}
}

KERNEL atomic_small(const unsigned char* x, unsigned char* sums, unsigned short* most) {
  int i = x[threadIdx.x] % 8;
  cuda::atomic_ref<unsigned char, cuda::thread_scope_block>(sums[i]).fetch_add(x[threadIdx.x]);
  cuda::atomic_ref<unsigned short, cuda::thread_scope_block>(most[i]).fetch_max(x[threadIdx.x]);
}

KERNEL atomic_handshake(const int* x, int* flags, int* box, int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> flag(flags[blockIdx.x / 2]);
  int at = blockIdx.x / 2 * 32 + threadIdx.x;
  if (blockIdx.x % 2 == 0) {
    box[at] = x[at];
    __syncthreads();
    if (threadIdx.x == 0) { flag.store(1, cuda::std::memory_order_release); flag.notify_all(); }
  } else {
    flag.wait(0, cuda::std::memory_order_acquire);
    out[at] = box[at] + 1;
  }
}

KERNEL last_block(const int* x, unsigned* count, int* parts, int* out) {
  __shared__ bool last;
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> c(*count);
    last = c.fetch_add(1, cuda::std::memory_order_acq_rel) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int total = 0;
    for (int i = 0; i < gridDim.x; ++i) total += parts[i];
    *out = total;
  }
}

KERNEL semaphore_lock(const int* x, int* out) {
  __shared__ cuda::binary_semaphore<cuda::thread_scope_block> lock;
  __shared__ int sum;
  if (threadIdx.x == 0) { new (&lock) cuda::binary_semaphore<cuda::thread_scope_block>(1); sum = 0; }
  __syncthreads();
  lock.acquire();
  sum = sum + x[threadIdx.x];
  lock.release();
  __syncthreads();
  if (threadIdx.x == 0) *out = sum;
}

KERNEL counting_semaphore(const int* x, int* out) {
  __shared__ cuda::counting_semaphore<cuda::thread_scope_block, 64> items;
  __shared__ int s[32];
  if (threadIdx.x == 0) new (&items) cuda::counting_semaphore<cuda::thread_scope_block, 64>(0);
  __syncthreads();
  if (threadIdx.x < 32) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) items.release(32);
  } else {
    items.acquire();
    out[threadIdx.x - 32] = s[threadIdx.x - 32];
  }
}

KERNEL latch_count(const int* x, int* out) {
  using Latch = cuda::latch<cuda::thread_scope_block>;
  __shared__ alignas(Latch) char bytes[sizeof(Latch)];
  __shared__ int s[128];
  Latch& latch = reinterpret_cast<Latch&>(bytes);
  if (threadIdx.x == 0) new (bytes) Latch(128);
  __syncthreads();
  s[threadIdx.x] = x[threadIdx.x];
  latch.arrive_and_wait();
  out[threadIdx.x] = s[127 - threadIdx.x];
}

KERNEL annotated_pointers(const int* x, int* out) {
  cuda::annotated_ptr<const int, cuda::access_property::persisting> from(x);
  cuda::annotated_ptr<int, cuda::access_property::streaming> to(out);
  to[threadIdx.x] = from[threadIdx.x] * 3;
}

KERNEL annotated_shared(const int* x, int* out) {
  __shared__ int s[128];
  cuda::annotated_ptr<int, cuda::access_property::shared> p(s);
  p[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = p[threadIdx.x ^ 1];
  cuda::apply_access_property(x, 512, cuda::access_property::persisting{});
}

KERNEL ptx_wrappers(const int* x, unsigned* lane, int* sum, unsigned long long* out) {
  lane[threadIdx.x] = cuda::ptx::get_sreg_laneid() + 100 * cuda::ptx::get_sreg_tid_x();
  out[threadIdx.x] = cuda::ptx::bfind(unsigned(x[threadIdx.x] | 1)) + 64ull * cuda::ptx::shl(7u, threadIdx.x % 40);
  cuda::ptx::fence(cuda::ptx::sem_acq_rel, cuda::ptx::scope_gpu);
  if (threadIdx.x == 0) *sum = cuda::ptx::bmsk_wrap(3u, 5u) + cuda::ptx::prmt(0x01020304u, 0x05060708u, 0x3715u);
}

KERNEL ptx_mbarrier(const int* x, int* out) {
  __shared__ cuda::std::uint64_t bar;
  __shared__ int s[128];
  namespace ptx = cuda::ptx;
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 128);
  __syncthreads();
  s[threadIdx.x] = x[threadIdx.x];
  auto token = ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);
  while (!ptx::mbarrier_try_wait(ptx::sem_acquire, ptx::scope_cta, &bar, token)) {}
  out[threadIdx.x] = s[threadIdx.x ^ 64];
}

KERNEL ptx_elect(const int* x, int* out) {
  if (cuda::ptx::elect_sync(~0u)) out[threadIdx.x / 32] = x[threadIdx.x / 32];
}

KERNEL ptx_cluster(const int* x, int* out) {
  __shared__ int s;
  unsigned rank = cuda::ptx::get_sreg_cluster_ctarank();
  if (threadIdx.x == 0) s = x[blockIdx.x];
  cuda::ptx::barrier_cluster_arrive(cuda::ptx::sem_release);
  cuda::ptx::barrier_cluster_wait(cuda::ptx::sem_acquire);
  int* other = cg::this_cluster().map_shared_rank(&s, rank ^ 1);
  if (threadIdx.x == 0) out[blockIdx.x] = *other;
  cuda::ptx::barrier_cluster_arrive();
  cuda::ptx::barrier_cluster_wait();
}

KERNEL warp_functions(const int* x, int* rotated, int* down) {
  struct Item { int a, b, c; } item{x[threadIdx.x], x[threadIdx.x] * 2, 7};
  Item other = cuda::device::warp_shuffle_xor(item, 3).data;
  rotated[threadIdx.x] = other.a + other.b + other.c;
  down[threadIdx.x] = cuda::device::warp_shuffle_idx(x[threadIdx.x], 4).data;
}

KERNEL bits_and_numbers(const unsigned* x, unsigned* out, unsigned long long* wide) {
  unsigned v = x[threadIdx.x];
  out[threadIdx.x] = cuda::std::popcount(v) + 100 * cuda::std::countl_zero(v) + 10000 * cuda::std::countr_zero(v) +
                     1000000 * (cuda::bit_reverse(v) & 7) + (cuda::bitfield_extract(v, 5, 4) << 28);
  wide[threadIdx.x] = cuda::ceil_div(v, 7u) + (unsigned long long)cuda::std::bit_ceil(v >> 8) + cuda::ilog2(v) + cuda::isqrt(v);
}

KERNEL fast_division(const int* x, int d, int* out) {
  cuda::fast_mod_div<int> by(d);
  auto [q, r] = cuda::div(x[threadIdx.x] & 0xffff, by);
  out[threadIdx.x] = q * 1000 + r;
}

KERNEL algorithms(const int* x, int* sorted, int* more) {
  cuda::std::array<int, 8> a;
  cuda::std::copy_n(x + threadIdx.x * 8, 8, a.begin());
  cuda::std::make_heap(a.begin(), a.end());
  cuda::std::sort_heap(a.begin(), a.end());
  for (int i = 0; i < 8; ++i) sorted[threadIdx.x * 8 + i] = a[i];
  cuda::std::span<int> s(a);
  auto found = cuda::std::lower_bound(s.begin(), s.end(), 0);
  more[threadIdx.x] = cuda::std::accumulate(s.begin(), s.end(), 0) + 100000 * (found - s.begin());
}

KERNEL mdspan_transpose(const float* x, float* out) {
  using E = cuda::std::extents<int, 8, cuda::std::dynamic_extent>;
  cuda::std::mdspan<const float, E> from(x, 16);
  cuda::std::mdspan<float, cuda::std::dextents<int, 2>, cuda::std::layout_left> to(out, 8, 16);
  int i = threadIdx.x / 16, j = threadIdx.x % 16;
  to(i, j) = from(i, j);
}

KERNEL complex_numbers(const float2* x, float2* out, float* absolute) {
  cuda::std::complex<float> z(x[threadIdx.x].x, x[threadIdx.x].y), w = z * z / cuda::std::complex<float>(1, 2) + cuda::std::conj(z);
  out[threadIdx.x] = {w.real(), w.imag()};
  absolute[threadIdx.x] = cuda::std::abs(z);
}

KERNEL wide_integers(const unsigned long long* x, unsigned long long* high, unsigned long long* quotient) {
  __uint128_t p = (__uint128_t)x[threadIdx.x] * x[127 - threadIdx.x];
  high[threadIdx.x] = p >> 64;
  quotient[threadIdx.x] = (unsigned long long)(p / 1000000007u);
}
