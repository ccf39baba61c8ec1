// C = A @ B.T in float16 with float32 sums: A is (M, K), B (N, K), C (M, N), all row-major; any M and N, K a multiple of 8.
// For sm_90 and newer.
//
// 128 x 128 of C a block of 128 threads, 64 x 64 a warp, two blocks a multiprocessor; K in steps of 64 through three stages of shared
// memory, whose rows of 128 bytes are swizzled. Dynamic shared memory: 3 * (128 + 128) * 64 * 2 bytes. Every byte moves by one of
// five functions:
//
//   load_a(stages, A, s, by, kt, M, K, full, A_map)    TMA, by one thread: a stage of A, zeros outside
//   load_b(stages, B, s, bx, kt, N, K, full, B_map)    the same of B
//   read_a(a, stages, s, wm, step)                     ldmatrix, by a warp: 16 of K of its 64 rows of A
//   read_b(b, stages, s, wn, step)                     the same of B
//   write_c(C, c, by, wm, bx, wn, M, N)                the warp's 64 x 64 of C, nothing outside

#ifndef CUDA_VERSION  // NVRTC has no cuda.h
struct alignas(64) CUtensorMap {
    char bytes[128];
};
#endif

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

extern "C" __global__ void __launch_bounds__(128, 2)
    gemm(const void* A, const void* B, void* C, int M, int N, int K,
         const __grid_constant__ CUtensorMap A_map, const __grid_constant__ CUtensorMap B_map)
{
    extern __shared__ __align__(1024) char shared[];
    __shared__ uint64_t barriers[3];
    const uint32_t as = tilecopy::shared_address(shared), bs = as + 3 * 128 * 64 * 2;
    const uint32_t full = tilecopy::shared_address(barriers);
    const int bx = blockIdx.x, by = blockIdx.y, warp = threadIdx.x / 32, wm = warp / 2, wn = warp % 2;
    const int steps = (K + 63) / 64;

    const auto load = [&](int kt, int s) {
        tilecopy::mbarrier_arrive_expect_tx(full + 8 * s, 2 * 128 * 64 * 2);
        load_a(as, A, s, by, kt, M, K, full, &A_map);
        load_b(bs, B, s, bx, kt, N, K, full, &B_map);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < 3; ++s) tilecopy::mbarrier_init(full + 8 * s, 1);
        tilecopy::fence_mbarrier_init();
        load(0, 0);
        if (steps > 1) load(1, 1);
    }
    __syncthreads();
    tilecopy::mbarrier_wait(full, 0);

    // The fragments of the next 16 of K are read while those of this one are multiplied.
    float sums[4][8][4] = {};
    uint32_t a[2][16], b[2][16];
    read_a(a[0], as, 0, wm, 0);
    read_b(b[0], bs, 0, wn, 0);
    int stage = 0, phase = 0;
    #pragma unroll 1
    for (int kt = 0; kt < steps; ++kt) {
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            if (step == 3) {
                stage = (stage + 1) % 3;
                phase ^= stage == 0;
                if (kt + 1 < steps) tilecopy::mbarrier_wait(full + 8 * stage, phase);
                __syncthreads();  // all warps have read the stage before
            }
            read_a(a[(step + 1) % 2], as, stage, wm, (step + 1) % 4);  // behind the last step of all: read, and not used
            read_b(b[(step + 1) % 2], bs, stage, wn, (step + 1) % 4);
            if (step == 0 && threadIdx.x == 0 && kt + 2 < steps) load(kt + 2, (stage + 2) % 3);
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
