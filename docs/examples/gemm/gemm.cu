// C = A @ B.T in float16 with float32 sums: A is (M, K), B (N, K), C (M, N), all row-major; any M, N, K.
//
// 128 x 128 of C a block of 256 threads, K in steps of 32 through three stages of shared memory. Every byte moves by one of
// five functions, which come before this text: from tilecopy (gemm.py), or written by hand (by_hand.cuh).
//
//   load_a(stages, A, s, by, kt, M, K)    load_b(stages, B, s, bx, kt, N, K)    cp.async of one stage, zeros outside
//   read_a(a, stages, s, wm)              read_b(b, stages, s, wn)              shared memory to a warp's fragments
//   write_c(C, c, by, wm, bx, wn, M, N)                                         the warp's 64 x 32 of C, nothing outside

__device__ __forceinline__ void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                         uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t packed(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

extern "C" __global__ void __launch_bounds__(256, 2) gemm(const void* A, const void* B, void* C, int M, int N, int K)
{
    __shared__ __align__(128) char a_stages[3 * 128 * 32 * 2];
    __shared__ __align__(128) char b_stages[3 * 128 * 32 * 2];
    const uint32_t as = tilecopy::shared_address(a_stages), bs = tilecopy::shared_address(b_stages);
    const int bx = blockIdx.x, by = blockIdx.y, warp = threadIdx.x / 32, wm = warp / 4, wn = warp % 4;
    const int steps = (K + 31) / 32;

    float sums[4][4][4] = {};
    for (int s = 0; s < 2; ++s) {
        if (s < steps) {
            load_a(as, A, s, by, s, M, K);
            load_b(bs, B, s, bx, s, N, K);
        }
        tilecopy::cp_async_commit();
    }
    int stage = 0, ahead = 2;
    #pragma unroll 1
    for (int kt = 0; kt < steps; ++kt) {
        tilecopy::cp_async_wait<1>();
        __syncthreads();
        if (kt + 2 < steps) {
            load_a(as, A, ahead, by, kt + 2, M, K);
            load_b(bs, B, ahead, bx, kt + 2, N, K);
        }
        tilecopy::cp_async_commit();

        // A lane holds eight neighbours along K of each of its rows: which of them stand where in a product does not matter
        // as long as A and B agree. So each row is one vector of 16 bytes.
        uint32_t a[32], b[16];
        read_a(a, as, stage, wm);
        read_b(b, bs, stage, wn);
        #pragma unroll
        for (int half = 0; half < 2; ++half)
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const uint32_t* x = &a[i * 8 + 2 * half];
                    const uint32_t* y = &b[j * 4 + 2 * half];
                    multiply(sums[i][j], x[0], x[4], x[1], x[5], y[0], y[1]);
                }
        stage = stage == 2 ? 0 : stage + 1;
        ahead = ahead == 2 ? 0 : ahead + 1;
    }

    uint32_t c[32];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            c[i * 8 + j * 2] = packed(sums[i][j][0], sums[i][j][1]);
            c[i * 8 + j * 2 + 1] = packed(sums[i][j][2], sums[i][j][3]);
        }
    write_c(C, c, by, wm, bx, wn, M, N);
}
