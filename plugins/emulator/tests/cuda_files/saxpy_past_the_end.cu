// y = a x + y with a grid-stride loop.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

constexpr int N = 1000;

__global__ void saxpy(int n, float a, const float *__restrict__ x, float *__restrict__ y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += blockDim.x * gridDim.x)
    y[i] = a * x[i] + y[i];
}

int main() {
  std::vector<float> host(N, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, N * sizeof(float)));
  CHECK(cudaMalloc(&out, N * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), N * sizeof(float), cudaMemcpyHostToDevice));
  saxpy<<<4, 128>>>(N, 2.0f, in, out);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, N * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("saxpy: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
