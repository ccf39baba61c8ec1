"""The steps around exported copies in CUDA C++: what completes them, and what they are asserted with."""

from __future__ import annotations


def _step(name: str, parameters: str, needs: int, block: str, *, template: str = "", result: str = "void") -> str:
    missing = f"tilecopy_{name}_needs_sm_{needs}"
    back = "\n    return 0;" if result != "void" else ""
    return f"""extern "C" __device__ void {missing}();
{template}__device__ __forceinline__ {result} {name}({parameters})
{{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= {needs * 10}
    {block}
#else
    {missing}();{back}
#endif
}}
"""


def _asm(text: str, inputs: str = "") -> str:
    return f'asm volatile("{text}" : : {inputs} : "memory");'


_BARRIER = '"r"(mbarrier)'

_ALL = "\n".join(
    [
        "// Close a group of this thread's cp.async.",
        _step("cp_async_commit", "", 80, _asm("cp.async.commit_group;")),
        "// Wait until at most N of this thread's newest groups are unfinished; a barrier shows others.",
        _step(
            "cp_async_wait",
            "",
            80,
            _asm("cp.async.wait_group %0;", '"n"(N)'),
            template="template <int N> ",
        ),
        "// An mbarrier (8 bytes of shared memory) for count arrivals a phase; by one thread, then fence and barrier.",
        _step(
            "mbarrier_init",
            "uint32_t mbarrier, uint32_t count",
            80,
            _asm("mbarrier.init.shared.b64 [%0], %1;", f'{_BARRIER}, "r"(count)'),
        ),
        "// The memory of an mbarrier may be used for something else.",
        _step("mbarrier_inval", "uint32_t mbarrier", 80, _asm("mbarrier.inval.shared.b64 [%0];", _BARRIER)),
        "// One arrival (release).",
        _step(
            "mbarrier_arrive",
            "uint32_t mbarrier",
            80,
            _asm("{ .reg .b64 tc_state; mbarrier.arrive.shared.b64 tc_state, [%0]; }", _BARRIER),
        ),
        "// Announce the bytes that copies complete in this phase, and arrive once.",
        _step(
            "mbarrier_arrive_expect_tx",
            "uint32_t mbarrier, uint32_t bytes",
            90,
            _asm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;", f'{_BARRIER}, "r"(bytes)'),
        ),
        "// Whether the phase of a parity (0 for the first) has completed (acquire; may suspend for a while).",
        _step(
            "mbarrier_try_wait",
            "uint32_t mbarrier, uint32_t parity",
            90,
            'uint32_t done;\n    asm volatile("{ .reg .pred tc_p; mbarrier.try_wait.parity.shared::cta.b64 tc_p, [%1], %2; '
            f'selp.b32 %0, 1, 0, tc_p; }}" : "=r"(done) : {_BARRIER}, "r"(parity) : "memory");\n    return done != 0;',
            result="bool",
        ),
        "// Wait until that phase has completed.",
        _step(
            "mbarrier_wait",
            "uint32_t mbarrier, uint32_t parity",
            90,
            _asm(
                "{ .reg .pred tc_p; $wait: mbarrier.try_wait.parity.shared::cta.b64 tc_p, [%0], %1; @!tc_p bra $wait; }",
                f'{_BARRIER}, "r"(parity)',
            ),
        ),
        "// The same where threads of other CTAs of the cluster arrive.",
        _step(
            "mbarrier_wait_cluster",
            "uint32_t mbarrier, uint32_t parity",
            90,
            _asm(
                "{ .reg .pred tc_p; $wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 tc_p, [%0], %1; "
                "@!tc_p bra $wait; }",
                f'{_BARRIER}, "r"(parity)',
            ),
        ),
        "// Close this thread's group of bulk copies.",
        _step("bulk_commit", "", 90, _asm("cp.async.bulk.commit_group;")),
        "// Wait until at most N of this thread's newest bulk groups are unfinished.",
        _step("bulk_wait", "", 90, _asm("cp.async.bulk.wait_group %0;", '"n"(N)'), template="template <int N> "),
        "// The same for the reading of their sources only.",
        _step(
            "bulk_wait_read", "", 90, _asm("cp.async.bulk.wait_group.read %0;", '"n"(N)'), template="template <int N> "
        ),
        "// Order generic accesses of shared memory before those of the async proxy (bulk copies).",
        _step("fence_proxy_async", "", 90, _asm("fence.proxy.async.shared::cta;")),
        "// Make mbarrier_init visible to the cluster; a barrier follows.",
        _step("fence_mbarrier_init", "", 90, _asm("fence.mbarrier_init.release.cluster;")),
        "// All threads of the cluster.",
        _step("cluster_sync", "", 90, _asm("barrier.cluster.arrive; barrier.cluster.wait;")),
    ]
)

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
#define TILECOPY_FAIL(text) (printf("tilecopy: not so: %s\\n", text), __trap())
#endif
__device__ inline void demand(bool holds, const char* what)
{{
    if (!holds) {{
        TILECOPY_FAIL(what);
    }}
}}

// Division that rounds down, by a positive number.
__device__ inline int64_t quotient(int64_t value, int64_t by)
{{
    return value / by - (value % by < 0);
}}
__device__ inline int64_t remainder(int64_t value, int64_t by)
{{
    return value - quotient(value, by) * by;
}}

{_ALL}
}}  // namespace tilecopy

#endif
"""
"""The fixed part of every header."""
