extern "C" __global__ void wide_integers(const unsigned long long *a, const unsigned long long *b, unsigned long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long x = a[i], y = b[i] | 1;
    out[4 * i] = __umul64hi(x, y);
    out[4 * i + 1] = __mul64hi((long long)x, (long long)y);
    out[4 * i + 2] = x / y ^ (unsigned long long)((long long)x % (long long)y);
    unsigned __int128 wide = (unsigned __int128)x * y + x;
    out[4 * i + 3] = (unsigned long long)(wide >> 37);
}
