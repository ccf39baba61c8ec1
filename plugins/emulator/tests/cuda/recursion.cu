__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
extern "C" __global__ void recursion(int *out) { out[threadIdx.x] = ackermann(2, (int)threadIdx.x); }
