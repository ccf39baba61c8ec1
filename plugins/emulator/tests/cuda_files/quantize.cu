// Dynamic quantization of bfloat16 activations: int8 with one scale per row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <type_traits>
#include <vector>

template <typename T> __device__ __forceinline__ float to_float(T x) { return static_cast<float>(x); }
template <> __device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <> __device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

__device__ __forceinline__ int8_t float_to_int8_rn(float x) {
  uint32_t dst;
  asm volatile("cvt.rni.sat.s8.f32 %0, %1;\n" : "=r"(dst) : "f"(x));
  return reinterpret_cast<const int8_t &>(dst);
}

template <typename scalar_t, typename scale_type>
__global__ void dynamic_scaled_int8_quant_kernel(scalar_t const *__restrict__ input, int8_t *__restrict__ out,
                                                 scale_type *scale, const int hidden_size) {
  static_assert(std::is_same<scale_type, float>::value, "scales are floats");
  int const tid = threadIdx.x;
  int64_t const token_idx = blockIdx.x;
  float absmax_val = 0.0f;
  float const zero = 0.0f;

  for (int i = tid; i < hidden_size; i += blockDim.x) {
    float val = to_float(input[token_idx * hidden_size + i]);
    val = val > zero ? val : -val;
    absmax_val = val > absmax_val ? val : absmax_val;
  }

  __shared__ int block_absmax;
  if (tid == 0) block_absmax = 0;
  __syncthreads();
  atomicMax(&block_absmax, __float_as_int(absmax_val));  // positive floats are ordered as their bits
  __syncthreads();

  float const absmax = __int_as_float(block_absmax);
  if (tid == 0) scale[token_idx] = absmax / 127.0f;
  float const tmp_scale = absmax > 0.0f ? 127.0f / absmax : std::numeric_limits<float>::max();
  for (int i = tid; i < hidden_size; i += blockDim.x)
    out[token_idx * hidden_size + i] = float_to_int8_rn(to_float(input[token_idx * hidden_size + i]) * tmp_scale);
}

int main() {
  const int tokens = 32, hidden = 128;
  std::vector<__nv_bfloat16> h(tokens * hidden);
  for (int i = 0; i < tokens * hidden; i++) h[i] = __float2bfloat16((i % 29 - 14) * 0.125f);
  __nv_bfloat16 *d_in;
  int8_t *d_out;
  float *d_scale;
  cudaMalloc(&d_in, h.size() * sizeof(__nv_bfloat16));
  cudaMalloc(&d_out, h.size());
  cudaMalloc(&d_scale, tokens * sizeof(float));
  cudaMemcpy(d_in, h.data(), h.size() * sizeof(__nv_bfloat16), cudaMemcpyHostToDevice);
  dynamic_scaled_int8_quant_kernel<__nv_bfloat16, float><<<tokens, 64>>>(d_in, d_out, d_scale, hidden);
  std::vector<int8_t> q(h.size());
  std::vector<float> scale(tokens);
  cudaMemcpy(q.data(), d_out, q.size(), cudaMemcpyDeviceToHost);
  cudaMemcpy(scale.data(), d_scale, tokens * sizeof(float), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < q.size(); i++)
    if (fabsf(q[i] * scale[i / hidden] - __bfloat162float(h[i])) > scale[i / hidden]) return 1;
  printf("ok\n");
  return 0;
}
