// Tiled matrix product with asynchronous copies in two stages.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cassert>
#include <cstdio>
#include <vector>

constexpr int BM = 16, BN = 16, BK = 16, STAGES = 2;

__device__ void load_tile(float (*dst)[BK], const float *src, int ld) {
  const int row = threadIdx.x / 4, col = threadIdx.x % 4 * 4;  // 64 threads, 16 bytes each
  __pipeline_memcpy_async(&dst[row][col], &src[row * ld + col], sizeof(float4));
}

// C (M x N) = A (M x K) * B (K x N); all extents are multiples of 16
__global__ void sgemm_async(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ alignas(16) float As[STAGES][BM][BK];
  __shared__ alignas(16) float Bs[STAGES][BK][BN];
  A += blockIdx.y * BM * K;
  B += blockIdx.x * BN;
  const int tiles = K / BK;

  load_tile(As[0], A, K);
  load_tile(Bs[0], B, N);
  __pipeline_commit();

  const int row = threadIdx.x / 4, col = threadIdx.x % 4 * 4;
  float acc[4] = {};
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      load_tile(As[(t + 1) % STAGES], A + (t + 1) * BK, K);
      load_tile(Bs[(t + 1) % STAGES], B + (t + 1) * BK * N, N);
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int k = 0; k < BK; ++k) {
      const float a = As[t % STAGES][row][k];
      for (int j = 0; j < 4; ++j) acc[j] += a * Bs[t % STAGES][k][col + j];
    }
    __syncthreads();
  }
  float4 result = make_float4(acc[0], acc[1], acc[2], acc[3]);
  *reinterpret_cast<float4 *>(&C[(blockIdx.y * BM + row) * N + blockIdx.x * BN + col]) = result;
}

int main() {
  int M = 128, N = 96, K = 64;
  std::vector<float> a(M * K), b(K * N), c(M * N);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 11) - 5;
  for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 7) - 3;
  float *da, *db, *dc;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMallocAsync(&da, a.size() * 4, stream);
  cudaMallocAsync(&db, b.size() * 4, stream);
  cudaMallocAsync(&dc, c.size() * 4, stream);
  cudaMemcpyAsync(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice, stream);
  sgemm_async<<<dim3(N / BN, M / BM), 64, 0, stream>>>(da, db, dc, M, N, K);
  cudaMemcpyAsync(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      assert(sum == c[i * N + j]);
    }
  puts("ok");
}
