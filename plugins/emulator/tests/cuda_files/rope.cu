/* Rotary position embedding. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <float.h>

#define THETA 10000.0f
#define BLOCK_SIZE 64

__global__ void rope_f32_kernel(float *x, float *out, int seq_len, int N)
{
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= seq_len * N)
    return;
  float x1 = x[idx * 2];
  float x2 = x[idx * 2 + 1];
  int token_pos = idx / N;
  int token_idx = idx % N;
  float exp_v = 1.0f / powf(THETA, 2 * token_idx / (N * 2.0f));
  float sin_v, cos_v;
  sincosf(token_pos * exp_v, &sin_v, &cos_v);
  out[idx * 2] = x1 * cos_v - x2 * sin_v;
  out[idx * 2 + 1] = x1 * sin_v + x2 * cos_v;
}

void rope_cpu(const float *x, float *out, int seq_len, int N)
{
  for (int p = 0; p < seq_len; p++)
    for (int i = 0; i < N; i++) {
      double angle = p * pow(THETA, -(double)i / N);
      const float *v = x + 2 * (p * N + i);
      out[2 * (p * N + i)] = v[0] * cos(angle) - v[1] * sin(angle);
      out[2 * (p * N + i) + 1] = v[0] * sin(angle) + v[1] * cos(angle);
    }
}

int main(void)
{
  int seq_len = 32, N = 16, count = seq_len * N * 2;
  float *h = (float *)malloc(count * sizeof(float)), *r = (float *)malloc(count * sizeof(float));
  float *want = (float *)malloc(count * sizeof(float));
  float *dx, *dout;
  for (int i = 0; i < count; i++) h[i] = (float)rand() / RAND_MAX;
  cudaMalloc((void **)&dx, count * sizeof(float));
  cudaMalloc((void **)&dout, count * sizeof(float));
  cudaMemcpy(dx, h, count * sizeof(float), cudaMemcpyHostToDevice);
  rope_f32_kernel<<<(seq_len * N + BLOCK_SIZE - 1) / BLOCK_SIZE, BLOCK_SIZE>>>(dx, dout, seq_len, N);
  cudaMemcpy(r, dout, count * sizeof(float), cudaMemcpyDeviceToHost);
  rope_cpu(h, want, seq_len, N);
  for (int i = 0; i < count; i++)
    if (fabsf(r[i] - want[i]) > 64 * FLT_EPSILON) { fprintf(stderr, "%d: %f %f\n", i, r[i], want[i]); return 1; }
  free(h); free(r); free(want);
  return 0;
}
