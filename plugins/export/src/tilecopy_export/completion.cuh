#pragma once
#ifndef TILECOPY_STEPS
#define TILECOPY_STEPS

#if !defined(__CUDACC_RTC__)
#include <stdint.h>
#include <stdio.h>
#elif __has_include(<stdint.h>)
#include <stdint.h>
#elif __has_include(<cuda/std/cstdint>)
#include <cuda/std/cstdint>
#else  // NVRTC has no headers
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif

namespace tilecopy {

// Returns the 32-bit shared address that the copies take. It is computed once.
__device__ __forceinline__ uint32_t shared_address(const void* place)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(place);
    asm volatile("" : "+r"(address));  // otherwise the compiler computes it again at every use
    return address;
}

// If TILECOPY_ASSERT is defined, the copies check their arguments against their declarations, and call TILECOPY_FAIL(text)
// if one differs.
#ifndef TILECOPY_FAIL
#define TILECOPY_FAIL(text) (printf("tilecopy: assertion failed: %s\n", text), __trap())
#endif
__device__ inline void demand(bool holds, const char* what)
{
    if (!holds) {
        TILECOPY_FAIL(what);
    }
}

// Division that rounds down, by a positive number.
__host__ __device__ inline int64_t quotient(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}
__host__ __device__ inline int64_t remainder(int64_t value, int64_t by)
{
    return value - quotient(value, by) * by;
}
__host__ __device__ inline int64_t lesser(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

// Commit this thread's cp.async copies as a group.
extern "C" __device__ void tilecopy_cp_async_commit_needs_sm_80();
__device__ __forceinline__ void cp_async_commit()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : :  : "memory");
#else
    tilecopy_cp_async_commit_needs_sm_80();
#endif
}

// Wait until at most N of this thread's newest groups are incomplete. Other threads need a barrier after it.
extern "C" __device__ void tilecopy_cp_async_wait_needs_sm_80();
template <int N> __device__ __forceinline__ void cp_async_wait()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
#else
    tilecopy_cp_async_wait_needs_sm_80();
#endif
}

// Initialise an mbarrier (8 bytes of shared memory) for count arrivals per phase, by one thread, before a fence and a barrier.
extern "C" __device__ void tilecopy_mbarrier_init_needs_sm_80();
__device__ __forceinline__ void mbarrier_init(uint32_t mbarrier, uint32_t count)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(mbarrier), "r"(count) : "memory");
#else
    tilecopy_mbarrier_init_needs_sm_80();
#endif
}

// Invalidate an mbarrier, so that its memory may be used for something else.
extern "C" __device__ void tilecopy_mbarrier_inval_needs_sm_80();
__device__ __forceinline__ void mbarrier_inval(uint32_t mbarrier)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.inval.shared.b64 [%0];" : : "r"(mbarrier) : "memory");
#else
    tilecopy_mbarrier_inval_needs_sm_80();
#endif
}

// Arrive once (release).
extern "C" __device__ void tilecopy_mbarrier_arrive_needs_sm_80();
__device__ __forceinline__ void mbarrier_arrive(uint32_t mbarrier)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .b64 tc_state; mbarrier.arrive.shared.b64 tc_state, [%0]; }" : : "r"(mbarrier) : "memory");
#else
    tilecopy_mbarrier_arrive_needs_sm_80();
#endif
}

// Add to the bytes that this phase expects from copies, and arrive once.
extern "C" __device__ void tilecopy_mbarrier_arrive_expect_tx_needs_sm_90();
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t mbarrier, uint32_t bytes)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(mbarrier), "r"(bytes) : "memory");
#else
    tilecopy_mbarrier_arrive_expect_tx_needs_sm_90();
#endif
}

// Returns true if the phase with this parity (0 for the first) has completed (acquire; may suspend for a while).
extern "C" __device__ void tilecopy_mbarrier_try_wait_needs_sm_90();
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t mbarrier, uint32_t parity)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    uint32_t done;
    asm volatile("{ .reg .pred tc_p; mbarrier.try_wait.parity.shared::cta.b64 tc_p, [%1], %2; selp.b32 %0, 1, 0, tc_p; }" : "=r"(done) : "r"(mbarrier), "r"(parity) : "memory");
    return done != 0;
#else
    tilecopy_mbarrier_try_wait_needs_sm_90();
    return 0;
#endif
}

// Wait until that phase has completed.
extern "C" __device__ void tilecopy_mbarrier_wait_needs_sm_90();
__device__ __forceinline__ void mbarrier_wait(uint32_t mbarrier, uint32_t parity)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred tc_p; $wait: mbarrier.try_wait.parity.shared::cta.b64 tc_p, [%0], %1; @!tc_p bra $wait; }" : : "r"(mbarrier), "r"(parity) : "memory");
#else
    tilecopy_mbarrier_wait_needs_sm_90();
#endif
}

// The same if threads of other CTAs of the cluster arrive.
extern "C" __device__ void tilecopy_mbarrier_wait_cluster_needs_sm_90();
__device__ __forceinline__ void mbarrier_wait_cluster(uint32_t mbarrier, uint32_t parity)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred tc_p; $wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 tc_p, [%0], %1; @!tc_p bra $wait; }" : : "r"(mbarrier), "r"(parity) : "memory");
#else
    tilecopy_mbarrier_wait_cluster_needs_sm_90();
#endif
}

// Commit this thread's bulk copies as a group.
extern "C" __device__ void tilecopy_bulk_commit_needs_sm_90();
__device__ __forceinline__ void bulk_commit()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.commit_group;" : :  : "memory");
#else
    tilecopy_bulk_commit_needs_sm_90();
#endif
}

// Wait until at most N of this thread's newest bulk groups are incomplete.
extern "C" __device__ void tilecopy_bulk_wait_needs_sm_90();
template <int N> __device__ __forceinline__ void bulk_wait()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group %0;" : : "n"(N) : "memory");
#else
    tilecopy_bulk_wait_needs_sm_90();
#endif
}

// The same, but wait only until their sources were read.
extern "C" __device__ void tilecopy_bulk_wait_read_needs_sm_90();
template <int N> __device__ __forceinline__ void bulk_wait_read()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(N) : "memory");
#else
    tilecopy_bulk_wait_read_needs_sm_90();
#endif
}

// Order generic accesses of shared memory before those of the async proxy (bulk copies).
extern "C" __device__ void tilecopy_fence_proxy_async_needs_sm_90();
__device__ __forceinline__ void fence_proxy_async()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" : :  : "memory");
#else
    tilecopy_fence_proxy_async_needs_sm_90();
#endif
}

// Make mbarrier_init visible to the cluster. Call a barrier after it.
extern "C" __device__ void tilecopy_fence_mbarrier_init_needs_sm_90();
__device__ __forceinline__ void fence_mbarrier_init()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" : :  : "memory");
#else
    tilecopy_fence_mbarrier_init_needs_sm_90();
#endif
}

// Wait for all threads of the cluster.
extern "C" __device__ void tilecopy_cluster_sync_needs_sm_90();
__device__ __forceinline__ void cluster_sync()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" : :  : "memory");
#else
    tilecopy_cluster_sync_needs_sm_90();
#endif
}

}  // namespace tilecopy

#endif
