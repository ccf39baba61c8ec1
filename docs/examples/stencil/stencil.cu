// B[i, j] = (A[i-1, j] + A[i+1, j] + A[i, j-1] + A[i, j+1]) / 4 in float32, zeros outside; A and B are (M, N), row-major.
//
// 16 x 512 of B a block of 256 threads. The tile of A has a row more above and below, and eight columns more on each side: one
// is needed, four would keep the rows in vectors of 16 bytes, eight let them begin at a sector of memory, too, which is a tenth
// of the time. The functions before this text are tilecopy's (stencil.py):
//
//   load_tile(tile, A, by, bx, M, N)      cp.async of the 18 x 528 tile, zeros outside
//   read_north(n, tile, r), read_south, read_west, read_east   the neighbours of this thread's 16 elements in rows 8 r to 8 r + 7
//   write_rows(B, b, by, r, bx, M, N)     its results there, nothing outside

extern "C" __global__ void __launch_bounds__(256) stencil(const void* A, void* B, int M, int N)
{
    __shared__ __align__(128) char tile[18 * 528 * 4];
    const uint32_t t = tilecopy::shared_address(tile);
    load_tile(t, A, blockIdx.y, blockIdx.x, M, N);
    tilecopy::cp_async_commit();
    tilecopy::cp_async_wait<0>();
    __syncthreads();
    #pragma unroll 1
    for (int r = 0; r < 2; ++r) {
        uint32_t north[16], south[16], west[16], east[16], b[16];
        read_north(north, t, r);
        read_south(south, t, r);
        read_west(west, t, r);
        read_east(east, t, r);
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float rows = __uint_as_float(north[i]) + __uint_as_float(south[i]);
            const float columns = __uint_as_float(west[i]) + __uint_as_float(east[i]);
            b[i] = __float_as_uint(0.25f * (rows + columns));
        }
        write_rows(B, b, blockIdx.y, r, blockIdx.x, M, N);
    }
}
