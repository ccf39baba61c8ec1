// A tiled product of matrices.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <chrono>
#include <random>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

#define TILE 16

__global__ void matmul(const float *a, const float *b, float *c, int n) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + col];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

double seconds() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

int main() {
  std::vector<float> host(1024, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 1024 * sizeof(float)));
  CHECK(cudaMalloc(&out, 1024 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 1024 * sizeof(float), cudaMemcpyHostToDevice));
  matmul<<<dim3(2, 2), dim3(TILE, TILE)>>>(in, in, out, 32);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 1024 * sizeof(float), cudaMemcpyDeviceToHost));
  printf("%f s\n", seconds());
  printf("matmul: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
