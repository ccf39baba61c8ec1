#include <cstdio>
#include <ctime>
#include <random>
#include <set>
#include <vector>

typedef unsigned int uint;

__device__ inline void Comparator(uint &keyA, uint &valA, uint &keyB, uint &valB, uint arrowDir) {
    uint t;
    if ((keyA > keyB) == arrowDir) {
        t = keyA;
        keyA = keyB;
        keyB = t;
        t = valA;
        valA = valB;
        valB = t;
    }
}

// Sorts SIZE pairs in the shared memory of one block of SIZE / 2 threads.
template <uint SIZE>
__global__ void bitonicSortShared(uint *keys, uint *values, uint dir) {
    __shared__ uint s_key[SIZE];
    __shared__ uint s_val[SIZE];

    s_key[threadIdx.x] = keys[threadIdx.x];
    s_val[threadIdx.x] = values[threadIdx.x];
    s_key[threadIdx.x + SIZE / 2] = keys[threadIdx.x + SIZE / 2];
    s_val[threadIdx.x + SIZE / 2] = values[threadIdx.x + SIZE / 2];

    for (uint size = 2; size < SIZE; size <<= 1) {
        uint ddd = dir ^ ((threadIdx.x & (size / 2)) != 0);
        for (uint stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            Comparator(s_key[pos], s_val[pos], s_key[pos + stride], s_val[pos + stride], ddd);
        }
    }
    for (uint stride = SIZE / 2; stride > 0; stride >>= 1) {
        __syncthreads();  // of the last merge
        uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
        Comparator(s_key[pos], s_val[pos], s_key[pos + stride], s_val[pos + stride], dir);
    }

    __syncthreads();
    keys[threadIdx.x] = s_key[threadIdx.x];
    values[threadIdx.x] = s_val[threadIdx.x];
    keys[threadIdx.x + SIZE / 2] = s_key[threadIdx.x + SIZE / 2];
    values[threadIdx.x + SIZE / 2] = s_val[threadIdx.x + SIZE / 2];
}

int main() {
    constexpr uint SIZE = 128;
    std::mt19937 rng(time(NULL));
    std::vector<uint> keys(SIZE), values(SIZE), sorted(SIZE);
    for (uint i = 0; i < SIZE; i++) { keys[i] = rng() % 1000; values[i] = i; }
    uint *d_keys, *d_values;
    cudaMalloc((void **)&d_keys, SIZE * sizeof(uint));
    cudaMalloc((void **)&d_values, SIZE * sizeof(uint));
    cudaMemcpy(d_keys, keys.data(), SIZE * sizeof(uint), cudaMemcpyHostToDevice);
    cudaMemcpy(d_values, values.data(), SIZE * sizeof(uint), cudaMemcpyHostToDevice);
    bitonicSortShared<SIZE><<<1, SIZE / 2>>>(d_keys, d_values, 1);
    cudaMemcpy(sorted.data(), d_keys, SIZE * sizeof(uint), cudaMemcpyDeviceToHost);
    cudaMemcpy(values.data(), d_values, SIZE * sizeof(uint), cudaMemcpyDeviceToHost);
    std::set<uint> seen(values.begin(), values.end());
    for (uint i = 0; i < SIZE; i++) {
        if ((i > 0 && sorted[i - 1] > sorted[i]) || keys[values[i]] != sorted[i]) return 1;
    }
    return seen.size() == SIZE ? 0 : 1;
}
