"""CUDA C++ micro-benchmarks of races, each with a defect behind ``#ifdef RACY``.

The PTX beside this file was compiled from them with NVRTC (``--gpu-architecture=compute_90``, with and without
``-DRACY``); the tests read the PTX and need no compiler. ``python -m corpus.cuda.compile LIBNVRTC`` writes it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Cuda:
    """One source.

    Attributes:
        name: of the kernel and its files.
        why: what the defect is, and why it is a race (PTX ISA 8.7).
        source: CUDA C++.
        arrays: parameters as in :class:`corpus.model.Case`.
        grid, block: of the launch.
        where: name of the array or variable that the message must say, "" for any.
        gives: contents after a correct run.
        scalars: 32-bit parameters behind the arrays.
        racy: whether it has a defect.
    """

    name: str
    why: str
    source: str
    arrays: str
    grid: int | tuple[int, ...] = 2
    block: int | tuple[int, ...] = 64
    where: str = ""
    gives: dict[str, Callable[[Any], Any]] = attrs.Factory(dict)
    scalars: str = ""
    racy: bool = True


def _steps(number: int) -> int:
    if number % 3 == 0:
        return -1
    steps = 0
    while number != 1 and steps < 40:
        number, steps = (3 * number + 1 if number % 2 else number // 2), steps + 1
    return steps


SOURCES = [
    Cuda(
        name="message_by_volatile_flag",
        why="no __threadfence between data and flag",
        source="""
extern "C" __global__ void message_by_volatile_flag(int *data, volatile int *flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        data[0] = 42;
#ifndef RACY
        __threadfence();
#endif
        *flag = 1;
    } else {
        while (*flag == 0) {}
        __threadfence();
        data[1] = data[0];
    }
}""",
        arrays="data:2 Zflag:1",
        where="data",
        gives={"data": lambda i: [42, 42]},
    ),
    Cuda(
        name="message_by_device_variables",
        why="__threadfence_block() between blocks",
        source="""
__device__ int value;
__device__ volatile int ready;
extern "C" __global__ void message_by_device_variables(int *out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        value = 7;
#ifdef RACY
        __threadfence_block();
#else
        __threadfence();
#endif
        ready = 1;
    } else {
        while (!ready) {}
        __threadfence();
        out[0] = value;
    }
}""",
        arrays="out:1",
        where="value",
        gives={"out": lambda i: 7},
    ),
    Cuda(
        name="spin_lock",
        why="the lock is freed without a fence",
        source="""
extern "C" __global__ void spin_lock(int *count, int *lock) {
    if (threadIdx.x % 32) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *count += 1;
#ifndef RACY
    __threadfence();
#endif
    atomicExch(lock, 0);
}""",
        arrays="count:1 Zlock:1",
        grid=3,
        where="count",
        gives={"count": lambda i: 7},
    ),
    Cuda(
        name="lock_of_block_scope",
        why="atomicCAS_block and atomicExch_block do not exclude another block",
        source="""
extern "C" __global__ void lock_of_block_scope(int *count, int *lock) {
    if (threadIdx.x) return;
#ifdef RACY
    while (atomicCAS_block(lock, 0, 1) != 0) {}
#else
    while (atomicCAS(lock, 0, 1) != 0) {}
#endif
    __threadfence();
    *count += 1;
    __threadfence();
    atomicExch(lock, 0);
}""",
        arrays="count:1 Zlock:1",
        gives={"count": lambda i: 3},
    ),
    Cuda(
        name="ticket_lock",
        why="no fence after one's turn has come",
        source="""
extern "C" __global__ void ticket_lock(int *count, int *tickets, volatile int *serving) {
    if (threadIdx.x) return;
    int mine = atomicAdd(tickets, 1);
    while (*serving != mine) {}
#ifndef RACY
    __threadfence();
#endif
    *count += 1;
    __threadfence();
    *serving = mine + 1;
}""",
        arrays="count:1 Ztickets:1 Zserving:1",
        grid=4,
        where="count",
        gives={"count": lambda i: 5},
    ),
    Cuda(
        name="last_block_sums",
        why="the results of a block are not fenced before it is counted",
        source="""
__device__ unsigned int done = 0;
extern "C" __global__ void last_block_sums(const int *in, int *partial, int *total) {
    __shared__ int sums[64];
    __shared__ bool last;
    sums[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int step = 32; step; step /= 2) {
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sums[0];
#ifndef RACY
        __threadfence();
#endif
        last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        int sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += partial[i];
        *total = sum;
    }
}""",
        arrays="in:192 partial:3 total:1",
        grid=3,
        where="partial",
        gives={"total": lambda i: 192 * 193 // 2},
    ),
    Cuda(
        name="block_reduction",
        why="a __syncthreads is missing in the tree",
        source="""
extern "C" __global__ void block_reduction(const int *in, int *out) {
    __shared__ int sums[128];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    for (int step = 64; step; step >>= 1) {
        if (t < step) sums[t] += sums[t + step];
#ifndef RACY
        __syncthreads();
#endif
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}""",
        arrays="in:256 out:2",
        block=128,
        where="sums",
        gives={"out": lambda i: [128 * 129 // 2, 128 * 129 // 2 + 128 * 128]},
    ),
    Cuda(
        name="warp_reduction",
        why="no __syncwarp between the steps of a warp",
        source="""
extern "C" __global__ void warp_reduction(const int *in, int *out) {
    __shared__ int sums[64];
    int t = threadIdx.x;
    sums[t] = in[t];
    __syncwarp();
    int base = t & ~31, lane = t & 31;
    for (int step = 16; step; step >>= 1) {
        int other = lane < step ? sums[t + step] : 0;
#ifndef RACY
        __syncwarp();
#endif
        sums[t] += other;
#ifndef RACY
        __syncwarp();
#endif
    }
    if (lane == 0) out[t / 32] = sums[base];
}""",
        arrays="in:64 out:2",
        grid=1,
        where="sums",
        gives={"out": lambda i: [528, 528 + 1024]},
    ),
    Cuda(
        name="matrix_product",
        why="the tile is refilled while slower threads still read it",
        source="""
extern "C" __global__ void matrix_product(const int *a, const int *b, int *c) {
    __shared__ int as[8][8], bs[8][8];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 8 + x, row = blockIdx.y * 8 + y, sum = 0;
    for (int tile = 0; tile < 2; ++tile) {
        as[y][x] = a[row * 16 + tile * 8 + x];
        bs[y][x] = b[(tile * 8 + y) * 16 + column];
        __syncthreads();
        for (int k = 0; k < 8; ++k) sum += as[y][k] * bs[k][x];
#ifndef RACY
        __syncthreads();
#endif
    }
    c[row * 16 + column] = sum;
}""",
        arrays="a:256=2 b:256=3 c:256",
        grid=(2, 2),
        block=(8, 8),
        gives={"c": lambda i: 96},
    ),
    Cuda(
        name="transpose",
        why="no __syncthreads between the tile's filling and its use",
        source="""
extern "C" __global__ void transpose(const int *in, int *out) {
    __shared__ int tile[32][33];
    int x = threadIdx.x, y = threadIdx.y;
    for (int k = 0; k < 32; k += 8) tile[y + k][x] = in[(y + k) * 32 + x];
#ifndef RACY
    __syncthreads();
#endif
    for (int k = 0; k < 32; k += 8) out[(y + k) * 32 + x] = tile[x][y + k];
}""",
        arrays="in:1024 out:1024",
        grid=1,
        block=(32, 8),
        where="tile",
        gives={"out": lambda i: i % 32 * 32 + i // 32 + 1},
    ),
    Cuda(
        name="stencil",
        why="the halo of the neighbouring warp is read without __syncthreads",
        source="""
extern "C" __global__ void stencil(const int *in, int *out) {
    __shared__ int line[66];
    int t = threadIdx.x;
    line[t + 1] = in[t];
    if (t == 0) line[0] = 0;
    if (t == 63) line[65] = 0;
#ifndef RACY
    __syncthreads();
#endif
    out[t] = line[t] + line[t + 1] + line[t + 2];
}""",
        arrays="in:64=1 out:64",
        grid=1,
        where="line",
        gives={"out": lambda i: [2, *[3] * 62, 2]},
    ),
    Cuda(
        name="histogram",
        why="the bins are merged before all threads have counted",
        source="""
extern "C" __global__ void histogram(const int *in, int *bins) {
    __shared__ int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&mine[in[blockIdx.x * 64 + threadIdx.x] & 15], 1);
#ifndef RACY
    __syncthreads();
#endif
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}""",
        arrays="in:128 Zbins:16",
        where="mine",
        gives={"Zbins": lambda i: 8},
    ),
    Cuda(
        name="global_counter",
        why="count += 1 without an atomic",
        source="""
extern "C" __global__ void global_counter(int *count) {
#ifdef RACY
    *count += 1;
#else
    atomicAdd(count, 1);
#endif
}""",
        arrays="Zcount:1",
        where="Zcount",
        gives={"Zcount": lambda i: 128},
    ),
    Cuda(
        name="counter_of_block_scope",
        why="atomicAdd_block by two blocks",
        source="""
extern "C" __global__ void counter_of_block_scope(int *count, int *mine) {
#ifdef RACY
    atomicAdd_block(count, 1);
#else
    atomicAdd(count, 1);
#endif
    atomicAdd_block(&mine[blockIdx.x], 1);
}""",
        arrays="Zcount:1 Zmine:2",
        where="Zcount",
        gives={"Zcount": lambda i: 128, "Zmine": lambda i: 64},
    ),
    Cuda(
        name="grid_barrier",
        why="the threads of a block are not together when thread 0 counts it",
        source="""
extern "C" __global__ void grid_barrier(int *data, int *out, volatile int *count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    data[i] = i;
#ifndef RACY
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd((int *)count, 1);
        while (*count < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
    out[i] = data[n - 1 - i];
}""",
        arrays="data:192 out:192 Zcount:1",
        grid=3,
        where="data",
        gives={"out": lambda i: 191 - i},
    ),
    Cuda(
        name="work_queue",
        why="items are drawn with block scope",
        source="""
extern "C" __global__ void work_queue(int *next, int *items) {
    if (threadIdx.x) return;
    for (;;) {
#ifdef RACY
        int i = atomicAdd_block(next, 1);
#else
        int i = atomicAdd(next, 1);
#endif
        if (i >= 10) return;
        items[i] = items[i] * 2;
    }
}""",
        arrays="Znext:1 items:10",
        gives={"items": lambda i: 2 * i + 2},
    ),
    Cuda(
        name="producer_and_consumer_warps",
        why="no __threadfence_block between a shared datum and its flag",
        source="""
extern "C" __global__ void producer_and_consumer_warps(const int *in, int *out) {
    __shared__ int slot;
    __shared__ volatile int full;
    if (threadIdx.x == 0) full = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        slot = in[0];
#ifndef RACY
        __threadfence_block();
#endif
        full = 1;
    }
    if (threadIdx.x == 32) {
        while (full == 0) {}
        __threadfence_block();
        out[0] = slot;
    }
}""",
        arrays="in:1=9 out:1",
        grid=1,
        gives={"out": lambda i: 9},
    ),
    Cuda(
        name="release_and_acquire",
        why="a relaxed store publishes nothing",
        source="""
extern "C" __global__ void release_and_acquire(int *data, int *flag) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        data[0] = 5;
#ifdef RACY
        __nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
#else
        __nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
#endif
    } else {
        while (__nv_atomic_load_n(flag, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) == 0) {}
        data[1] = data[0];
    }
}""",
        arrays="data:2 Zflag:1",
        where="data",
        gives={"data": lambda i: [5, 5]},
    ),
    Cuda(
        name="acquire_of_block_scope",
        why="an acquire of block scope of what another block released",
        source="""
#ifdef RACY
#define SCOPE __NV_THREAD_SCOPE_BLOCK
#else
#define SCOPE __NV_THREAD_SCOPE_DEVICE
#endif
extern "C" __global__ void acquire_of_block_scope(int *data, int *flag) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        data[0] = 5;
        __nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    } else {
        while (__nv_atomic_load_n(flag, __NV_ATOMIC_ACQUIRE, SCOPE) == 0) {}
        data[1] = data[0];
    }
}""",
        arrays="data:2 Zflag:1",
        gives={"data": lambda i: [5, 5]},
    ),
    Cuda(
        name="stream_k",
        why="the owner's threads do not wait for the one that polls",
        source="""
extern "C" __global__ void stream_k(int *tile, int *partial, int *semaphore) {
    int t = threadIdx.x;
    if (blockIdx.x == 1) {
        partial[t] = t;
        __syncthreads();
        if (t == 0) __nv_atomic_store_n(semaphore, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    } else {
        if (t == 0) while (__nv_atomic_load_n(semaphore, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) != 1) {}
#ifndef RACY
        __syncthreads();
#endif
        tile[t] += partial[t];
    }
}""",
        arrays="tile:64 partial:64 Zsemaphore:1",
        where="partial",
        gives={"tile": lambda i: 2 * i + 1},
    ),
    Cuda(
        name="scan",
        why="Hillis-Steele in one buffer without the barrier between read and write",
        source="""
extern "C" __global__ void scan(const int *in, int *out) {
    __shared__ int line[64];
    int t = threadIdx.x;
    line[t] = in[t];
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        int left = t >= step ? line[t - step] : 0;
#ifndef RACY
        __syncthreads();
#endif
        line[t] += left;
        __syncthreads();
    }
    out[t] = line[t];
}""",
        arrays="in:64 out:64",
        grid=1,
        where="line",
        gives={"out": lambda i: (i + 1) * (i + 2) // 2},
    ),
    Cuda(
        name="neighbours_between_blocks",
        why="a block reads what its neighbour writes in the same launch",
        source="""
extern "C" __global__ void neighbours_between_blocks(int *a, int *b) {
    int i = blockIdx.x * 64 + threadIdx.x;
    a[i] = i;
    __syncthreads();
#ifdef RACY
    b[i] = i < 127 ? a[i + 1] : 0;
#else
    b[i] = threadIdx.x < 63 ? a[i + 1] : 0;
#endif
}""",
        arrays="a:128 b:128",
        where="a",
        gives={"b": lambda i: [k + 1 if k % 64 < 63 else 0 for k in range(128)]},
    ),
    Cuda(
        name="flag_in_a_64_bit_word",
        why="a value beside its flag instead of in one word with it",
        source="""
extern "C" __global__ void flag_in_a_64_bit_word(unsigned long long *words, int *side, int *out) {
    if (threadIdx.x) return;
    volatile unsigned long long *mine = words + blockIdx.x;
    int sum = 0;
    if (blockIdx.x) {
        unsigned long long seen;
        while ((seen = *(mine - 1)) == 0) {}
        sum = (int)seen;
    }
    sum += 3;
#ifdef RACY
    side[0] = sum;
#endif
    *mine = (1ull << 32) | (unsigned)sum;
    out[blockIdx.x] = sum;
}""",
        arrays="Zwords:3xu64 side:1 out:3",
        grid=3,
        where="side",
        gives={"out": lambda i: 3 * i + 3},
    ),
    Cuda(
        name="float_sum_by_compare_and_swap",
        why="",
        racy=False,
        source="""
extern "C" __global__ void float_sum_by_compare_and_swap(double *sum) {
    if (threadIdx.x % 16) return;
    unsigned long long *word = (unsigned long long *)sum, old = *(volatile unsigned long long *)word, seen;
    do {
        seen = old;
        old = atomicCAS(word, seen, __double_as_longlong(__longlong_as_double(seen) + 1.0));
    } while (old != seen);
}""",
        arrays="Zsum:1xu64",
        gives={"Zsum": lambda i: 0x4020000000000000},
    ),
    Cuda(
        name="barrier_votes",
        why="",
        racy=False,
        source="""
extern "C" __global__ void barrier_votes(const int *in, int *out) {
    int odd = __syncthreads_count(in[threadIdx.x] & 1);
    int any = __syncthreads_or(in[threadIdx.x] == 64), all = __syncthreads_and(in[threadIdx.x] > 0);
    out[threadIdx.x] = odd + 100 * (any != 0) + 1000 * (all != 0);
}""",
        arrays="in:64 out:64",
        grid=1,
        gives={"out": lambda i: 1132},
    ),
    Cuda(
        name="local_array",
        why="",
        racy=False,
        source="""
extern "C" __global__ void local_array(const int *in, int *out) {
    int stack[16];
    for (int i = 0; i < 16; ++i) stack[i] = i * i;
    int at = in[threadIdx.x] & 15;
    stack[at] += 1;
    out[threadIdx.x] = stack[at] + stack[(at + 1) & 15];
}""",
        arrays="in:64 out:64",
        grid=1,
        gives={"out": lambda i: [((k + 1) % 16) ** 2 + 1 + ((k + 2) % 16) ** 2 for k in range(64)]},
    ),
    Cuda(
        name="constant_polynomial",
        why="",
        racy=False,
        source="""
__constant__ int factors[4] = {7, 5, 3, 2};
extern "C" __global__ void constant_polynomial(const int *in, int *out, int n) {
    int i = threadIdx.x, x = in[i], sum = 0;
    for (int k = 0; k < n; ++k) sum = sum * x + factors[k];
    out[i] = sum;
}""",
        arrays="in:64 out:64",
        scalars="n=4",
        grid=1,
        gives={"out": lambda i: ((7 * (i + 1) + 5) * (i + 1) + 3) * (i + 1) + 2},
    ),
    Cuda(
        name="generic_pointers",
        why="",
        racy=False,
        source="""
extern "C" __global__ void generic_pointers(int *global, int *out) {
    __shared__ int shared[64];
    int t = threadIdx.x;
    shared[t] = 100 + t;
    __syncthreads();
    int *chosen = t & 1 ? global : shared;
    out[t] = chosen[63 - t];
}""",
        arrays="global:64 out:64",
        grid=1,
        gives={"out": lambda i: [64 - k if k & 1 else 163 - k for k in range(64)]},
    ),
    Cuda(
        name="lock_of_every_thread",
        why="",
        racy=False,
        source="""
extern "C" __global__ void lock_of_every_thread(int *count, int *lock) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int *)count = *(volatile int *)count + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}""",
        arrays="count:1 Zlock:1",
        block=8,
        gives={"count": lambda i: 17},
    ),
    Cuda(
        name="early_return_and_loop",
        why="",
        racy=False,
        source="""
extern "C" __global__ void early_return_and_loop(const int *in, int *out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (in[i] % 3 == 0) { out[i] = -1; continue; }
        int x = in[i], steps = 0;
        while (x != 1 && steps < 40) { x = x & 1 ? 3 * x + 1 : x / 2; ++steps; }
        out[i] = steps;
    }
}""",
        arrays="in:150 out:150",
        scalars="n=150",
        gives={"out": lambda i: [_steps(k + 1) % 2**32 for k in range(150)]},
    ),
]
