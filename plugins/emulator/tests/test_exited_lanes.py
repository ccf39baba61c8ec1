"""Threads that have exited do not count: not in the mask of a warp instruction, not at a barrier of the whole CTA."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.mentions import is_hazard

LIVING = 20
"""Threads of a warp that stay."""
EXITS = {
    "before": "@%p0 exit; {body} ret;",
    "after": "@%p0 bra OUT; {body} ret; OUT: ret;",
    "one by one": "@%p0 bra OUT; {body} ret; OUT: setp.ge.u32 %p1, %t, 25; @%p1 bra LATER; ret; LATER: ret;",
}
"""How the others exit: before the rest come to the instruction, while they wait at it, and in two steps."""


def run(body: str, exits: str, *, block: int = 32, living: int = LIVING) -> list[int]:
    """One word per thread: %r1, where it stays."""
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>; .reg .b32 %t; .reg .pred %p<4>; .reg .b64 %d<3>;
    .shared .align 4 .b8 s[4096];
    mov.u32 %t, %tid.x; ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %t, 4, %d0;
    setp.ge.u32 %p0, %t, {living}; setp.lt.u32 %p2, %t, 100; mov.u32 %r1, 77;
    {EXITS[exits].format(body=body + " st.global.b32 [%d1], %r1;")}
}}"""
    out = np.full(block, 99, np.uint32)
    run_ptx(text, [out], grid=1, block=block)
    assert (out[living:] == 99).all()
    return out[:living].tolist()


MASK = (1 << LIVING) - 1
WARP = {
    "vote.sync.ballot.b32 %r1, %p2, -1;": MASK,
    "vote.sync.all.pred %p3, %p2, -1; selp.u32 %r1, 5, 6, %p3;": 5,
    "shfl.sync.down.b32 %r1, %t, 1, 0x1e1f, -1;": [lane ^ 1 if lane % 2 == 0 else lane for lane in range(LIVING)],
    "redux.sync.add.u32 %r1, %t, -1;": sum(range(LIVING)),
    "redux.sync.min.u32 %r1, %t, -1;": 0,
    "match.any.sync.b32 %r1, %r1, -1;": MASK,
    "match.all.sync.b32 %r1|%p3, %r1, -1; @!%p3 mov.u32 %r1, 0;": MASK,
    "elect.sync %r1|%p3, -1;": 0,
    "elect.sync _|%p3, -1; selp.u32 %r1, 1, 0, %p3;": [1] + [0] * (LIVING - 1),
    "bar.warp.sync -1;": 77,
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;": 77,
}


@pytest.mark.parametrize("exits", EXITS)
@pytest.mark.parametrize("body", WARP)
def test_a_warp_instruction_waits_for_the_lanes_that_have_not_exited(body: str, exits: str) -> None:
    expected = WARP[body]
    assert run(body, exits) == (expected if isinstance(expected, list) else [expected] * LIVING)


@pytest.mark.parametrize("exits", EXITS)
def test_a_warp_barrier_orders_the_lanes_that_are_left(exits: str) -> None:
    body = """mov.u32 %r2, s; mad.lo.u32 %r3, %t, 4, %r2; st.shared.u32 [%r3], %t; bar.warp.sync -1;
        xor.b32 %r4, %t, 1; mad.lo.u32 %r3, %r4, 4, %r2; ld.shared.u32 %r1, [%r3];"""
    assert run(body, exits) == [lane ^ 1 for lane in range(LIVING)]


def test_lowest_lane_that_has_not_exited_is_elected() -> None:
    body = "setp.lt.u32 %p1, %t, 3; @%p1 exit; elect.sync %r1|%p3, -1; @%p3 add.u32 %r1, %r1, 50;"
    out = run(body, "before")
    assert out[3:] == [53] + [3] * (LIVING - 4)


@pytest.mark.parametrize("exits", EXITS)
def test_the_register_of_a_lane_that_has_exited_is_not_read(exits: str) -> None:
    with pytest.raises(HazardError, check=is_hazard("aligned", LIVING)):
        run("shfl.sync.idx.b32 %r1, %t, 20, 31, -1;", exits)


def test_a_lane_that_goes_elsewhere_is_still_waited_for() -> None:
    body = "setp.lt.u32 %p1, %t, 3; @%p1 bra HERE; bar.sync 0; HERE: redux.sync.add.u32 %r1, %t, -1;"
    with pytest.raises(HazardError, check=is_hazard("aligned")):
        run(body, "after")


CTA = {
    "bar.sync 0;": 77,
    "barrier.sync 0;": 77,
    "barrier.cluster.arrive; barrier.cluster.wait;": 77,
    "bar.red.popc.u32 %r1, 0, %p2;": 50,
    "bar.red.and.pred %p3, 0, %p2; selp.u32 %r1, 1, 2, %p3;": 1,
    "barrier.red.popc.u32 %r1, 0, %p2;": 50,
}


@pytest.mark.parametrize("exits", EXITS)
@pytest.mark.parametrize("body", CTA)
def test_a_barrier_of_the_cta_waits_for_the_threads_that_have_not_exited(body: str, exits: str) -> None:
    assert run(body, exits, block=96, living=50) == [CTA[body]] * 50


@pytest.mark.parametrize("exits", EXITS)
def test_a_barrier_of_a_number_of_threads_counts_whole_warps(exits: str) -> None:
    assert run("bar.sync 1, 64;", exits, block=64, living=50) == [77] * 50
    with pytest.raises(HazardError, check=is_hazard("barrier", 64)):
        run("bar.sync 1, 64;", exits, block=64, living=LIVING)


def test_threads_that_arrive_may_exit_before_the_barrier_completes() -> None:
    body = "setp.lt.u32 %p1, %t, 32; @!%p1 bra LAST; bar.arrive 1, 64; ret; LAST: bar.sync 1, 64;"
    assert run(body, "before", block=64, living=50)[32:] == [77] * 18


@pytest.mark.parametrize("threads", [1, 32])
def test_a_copy_in_flight_when_its_lane_exits_is_a_hazard(threads: int) -> None:
    """Nothing waits for ``cp.async`` of a thread that has exited."""
    text = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 source)
{
    .shared .align 16 .b8 s[512];
    .reg .b64 %d<2>; .reg .b32 %r<4>;
    ld.param.u64 %d0, [source]; mov.u32 %r0, s; mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 16, %r0;
    cp.async.ca.shared.global [%r2], [%d0], 16;
    ret;
}"""
    with pytest.raises(HazardError) as raised:
        run_ptx(text, [np.zeros(16, np.uint8)], grid=1, block=threads)
    assert raised.value.kind == "lifetime"
