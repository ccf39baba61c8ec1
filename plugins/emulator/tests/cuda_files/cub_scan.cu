// A block's scan by CUB.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cub/cub.cuh>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

template <int BLOCK>
__global__ void cub_scan(const int *x, int *y) {
  using Scan = cub::BlockScan<int, BLOCK>;
  __shared__ typename Scan::TempStorage storage;
  int value = x[threadIdx.x], before;
  Scan(storage).ExclusiveSum(value, before);
  y[threadIdx.x] = before;
}

int main() {
  std::vector<float> host(128, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 128 * sizeof(float)));
  CHECK(cudaMalloc(&out, 128 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 128 * sizeof(float), cudaMemcpyHostToDevice));
  cub_scan<128><<<1, 128>>>((int *)in, (int *)out);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 128 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("cub_scan: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
