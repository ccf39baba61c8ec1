extern "C" __global__ void warp_votes(const int *in, unsigned *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    unsigned r = __ballot_sync(~0u, v & 1);
    r += __any_sync(~0u, v == 5) * 3 + __all_sync(~0u, v >= 0) * 7;
    r ^= __match_any_sync(~0u, v & 7);
    r += __reduce_add_sync(~0u, v) + __reduce_max_sync(~0u, v) * 5 + __reduce_xor_sync(~0u, (unsigned)v);
    if (v & 2) r += __popc(__activemask()) > 0;
    out[i] = r + (unsigned)__shfl_up_sync(~0u, v, 3) * 11 + (unsigned)__shfl_sync(~0u, v, v & 31, 16);
}
