struct Pair { float x; int y; double z; };
__device__ __noinline__ Pair combine(Pair p, float f) { p.x = p.x * f + 1; p.y -= 3; p.z += p.x; return p; }
__device__ __noinline__ int collatz(int n) { int steps = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; ++steps; } return steps; }
extern "C" __global__ void device_function(const float *in, double *out, int *steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Pair p = combine(Pair{in[i], i, 0.25}, 2.5f);
    out[i] = p.x + p.y + p.z;
    steps[i] = collatz(i + 1);
}
