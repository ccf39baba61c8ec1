#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <map>

constexpr int NUM_BINS = 26;
constexpr int THREADS = 96;

// Letters of a text, counted in shared memory by each block and then added up.
__global__ void count_letters(const char *text, size_t length, unsigned int *histogram)
{
  __shared__ unsigned int local[NUM_BINS];
  if (threadIdx.x < NUM_BINS) local[threadIdx.x] = 0u;
  __syncthreads();

  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += size_t(gridDim.x) * blockDim.x) {
    char c = text[i] | 0x20;
    if (c >= 'a' && c <= 'z') atomicAdd(&local[c - 'a'], 1u);
  }
  __syncthreads();

  if (threadIdx.x < NUM_BINS && local[threadIdx.x] != 0)
    atomicAdd(&histogram[threadIdx.x], local[threadIdx.x]);
}

int main()
{
  const std::string text = "The quick brown fox jumps over the lazy dog, \"twice\" { and } again.";
  std::map<char, unsigned int> expected;
  for (char c : text)
    if (isalpha(c)) expected[tolower(c)]++;

  char *d_text;
  unsigned int *d_hist, hist[NUM_BINS];
  cudaMalloc(&d_text, text.size());
  cudaMalloc(&d_hist, sizeof(hist));
  cudaMemcpy(d_text, text.c_str(), text.size(), cudaMemcpyHostToDevice);
  cudaMemset(d_hist, 0, sizeof(hist));
  count_letters<<<2, THREADS>>>(d_text, text.size(), d_hist);
  cudaMemcpy(hist, d_hist, sizeof(hist), cudaMemcpyDeviceToHost);

  int errors = 0;
  for (int b = 0; b < NUM_BINS; ++b) {
    printf("%c: %u\n", 'a' + b, hist[b]);
    errors += hist[b] != expected['a' + b];
  }
  return errors;
}
