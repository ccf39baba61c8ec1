// dot product with cooperative groups
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <random>
#include <vector>

namespace cg = cooperative_groups;

template <typename Group>
__device__ double reduce_sum(Group g, double value) {
  for (int offset = g.size() / 2; offset > 0; offset /= 2) value += g.shfl_down(value, offset);
  return value;
}

__global__ void dot(const double *a, const double *b, double *result, size_t n) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  cg::grid_group grid = cg::this_grid();

  __shared__ double partial[32];
  double sum = 0.0;
  for (size_t i = grid.thread_rank(); i < n; i += grid.size()) sum += a[i] * b[i];
  sum = cg::reduce(warp, sum, cg::plus<double>());
  if (warp.thread_rank() == 0) partial[warp.meta_group_rank()] = sum;
  block.sync();

  if (warp.meta_group_rank() == 0) {
    double total = warp.thread_rank() < warp.meta_group_size() ? partial[warp.thread_rank()] : 0.0;
    total = reduce_sum(warp, total);
    if (warp.thread_rank() == 0) atomicAdd(result, total);
  }
}

int main() {
  constexpr size_t n = 100000;
  std::mt19937 gen(42);
  std::uniform_real_distribution<double> dist(-1.0, 1.0);
  std::vector<double> a(n), b(n);
  for (auto &v : a) v = dist(gen);
  for (auto &v : b) v = dist(gen);

  double *da, *db, *dr, result = 0.0, expected = 0.0;
  cudaMalloc(&da, n * sizeof *da);
  cudaMalloc(&db, n * sizeof *db);
  cudaMalloc(&dr, sizeof *dr);
  cudaMemcpy(da, a.data(), n * sizeof *da, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), n * sizeof *db, cudaMemcpyHostToDevice);
  cudaMemset(dr, 0, sizeof *dr);
  void *args[] = {&da, &db, &dr, (void *)&n};
  cudaLaunchCooperativeKernel((void *)dot, dim3(40), dim3(256), args, 0, nullptr);
  cudaMemcpy(&result, dr, sizeof result, cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < n; ++i) expected += a[i] * b[i];
  printf("%.12f, expected %.12f\n", result, expected);
  return std::abs(result - expected) < 1e-9 ? 0 : 1;
}
