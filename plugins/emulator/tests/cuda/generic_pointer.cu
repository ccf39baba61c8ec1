extern "C" __global__ void generic_pointer(float *in, float *out) {
    __shared__ float kept[64];
    kept[threadIdx.x] = in[threadIdx.x] + 1;
    __syncthreads();
    float *source = threadIdx.x & 1 ? kept : in;
    out[threadIdx.x] = source[threadIdx.x ^ 32];
}
