// A hash table with one lock per bucket, from the first thread of each warp.
#include <atomic>
#include <cassert>
#include <mutex>
#include <stdio.h>
#include <thread>
#include <unordered_map>

#define HANDLE_ERROR(err) (HandleError(err, __FILE__, __LINE__))
static void HandleError(cudaError_t err, const char *file, int line) {
    if (err != cudaSuccess) {
        printf("%s in %s at line %d\n", cudaGetErrorString(err), file, line);
        exit(EXIT_FAILURE);
    }
}

struct Lock {
    int *mutex;
    __device__ void lock() {
        while (atomicCAS(mutex, 0, 1) != 0)
            ;
        __threadfence();
    }
    __device__ void unlock() {
        __threadfence();
        atomicExch(mutex, 0);
    }
};

struct Entry {
    unsigned int key;
    int value;
    int next;  // of the chain, or -1
};

struct Table {
    int *heads;
    Entry *pool;
    int *mutexes;
    int buckets;
};

__device__ __host__ inline size_t hash_of(unsigned int key, size_t count) { return (key * 2654435761u) % count; }

__global__ void add_to_table(const unsigned int *keys, const int *values, int n, Table table) {
    int stride = blockDim.x * gridDim.x;
    for (int tid = threadIdx.x + blockIdx.x * blockDim.x; tid < n; tid += stride) {
        unsigned int key = keys[tid];
        size_t bucket = hash_of(key, table.buckets);
        for (int i = 0; i < 32; i++) {
            if (tid % 32 == i) {  // one lane after another, so that no lane waits for one of its own warp
                Entry *entry = &table.pool[tid];
                entry->key = key;
                entry->value = values[tid];
                Lock lock{&table.mutexes[bucket]};
                lock.lock();
                entry->next = table.heads[bucket];
                table.heads[bucket] = tid;
                lock.unlock();
            }
        }
    }
}

int main() {
    const int n = 4096, buckets = 64;
    unsigned int *keys;
    int *values;
    Table table;
    table.buckets = buckets;
    HANDLE_ERROR(cudaMallocManaged(&keys, n * sizeof(*keys)));
    HANDLE_ERROR(cudaMallocManaged(&values, n * sizeof(*values)));
    HANDLE_ERROR(cudaMallocManaged(&table.heads, buckets * sizeof(int)));
    HANDLE_ERROR(cudaMallocManaged(&table.pool, n * sizeof(Entry)));
    HANDLE_ERROR(cudaMallocManaged(&table.mutexes, buckets * sizeof(int)));
    for (int i = 0; i < buckets; i++) table.heads[i] = -1, table.mutexes[i] = 0;
    for (int i = 0; i < n; i++) keys[i] = rand(), values[i] = i;
    add_to_table<<<16, 64>>>(keys, values, n, table);
    HANDLE_ERROR(cudaDeviceSynchronize());
    int count = 0;
    for (int b = 0; b < buckets; b++)
        for (int at = table.heads[b]; at >= 0; at = table.pool[at].next, count++)
            assert(hash_of(table.pool[at].key, buckets) == (size_t)b);
    printf("%d of %d entries\n", count, n);
    return count != n;
}
