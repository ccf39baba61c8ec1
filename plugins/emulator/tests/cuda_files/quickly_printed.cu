// Threads that print.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <stdio.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

__global__ void report(const float *x) {
  if (threadIdx.x % 16 == 3) printf("thread %d has %.1f\n", threadIdx.x, x[threadIdx.x]);
}

int main() {
  std::vector<float> host(32, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 32 * sizeof(float)));
  CHECK(cudaMalloc(&out, 32 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 32 * sizeof(float), cudaMemcpyHostToDevice));
  report<<<1, 32>>>(in);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 32 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("quickly_printed: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
