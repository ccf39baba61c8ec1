// C = A @ B.T in float16 with float32 sums: A is (M, K), B (N, K), C (M, N), all row-major; any M, N, K.
//
// 128 x 128 of C a block of 128 threads, 64 x 64 a warp, two blocks a multiprocessor; K in steps of 32 through five stages of shared
// memory, whose rows of 64 bytes are swizzled. Dynamic shared memory: 5 * (128 + 128) * 32 * 2 bytes. Every byte moves by one of
// five functions:
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

extern "C" __global__ void __launch_bounds__(128, 2) gemm(const void* A, const void* B, void* C, int M, int N, int K)
{
    extern __shared__ __align__(1024) char shared[];
    const uint32_t as = tilecopy::shared_address(shared), bs = as + 5 * 128 * 32 * 2;
    const int bx = blockIdx.x, by = blockIdx.y, warp = threadIdx.x / 32, wm = warp / 2, wn = warp % 2;
    const int steps = (K + 31) / 32;

    float sums[4][8][4] = {};
    for (int s = 0; s < 4; ++s) {
        if (s < steps) {
            load_a(as, A, s, by, s, M, K);
            load_b(bs, B, s, bx, s, N, K);
        }
        tilecopy::cp_async_commit();
    }
    tilecopy::cp_async_wait<3>();
    __syncthreads();

    // The fragments of the next 16 of K are read while those of this one are multiplied.
    uint32_t a[2][16], b[2][16];
    read_a(a[0], as, 0, wm, 0);
    read_b(b[0], bs, 0, wn, 0);
    int stage = 0, ahead = 4;
    #pragma unroll 1
    for (int kt = 0; kt < steps; ++kt) {
        #pragma unroll
        for (int step = 0; step < 2; ++step) {
            if (step == 1) {
                tilecopy::cp_async_wait<3>();
                __syncthreads();  // the next stage has arrived, and all warps have read this one
                stage = (stage + 1) % 5;
            }
            read_a(a[(step + 1) % 2], as, stage, wm, (step + 1) % 2);  // behind the last step of all: read, and not used
            read_b(b[(step + 1) % 2], bs, stage, wn, (step + 1) % 2);
            if (step == 0) {
                if (kt + 4 < steps) {
                    load_a(as, A, ahead, by, kt + 4, M, K);
                    load_b(bs, B, ahead, bx, kt + 4, N, K);
                }
                tilecopy::cp_async_commit();
                ahead = (ahead + 1) % 5;
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
