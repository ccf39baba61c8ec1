// A stencil of five points with a halo and dynamic shared memory.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <string>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

const int RADIUS = 2;

__global__ void stencil(const float *in, float *out, int n) {
  extern __shared__ float s[];
  int g = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x + RADIUS;
  s[l] = g < n ? in[g] : 0.0f;
  if (threadIdx.x < RADIUS) {
    s[l - RADIUS] = g >= RADIUS ? in[g - RADIUS] : 0.0f;
    s[l + blockDim.x] = g + (int)blockDim.x < n ? in[g + blockDim.x] : 0.0f;
  }
  __syncthreads();
  float sum = 0;
  for (int d = -RADIUS; d <= RADIUS; d++) sum += s[l + d];
  if (g < n) out[g] = sum;
}

int main() {
  std::vector<float> host(256, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 256 * sizeof(float)));
  CHECK(cudaMalloc(&out, 256 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 256 * sizeof(float), cudaMemcpyHostToDevice));
  stencil<<<4, 64, (64 + 2 * RADIUS) * sizeof(float)>>>(in, out, 256);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 256 * sizeof(float), cudaMemcpyDeviceToHost));
  std::string text = "done"; puts(text.c_str());
  printf("stencil: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
