#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>
#include <algorithm>

#define FLOAT4(value) (reinterpret_cast<float4 *>(&(value))[0])
#define CONST_FLOAT4(value) (reinterpret_cast<const float4 *>(&(value))[0])

// y = alpha * x + beta, four elements per thread; the last few one by one
__global__ void scale_f32x4_kernel(const float *x, float *y, float alpha, float beta, int N) {
    int idx = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (idx + 3 < N) {
        float4 reg_x = CONST_FLOAT4(x[idx]);
        float4 reg_y;
        reg_y.x = fmaf(alpha, reg_x.x, beta);
        reg_y.y = fmaf(alpha, reg_x.y, beta);
        reg_y.z = fmaf(alpha, reg_x.z, beta);
        reg_y.w = fmaf(alpha, reg_x.w, beta);
        FLOAT4(y[idx]) = reg_y;
    } else {
        for (int i = idx; i < N; i++) y[i] = fmaf(alpha, x[i], beta);
    }
}

static float run_once(const std::vector<float>& input, std::vector<float>& output, int threads) {
    const int N = (int)input.size();
    float *d_x = NULL, *d_y = NULL;
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaMalloc((void**)&d_x, N * sizeof(float));
    cudaMalloc((void**)&d_y, N * sizeof(float));
    cudaMemcpy(d_x, input.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    dim3 block(threads);
    dim3 grid((N / 4 + 1 + threads - 1) / threads);
    cudaEventRecord(start, 0);
    scale_f32x4_kernel<<<grid, block>>>(d_x, d_y, 3.f, -1.f, N);
    cudaEventRecord(stop, 0);
    cudaEventSynchronize(stop);
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    cudaMemcpy(output.data(), d_y, N * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_x); cudaFree(d_y);
    return ms;
}

int main() {
    std::vector<float> h(1003), r(1003);
    std::generate(h.begin(), h.end(), [] { return rand() / (float)RAND_MAX; });
    float ms = run_once(h, r, 128);
    for (size_t i = 0; i < h.size(); i++)
        if (r[i] != 3.f * h[i] - 1.f && fabs(r[i] - (3.f * h[i] - 1.f)) > 1e-6) { printf("wrong at %zu\n", i); return 1; }
    printf("%.3f ms\n", ms);
    return 0;
}
