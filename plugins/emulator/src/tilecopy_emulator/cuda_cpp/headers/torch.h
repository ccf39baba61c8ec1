// The names of PyTorch that kernels use; the rest is only for the host.
#ifndef TILECOPY_TORCH_H
#define TILECOPY_TORCH_H
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}  // namespace c10
namespace at {
using namespace c10;
template <class T> struct opmath_type_ { using type = T; };
template <> struct opmath_type_<Half> { using type = float; };
template <> struct opmath_type_<BFloat16> { using type = float; };
template <class T> using opmath_type = typename opmath_type_<T>::type;
template <class T, bool> using acc_type = opmath_type<T>;
}  // namespace at
namespace torch {
using namespace at;
}
template <class T> __device__ T WARP_SHFL(T value, int lane, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_sync(mask, value, lane, width);
}
template <class T> __device__ T WARP_SHFL_XOR(T value, int lanes, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_xor_sync(mask, value, lanes, width);
}
template <class T> __device__ T WARP_SHFL_UP(T value, unsigned lanes, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_up_sync(mask, value, lanes, width);
}
template <class T> __device__ T WARP_SHFL_DOWN(T value, unsigned lanes, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_down_sync(mask, value, lanes, width);
}
template <class T> __device__ T gpuAtomicAdd(T* address, T value) { return atomicAdd(address, value); }
template <class T> __device__ void gpuAtomicAddNoReturn(T* address, T value) { atomicAdd(address, value); }
#define C10_WARP_SIZE 32
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, ctas) __launch_bounds__(threads, ctas)
#define CUDA_KERNEL_LOOP(i, n) \
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#endif
