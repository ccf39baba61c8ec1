#include <cuda_fp16.h>
extern "C" __global__ void half_arithmetic(const __half2 *a, const __half2 *b, __half2 *c, __half *d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half2 product = __hfma2(a[i], b[i], __float2half2_rn(0.5f));
    c[i] = __hmax2(product, __hsub2(a[i], b[i]));
    d[i] = __hadd(__low2half(a[i]), __float2half(__half2float(__high2half(b[i])) * 2.0f));
}
