extern "C" __global__ void grid_stride(const float4 *x, float4 *y, float alpha, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        float4 v = x[i], w = y[i];
        y[i] = make_float4(alpha * v.x + w.x, alpha * v.y + w.y, alpha * v.z + w.z, alpha * v.w + w.w);
    }
}
