extern "C" __global__ void bit_tricks(const unsigned *a, const unsigned *b, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i];
    unsigned r = __popc(x) + (__clz(y) << 6) + (__ffs(x) << 12);
    r ^= __brev(y) + __byte_perm(x, y, 0x4261) + __funnelshift_l(x, y, x) + __funnelshift_r(x, y, y);
    r += __sad((int)x, (int)y, r) + __umulhi(x, y) + (unsigned)__mulhi((int)x, (int)y) + __vadd2(x, y);
    r ^= (x & ~y) | (y ^ r);
    out[i] = r + __hadd((int)x, (int)y) + (unsigned)__popcll((unsigned long long)x * y);
}
