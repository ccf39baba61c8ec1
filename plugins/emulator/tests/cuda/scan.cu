extern "C" __global__ void scan(const int *in, int *out) {
    extern __shared__ int buffer[];
    int t = threadIdx.x, n = blockDim.x, from = 0;
    buffer[t] = in[blockIdx.x * n + t];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        int to = from ^ 1;
        buffer[to * n + t] = buffer[from * n + t] + (t >= step ? buffer[from * n + t - step] : 0);
        __syncthreads();
        from = to;
    }
    out[blockIdx.x * n + t] = buffer[from * n + t];
}
