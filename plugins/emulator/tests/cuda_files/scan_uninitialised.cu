// An inclusive scan of a block by warp shuffles.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <limits>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

__global__ void scan(const int *x, int *y, int n) {
  __shared__ int totals[32];
  int t = threadIdx.x, lane = t % warpSize, warp = t / warpSize;
  int v = t < n ? x[t] : 0;
  for (int offset = 1; offset < 32; offset *= 2) {
    int other = __shfl_up_sync(~0u, v, offset);
    if (lane >= offset) v += other;
  }
  if (lane == 31 && warp > 0) totals[warp] = v;
  __syncthreads();
  if (warp == 0) {
    int sum = lane < (int)blockDim.x / 32 ? totals[lane] : 0;
    for (int offset = 1; offset < 32; offset *= 2) {
      int other = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += other;
    }
    totals[lane] = sum;
  }
  __syncthreads();
  if (warp > 0) v += totals[warp - 1];
  if (t < n) y[t] = v;
}
static_assert(std::numeric_limits<int>::digits == 31, "int has 32 bits");

int main() {
  std::vector<float> host(256, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 256 * sizeof(float)));
  CHECK(cudaMalloc(&out, 256 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 256 * sizeof(float), cudaMemcpyHostToDevice));
  scan<<<1, 256>>>((int *)in, (int *)out, 250);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 256 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("scan: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
