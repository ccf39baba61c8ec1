#include <stdio.h>
#include <stdlib.h>

#define TILE_WIDTH 16

__global__ void MatrixMulKernel(float* M, float* N, float* P, int Width)
{
    __shared__ float Mds[TILE_WIDTH][TILE_WIDTH];
    __shared__ float Nds[TILE_WIDTH][TILE_WIDTH];

    int bx = blockIdx.x;  int by = blockIdx.y;
    int tx = threadIdx.x; int ty = threadIdx.y;
    int Row = by * TILE_WIDTH + ty;
    int Col = bx * TILE_WIDTH + tx;

    float Pvalue = 0;
    for (int ph = 0; ph < (Width + TILE_WIDTH - 1) / TILE_WIDTH; ++ph) {
        if ((Row < Width) && (ph*TILE_WIDTH + tx) < Width)
            Mds[ty][tx] = M[Row*Width + ph*TILE_WIDTH + tx];
        else
            Mds[ty][tx] = 0.0f;
        if ((ph*TILE_WIDTH + ty) < Width && Col < Width)
            Nds[ty][tx] = N[(ph*TILE_WIDTH + ty)*Width + Col];
        else
            Nds[ty][tx] = 0.0f;
        __syncthreads(); // the tiles are complete

        for (int k = 0; k < TILE_WIDTH; ++k) {
            Pvalue += Mds[ty][k] * Nds[k][tx];
        }
        __syncthreads(); // the tiles are used up
    }
    if ((Row < Width) && (Col < Width)) P[Row*Width + Col] = Pvalue;
}

void MatrixMul(float* h_M, float* h_N, float* h_P, int Width)
{
    int size = Width * Width * sizeof(float);
    float *d_M, *d_N, *d_P;
    cudaMalloc(&d_M, size);
    cudaMemcpy(d_M, h_M, size, cudaMemcpyHostToDevice);
    cudaMalloc(&d_N, size);
    cudaMemcpy(d_N, h_N, size, cudaMemcpyHostToDevice);
    cudaMalloc(&d_P, size);

    dim3 dimGrid((Width + TILE_WIDTH - 1) / TILE_WIDTH, (Width + TILE_WIDTH - 1) / TILE_WIDTH, 1);
    dim3 dimBlock(TILE_WIDTH, TILE_WIDTH, 1);
    MatrixMulKernel<<<dimGrid, dimBlock>>>(d_M, d_N, d_P, Width);

    cudaMemcpy(h_P, d_P, size, cudaMemcpyDeviceToHost);
    cudaFree(d_M); cudaFree(d_N); cudaFree(d_P);
}

int main()
{
    const int Width = 100;
    static float M[Width * Width], N[Width * Width], P[Width * Width];
    for (int i = 0; i < Width * Width; i++) { M[i] = i % 5; N[i] = i % 3; }
    MatrixMul(M, N, P, Width);
    for (int r = 0; r < Width; r++)
        for (int c = 0; c < Width; c++) {
            float sum = 0;
            for (int k = 0; k < Width; k++) sum += M[r * Width + k] * N[k * Width + c];
            if (sum != P[r * Width + c]) { printf("P[%d][%d] = %f, not %f\n", r, c, P[r * Width + c], sum); exit(1); }
        }
    printf("Test PASSED\n");
    return 0;
}
