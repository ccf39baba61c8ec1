/*
 * Parallel sum: dynamic shared memory, the last warp without block barriers, and the last block
 * (an atomic ticket) adds the partial sums.
 */
#include <cassert>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <vector>

inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
   if (code != cudaSuccess)
   {
      fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }

__device__ unsigned int retirementCount = 0;

template <unsigned int blockSize>
__device__ int blockSum(int *sdata, int mySum)
{
   unsigned int tid = threadIdx.x;
   sdata[tid] = mySum;
   __syncthreads();
   for (unsigned int s = blockSize / 2; s >= 32; s >>= 1)
   {
      if (tid < s) sdata[tid] += sdata[tid + s];
      __syncthreads();
   }
   if (tid < 16)
   {
      for (unsigned int s = 16; s > 0; s >>= 1)
      {
         int other = tid < s ? sdata[tid + s] : 0;
         __syncwarp(0xffff);  // read
         if (tid < s) sdata[tid] += other;
         __syncwarp(0xffff);  // written
      }
   }
   __syncthreads();
   return sdata[0];
}

template <unsigned int blockSize>
__global__ void reduceSinglePass(const int *g_idata, int *g_odata, unsigned int n)
{
   extern __shared__ int sdata[];
   __shared__ bool amLast;

   int mySum = 0;
   for (unsigned int i = blockIdx.x * blockSize + threadIdx.x; i < n; i += blockSize * gridDim.x)
      mySum += g_idata[i];
   mySum = blockSum<blockSize>(sdata, mySum);

   if (threadIdx.x == 0)
   {
      g_odata[blockIdx.x] = mySum;
      __threadfence();
      unsigned int ticket = atomicInc(&retirementCount, gridDim.x);
      amLast = (ticket == gridDim.x - 1);
      __threadfence();
   }
   __syncthreads();
   if (amLast)
   {
      int sum = threadIdx.x < gridDim.x ? ((volatile int *)g_odata)[threadIdx.x] : 0;
      sum = blockSum<blockSize>(sdata, sum);
      if (threadIdx.x == 0)
      {
         g_odata[0] = sum;
         retirementCount = 0;
      }
   }
}

int main()
{
   const unsigned int n = 1 << 16;
   std::vector<int> h(n);
   std::iota(h.begin(), h.end(), -1000);
   int *d_in, *d_out, result;
   gpuErrchk(cudaMalloc(&d_in, n * sizeof(int)));
   gpuErrchk(cudaMalloc(&d_out, 64 * sizeof(int)));
   gpuErrchk(cudaMemcpy(d_in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice));
   auto t0 = std::chrono::high_resolution_clock::now();
   reduceSinglePass<128><<<64, 128, 128 * sizeof(int)>>>(d_in, d_out, n);
   gpuErrchk(cudaPeekAtLastError());
   gpuErrchk(cudaMemcpy(&result, d_out, sizeof(int), cudaMemcpyDeviceToHost));
   auto t1 = std::chrono::high_resolution_clock::now();
   std::cout << std::chrono::duration<double, std::milli>(t1 - t0).count() << " ms" << std::endl;
   assert(result == std::accumulate(h.begin(), h.end(), 0));
   return 0;
}
