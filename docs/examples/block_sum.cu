// Each block of 256 threads sums 256 numbers. The loop lacks a barrier, so its result depends on how the warps run.
__global__ void block_sum(const float* x, float* y) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
