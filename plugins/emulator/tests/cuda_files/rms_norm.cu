// RMSNorm in half precision with half2 loads
#include <cuda_fp16.h>
#include <cstdio>
#include <vector>

#define WARP_SIZE 32
#define HALF2(value) (reinterpret_cast<half2*>(&(value))[0])

template <const int kWarpSize = WARP_SIZE>
__device__ __forceinline__ float warp_reduce_sum_f32(float val) {
#pragma unroll
  for (int mask = kWarpSize >> 1; mask >= 1; mask >>= 1) val += __shfl_xor_sync(0xffffffff, val, mask);
  return val;
}

// one warp per token, hidden size K is a multiple of 2
__global__ void rms_norm_f16x2_f32_kernel(half* x, const half* weight, half* y, float eps, int K) {
  const int token = blockIdx.x;
  float sum = 0.0f;
  for (int k = 2 * threadIdx.x; k < K; k += 2 * WARP_SIZE) {
    const float2 v = __half22float2(HALF2(x[token * K + k]));
    sum += v.x * v.x + v.y * v.y;
  }
  sum = warp_reduce_sum_f32<WARP_SIZE>(sum);
  const float scale = rsqrtf(sum / (float)K + eps);
  const half2 s = __float2half2_rn(scale);
  for (int k = 2 * threadIdx.x; k < K; k += 2 * WARP_SIZE) {
    const half2 w = *reinterpret_cast<const half2*>(weight + k);
    HALF2(y[token * K + k]) = __hmul2(__hmul2(HALF2(x[token * K + k]), s), w);
  }
}

int main() {
  const int tokens = 16, K = 96;
  std::vector<half> x(tokens * K), w(K), y(tokens * K);
  for (int i = 0; i < tokens * K; i++) x[i] = __float2half((i % 13) * 0.25f - 1.5f);
  for (int k = 0; k < K; k++) w[k] = __float2half(1.0f);
  half *dx, *dw, *dy;
  cudaMalloc(&dx, x.size() * sizeof(half));
  cudaMalloc(&dw, w.size() * sizeof(half));
  cudaMalloc(&dy, y.size() * sizeof(half));
  cudaMemcpy(dx, x.data(), x.size() * sizeof(half), cudaMemcpyHostToDevice);
  cudaMemcpy(dw, w.data(), w.size() * sizeof(half), cudaMemcpyHostToDevice);
  rms_norm_f16x2_f32_kernel<<<tokens, WARP_SIZE>>>(dx, dw, dy, 1e-6f, K);
  cudaMemcpy(y.data(), dy, y.size() * sizeof(half), cudaMemcpyDeviceToHost);
  float squares = 0;
  for (int k = 0; k < K; k++) squares += __half2float(y[k]) * __half2float(y[k]);
  printf("rms of row 0: %f\n", sqrtf(squares / K));
  cudaFree(dx); cudaFree(dw); cudaFree(dy);
}
