// CuTe: copies by tiles and atoms, swizzled layouts, cp.async, ldmatrix, mma.sync, wgmma, bulk copies.
#include <cuda/std/cstdint>
#include <cute/tensor.hpp>
#include <cute/algorithm/cooperative_copy.hpp>
#include <cute/algorithm/cooperative_gemm.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/atom/copy_atom.hpp>
#include <cute/atom/mma_atom.hpp>

#define KERNEL extern "C" __global__ void
using namespace cute;
using f16 = cute::half_t;

KERNEL copy_partition(const int* x, int* out) {
  auto shape = make_shape(Int<32>{}, Int<16>{});
  Tensor from = make_tensor(make_gmem_ptr(x), shape, GenRowMajor{});
  Tensor to = make_tensor(make_gmem_ptr(out), shape, GenColMajor{});
  auto threads = make_layout(make_shape(Int<8>{}, Int<16>{}));
  copy(local_partition(from, threads, threadIdx.x), local_partition(to, threads, threadIdx.x));
}

KERNEL copy_vectors(const float* x, float* out) {
  auto tiled = make_tiled_copy(Copy_Atom<UniversalCopy<uint128_t>, float>{}, Layout<Shape<_16, _8>, Stride<_8, _1>>{}, Layout<Shape<_1, _4>>{});
  Tensor from = make_tensor(make_gmem_ptr(x), make_layout(Shape<_32, _64>{}, GenRowMajor{}));
  Tensor to = make_tensor(make_gmem_ptr(out), make_layout(Shape<_32, _64>{}, GenRowMajor{}));
  auto mine = tiled.get_slice(threadIdx.x);
  Tensor a = mine.partition_S(from);
  Tensor b = mine.partition_D(to);
  Tensor r = make_fragment_like(a);
  copy(tiled, a, r);
  for (int i = 0; i < size(r); ++i) r(i) = r(i) * 2;
  copy(tiled, r, b);
}

KERNEL copy_predicated(const float* x, int m, int n, float* out) {
  auto shape = make_shape(m, n);
  auto whole = make_identity_tensor(shape);
  auto tile = make_shape(Int<16>{}, Int<8>{});
  auto at = make_coord(blockIdx.x, blockIdx.y);
  Tensor from = local_tile(make_tensor(make_gmem_ptr(x), shape, GenRowMajor{}), tile, at);
  Tensor to = local_tile(make_tensor(make_gmem_ptr(out), shape, GenRowMajor{}), tile, at);
  Tensor where = local_tile(whole, tile, at);
  auto threads = make_layout(make_shape(Int<16>{}, Int<8>{}), GenRowMajor{});
  Tensor c = local_partition(where, threads, threadIdx.x);
  Tensor a = local_partition(from, threads, threadIdx.x);
  Tensor b = local_partition(to, threads, threadIdx.x);
  for (int i = 0; i < size(c); ++i)
    if (elem_less(c(i), shape)) b(i) = a(i) + 1;
}

KERNEL swizzled_transpose(const f16* x, f16* out) {
  auto layout = composition(Swizzle<3, 3, 3>{}, Layout<Shape<_64, _64>, Stride<_64, _1>>{});
  __shared__ alignas(128) f16 memory[64 * 64];
  Tensor s = make_tensor(make_smem_ptr(memory), layout);
  Tensor from = make_tensor(make_gmem_ptr(x), Layout<Shape<_64, _64>, Stride<_64, _1>>{});
  Tensor to = make_tensor(make_gmem_ptr(out), Layout<Shape<_64, _64>, Stride<_1, _64>>{});
  cooperative_copy<128, 128>(threadIdx.x, from, s);
  __syncthreads();
  cooperative_copy<128, 16>(threadIdx.x, s, to);
}

KERNEL async_copy(const float* x, float* out) {
  __shared__ alignas(16) float memory[2048];
  Tensor s = make_tensor(make_smem_ptr(memory), Layout<Shape<_32, _64>, Stride<_64, _1>>{});
  Tensor from = make_tensor(make_gmem_ptr(x), Layout<Shape<_32, _64>, Stride<_64, _1>>{});
  auto tiled = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, float>{}, Layout<Shape<_8, _16>, Stride<_16, _1>>{}, Layout<Shape<_1, _4>>{});
  auto mine = tiled.get_slice(threadIdx.x);
  copy(tiled, mine.partition_S(from), mine.partition_D(s));
  cp_async_fence();
  cp_async_wait<0>();
  __syncthreads();
  for (int i = threadIdx.x; i < 2048; i += 128) out[i] = s(i % 32, i / 32);
}

KERNEL async_copy_zfill(const int* x, int n, int* out) {
  __shared__ alignas(16) int s[512];
  auto atom = Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>, int>{};
  for (int i = threadIdx.x; i < 512; i += 128) {
    Tensor a = make_tensor(make_gmem_ptr(x + (i < n ? i : 0)), Layout<_1>{});
    Tensor b = make_tensor(make_smem_ptr(s + i), Layout<_1>{});
    copy(atom.with(i < n), a, b);
  }
  cp_async_fence();
  cp_async_wait<0>();
  __syncthreads();
  for (int i = threadIdx.x; i < 512; i += 128) out[i] = s[511 - i];
}

template <class Atom, class T, class C, int K> __device__ void warp_product(const T* a, const T* b, C* c) {
  // C (16 x 8 of each warp of two, so 32 x 8) = A (32 x K) B^T (8 x K)
  TiledMMA mma = make_tiled_mma(Atom{}, Layout<Shape<_2, _1, _1>>{});
  Tensor A = make_tensor(make_gmem_ptr(a), Layout<Shape<_32, Int<K>>, Stride<Int<K>, _1>>{});
  Tensor B = make_tensor(make_gmem_ptr(b), Layout<Shape<_8, Int<K>>, Stride<Int<K>, _1>>{});
  Tensor D = make_tensor(make_gmem_ptr(c), Layout<Shape<_32, _8>, Stride<_8, _1>>{});
  auto mine = mma.get_slice(threadIdx.x);
  Tensor ra = mine.partition_fragment_A(A);
  Tensor rb = mine.partition_fragment_B(B);
  Tensor rc = mine.partition_fragment_C(D);
  copy(mine.partition_A(A), ra);
  copy(mine.partition_B(B), rb);
  clear(rc);
  gemm(mma, ra, rb, rc);
  copy(rc, mine.partition_C(D));
}
KERNEL mma_f16(const f16* a, const f16* b, float* c) { warp_product<SM80_16x8x16_F32F16F16F32_TN, f16, float, 64>(a, b, c); }
KERNEL mma_bf16(const bfloat16_t* a, const bfloat16_t* b, float* c) { warp_product<SM80_16x8x16_F32BF16BF16F32_TN, bfloat16_t, float, 64>(a, b, c); }
KERNEL mma_f16_sums(const f16* a, const f16* b, f16* c) { warp_product<SM80_16x8x16_F16F16F16F16_TN, f16, f16, 32>(a, b, c); }
KERNEL mma_f16_k8(const f16* a, const f16* b, float* c) { warp_product<SM80_16x8x8_F32F16F16F32_TN, f16, float, 32>(a, b, c); }
KERNEL mma_tf32(const tfloat32_t* a, const tfloat32_t* b, float* c) { warp_product<SM80_16x8x8_F32TF32TF32F32_TN, tfloat32_t, float, 32>(a, b, c); }
KERNEL mma_s8(const int8_t* a, const int8_t* b, int* c) { warp_product<SM80_16x8x32_S32S8S8S32_TN, int8_t, int, 64>(a, b, c); }
KERNEL mma_f64(const double* a, const double* b, double* c) {
  TiledMMA mma = make_tiled_mma(SM80_8x8x4_F64F64F64F64_TN{}, Layout<Shape<_4, _1, _1>>{});
  Tensor A = make_tensor(make_gmem_ptr(a), Layout<Shape<_32, _8>, Stride<_8, _1>>{});
  Tensor B = make_tensor(make_gmem_ptr(b), Layout<Shape<_8, _8>, Stride<_8, _1>>{});
  Tensor D = make_tensor(make_gmem_ptr(c), Layout<Shape<_32, _8>, Stride<_8, _1>>{});
  auto mine = mma.get_slice(threadIdx.x);
  Tensor ra = mine.partition_fragment_A(A);
  Tensor rb = mine.partition_fragment_B(B);
  Tensor rc = mine.partition_fragment_C(D);
  copy(mine.partition_A(A), ra);
  copy(mine.partition_B(B), rb);
  clear(rc);
  gemm(mma, ra, rb, rc);
  copy(rc, mine.partition_C(D));
}
KERNEL fma_gemm(const float* a, const float* b, float* c) {
  TiledMMA mma = make_tiled_mma(UniversalFMA<float>{}, Layout<Shape<_16, _8, _1>>{});
  Tensor A = make_tensor(make_gmem_ptr(a), Layout<Shape<_32, _16>, Stride<_16, _1>>{});
  Tensor B = make_tensor(make_gmem_ptr(b), Layout<Shape<_16, _16>, Stride<_16, _1>>{});
  Tensor D = make_tensor(make_gmem_ptr(c), Layout<Shape<_32, _16>, Stride<_16, _1>>{});
  auto mine = mma.get_slice(threadIdx.x);
  Tensor ra = mine.partition_fragment_A(A);
  Tensor rb = mine.partition_fragment_B(B);
  Tensor rc = mine.partition_fragment_C(D);
  copy(mine.partition_A(A), ra);
  copy(mine.partition_B(B), rb);
  clear(rc);
  gemm(mma, ra, rb, rc);
  copy(rc, mine.partition_C(D));
}

template <class LoadA, class LoadB, bool BIsColumns> __device__ void gemm_ldmatrix(const f16* a, const f16* b, float* c) {
  // C (64 x 64) = A (64 x 32) B^T (64 x 32), through swizzled shared memory by cp.async and ldmatrix
  using Rows = decltype(composition(Swizzle<2, 3, 3>{}, Layout<Shape<_64, _32>, Stride<_32, _1>>{}));
  __shared__ alignas(128) f16 ma[64 * 32], mb[64 * 32];
  Tensor sa = make_tensor(make_smem_ptr(ma), Rows{});
  Tensor A = make_tensor(make_gmem_ptr(a), Layout<Shape<_64, _32>, Stride<_32, _1>>{});
  auto load = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, f16>{}, Layout<Shape<_32, _4>, Stride<_4, _1>>{}, Layout<Shape<_1, _8>>{});
  auto l = load.get_slice(threadIdx.x);
  copy(load, l.partition_S(A), l.partition_D(sa));
  auto sb = [&] {
    if constexpr (BIsColumns) return make_tensor(make_smem_ptr(mb), Layout<Shape<_64, _32>, Stride<_1, _64>>{});
    else return make_tensor(make_smem_ptr(mb), Rows{});
  }();
  if constexpr (BIsColumns) {
    Tensor B = make_tensor(make_gmem_ptr(b), Layout<Shape<_64, _32>, Stride<_1, _64>>{});
    cooperative_copy<128, 128>(threadIdx.x, B, sb);
  } else {
    Tensor B = make_tensor(make_gmem_ptr(b), Layout<Shape<_64, _32>, Stride<_32, _1>>{});
    copy(load, l.partition_S(B), l.partition_D(sb));
  }
  cp_async_fence();
  cp_async_wait<0>();
  __syncthreads();
  TiledMMA mma = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2, _1>>{}, Tile<_32, _32, _16>{});
  auto mine = mma.get_slice(threadIdx.x);
  Tensor D = make_tensor(make_gmem_ptr(c), Layout<Shape<_64, _64>, Stride<_64, _1>>{});
  Tensor ra = mine.partition_fragment_A(sa);
  Tensor rb = mine.partition_fragment_B(sb);
  Tensor rc = mine.partition_fragment_C(D);
  auto ta = make_tiled_copy_A(Copy_Atom<LoadA, f16>{}, mma);
  auto tb = make_tiled_copy_B(Copy_Atom<LoadB, f16>{}, mma);
  copy(ta, ta.get_slice(threadIdx.x).partition_S(sa), ta.get_slice(threadIdx.x).retile_D(ra));
  copy(tb, tb.get_slice(threadIdx.x).partition_S(sb), tb.get_slice(threadIdx.x).retile_D(rb));
  clear(rc);
  gemm(mma, ra, rb, rc);
  copy(rc, mine.partition_C(D));
}
KERNEL gemm_ldmatrix_x4(const f16* a, const f16* b, float* c) { gemm_ldmatrix<SM75_U32x4_LDSM_N, SM75_U32x4_LDSM_N, false>(a, b, c); }
KERNEL gemm_ldmatrix_x2(const f16* a, const f16* b, float* c) { gemm_ldmatrix<SM75_U32x2_LDSM_N, SM75_U32x2_LDSM_N, false>(a, b, c); }
KERNEL gemm_ldmatrix_x1(const f16* a, const f16* b, float* c) { gemm_ldmatrix<SM75_U32x1_LDSM_N, SM75_U32x1_LDSM_N, false>(a, b, c); }
KERNEL gemm_ldmatrix_trans(const f16* a, const f16* b, float* c) { gemm_ldmatrix<SM75_U32x4_LDSM_N, SM75_U16x8_LDSM_T, true>(a, b, c); }
KERNEL gemm_loads(const f16* a, const f16* b, float* c) { gemm_ldmatrix<UniversalCopy<uint32_t>, UniversalCopy<uint32_t>, false>(a, b, c); }

KERNEL cooperative_gemms(const f16* a, const f16* b, float* c) {
  __shared__ alignas(16) f16 ma[32 * 32], mb[32 * 32];
  __shared__ alignas(16) float mc[32 * 32];
  Tensor sa = make_tensor(make_smem_ptr(ma), Layout<Shape<_32, _32>, Stride<_32, _1>>{});
  Tensor sb = make_tensor(make_smem_ptr(mb), Layout<Shape<_32, _32>, Stride<_32, _1>>{});
  Tensor sc = make_tensor(make_smem_ptr(mc), Layout<Shape<_32, _32>, Stride<_32, _1>>{});
  for (int i = threadIdx.x; i < 1024; i += 128) { ma[i] = a[i]; mb[i] = b[i]; mc[i] = 0; }
  __syncthreads();
  TiledMMA mma = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2, _1>>{});
  cooperative_gemm(threadIdx.x, mma, 1.0f, sa, sb, 1.0f, sc);
  __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += 128) c[i] = mc[i];
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
KERNEL bulk_copy(const float* x, float* out) {
  __shared__ alignas(128) float s[512];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    initialize_barrier(bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("fence.proxy.async.shared::cta;");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    set_barrier_transaction_bytes(bar, sizeof s);
    Tensor a = make_tensor(make_gmem_ptr(x), Layout<_512>{});
    Tensor b = make_tensor(make_smem_ptr(s), Layout<_512>{});
    copy(Copy_Traits<SM90_BULK_COPY_AUTO>{}.with(bar), a, b);
  }
  wait_barrier(bar, 0);
  for (int i = threadIdx.x; i < 512; i += 128) s[i] *= 3;
  tma_store_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    Tensor a = make_tensor(make_smem_ptr(s), Layout<_512>{});
    Tensor b = make_tensor(make_gmem_ptr(out), Layout<_512>{});
    copy(Copy_Traits<SM90_BULK_COPY_AUTO>{}, a, b);
    tma_store_arrive();
    tma_store_wait<0>();
  }
}

KERNEL stmatrix_rows(const f16* x, f16* out) {
  __shared__ alignas(128) f16 memory[16 * 64];
  Tensor s = make_tensor(make_smem_ptr(memory), Layout<Shape<_64, _16>, Stride<_16, _1>>{});
  TiledMMA mma = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_4, _1, _1>>{}, Tile<_64, _16, _16>{});
  auto mine = mma.get_slice(threadIdx.x);
  Tensor X = make_tensor(make_gmem_ptr(x), Layout<Shape<_64, _16>, Stride<_16, _1>>{});
  Tensor at = mine.partition_C(X);
  Tensor r = make_tensor<f16>(shape(at));
  copy(at, r);
  auto store = make_tiled_copy_C(Copy_Atom<SM90_U32x4_STSM_N, f16>{}, mma);
  copy(store, store.get_slice(threadIdx.x).retile_S(r), store.get_slice(threadIdx.x).partition_D(s));
  __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += 128) out[i] = memory[i];
}

KERNEL wgmma_f16(const f16* a, const f16* b, float* c) {
  // C (64 x 64) = A (64 x 64) B^T (64 x 64), both in shared memory, swizzled by 128 bytes
  auto layout = tile_to_shape(GMMA::Layout_K_SW128_Atom<f16>{}, Shape<_64, _64>{});
  __shared__ alignas(1024) f16 ma[64 * 64], mb[64 * 64];
  Tensor sa = make_tensor(make_smem_ptr(ma), layout);
  Tensor sb = make_tensor(make_smem_ptr(mb), layout);
  Tensor D = make_tensor(make_gmem_ptr(c), Layout<Shape<_64, _64>, Stride<_64, _1>>{});
  for (int i = threadIdx.x; i < 4096; i += 128) { sa(i / 64, i % 64) = a[i]; sb(i / 64, i % 64) = b[i]; }
  tma_store_fence();
  __syncthreads();
  TiledMMA mma = make_tiled_mma(SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{});
  auto mine = mma.get_slice(threadIdx.x);
  Tensor da = mine.make_fragment_A(mine.partition_A(sa));
  Tensor db = mine.make_fragment_B(mine.partition_B(sb));
  Tensor rc = mine.partition_fragment_C(D);
  clear(rc);
  warpgroup_fence_operand(rc);
  warpgroup_arrive();
  gemm(mma, da, db, rc);
  warpgroup_commit_batch();
  warpgroup_wait<0>();
  warpgroup_fence_operand(rc);
  copy(rc, mine.partition_C(D));
}
#endif
