extern "C" __global__ void handshake(volatile int *flag, volatile int *data, int *out) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) { *data = 42; __threadfence(); *flag = 1; }
    } else if (threadIdx.x == 0) {
        while (*flag == 0) { }
        __threadfence();
        out[0] = *data;
    }
}
