#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>
#include <vector>

// Explicit finite differences for the heat equation in two dimensions.

#define BLOCK_X 16
#define BLOCK_Y 8
#define IDX(i, j) ((j) * (width) + (i))

__constant__ float d_alpha;

__global__ void heat_step(const float *u, float *u_new, int width, int height)
{
    __shared__ float s[BLOCK_Y + 2][BLOCK_X + 2];
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    const int j = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int x = threadIdx.x + 1, y = threadIdx.y + 1;
    const bool inside = i < width && j < height;

    if (inside) {
        s[y][x] = u[IDX(i, j)];
        if (threadIdx.x == 0 && i > 0) s[y][0] = u[IDX(i - 1, j)];
        if (threadIdx.x == BLOCK_X - 1 && i < width - 1) s[y][BLOCK_X + 1] = u[IDX(i + 1, j)];
        if (threadIdx.y == 0 && j > 0) s[0][x] = u[IDX(i, j - 1)];
        if (threadIdx.y == BLOCK_Y - 1 && j < height - 1) s[BLOCK_Y + 1][x] = u[IDX(i, j + 1)];
    }
    __syncthreads();

    if (!inside) return;
    if (i == 0 || j == 0 || i == width - 1 || j == height - 1) {
        u_new[IDX(i, j)] = s[y][x];  // the boundary is kept
    } else {
        u_new[IDX(i, j)] = s[y][x] + d_alpha * (s[y][x - 1] + s[y][x + 1] + s[y - 1][x] + s[y + 1][x] - 4.0f * s[y][x]);
    }
}

int main(int argc, char *argv[])
{
    const int width = 100, height = 60, steps = (argc > 1) ? std::atoi(argv[1]) : 50;
    const float alpha = 0.2f;
    std::vector<float> host(width * height, 0.0f);
    std::fill(host.begin(), host.begin() + width, 100.0f);
    float *d_u, *d_next;
    const size_t size = host.size() * sizeof(float);
    cudaMalloc((void **)&d_u, size);
    cudaMalloc((void **)&d_next, size);
    cudaMemcpy(d_u, host.data(), size, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(d_alpha, &alpha, sizeof(float));
    dim3 block(BLOCK_X, BLOCK_Y);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    for (int step = 0; step < steps; ++step) {
        heat_step<<<grid, block>>>(d_u, d_next, width, height);
        std::swap(d_u, d_next);
    }
    cudaError_t err = cudaDeviceSynchronize();
    if (err != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(err)); return EXIT_FAILURE; }
    cudaMemcpy(host.data(), d_u, size, cudaMemcpyDeviceToHost);
    for (float v : host) if (std::isnan(v) || v < 0.0f || v > 100.0f) return EXIT_FAILURE;
    std::printf("u(w/2, 1) = %f\n", host[IDX(width / 2, 1)]);
    return EXIT_SUCCESS;
}
