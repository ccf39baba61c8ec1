// The last block adds the sums of all blocks.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <ctime>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

__device__ unsigned int ticket = 0;

__global__ void ticket_sum(const float *x, float *partial, float *total) {
  __shared__ float s[64];
  __shared__ bool last;
  s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < 64; i++) sum += s[i];
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&ticket, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += ((volatile float *)partial)[b];
    *total = sum;
  }
}

int main() {
  std::vector<float> host(256, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 256 * sizeof(float)));
  CHECK(cudaMalloc(&out, 256 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 256 * sizeof(float), cudaMemcpyHostToDevice));
  ticket_sum<<<4, 64>>>(in, out, out + 4);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 256 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("ticket_sum: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
