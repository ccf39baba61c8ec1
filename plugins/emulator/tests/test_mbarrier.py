"""What a relaxed arrival on an mbarrier tells: phases that are over, and no writes (PTX ISA 8.10)."""

from __future__ import annotations

import numpy as np
import pytest
import tilecopy as tc

HAND_OVER = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<8>;
    .reg .b64 %d<4>;
    .reg .pred %p<4>;
    .shared .align 8 .b64 bars[2];
    .shared .align 4 .b32 word;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared.b64 [bars], 1;
    mbarrier.init.shared.b64 [bars+8], 1;
ready:
    bar.sync 0;
    @%p0 bra second;
    mbarrier.arrive.shared.b64 %d0, [bars];
first_waits:
    mbarrier.try_wait.parity.shared.b64 %p1, [bars+8], 0;
    @!%p1 bra first_waits;
    mbarrier.arrive.shared.b64 %d0, [bars];
    {read}
    bra done;
second:
    setp.ne.u32 %p2, %r0, 32;
    @%p2 bra done;
    st.shared.b32 [word], 7;
second_waits:
    mbarrier.try_wait.parity.shared.b64 %p1, [bars], 0;
    @!%p1 bra second_waits;
    mbarrier.arrive.{how}shared::cta.b64 %d0, [bars+8];
done:
    ret;
}}
"""
READ = "ld.shared.b32 %r1, [word]; ld.param.u64 %d1, [out]; st.global.b32 [%d1], %r1;"


def run(how: str, read: str = "") -> int:
    from tilecopy_emulator import run_ptx

    out = np.zeros(1, np.uint32)
    run_ptx(HAND_OVER.format(how=how, read=read), [out], grid=1, block=64)
    return int(out[0])


@pytest.mark.parametrize("how", ["", "relaxed.cta."])
def test_the_next_phase_may_begin(how: str) -> None:
    assert run(how) == 0


def test_a_release_publishes_what_was_written() -> None:
    assert run("", READ) == 7


def test_a_relaxed_arrival_does_not() -> None:
    with pytest.raises(tc.HazardError) as found:
        run("relaxed.cta.", READ)
    assert found.value.kind == "race"
