// A linked list in the device's heap.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <utility>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

struct Node {
  int value;
  Node *next;
};

__global__ void sum_list(int *sums, int n) {
  Node *list = nullptr;
  for (int i = 0; i < n; i++) {
    Node *node = (Node *)malloc(sizeof(Node));
    node->value = i * threadIdx.x;
    node->next = list;
    list = node;
  }
  int sum = 0;
  while (list != nullptr) {
    Node *node = list;
    sum += node->value;
    free(node);
    list = node->next;
  }
  sums[threadIdx.x] = sum;
}

int main() {
  std::vector<float> host(8, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 8 * sizeof(float)));
  CHECK(cudaMalloc(&out, 8 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 8 * sizeof(float), cudaMemcpyHostToDevice));
  sum_list<<<1, 8>>>((int *)out, 5);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 8 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("device_list: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
