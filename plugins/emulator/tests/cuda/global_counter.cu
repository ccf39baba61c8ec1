__device__ unsigned arrived = 0;
__device__ int limits[3] = {7, 11, 13};
extern "C" __global__ void global_counter(unsigned *order, int *total) {
    __shared__ unsigned mine;
    if (threadIdx.x == 0) { __threadfence(); mine = atomicInc(&arrived, gridDim.x - 1); }
    __syncthreads();
    if (threadIdx.x == 0) order[blockIdx.x] = mine;
    atomicMax(total, limits[threadIdx.x % 3] + (int)blockIdx.x);
}
