extern "C" __device__ int printf(const char *format, ...);
extern "C" __global__ void print(int n) { printf("%d\n", n); }
