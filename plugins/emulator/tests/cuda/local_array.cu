extern "C" __global__ void local_array(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int values[16];
    for (int k = 0; k < 16; ++k) values[k] = in[i] >> k;
    for (int k = 0; k < 16; ++k) { int at = (in[i] + k * 5) & 15; int t = values[at]; values[at] = values[k]; values[k] = t; }
    int sum = 0;
    for (int k = 0; k < 16; ++k) sum = sum * 3 + values[(k * 7) & 15];
    out[i] = sum;
}
