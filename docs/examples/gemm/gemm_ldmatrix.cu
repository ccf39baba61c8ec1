// C = A @ B.T in float16 with float32 sums: A is (M, K), B (N, K), C (M, N), all row-major; any M, N, K.
//
// 128 x 256 of C a block of 256 threads, 64 x 64 a warp; K in steps of 64 through four stages of shared memory, whose rows of
// 128 bytes are swizzled. Dynamic shared memory: 4 * (128 + 256) * 64 * 2 bytes. Every byte moves by one of five functions:
//
//   load_a(stages, A, s, by, kt, M, K)    load_b(stages, B, s, bx, kt, N, K)    cp.async of one stage, zeros outside
//   read_a(a, stages, s, wm, step)        read_b(b, stages, s, wn, step)        16 of K to a warp's fragments, by ldmatrix
//   write_c(C, c, by, wm, bx, wn, M, N)                                         the warp's 64 x 64 of C, nothing outside

__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t* a, const uint32_t* b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t packed(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

extern "C" __global__ void __launch_bounds__(256, 1) gemm(const void* A, const void* B, void* C, int M, int N, int K)
{
    extern __shared__ __align__(1024) char shared[];
    const uint32_t as = tilecopy::shared_address(shared), bs = as + 4 * 128 * 64 * 2;
    const int bx = blockIdx.x, by = blockIdx.y, warp = threadIdx.x / 32, wm = warp / 4, wn = warp % 4;
    const int steps = (K + 63) / 64;

    float sums[4][8][4] = {};
    for (int s = 0; s < 3; ++s) {
        if (s < steps) {
            load_a(as, A, s, by, s, M, K);
            load_b(bs, B, s, bx, s, N, K);
        }
        tilecopy::cp_async_commit();
    }
    tilecopy::cp_async_wait<2>();
    __syncthreads();

    // The fragments of the next 16 of K are read while those of this one are multiplied.
    uint32_t a[2][16], b[2][16];
    read_a(a[0], as, 0, wm, 0);
    read_b(b[0], bs, 0, wn, 0);
    int stage = 0, ahead = 3;
    #pragma unroll 1
    for (int kt = 0; kt < steps; ++kt) {
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            if (step == 3) {
                tilecopy::cp_async_wait<2>();
                __syncthreads();  // the next stage has arrived, and all warps have read this one
                stage = (stage + 1) % 4;
            }
            read_a(a[(step + 1) % 2], as, stage, wm, (step + 1) % 4);  // behind the last step of all: read, and not used
            read_b(b[(step + 1) % 2], bs, stage, wn, (step + 1) % 4);
            if (step == 0) {
                if (kt + 3 < steps) {
                    load_a(as, A, ahead, by, kt + 3, M, K);
                    load_b(bs, B, ahead, bx, kt + 3, N, K);
                }
                tilecopy::cp_async_commit();
                ahead = (ahead + 1) % 4;
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) multiply(sums[i][j], &a[step % 2][4 * i], &b[step % 2][2 * j]);
        }
    }

    uint32_t c[64];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            c[i * 16 + j * 2] = packed(sums[i][j][0], sums[i][j][1]);
            c[i * 16 + j * 2 + 1] = packed(sums[i][j][2], sums[i][j][3]);
        }
    write_c(C, c, by, wm, bx, wn, M, N);
}
