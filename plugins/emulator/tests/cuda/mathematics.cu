extern "C" __global__ void mathematics(const float *in, float *out, double *wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    out[i] = sqrtf(fabsf(x)) + expf(-fabsf(x)) + rsqrtf(fabsf(x) + 1) + __sinf(x) + tanhf(x) + powf(fabsf(x) + 1, 1.5f) + floorf(x) + rintf(x);
    wide[i] = sqrt((double)x * x + 1) / (2.0 + x * x) + fma((double)x, 3.0, -1.0) + floor((double)x) + exp(-(double)x * x);
}
