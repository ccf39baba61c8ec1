extern "C" __global__ void division_128(const unsigned long long *x, unsigned long long *y) {
    unsigned __int128 a = (unsigned __int128)x[0] << 64 | x[1], b = (unsigned __int128)x[2] << 64 | x[3];
    unsigned __int128 q = a / b, r = a % b;
    y[0] = q >> 64; y[1] = q; y[2] = r >> 64; y[3] = r;
}
