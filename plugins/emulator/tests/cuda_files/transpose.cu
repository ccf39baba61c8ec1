#include <assert.h>
#include <stdio.h>
#include <memory>

// Convenience function for checking CUDA runtime API results
// can be wrapped around any runtime API call. No-op in release builds.
inline
cudaError_t checkCuda(cudaError_t result)
{
#if defined(DEBUG) || defined(_DEBUG)
  if (result != cudaSuccess) {
    fprintf(stderr, "CUDA Runtime Error: %s\n", cudaGetErrorString(result));
    assert(result == cudaSuccess);
  }
#endif
  return result;
}

const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;

// Tiles have a padded column, so that columns of a tile lie in different banks.
template <typename T>
__global__ void transposeNoBankConflicts(T *odata, const T *idata, int width, int height)
{
  __shared__ T tile[TILE_DIM][TILE_DIM + 1];

  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;

  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height)
      tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];

  __syncthreads();

  x = blockIdx.y * TILE_DIM + threadIdx.x;  // transpose block offset
  y = blockIdx.x * TILE_DIM + threadIdx.y;

  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < height && y + j < width)
      odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <typename T>
bool test(int width, int height)
{
  const size_t bytes = size_t(width) * height * sizeof(T);
  std::unique_ptr<T[]> in(new T[width * height]), out(new T[width * height]);
  for (int i = 0; i < width * height; i++) in[i] = T(i);
  T *d_in, *d_out;
  checkCuda(cudaMalloc(&d_in, bytes));
  checkCuda(cudaMalloc(&d_out, bytes));
  checkCuda(cudaMemcpy(d_in, in.get(), bytes, cudaMemcpyHostToDevice));
  dim3 grid((width + TILE_DIM - 1) / TILE_DIM, (height + TILE_DIM - 1) / TILE_DIM), block(TILE_DIM, BLOCK_ROWS);
  transposeNoBankConflicts<T><<<grid, block>>>(d_out, d_in, width, height);
  checkCuda(cudaMemcpy(out.get(), d_out, bytes, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      if (out[x * height + y] != in[y * width + x]) return false;
  return true;
}

int main()
{
  bool ok = test<float>(70, 45) && test<double>(33, 64);
  printf("%s\n", ok ? "PASSED" : "FAILED");
  return !ok;
}
