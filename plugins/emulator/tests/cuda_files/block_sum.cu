// Sum of each block by a tree in shared memory.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <assert.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

#define BLOCK 128
const int N = 1024;

__global__ void block_sum(const float *x, float *sums) {
  __shared__ float s[BLOCK];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * BLOCK + t];
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half >>= 1) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = s[0];
}

int main() {
  std::vector<float> host(N, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, N * sizeof(float)));
  CHECK(cudaMalloc(&out, N * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), N * sizeof(float), cudaMemcpyHostToDevice));
  block_sum<<<N / BLOCK, BLOCK>>>(in, out);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, N * sizeof(float), cudaMemcpyDeviceToHost));
  assert(host[0] == BLOCK);
  printf("block_sum: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
