extern "C" __global__ void many_atomics(int *words, unsigned long long *wide, float *sum) {
    __shared__ int s[4];
    int t = threadIdx.x;
    if (t < 4) s[t] = t == 2 ? 0x7fffffff : 0;
    __syncthreads();
    atomicAdd(&s[0], t); atomicMax(&s[1], t * 3); atomicMin(&s[2], -t); atomicXor(&s[3], 1 << (t & 31));
    __syncthreads();
    if (t < 4) atomicAdd(&words[t], s[t]);
    atomicAnd(&words[4], ~(1 << (t & 7))); atomicOr(&words[5], 1 << (t & 15)); atomicDec((unsigned *)&words[6], 100u);
    atomicAdd(wide, (unsigned long long)t << 20); atomicMax(wide + 1, (unsigned long long)t * t);
    atomicAdd(sum, 1.0f); atomicAdd_block(&words[7], 2); atomicAdd_system(&words[8], 1);
}
