// Sums of pairs of halves.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

__global__ void half_add(const __half2 *a, const __half2 *b, __half2 *c, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) c[i] = __hadd2(a[i], b[i]);
}

int main() {
  std::vector<float> host(64, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 64 * sizeof(float)));
  CHECK(cudaMalloc(&out, 64 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 64 * sizeof(float), cudaMemcpyHostToDevice));
  half_add<<<1, 64>>>((__half2 *)in, (__half2 *)in, (__half2 *)out, 50);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 64 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("half_add: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
