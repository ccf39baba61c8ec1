extern "C" __global__ void divisions(const int *a, const int *b, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] / b[i] + a[i] % b[i] * 3 + a[i] / 7 + (unsigned)a[i] / 10u;
}
