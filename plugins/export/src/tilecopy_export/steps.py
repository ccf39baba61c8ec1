"""The steps around exported copies in CUDA C++: what completes them, and what they are asserted with."""

from __future__ import annotations

import re

_STEP = re.compile(r"sm_(\d+) (template <int N> )?(\w+) (\w+)(\(.*\))\n((?:    .*\n)+)")


def _guarded(found: re.Match[str]) -> str:
    """A step as a function, with its block for the architectures that have its instructions alone."""
    needs, template, result, name, parameters, block = found.groups("")
    missing = f"tilecopy_{name}_needs_sm_{needs}"
    back = "\n    return 0;" if result != "void" else ""
    return f"""extern "C" __device__ void {missing}();
{template}__device__ __forceinline__ {result} {name}{parameters}
{{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= {needs}0
{block}#else
    {missing}();{back}
#endif
}}
"""


_ALL = _STEP.sub(
    _guarded,
    r"""// Close a group of this thread's cp.async.
sm_80 void cp_async_commit()
    asm volatile("cp.async.commit_group;" : :  : "memory");

// Wait until at most N of this thread's newest groups are unfinished; a barrier shows others.
sm_80 template <int N> void cp_async_wait()
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");

// An mbarrier (8 bytes of shared memory) for count arrivals a phase; by one thread, then fence and barrier.
sm_80 void mbarrier_init(uint32_t mbarrier, uint32_t count)
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(mbarrier), "r"(count) : "memory");

// The memory of an mbarrier may be used for something else.
sm_80 void mbarrier_inval(uint32_t mbarrier)
    asm volatile("mbarrier.inval.shared.b64 [%0];" : : "r"(mbarrier) : "memory");

// One arrival (release).
sm_80 void mbarrier_arrive(uint32_t mbarrier)
    asm volatile("{ .reg .b64 tc_state; mbarrier.arrive.shared.b64 tc_state, [%0]; }" : : "r"(mbarrier) : "memory");

// Announce the bytes that copies complete in this phase, and arrive once.
sm_90 void mbarrier_arrive_expect_tx(uint32_t mbarrier, uint32_t bytes)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(mbarrier), "r"(bytes) : "memory");

// Whether the phase of a parity (0 for the first) has completed (acquire; may suspend for a while).
sm_90 bool mbarrier_try_wait(uint32_t mbarrier, uint32_t parity)
    uint32_t done;
    asm volatile("{ .reg .pred tc_p; mbarrier.try_wait.parity.shared::cta.b64 tc_p, [%1], %2; selp.b32 %0, 1, 0, tc_p; }" : "=r"(done) : "r"(mbarrier), "r"(parity) : "memory");
    return done != 0;

// Wait until that phase has completed.
sm_90 void mbarrier_wait(uint32_t mbarrier, uint32_t parity)
    asm volatile("{ .reg .pred tc_p; $wait: mbarrier.try_wait.parity.shared::cta.b64 tc_p, [%0], %1; @!tc_p bra $wait; }" : : "r"(mbarrier), "r"(parity) : "memory");

// The same where threads of other CTAs of the cluster arrive.
sm_90 void mbarrier_wait_cluster(uint32_t mbarrier, uint32_t parity)
    asm volatile("{ .reg .pred tc_p; $wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 tc_p, [%0], %1; @!tc_p bra $wait; }" : : "r"(mbarrier), "r"(parity) : "memory");

// Close this thread's group of bulk copies.
sm_90 void bulk_commit()
    asm volatile("cp.async.bulk.commit_group;" : :  : "memory");

// Wait until at most N of this thread's newest bulk groups are unfinished.
sm_90 template <int N> void bulk_wait()
    asm volatile("cp.async.bulk.wait_group %0;" : : "n"(N) : "memory");

// The same for the reading of their sources only.
sm_90 template <int N> void bulk_wait_read()
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(N) : "memory");

// Order generic accesses of shared memory before those of the async proxy (bulk copies).
sm_90 void fence_proxy_async()
    asm volatile("fence.proxy.async.shared::cta;" : :  : "memory");

// Make mbarrier_init visible to the cluster; a barrier follows.
sm_90 void fence_mbarrier_init()
    asm volatile("fence.mbarrier_init.release.cluster;" : :  : "memory");

// All threads of the cluster.
sm_90 void cluster_sync()
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" : :  : "memory");
""",
)
"""Each step: what it is for, the oldest architecture that has it, its signature, and its block."""

STEPS = f"""#pragma once
#ifndef TILECOPY_STEPS
#define TILECOPY_STEPS

#if !defined(__CUDACC_RTC__)
#include <stdint.h>
#include <stdio.h>
#elif __has_include(<stdint.h>)
#include <stdint.h>
#elif __has_include(<cuda/std/cstdint>)
#include <cuda/std/cstdint>
#else  // NVRTC alone has no headers
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif

namespace tilecopy {{

// The address of shared memory as the copies take it; computed once, where it is asked for.
__device__ __forceinline__ uint32_t shared_address(const void* place)
{{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(place);
    asm volatile("" : "+r"(address));  // else the compiler computes it again at every use
    return address;
}}

// With TILECOPY_ASSERT defined, the copies hold their arguments against what was declared of them, and TILECOPY_FAIL(text)
// is what happens where one is something else.
#ifndef TILECOPY_FAIL
#define TILECOPY_FAIL(text) (printf("tilecopy: assertion failed: %s\\n", text), __trap())
#endif
__device__ inline void demand(bool holds, const char* what)
{{
    if (!holds) {{
        TILECOPY_FAIL(what);
    }}
}}

// Division that rounds down, by a positive number.
__host__ __device__ inline int64_t quotient(int64_t value, int64_t by)
{{
    return value / by - (value % by < 0);
}}
__host__ __device__ inline int64_t remainder(int64_t value, int64_t by)
{{
    return value - quotient(value, by) * by;
}}
__host__ __device__ inline int64_t lesser(int64_t one, int64_t other)
{{
    return one < other ? one : other;
}}

{_ALL}
}}  // namespace tilecopy

#endif
"""
"""The fixed part of every header."""
