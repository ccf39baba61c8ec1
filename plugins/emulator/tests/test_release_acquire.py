"""An atomic operation orders what comes after it behind all atomic operations whose values it has taken (PTX ISA, causality order)."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.mentions import is_hazard

BLOCKS = 6
HEAD = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 ticket;
.visible .entry k(.param .u64 A)
{
    .reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p<4>; .shared .align 4 .b32 last, count;
    ld.param.u64 %d0, [A]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p0, %r0, 0; mov.u32 %r7, %nctaid.x;
    sub.u32 %r8, %r7, 1;
"""
TAKE = "@!%p0 atom.global.{kind} %r2, [ticket], {by}; @!%p0 st.shared.u32 [last], %r2; bar.sync 0; ld.shared.u32 %r3, [last]; setp.ne.u32 %p1, %r3, %r8;"
INC = TAKE.format(kind="inc.u32", by="%r7")
RESET = "@%p1 bra END; @%p0 bra END; st.global.u32 [ticket], 0; END:"


def run(body: str, *, grid: int = BLOCKS, block: int = 64) -> int:
    out = np.zeros(1, np.uint32)
    run_ptx(f"{HEAD}\n{body}\nret; }}", [out], grid=grid, block=block)
    return int(out[0])


COUNT = "mov.u32 %r4, count; @!%p0 st.shared.u32 [%r4], 0; bar.sync 0; "
CLEAN = {
    "the last block resets its ticket": INC + RESET,
    "with an addition": TAKE.format(kind="add.u32", by="1") + RESET,
    "with red before": "@!%p0 red.global.add.u32 [ticket], 0; " + TAKE.format(kind="add.u32", by="1") + RESET,
    "another thread resets it after the barrier": INC + RESET.replace("@%p0", "setp.ne.u32 %p2, %r0, 40; @%p2"),
    "the last block reads it": INC + RESET.replace("st.global.u32 [ticket], 0", "ld.global.u32 %r5, [ticket]; st.global.u32 [%d0], %r5"),
    "it is used again": INC + RESET.replace("END:", "atom.global.add.u32 %r5, [ticket], 3; st.global.u32 [ticket], 0; END:"),
    "of the threads of a CTA": COUNT + "atom.shared.add.u32 %r2, [%r4], 1; setp.ne.u32 %p1, %r2, 63; bar.sync 0; @%p1 bra END; st.shared.u32 [%r4], 0; END:",
}  # fmt: skip
RACES = {
    "the first block resets it": INC.replace("%r8;", "0;") + RESET,
    "no barrier lies between": "@!%p0 atom.global.add.u32 %r2, [ticket], 1; setp.eq.u32 %p2, %r0, 40; @%p2 st.global.u32 [ticket], 0;",
    "the scope is the CTA's": TAKE.format(kind="cta.inc.u32", by="%r7") + RESET,
    "a store that no atomic operation has seen": "@!%p0 st.relaxed.gpu.global.u32 [ticket], %r1;"
    + INC.replace("setp.ne.u32 %p1, %r3, %r8;", "setp.ne.u32 %p1, %r1, %r8;") + RESET,
    "a thread that does not know of it": "setp.eq.u32 %p2, %r1, 5; @%p2 bra LAST; @!%p0 atom.global.add.u32 %r2, [ticket], 1; bra END;"
    "LAST: @!%p0 st.global.u32 [ticket], 0; END:",
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_what_follows_the_last_atomic_operation_follows_those_before(name: str) -> None:
    run(CLEAN[name])


@pytest.mark.parametrize("name", RACES)
def test_others_still_race(name: str) -> None:
    with pytest.raises(HazardError, check=is_hazard("race", "ticket")):
        run(RACES[name])


def test_the_value_is_right() -> None:
    assert run(CLEAN["the last block reads it"]) == BLOCKS
