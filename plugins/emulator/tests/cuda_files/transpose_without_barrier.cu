// Transposition by padded tiles.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#include <iostream>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

template <int TILE>
__global__ void transpose(const float *in, float *out, int rows, int cols) {
  __shared__ float tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  if (x < cols && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * cols + x];
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  if (x < rows && y < cols) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

static void show(const std::vector<float> &v) {
  std::for_each(v.begin(), v.end(), [](float x) { std::cout << x << ' '; });
}

int main() {
  std::vector<float> host(40 * 35, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 40 * 35 * sizeof(float)));
  CHECK(cudaMalloc(&out, 40 * 35 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 40 * 35 * sizeof(float), cudaMemcpyHostToDevice));
  const int TILE = 16;
  transpose<TILE><<<dim3(3, 3), dim3(TILE, TILE)>>>(in, out, 40, 35);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 40 * 35 * sizeof(float), cudaMemcpyDeviceToHost));
  show(host);
  printf("transpose: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
