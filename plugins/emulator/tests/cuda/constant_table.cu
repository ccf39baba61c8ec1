__constant__ float table[8] = {1.0f, 0.5f, -2.0f, 4.25f, 0.0f, 3.0f, -1.0f, 8.0f};
__constant__ short shorts[4] = {1, -2, 300, -32768};
extern "C" __global__ void constant_table(const int *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[in[i] & 7] * 2 + shorts[in[i] >> 3 & 3];
}
