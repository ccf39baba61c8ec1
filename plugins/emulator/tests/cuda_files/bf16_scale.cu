// Scaling of bfloat16 by a float.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_bf16.h>
#include <memory>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

__global__ void bf16_scale(__nv_bfloat16 *x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = __float2bfloat16(__bfloat162float(x[i]) * factor);
}

struct Deleter {
  void operator()(float *p) const { cudaFree(p); }
};
using DeviceArray = std::unique_ptr<float, Deleter>;

int main() {
  std::vector<float> host(64, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 64 * sizeof(float)));
  CHECK(cudaMalloc(&out, 64 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 64 * sizeof(float), cudaMemcpyHostToDevice));
  bf16_scale<<<1, 64>>>((__nv_bfloat16 *)out, 2.0f, 50);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 64 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("bf16_scale: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
