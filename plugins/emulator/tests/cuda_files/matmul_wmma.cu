// D = A * B + C on tensor cores, one 16 x 16 tile of D per warp.
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

__global__ void wmma_example(half *a, half *b, float *c, float *d, int M, int N, int K, float alpha, float beta) {
   // Leading dimensions. Packed with no transpositions.
   int lda = K, ldb = K, ldc = N;

   // Tile using a 2D grid
   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag, c_frag;
   wmma::fill_fragment(acc_frag, 0.0f);

   for (int i = 0; i < K; i += WMMA_K) {
      int aRow = warpM * WMMA_M, bCol = warpN * WMMA_N;
      if (aRow < M && bCol < N) {
         wmma::load_matrix_sync(a_frag, a + aRow * lda + i, lda);
         wmma::load_matrix_sync(b_frag, b + i + bCol * ldb, ldb);
         wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
      }
   }

   int cRow = warpM * WMMA_M, cCol = warpN * WMMA_N;
   if (cRow < M && cCol < N) {
      wmma::load_matrix_sync(c_frag, c + cRow * ldc + cCol, ldc, wmma::mem_row_major);
#pragma unroll
      for (int i = 0; i < c_frag.num_elements; i++) c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
      wmma::store_matrix_sync(d + cRow * ldc + cCol, c_frag, ldc, wmma::mem_row_major);
   }
}

int main() {
   const int M = 64, N = 64, K = 64;
   half *a, *b;
   float *c, *d;
   cudaMallocManaged(&a, M * K * sizeof(half));
   cudaMallocManaged(&b, K * N * sizeof(half));
   cudaMallocManaged(&c, M * N * sizeof(float));
   cudaMallocManaged(&d, M * N * sizeof(float));
   for (int i = 0; i < M * K; i++) a[i] = (half)(float)(rand() % 3);
   for (int i = 0; i < K * N; i++) b[i] = (half)(float)(rand() % 3);
   for (int i = 0; i < M * N; i++) c[i] = (float)(rand() % 3);
   dim3 blockDim(64, 2), gridDim((M + 31) / 32, (N + 31) / 32);
   wmma_example<<<gridDim, blockDim>>>(a, b, c, d, M, N, K, 2.0f, 2.0f);
   cudaDeviceSynchronize();
   for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
         float sum = 0;
         for (int k = 0; k < K; k++) sum += (float)a[i * K + k] * (float)b[j * K + k];
         if (d[i * N + j] != 2.0f * sum + 2.0f * c[i * N + j]) { printf("wrong at %d %d\n", i, j); return 1; }
      }
   return 0;
}
