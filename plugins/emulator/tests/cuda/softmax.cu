extern "C" __global__ void softmax(const float *in, float *out, int width) {
    const float *row = in + blockIdx.x * width;
    float top = -1e30f;
    for (int i = threadIdx.x; i < width; i += 32) top = fmaxf(top, row[i]);
    for (int step = 16; step; step >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += 32) sum += __expf(row[i] - top);
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    for (int i = threadIdx.x; i < width; i += 32) out[blockIdx.x * width + i] = __expf(row[i] - top) / sum;
}
