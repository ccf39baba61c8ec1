"""Which conditions a scope shares: copies, barriers of the CTA and named barriers inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilecopy as tc

THREADS = 128
Condition = Callable[[tc.KernelBuilder, Any, Any], Any]


def kernel() -> tuple[tc.KernelBuilder, Any, Any]:
    """A kernel, flags in global memory, and flags in shared memory that hold 1."""
    k = tc.KernelBuilder("conditions", threads=THREADS)
    flags, kept = k.param("F", (THREADS,), "int32"), k.shared((THREADS,), "int32", name="kept")
    k.store(kept[k.thread_id()], 1)
    k.cta_sync()
    return k, flags, kept


def own(k: tc.KernelBuilder, value: Any) -> Any:
    """A value in a register of the thread."""
    register = k.local((1,), "int32")
    k.store(register[0], value)
    return k.load(register[0])


SHARED_BY_THE_CTA: dict[str, Condition] = {
    "a block": lambda k, f, s: k.block_id() == 0,
    "a flag of the block": lambda k, f, s: k.load(f[k.block_id()]) > 0,
    "an index": lambda k, f, s: k.index(k.load(f[k.block_id()]), upper=9) > 0,
    "an element of shared memory": lambda k, f, s: k.load(s[5]) == 1,
    "computed of flags": lambda k, f, s: k.load(f[0]) * 2 + k.load(s[1]) > k.load(f[k.block_id() + 1]),
    "a cast": lambda k, f, s: k.cast(k.load(f[3]), "float32") > 0.5,
    "both": lambda k, f, s: (k.load(f[0]) > 0) & (k.block_id() < 5),
    "either, not": lambda k, f, s: ~((k.load(f[0]) < 0) | (k.load(s[0]) < 0)),
    "a flag that an index finds": lambda k, f, s: k.load(f[k.index(k.load(s[0]), upper=9)]) > 0,
}
SHARED_BY_A_WARP: dict[str, tuple[Condition, str]] = {
    "some warps": (lambda k, f, s: k.thread_id() < 64, "warpid"),
    "one warp": (lambda k, f, s: k.warp_id() == 3, "warpid"),
    "a flag of the warp": (lambda k, f, s: k.load(f[k.warp_id()]) > 0, "warpid"),
    "an index of the warp": (lambda k, f, s: k.index(k.load(s[k.warp_id()]), upper=9) > 0, "warpid"),
    "a flag of the block and a warp": (lambda k, f, s: (k.load(f[0]) > 0) & (k.warp_id() > 0), "warpid"),
}
OF_A_THREAD: dict[str, Condition] = {
    "some lanes": lambda k, f, s: k.thread_id() < 48,
    "one thread": lambda k, f, s: k.thread_id() == 0,
    "one lane": lambda k, f, s: k.elect(),
    "a flag of the thread": lambda k, f, s: k.load(f[k.thread_id()]) > 0,
    "an element of the lane": lambda k, f, s: k.load(s[k.lane_id()]) > 0,
    "an own register": lambda k, f, s: own(k, 1) > 0,
    "computed of an own register": lambda k, f, s: own(k, 1) + k.load(f[0]) > 0,
}


def inside(condition: Condition, statement: Callable[[tc.KernelBuilder], None]) -> tc.BuiltKernel:
    k, flags, kept = kernel()
    with k.if_(condition(k, flags, kept)):
        statement(k)
    return k.build(target="sm_90", grid=1)


def copy(scope: str) -> Callable[[tc.KernelBuilder], None]:
    def write(k: tc.KernelBuilder) -> None:
        a, tile = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
        getattr(k, scope).copy(tile[:, :], a[:, :])

    return write


def meet(k: tc.KernelBuilder) -> None:
    k.cta_sync()


def meet_by_name(k: tc.KernelBuilder) -> None:
    k.named_barrier(1, THREADS)


@pytest.mark.parametrize("name", SHARED_BY_THE_CTA)
def test_what_the_cta_shares_decides_for_it(name: str) -> None:
    for statement in (copy("cta"), copy("warp"), meet, meet_by_name):
        inside(SHARED_BY_THE_CTA[name], statement)
    inside(SHARED_BY_THE_CTA[name], meet)(np.ones(THREADS, np.int32), executor="emulator")


@pytest.mark.parametrize("name", SHARED_BY_A_WARP)
def test_what_a_warp_shares_decides_for_the_warp_alone(name: str) -> None:
    condition, axis = SHARED_BY_A_WARP[name]
    for statement in (copy("warp"), meet_by_name):
        inside(condition, statement)
    with pytest.raises(tc.NoVariantError, match=axis):
        inside(condition, copy("cta"))
    with pytest.raises(tc.RequestError, match=f"cta_sync.*{axis}") as caught:
        inside(condition, meet)
    assert __file__ in str(caught.value)


@pytest.mark.parametrize("name", OF_A_THREAD)
def test_what_a_thread_decides_parts_warps(name: str) -> None:
    condition = OF_A_THREAD[name]
    for scope in ("warp", "cta"):
        with pytest.raises(tc.NoVariantError, match="laneid"):
            inside(condition, copy(scope))
    for barrier in (meet, meet_by_name):
        with pytest.raises(tc.RequestError, match="laneid") as caught:
            inside(condition, barrier)
        assert __file__ in str(caught.value)


@pytest.mark.parametrize(
    ("turns", "axis"), [(lambda k: k.thread_id() + 1, "laneid"), (lambda k: k.warp_id() + 1, "warpid")]
)
def test_loops_of_other_turns_part_threads(turns: Any, axis: str) -> None:
    k, _, _ = kernel()
    with k.range(turns(k)):
        k.cta_sync()
    with pytest.raises(tc.RequestError, match=axis):
        k.build(target="sm_90", grid=1)


def test_branches_of_whole_warps_meet_at_a_named_barrier() -> None:
    """Producers and consumers, each in a branch of its own."""
    k = tc.KernelBuilder("meeting", threads=THREADS)
    result, passed = k.param("B", (64,), "int32"), k.shared((64,), "int32")
    tid = k.thread_id()
    with k.if_(tid < 64):
        k.store(passed[tid], 7)
        k.named_barrier(1, THREADS)
    with k.if_(tid >= 64):
        k.named_barrier(1, THREADS)
        k.store(result[tid - 64], k.load(passed[tid - 64]))
    found = np.zeros(64, np.int32)
    k.build(target="sm_90", grid=1)(found, executor="emulator")
    assert (found == 7).all()


@pytest.mark.parametrize("threads", [40, 100])
def test_the_last_warp_may_be_partial(threads: int) -> None:
    """The threads that exist are together."""
    k = tc.KernelBuilder("partial", threads=threads)
    k.cta_sync()
    with k.if_(k.warp_id() == threads // 32):
        k.named_barrier(2, 32)
    k.build(target="sm_90", grid=1)
    with k.if_(k.thread_id() == threads - 1):
        k.named_barrier(2, 32)
    with pytest.raises(tc.RequestError, match="laneid"):
        k.build(target="sm_90", grid=1)


def test_a_block_that_no_thread_enters_parts_none() -> None:
    k, _, _ = kernel()
    with k.if_(k.thread_id() >= THREADS):
        k.cta_sync()
    k.build(target="sm_90", grid=1)
