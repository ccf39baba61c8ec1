// One generation of Conway's game on a torus.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cstring>
#include <map>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

typedef unsigned char Cell;

__global__ void step(const Cell *now, Cell *next, uint width, uint height) {
  uint x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int around = 0;
  for (uint dy = height - 1; dy <= height + 1; dy++)
    for (uint dx = width - 1; dx <= width + 1; dx++)
      around += now[(y + dy) % height * width + (x + dx) % width];
  Cell alive = now[y * width + x];
  around -= alive;
  next[y * width + x] = around == 3 || (alive && around == 2);
}

int main() {
  std::vector<float> host(64, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 64 * sizeof(float)));
  CHECK(cudaMalloc(&out, 64 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 64 * sizeof(float), cudaMemcpyHostToDevice));
  step<<<dim3(2, 2), dim3(8, 8)>>>((Cell *)in, (Cell *)out, 10, 12);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 64 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("game_of_life: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
