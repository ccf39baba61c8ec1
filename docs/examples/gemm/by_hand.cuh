// The copies of gemm.cu as one writes them by hand, to compare with: vectors of 8 halves, K_MULTIPLE and N_MULTIPLE are 8.

__device__ __forceinline__ void load_tile(uint32_t stages, const void* from, int s, int block, int kt, int rows, int K)
{
    static_assert(K_MULTIPLE == 8, "rows of whole vectors");
    #pragma unroll
    for (int round = 0; round < 2; ++round) {
        const int vector = round * 256 + threadIdx.x, row = vector / 4, column = vector % 4 * 8;
        const int i = block * 128 + row, k = kt * 32 + column;
        const bool inside = i < rows && k < K;
        const char* place = (const char*)from + ((int64_t)i * K + k) * 2;
        const uint32_t to = stages + s * 8192 + vector * 16;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(to), "l"(inside ? place : (const char*)from), "r"(inside ? 16 : 0)
                     : "memory");
    }
}

__device__ __forceinline__ void load_a(uint32_t stages, const void* A, int s, int by, int kt, int M, int K)
{
    load_tile(stages, A, s, by, kt, M, K);
}

__device__ __forceinline__ void load_b(uint32_t stages, const void* B, int s, int bx, int kt, int N, int K)
{
    load_tile(stages, B, s, bx, kt, N, K);
}

__device__ __forceinline__ void read_vector(uint32_t* to, uint32_t from)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void read_a(uint32_t (&a)[32], uint32_t stages, int s, int wm)
{
    const int lane = threadIdx.x % 32;
    const uint32_t first = stages + s * 8192 + wm * 4096 + lane * 16;
    #pragma unroll
    for (int i = 0; i < 8; ++i) read_vector(&a[4 * i], first + i * 512);
}

__device__ __forceinline__ void read_b(uint32_t (&b)[16], uint32_t stages, int s, int wn)
{
    const int lane = threadIdx.x % 32;
    const uint32_t first = stages + s * 8192 + wn * 2048 + lane * 16;
    #pragma unroll
    for (int i = 0; i < 4; ++i) read_vector(&b[4 * i], first + i * 512);
}

__device__ __forceinline__ void write_c(void* C, const uint32_t (&c)[32], int by, int wm, int bx, int wn, int M, int N)
{
    static_assert(N_MULTIPLE == 8, "pairs of columns lie inside together");
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = by * 128 + wm * 64 + i * 16 + r * 8 + lane / 4;
                const int column = bx * 128 + wn * 32 + j * 8 + lane % 4 * 2;
                if (row < M && column < N) *(uint32_t*)((char*)C + ((int64_t)row * N + column) * 2) = c[i * 8 + j * 2 + r];
            }
}
