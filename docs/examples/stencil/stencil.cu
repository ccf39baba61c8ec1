// B[i, j] = (A[i-1, j] + A[i+1, j] + A[i, j-1] + A[i, j+1]) / 4 in float32, zeros outside; A and B are (M, N), row-major.
//
// 32 x 256 of B a block of 256 threads. The tile of A has a row more above and below, and four columns more on each side: one
// is needed, four keep the rows in vectors of 16 bytes. The functions before this text are tilecopy's (stencil.py):
//
//   load_tile(tile, A, by, bx, M, N)      cp.async of the 34 x 264 tile, zeros outside
//   read_north(n, tile), read_south, read_west, read_east        the neighbours of this thread's 32 elements
//   write_tile(B, b, by, bx, M, N)        its 32 results, nothing outside

extern "C" __global__ void __launch_bounds__(256) stencil(const void* A, void* B, int M, int N)
{
    __shared__ __align__(128) char tile[34 * 264 * 4];
    const uint32_t t = tilecopy::shared_address(tile);
    load_tile(t, A, blockIdx.y, blockIdx.x, M, N);
    tilecopy::cp_async_commit();
    tilecopy::cp_async_wait<0>();
    __syncthreads();
    uint32_t north[32], south[32], west[32], east[32], b[32];
    read_north(north, t);
    read_south(south, t);
    read_west(west, t);
    read_east(east, t);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const float rows = __uint_as_float(north[i]) + __uint_as_float(south[i]);
        const float columns = __uint_as_float(west[i]) + __uint_as_float(east[i]);
        b[i] = __float_as_uint(0.25f * (rows + columns));
    }
    write_tile(B, b, blockIdx.y, blockIdx.x, M, N);
}
