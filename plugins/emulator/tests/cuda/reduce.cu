extern "C" __global__ void reduce(const int *in, int *out, int n) {
    __shared__ int partial[32];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, step);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}
