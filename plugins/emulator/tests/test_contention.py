"""Many threads at one word: atomic operations, locks and barriers of a grid, right and told in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.bounded_work import at_most
from tilecopy_test_helpers.mentions import is_hazard

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 B)
{
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .f32 %f<4>; .shared .align 8 .b8 s[64];
    ld.param.u64 %d1, [A]; cvta.to.global.u64 %d1, %d1; ld.param.u64 %d2, [B]; cvta.to.global.u64 %d2, %d2;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %nctaid.x; mad.lo.u32 %r5, %r2, %r3, %r1;
    mad.wide.u32 %d4, %r5, 8, %d2;
"""
MEET = """
    bar.sync 0; setp.ne.u32 %p1, %r1, 0; add.u32 %r11, %r11, %r10; @%p1 bra {to};
    fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r6, [%d1], 1;
{to}WAIT: ld.{order}.global.b32 %r6, [%d1]; setp.lt.u32 %p2, %r6, %r11; @%p2 bra {to}WAIT;
    {fence}
{to}: bar.sync 0;
"""

MAX_CALLS = 4_000_000
"""Calls of functions; twice what the longest of these programs needs."""


def run(body: str, grid: int, block: int, words: int = 1, calls: int = MAX_CALLS) -> tuple[Any, Any]:
    """Return the two arrays afterwards; the emulator makes at most so many calls of functions."""
    a, b = np.zeros(words, np.uint32), np.zeros(2 * grid * block, np.uint32)
    with at_most(calls):
        run_ptx(HEAD + body + "    ret;\n}\n", [a, b], grid=grid, block=block)
    return a, b


def test_two_atomics_on_one_word_by_thousands_of_threads() -> None:
    a, b = run(
        "atom.global.add.u32 %r6, [%d1], 1; atom.global.add.u32 %r7, [%d1], 65536; st.global.v2.b32 [%d4], {%r6, %r7};",
        32, 256, calls=400_000,
    )  # fmt: skip
    assert a[0] == (8192 + (8192 << 16)) & 0xFFFFFFFF
    assert sorted(b[::2]) == list(range(8192))
    assert sorted(b[1::2] >> 16) == list(range(8192))


def test_a_lock_that_many_ctas_want() -> None:
    a, _ = run(
        """
    setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
L:  atom.acquire.gpu.global.cas.b32 %r6, [%d1], 0, 1; setp.ne.u32 %p2, %r6, 0; @%p2 bra L;
    ld.global.b32 %r7, [%d1+4]; add.u32 %r7, %r7, 1; st.global.b32 [%d1+4], %r7;
    atom.release.gpu.global.exch.b32 %r6, [%d1], 0;
END:""",
        96, 32, 2, calls=1_000_000,
    )  # fmt: skip
    assert a.tolist() == [0, 96]


WAYS = [("relaxed.gpu", "fence.acq_rel.gpu;"), ("acquire.gpu", ""), ("volatile", "membar.gl;")]


def rounds(order: str, fence: str, missing: str, extra: int) -> str:
    """Each thread writes, the grid meets, each reads its neighbour's in the next CTA, the grid meets, three times."""
    first, second = (MEET.format(to=to, order=order, fence=fence) for to in ("M", "N"))
    return f"""
    mov.u32 %r11, 0; mov.u32 %r12, 0; add.u32 %r10, %r4, {extra}; mul.lo.u32 %r13, %r3, %r4;
    add.u32 %r14, %r5, %r3; rem.u32 %r14, %r14, %r13; mad.wide.u32 %d5, %r14, 8, %d2;
AGAIN: st.global.b32 [%d4], %r12; {first if missing != "first" else ""}
    ld.global.b32 %r7, [%d5]; {second if missing != "second" else ""}
    st.global.b32 [%d4+4], %r7; add.u32 %r12, %r12, 1; setp.lt.u32 %p3, %r12, 3; @%p3 bra AGAIN;
"""


@pytest.mark.parametrize(("order", "fence"), WAYS)
def test_a_grid_meets_again_and_again(order: str, fence: str) -> None:
    a, b = run(rounds(order, fence, "", 0), 8, 64)
    assert a[0] == 48
    assert (b == 2).all()


@pytest.mark.parametrize(("order", "fence"), WAYS)
@pytest.mark.parametrize("missing", ["first", "second"])
def test_a_meeting_that_is_missing(order: str, fence: str, missing: str) -> None:
    with pytest.raises(tc.HazardError, check=is_hazard("race", "B")):
        run(rounds(order, fence, missing, 0), 8, 64)


@pytest.mark.parametrize(("order", "fence"), WAYS)
def test_a_grid_barrier_that_is_one_cta_short(order: str, fence: str) -> None:
    with pytest.raises(tc.HazardError, check=is_hazard("deadlock")):
        run(rounds(order, fence, "", 1), 128, 32)


def test_a_grid_barrier_of_atomics_that_is_one_cta_short() -> None:
    with pytest.raises(tc.HazardError, check=is_hazard("deadlock")):
        run(
            """
    setp.ne.u32 %p1, %r1, 0; @%p1 bra END; fence.acq_rel.gpu; atom.global.add.u32 %r6, [%d1], 1;
L:  atom.global.add.u32 %r6, [%d1], 0; setp.le.u32 %p2, %r6, %r4; @%p2 bra L;
END: bar.sync 0;""",
            128, 64, calls=12_000_000,
        )  # fmt: skip


def test_a_batch_of_ctas_that_waits_for_a_later_one_goes_on() -> None:
    flag = np.zeros(1, np.uint32)
    body = """
    setp.ne.u32 %p1, %r1, 0; @%p1 bra END; setp.eq.u32 %p2, %r2, 7; @%p2 st.relaxed.gpu.global.b32 [%d1], 1;
L:  ld.relaxed.gpu.global.b32 %r6, [%d1]; setp.eq.u32 %p3, %r6, 0; @%p3 bra L;
END:"""
    run_ptx(HEAD + body + "ret; }", [flag, flag], grid=8, block=1024, progress=lambda done, total: None)
    assert flag[0] == 1


@pytest.mark.parametrize("words", [1, 3])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_many_threads_swap_until_they_win(space: str, words: int) -> None:
    grid, place = (8, "%d5") if space == "global" else (1, "%r8")
    a, _ = run(
        f"""
    setp.lt.u32 %p1, %r1, {words}; mov.u32 %r8, s; mad.lo.u32 %r8, %r1, 4, %r8; @%p1 st.shared.b32 [%r8], 0; bar.sync 0;
    rem.u32 %r7, %r1, {words}; mad.wide.u32 %d5, %r7, 4, %d1; mov.u32 %r8, s; mad.lo.u32 %r8, %r7, 4, %r8; mov.u32 %r9, 0;
L:  mov.u32 %r10, %r9; add.u32 %r11, %r10, 1;
    atom.{space}.cas.b32 %r9, [{place}], %r10, %r11; setp.ne.u32 %p2, %r9, %r10; @%p2 bra L;
    bar.sync 0; @%p1 ld.shared.b32 %r9, [%r8]; @%p1 red.global.add.u32 [%d5], %r9;""",
        grid, 128, words,
    )  # fmt: skip
    assert a.tolist() == (grid * np.bincount(np.arange(128) % words)).tolist()


def test_a_histogram_is_quick() -> None:
    body = """
    .shared .align 16 .b8 bins[256];
    mov.u32 %r10, bins; mad.lo.u32 %r11, %r1, 4, %r10; setp.lt.u32 %p1, %r1, 64; @%p1 st.shared.b32 [%r11], 0;
    bar.sync 0; mul.lo.u32 %r6, %r3, %r4; mov.u32 %r7, %r5;
L:  mul.lo.u32 %r8, %r7, 2654435761; shr.u32 %r8, %r8, 26; mad.lo.u32 %r9, %r8, 4, %r10; red.shared.add.u32 [%r9], 1;
    add.u32 %r7, %r7, %r6; setp.lt.u32 %p2, %r7, 65536; @%p2 bra L;
    bar.sync 0; @!%p1 bra END; ld.shared.b32 %r13, [%r11]; mad.wide.u32 %d4, %r1, 4, %d1; red.global.add.u32 [%d4], %r13;
END:"""
    a, _ = run(body, 32, 256, 64, calls=1_000_000)
    numbers = (np.arange(65536, dtype=np.uint32) * np.uint32(2654435761)) >> np.uint32(26)
    assert np.array_equal(a, np.bincount(numbers, minlength=64))


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


AFTER: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda x, y: x + y,
    "add.s32": lambda x, y: x + y,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda x, y: min(x, y, key=_signed),
    "max.s32": lambda x, y: max(x, y, key=_signed),
    "and.b32": lambda x, y: x & y,
    "or.b32": lambda x, y: x | y,
    "xor.b32": lambda x, y: x ^ y,
    "inc.u32": lambda x, y: 0 if x >= y else x + 1,
    "exch.b32": lambda x, y: y,
}


@pytest.mark.parametrize("place", ["global.{} %r6, [%d1]", "shared.{} %r6, [s]", "release.gpu.global.{} %r6, [%d1]"])
@pytest.mark.parametrize("operation", AFTER)
def test_each_gets_the_value_that_the_one_before_left(operation: str, place: str) -> None:
    """In whichever order: the old values and operands form one chain from the first value to the last."""
    start = 0x9ABCDEF0
    _, b = run(
        f"""
    setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.b32 [s], {start}; @%p1 st.global.b32 [%d1], {start}; bar.sync 0;
    mul.lo.u32 %r7, %r1, 2654435761; xor.b32 %r7, %r7, 0x35a7c3; atom.{place.format(operation)}, %r7;
    st.global.v2.b32 [%d4], {{%r6, %r7}};""",
        1, 128,
    )  # fmt: skip
    step = AFTER[operation]
    left = [(int(old), int(operand)) for old, operand in b.reshape(-1, 2)]
    value = start
    for old, operand in left:  # the emulator goes by lanes
        assert old == value
        value = step(old, operand) & 0xFFFFFFFF


@pytest.mark.parametrize("scope", ["cta", "cluster", "gpu"])
@pytest.mark.parametrize("many", ["threads of a CTA", "CTAs of a cluster"])
def test_one_shared_word_of_many_in_every_scope(scope: str, many: str) -> None:
    ctas = 4 if many.startswith("CTAs") else 1
    body = """
    mov.u32 %r6, s; mov.u32 %r7, 0; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r6], %r7; mapa.shared::cluster.u32 %r8, %r6, 0;
    barrier.cluster.arrive; barrier.cluster.wait;
L:  atom.relaxed.SCOPE.shared::cluster.add.u32 %r9, [%r8], 1; atom.relaxed.SCOPE.shared::cluster.add.u32 %r10, [%r8], 1;
    add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 4; @%p2 bra L;
    barrier.cluster.arrive; barrier.cluster.wait; setp.ne.u32 %p1, %r5, 0; @%p1 bra END; ld.shared.u32 %r9, [%r6]; st.global.u32 [%d1], %r9;
END:""".replace("SCOPE", scope)
    a, b = np.zeros(1, np.uint32), np.zeros(1)
    text = f"{HEAD}{body} ret; }}"
    if ctas > 1 and scope == "cta":
        with at_most(MAX_CALLS), pytest.raises(tc.HazardError, check=is_hazard("race", ".cta")):
            run_ptx(text, [a, b], grid=ctas, block=256, cluster=ctas)
    else:
        with at_most(MAX_CALLS):
            run_ptx(text, [a, b], grid=ctas, block=1024 // ctas, cluster=ctas)
        assert a[0] == 8 * 1024


def test_an_atomic_of_too_narrow_a_scope_is_found_behind_a_wider_one() -> None:
    """CTA 1 adds in scope .cta, then in .cluster; CTA 0 adds once it has seen a flag, by a load that orders nothing."""
    body = """
    mov.u32 %r6, s; mov.u32 %r7, 0; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.v2.u32 [%r6], {%r7, %r7}; mapa.shared::cluster.u32 %r8, %r6, 0;
    barrier.cluster.arrive; barrier.cluster.wait; setp.eq.u32 %p2, %r2, 0; @%p2 bra POLL;
    @%p1 atom.relaxed.cta.shared::cluster.add.u32 %r9, [%r8], 1; @!%p1 atom.relaxed.cluster.shared::cluster.add.u32 %r9, [%r8], 1;
    st.relaxed.cluster.shared::cluster.u32 [%r8+4], 1; bra END;
POLL: ld.relaxed.cluster.shared::cluster.u32 %r9, [%r8+4]; setp.eq.u32 %p3, %r9, 0; @%p3 bra POLL;
    atom.relaxed.cluster.shared::cluster.add.u32 %r9, [%r8], 1;
END: barrier.cluster.arrive; barrier.cluster.wait; ret; }"""
    with pytest.raises(tc.HazardError, check=is_hazard("race", ".cta")):
        run_ptx(HEAD + body, [np.zeros(1), np.zeros(1)], grid=2, block=2, cluster=2)
    run_ptx(
        HEAD + body.replace(".cta.", ".cluster."),
        [np.zeros(1), np.zeros(1)], grid=2, block=2, cluster=2,
    )  # fmt: skip
