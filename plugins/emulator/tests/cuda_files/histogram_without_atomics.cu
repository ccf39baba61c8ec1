// A histogram in shared memory, added to one in global memory.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cstdint>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

constexpr int BINS = 64;

__global__ void histogram(const uint8_t *data, int n, unsigned int *bins) {
  __shared__ unsigned int local[BINS];
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    local[data[i] % BINS]++;
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

int main() {
  std::vector<float> host(128, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 128 * sizeof(float)));
  CHECK(cudaMalloc(&out, 128 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 128 * sizeof(float), cudaMemcpyHostToDevice));
  histogram<<<2, 96>>>((const uint8_t *)in, 500, (unsigned int *)out);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 128 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("histogram: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
