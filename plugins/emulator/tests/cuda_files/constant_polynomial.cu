// A polynomial whose coefficients lie in constant memory.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <type_traits>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

__constant__ float coefficients[4] = {1, 2, 3, 4};

template <typename T>
__global__ void polynomial(const T *x, T *y, int n) {
  static_assert(std::is_floating_point<T>::value, "T is float or double");
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  T value = 0;
  for (int k = 3; k >= 0; k--) value = value * x[i] + coefficients[k];
  y[i] = value;
}

int main() {
  std::vector<float> host(100, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 100 * sizeof(float)));
  CHECK(cudaMalloc(&out, 100 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 100 * sizeof(float), cudaMemcpyHostToDevice));
  polynomial<float><<<2, 64>>>(in, out, 100);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 100 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("constant_polynomial: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
