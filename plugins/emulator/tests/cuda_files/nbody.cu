#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_SIZE 64
#define SOFTENING 1e-3f

typedef struct { float4 *pos, *vel; } BodySystem;

void randomizeBodies(float *data, int n) {
  for (int i = 0; i < n; i++) {
    data[i] = 2.0f * (rand() / (float)RAND_MAX) - 1.0f;
  }
}

__device__ float3 bodyBodyInteraction(float4 bi, float4 bj, float3 ai) {
  float3 r;
  r.x = bj.x - bi.x;
  r.y = bj.y - bi.y;
  r.z = bj.z - bi.z;
  float distSqr = r.x * r.x + r.y * r.y + r.z * r.z + SOFTENING;
  float invDist = rsqrtf(distSqr);
  float s = bj.w * invDist * invDist * invDist;
  ai.x += r.x * s;
  ai.y += r.y * s;
  ai.z += r.z * s;
  return ai;
}

__global__
void bodyForce(float4 *p, float4 *v, float dt, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  float4 mine = i < n ? p[i] : make_float4(0, 0, 0, 0);
  float3 acc = {0.0f, 0.0f, 0.0f};
  for (int tile = 0; tile < gridDim.x; tile++) {
    __shared__ float4 spos[BLOCK_SIZE];
    int j = tile * blockDim.x + threadIdx.x;
    spos[threadIdx.x] = j < n ? p[j] : make_float4(0, 0, 0, 0);
    __syncthreads();
    #pragma unroll 8
    for (int k = 0; k < BLOCK_SIZE; k++)
      acc = bodyBodyInteraction(mine, spos[k], acc);
    __syncthreads();
  }
  if (i < n) {
    v[i].x += dt * acc.x;
    v[i].y += dt * acc.y;
    v[i].z += dt * acc.z;
  }
}

int main(const int argc, const char** argv) {
  int nBodies = 3000;
  if (argc > 1) nBodies = atoi(argv[1]);
  const float dt = 0.01f; // time step
  const int nIters = 10;

  int bytes = 2 * nBodies * sizeof(float4);
  float *buf = (float*)malloc(bytes);
  BodySystem p = { (float4*)buf, ((float4*)buf) + nBodies };
  randomizeBodies(buf, 8 * nBodies); // Init pos / vel data

  float *d_buf;
  cudaMalloc(&d_buf, bytes);
  BodySystem d_p = { (float4*)d_buf, ((float4*)d_buf) + nBodies };
  int nBlocks = (nBodies + BLOCK_SIZE - 1) / BLOCK_SIZE;
  for (int iter = 1; iter <= nIters; iter++) {
    cudaMemcpy(d_buf, buf, bytes, cudaMemcpyHostToDevice);
    bodyForce<<<nBlocks, BLOCK_SIZE>>>(d_p.pos, d_p.vel, dt, nBodies);
    cudaMemcpy(buf, d_buf, bytes, cudaMemcpyDeviceToHost);
    for (int i = 0 ; i < nBodies; i++) { // integrate position
      p.pos[i].x += p.vel[i].x*dt;
      p.pos[i].y += p.vel[i].y*dt;
      p.pos[i].z += p.vel[i].z*dt;
    }
  }
  printf("%d bodies, body 0 at %f %f %f\n", nBodies, p.pos[0].x, p.pos[0].y, p.pos[0].z);
  free(buf);
  cudaFree(d_buf);
}
