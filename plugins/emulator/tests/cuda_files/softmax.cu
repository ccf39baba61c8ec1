// Online softmax: one pass for maximum and sum, a warp per row.
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))

struct __align__(8) MD {
    float m;  // maximum so far
    float d;  // sum of exp(x - m)
};

__device__ __forceinline__ MD combine(MD a, MD b) {
    bool a_bigger = a.m > b.m;
    MD bigger = a_bigger ? a : b, smaller = a_bigger ? b : a;
    MD result;
    result.d = bigger.d + smaller.d * __expf(smaller.m - bigger.m);
    result.m = bigger.m;
    return result;
}

__global__ void softmax_forward_online(float *out, const float *inp, int N, int C) {
    int warpsPerBlock = blockDim.x / warpSize;
    int idx = blockIdx.x * warpsPerBlock + threadIdx.x / warpSize;
    int lane = threadIdx.x % warpSize;
    if (idx >= N) return;

    const float *x = inp + idx * C;
    MD md = {-FLT_MAX, 0.0f};
    for (int i = lane; i < C; i += warpSize) md = combine(md, MD{x[i], 1.0f});
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        MD other;
        other.m = __shfl_xor_sync(0xFFFFFFFF, md.m, offset);
        other.d = __shfl_xor_sync(0xFFFFFFFF, md.d, offset);
        md = combine(md, other);
    }
    for (int i = lane; i < C; i += warpSize) __stcs(out + idx * C + i, __expf(x[i] - md.m) / md.d);
}

void softmax_forward_cpu(float *out, const float *inp, int N, int C) {
    for (int i = 0; i < N; i++) {
        float maxval = -INFINITY;
        for (int j = 0; j < C; j++) maxval = fmaxf(maxval, inp[i * C + j]);
        double sum = 0.0;
        for (int j = 0; j < C; j++) sum += expf(inp[i * C + j] - maxval);
        for (int j = 0; j < C; j++) out[i * C + j] = (float)(expf(inp[i * C + j] - maxval) / sum);
    }
}

int main() {
    const int N = 100, C = 300, block_size = 64;
    std::vector<float> inp(N * C), ref(N * C), out(N * C);
    for (auto &v : inp) v = 10.0f * rand() / RAND_MAX - 5.0f;
    softmax_forward_cpu(ref.data(), inp.data(), N, C);
    float *d_inp, *d_out;
    cudaCheck(cudaMalloc(&d_inp, N * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_out, N * C * sizeof(float)));
    cudaCheck(cudaMemcpy(d_inp, inp.data(), N * C * sizeof(float), cudaMemcpyHostToDevice));
    softmax_forward_online<<<CEIL_DIV(N * 32, block_size), block_size>>>(d_out, d_inp, N, C);
    cudaCheck(cudaMemcpy(out.data(), d_out, N * C * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N * C; i++)
        if (fabs(out[i] - ref[i]) > 1e-5) { printf("mismatch at %d: %f %f\n", i, ref[i], out[i]); return 1; }
    return 0;
}
