extern "C" __global__ void roundings(const float *a, const float *b, float *f, int *i32, double *d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i];
    f[4 * i] = __fadd_rz(x, y); f[4 * i + 1] = __fmul_ru(x, y); f[4 * i + 2] = __fmaf_rd(x, y, 1.0f); f[4 * i + 3] = __saturatef(x / y);
    i32[4 * i] = __float2int_rd(x); i32[4 * i + 1] = __float2int_ru(x); i32[4 * i + 2] = (int)__float2uint_rn(y); i32[4 * i + 3] = (int)x;
    d[2 * i] = __dadd_ru((double)x, (double)y); d[2 * i + 1] = __ddiv_rz((double)x, (double)y);
}
