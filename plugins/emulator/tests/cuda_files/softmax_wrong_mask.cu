// Softmax of rows, one warp for each.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cmath>
#include <float.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

__inline__ __device__ float warp_max(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, offset));
  return v;
}
__inline__ __device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffff, v, offset);
  return v;
}

__global__ void softmax(const float *x, float *y, int cols) {
  const float *row = x + blockIdx.x * cols;
  float most = -FLT_MAX, sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += 32) most = fmaxf(most, row[i]);
  most = warp_max(most);
  for (int i = threadIdx.x; i < cols; i += 32) sum += expf(row[i] - most);
  sum = warp_sum(sum);
  for (int i = threadIdx.x; i < cols; i += 32) y[blockIdx.x * cols + i] = expf(row[i] - most) / sum;
}

int main() {
  std::vector<float> host(200, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 200 * sizeof(float)));
  CHECK(cudaMalloc(&out, 200 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 200 * sizeof(float), cudaMemcpyHostToDevice));
  softmax<<<4, 32>>>(in, out, 50);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 200 * sizeof(float), cudaMemcpyDeviceToHost));
  if (std::fabs(host[0] - 0.02f) > 1e-6f) std::abort();
  printf("softmax: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
