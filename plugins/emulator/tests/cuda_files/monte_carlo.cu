/* Estimation of pi; every thread has its own PCG stream. */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <iostream>

struct pcg32 {
  unsigned long long state, inc;

  __host__ __device__ pcg32(unsigned long long seed, unsigned long long seq) : state(0), inc((seq << 1u) | 1u) {
    next();
    state += seed;
    next();
  }
  __host__ __device__ unsigned int next() {
    unsigned long long old = state;
    state = old * 6364136223846793005ULL + inc;
    unsigned int xorshifted = ((old >> 18u) ^ old) >> 27u;
    unsigned int rot = old >> 59u;
    return (xorshifted >> rot) | (xorshifted << ((~rot + 1u) & 31u));
  }
  __host__ __device__ float uniform() { return next() * 0x1p-32f; }
};

__global__ void estimate_pi(unsigned long long seed, int samples, unsigned long long *hits) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  pcg32 rng(seed, id);
  unsigned long long inside = 0;
  for (int s = 0; s < samples; s++) {
    float x = rng.uniform(), y = rng.uniform();
    if (x * x + y * y < 1.0f) inside++;
  }
  atomicAdd(hits, inside);
  if (id == 0) printf("first thread: %llu of %d\n", inside, samples);
}

using std::cout;
using std::endl;

int main(int argc, char *argv[]) {
  const int blocks = 64, threads = 128, samples = 1000;
  unsigned long long *hits, seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1234ULL;
  if (cudaMallocManaged(&hits, sizeof *hits) != cudaSuccess) {
    std::cerr << "out of memory" << endl;
    return EXIT_FAILURE;
  }
  *hits = 0;
  estimate_pi<<<blocks, threads>>>(seed, samples, hits);
  cudaDeviceSynchronize();
  double pi = 4.0 * *hits / (double(blocks) * threads * samples);
  cout << "pi is about " << pi << endl;
  cudaFree(hits);
  return std::fabs(pi - M_PI) < 0.01 ? EXIT_SUCCESS : EXIT_FAILURE;
}
