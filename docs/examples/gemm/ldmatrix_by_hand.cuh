// The reads of gemm_ldmatrix.cu as one writes them by hand, to compare with.

__device__ __forceinline__ void read_matrices(uint32_t* to, uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// Operand A, 64 x 16: matrices 0 and 1 of an instruction are rows 0 to 7 and 8 to 15, matrices 2 and 3 the other half of K.
__device__ __forceinline__ void read_a(uint32_t (&a)[16], uint32_t stages, int s, int wm, int step)
{
    const int lane = threadIdx.x % 32, row = wm * 64 + lane % 16, chunk = step * 2 + lane / 16;
    const uint32_t first = stages + s * 16384 + row * 128 + (chunk ^ lane % 8) * 16;
    #pragma unroll
    for (int i = 0; i < 4; ++i) read_matrices(&a[4 * i], first + i * 2048);
}

// Operand B, 64 x 16: matrices 0 and 1 are the halves of K of rows 0 to 7, matrices 2 and 3 those of rows 8 to 15.
__device__ __forceinline__ void read_b(uint32_t (&b)[16], uint32_t stages, int s, int wn, int step)
{
    const int lane = threadIdx.x % 32, row = wn * 64 + lane / 16 * 8 + lane % 8, chunk = step * 2 + lane / 8 % 2;
    const uint32_t first = stages + s * 16384 + row * 128 + (chunk ^ lane % 8) * 16;
    #pragma unroll
    for (int i = 0; i < 4; ++i) read_matrices(&b[4 * i], first + i * 2048);
}
