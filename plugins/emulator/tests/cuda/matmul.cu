extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float sa[16][16], sb[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        sa[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        sb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + col];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
