extern "C" __global__ void async_copy(const float4 *in, float4 *out) {
    __shared__ float4 stage[2][64];
    int t = threadIdx.x, first = blockIdx.x * 256;
    auto load = [&](int part) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&stage[part & 1][t]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n cp.async.commit_group;" :: "r"(to), "l"(in + first + part * 64 + t) : "memory");
    };
    load(0);
    for (int part = 0; part < 4; ++part) {
        if (part < 3) { load(part + 1); asm volatile("cp.async.wait_group 1;" ::: "memory"); }
        else asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        out[first + part * 64 + (63 - t)] = stage[part & 1][t];
        __syncthreads();
    }
}
