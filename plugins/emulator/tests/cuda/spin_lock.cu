extern "C" __global__ void spin_lock(int *lock, int *total) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) { }
        __threadfence();
        *(volatile int *)total = *(volatile int *)total + (int)blockIdx.x + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
