// CUTLASS's GEMM kernels of sm_80 and older, called with parameters that are made on the device.
#include <cutlass/cutlass.h>
#include <cutlass/gemm/kernel/default_gemm.h>
#include <cutlass/epilogue/thread/linear_combination.h>

#define KERNEL extern "C" __global__ void
using namespace cutlass;
using Row = layout::RowMajor;
using Column = layout::ColumnMajor;

template <class A, class LA, class LB, class C, class Class, class Arch, class Block, class Warp, class Instruction, int Wide, int Stages>
__device__ void run(A const* a, A const* b, C* c, int m, int n, int k) {
  using Out = epilogue::thread::LinearCombination<C, Wide == 1 ? 1 : 128 / sizeof_bits<C>::value, float, float>;
  using Gemm = typename gemm::kernel::DefaultGemm<A, LA, Wide, A, LB, Wide, C, Row, float, Class, Arch, Block, Warp, Instruction, Out,
      gemm::threadblock::GemmIdentityThreadblockSwizzle<>, Stages, false, arch::OpMultiplyAdd>::GemmKernel;
  extern __shared__ int4 memory[];
  gemm::threadblock::GemmIdentityThreadblockSwizzle<> swizzle;
  auto tiles = swizzle.get_tiled_shape({m, n, k}, {Block::kM, Block::kN, Block::kK}, 1);
  typename Gemm::Params params({m, n, k}, tiles, {const_cast<A*>(a), LA::packed({m, k})}, {const_cast<A*>(b), LB::packed({k, n})},
                               {c, Row::packed({m, n})}, {c, Row::packed({m, n})}, {2.0f, 0.0f});
  Gemm()(params, *reinterpret_cast<typename Gemm::SharedStorage*>(memory));
}

KERNEL sgemm_simt(float const* a, float const* b, int m, int n, int k, float* c) {
  run<float, Row, Row, float, arch::OpClassSimt, arch::Sm50, gemm::GemmShape<32, 32, 8>, gemm::GemmShape<16, 32, 8>, gemm::GemmShape<1, 1, 1>, 1, 2>(a, b, c, m, n, k);
}
KERNEL sgemm_simt_async(float const* a, float const* b, int m, int n, int k, float* c) {
  run<float, Row, Row, float, arch::OpClassSimt, arch::Sm80, gemm::GemmShape<32, 64, 8>, gemm::GemmShape<32, 32, 8>, gemm::GemmShape<1, 1, 1>, 1, 3>(a, b, c, m, n, k);
}
KERNEL hgemm_tensor_cores(half_t const* a, half_t const* b, int m, int n, int k, float* c) {
  run<half_t, Row, Column, float, arch::OpClassTensorOp, arch::Sm80, gemm::GemmShape<64, 64, 32>, gemm::GemmShape<32, 32, 32>, gemm::GemmShape<16, 8, 16>, 8, 3>(a, b, c, m, n, k);
}
