// The greatest element and its place.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <climits>
#include <math.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

struct Best {
  float value;
  int index;
};
__device__ inline Best better(Best a, Best b) { return a.value >= b.value ? a : b; }

__global__ void argmax(const float *x, Best *result, int n) {
  __shared__ Best s[64];
  Best best = {-INFINITY, INT_MAX};
  for (int i = threadIdx.x; i < n; i += 64) best = better(best, Best{x[i], i});
  s[threadIdx.x] = best;
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) __syncthreads();
    if (threadIdx.x < half) s[threadIdx.x] = better(s[threadIdx.x], s[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) *result = s[0];
}

int main() {
  std::vector<float> host(200, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 200 * sizeof(float)));
  CHECK(cudaMalloc(&out, 200 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 200 * sizeof(float), cudaMemcpyHostToDevice));
  argmax<<<1, 64>>>(in, (Best *)out, 200);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 200 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("argmax: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
