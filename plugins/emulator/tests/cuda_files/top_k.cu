// The K largest logits of each row, by a block-wide radix sort.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

template <int BLOCK_THREADS, int ITEMS_PER_THREAD>
__launch_bounds__(BLOCK_THREADS) __global__
void top_k(const float *logits, int n, int k, float *values, int *indices)
{
  using BlockLoad = cub::BlockLoad<float, BLOCK_THREADS, ITEMS_PER_THREAD, cub::BLOCK_LOAD_TRANSPOSE>;
  using BlockSort = cub::BlockRadixSort<float, BLOCK_THREADS, ITEMS_PER_THREAD, int>;

  __shared__ union {
    typename BlockLoad::TempStorage load;
    typename BlockSort::TempStorage sort;
  } temp_storage;

  float keys[ITEMS_PER_THREAD];
  int items[ITEMS_PER_THREAD];
  BlockLoad(temp_storage.load).Load(logits + blockIdx.x * n, keys, n, -INFINITY);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ITEMS_PER_THREAD; i++) items[i] = threadIdx.x * ITEMS_PER_THREAD + i;
  BlockSort(temp_storage.sort).SortDescending(keys, items);

  for (int i = 0; i < ITEMS_PER_THREAD; i++) {
    int rank = threadIdx.x * ITEMS_PER_THREAD + i;
    if (rank < k) {
      values[blockIdx.x * k + rank] = keys[i];
      indices[blockIdx.x * k + rank] = items[i];
    }
  }
}

int main()
{
  constexpr int rows = 3, n = 120, k = 5;
  std::vector<float> logits(rows * n);
  for (size_t i = 0; i < logits.size(); i++) logits[i] = (i * 37) % 1009;
  float *d_logits, *d_values;
  int *d_indices;
  cudaMalloc(&d_logits, logits.size() * sizeof(float));
  cudaMalloc(&d_values, rows * k * sizeof(float));
  cudaMalloc(&d_indices, rows * k * sizeof(int));
  cudaMemcpy(d_logits, logits.data(), logits.size() * sizeof(float), cudaMemcpyHostToDevice);
  top_k<32, 4><<<rows, 32>>>(d_logits, n, k, d_values, d_indices);
  std::array<int, rows * k> indices;
  cudaMemcpy(indices.data(), d_indices, sizeof(indices), cudaMemcpyDeviceToHost);
  for (int r = 0; r < rows; r++) {
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](int a, int b) { return logits[r * n + a] > logits[r * n + b]; });
    if (!std::equal(order.begin(), order.begin() + k, indices.begin() + r * k)) {
      std::fprintf(stderr, "row %d differs\n", r);
      return 1;
    }
  }
  return 0;
}
