extern "C" __global__ void switch_table(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = in[i], r = i;
    switch (v) {
        case 0: r = v + 1; out[i + n] = r; break;
        case 1: r *= 3; break;
        case 2: r = out[i] + 5; break;
        case 3: r ^= 0x55; out[i + n] = -r; break;
        case 4: r = r << 2; break;
        case 5: r = -r; break;
        case 6: r = r * r; break;
        case 7: r = __popc(r); out[i + n] = 9; break;
        default: r = 1000 + v;
    }
    out[i] = r;
}
