#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

// Embedding: the forward pass gathers rows of the table, the backward pass scatters gradients into it.
struct EmbeddingParams {
  float *table;          // [vocab, dim]
  const int64_t *tokens;  // [count]
  float *rows;           // [count, dim]
  int32_t vocab;
  int32_t dim;
  int32_t count;
};

__global__ void embedding_forward(EmbeddingParams p) {
  const int token = blockIdx.y * blockDim.y + threadIdx.y;
  if (token >= p.count) return;
  const int64_t row = p.tokens[token];
  for (int d = threadIdx.x; d < p.dim; d += blockDim.x)
    p.rows[token * p.dim + d] = row >= 0 && row < p.vocab ? p.table[row * p.dim + d] : 0.0f;
}

__global__ void embedding_backward(EmbeddingParams p) {
  const int token = blockIdx.y * blockDim.y + threadIdx.y;
  if (token >= p.count) return;
  const int64_t row = p.tokens[token];
  if (row < 0 || row >= p.vocab) return;
  for (int d = threadIdx.x; d < p.dim; d += blockDim.x)
    atomicAdd(&p.table[row * p.dim + d], p.rows[token * p.dim + d]);
}

namespace {

void throw_on_error(cudaError_t status, const char *what) {
  if (status != cudaSuccess) throw std::runtime_error(what);
}

struct CudaDeleter {
  void operator()(void *p) const noexcept { cudaFree(p); }
};

template <typename T>
auto make_device(size_t count) -> std::unique_ptr<T[], CudaDeleter> {
  void *p = nullptr;
  throw_on_error(cudaMalloc(&p, count * sizeof(T)), "cudaMalloc");
  throw_on_error(cudaMemset(p, 0, count * sizeof(T)), "cudaMemset");
  return std::unique_ptr<T[], CudaDeleter>(static_cast<T *>(p));
}

std::tuple<dim3, dim3> launch_shape(int count) { return {dim3(1, (count + 3) / 4), dim3(32, 4)}; }

}  // namespace

int main() {
  constexpr int vocab = 100, dim = 48, count = 64;
  std::vector<int64_t> tokens(count, 7);
  auto table = make_device<float>(vocab * dim);
  auto rows = make_device<float>(count * dim);
  auto ids = make_device<int64_t>(count);
  throw_on_error(cudaMemcpy(ids.get(), tokens.data(), count * 8, cudaMemcpyHostToDevice), "cudaMemcpy");
  EmbeddingParams params{table.get(), ids.get(), rows.get(), vocab, dim, count};
  auto [grid, block] = launch_shape(count);
  embedding_forward<<<grid, block>>>(params);
  embedding_backward<<<grid, block>>>(params);
  throw_on_error(cudaDeviceSynchronize(), "kernels");
  std::puts("done");
}
