// A sum by cooperative groups.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t status = (call);                                               \
    if (status != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(EXIT_FAILURE);                                                      \
    }                                                                          \
  } while (0)

namespace cg = cooperative_groups;

__global__ void groups_sum(const int *x, int *y, int n) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  int i = blockIdx.x * block.size() + block.thread_rank();
  int sum = cg::reduce(warp, i < n ? x[i] : 0, cg::plus<int>());
  if (warp.thread_rank() == 0) atomicAdd(y, sum);
}

int main() {
  std::vector<float> host(128, 1.0f);
  float *in, *out;
  CHECK(cudaMalloc(&in, 128 * sizeof(float)));
  CHECK(cudaMalloc(&out, 128 * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), 128 * sizeof(float), cudaMemcpyHostToDevice));
  groups_sum<<<2, 64>>>((int *)in, (int *)out, 100);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, 128 * sizeof(float), cudaMemcpyDeviceToHost));
  if (host[0] < 0) std::abort();
  printf("groups_sum: ok\n");
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  return EXIT_SUCCESS;
}
