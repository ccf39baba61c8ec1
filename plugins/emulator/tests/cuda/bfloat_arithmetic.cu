#include <cuda_bf16.h>
extern "C" __global__ void bfloat_arithmetic(const __nv_bfloat16 *a, const float *b, __nv_bfloat162 *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = __hfma2(__floats2bfloat162_rn(__bfloat162float(a[i]), b[i]), __float2bfloat162_rn(1.5f), __float2bfloat162_rn(b[i]));
}
