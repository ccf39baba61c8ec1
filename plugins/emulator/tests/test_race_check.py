"""Threads that write one value to one place: a race that says so, and that a caller may allow by name."""

from __future__ import annotations

import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_emulator import run_ptx
from tilecopy_emulator.command import emulate
from tilecopy_test_helpers.mentions import is_hazard, mentions

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 B)
{
 .reg .b64 %a, %b, %at; .reg .b32 %r<8>; .reg .pred %p<4>; .shared .align 16 .b8 s[256];
 ld.param.u64 %a, [A]; ld.param.u64 %b, [B]; mov.u32 %r0, %tid.x; mov.u32 %r6, s; mad.wide.u32 %at, %r0, 4, %b;
 mov.u32 %r1, 7; shr.u32 %r2, %r0, 5; and.b32 %r3, %r0, 31; mad.lo.u32 %r4, %r3, 4, %r6;
 setp.eq.u32 %p0, %r2, 0; setp.eq.u32 %p1, %r0, 40;
 BODY
 ret;
}
"""
SAME = {
    "one instruction, shared": "st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r5, [%r6]; st.global.u32 [%at], %r5;",
    "a place a lane": "st.shared.u32 [%r4], %r1; bar.sync 0; ld.shared.u32 %r5, [%r4]; st.global.u32 [%at], %r5;",
    "vectors": "st.shared.v2.u32 [%r6], {%r1, %r1}; bar.sync 0; ld.shared.u32 %r5, [%r6+4]; st.global.u32 [%at], %r5;",
    "a branch each": "@%p0 bra L; st.shared.u32 [%r6], %r1; bra J; L: st.shared.u32 [%r6], 7; J: bar.sync 0;"
    " ld.shared.u32 %r5, [%r6]; st.global.u32 [%at], %r5;",
    "twice each": "@%p0 bra L; st.shared.u32 [%r6], %r1; st.shared.u32 [%r6], 7; bra J; L: st.shared.u32 [%r6], 7; J: bar.sync 0;"
    " ld.shared.u32 %r5, [%r6]; st.global.u32 [%at], %r5;",
    "global": "st.global.u32 [%a], %r1; bar.sync 0; ld.global.u32 %r5, [%a]; st.global.u32 [%at], %r5;",
    "global, a branch each": "@%p0 bra L; st.global.u32 [%a], %r1; bra J; L: st.global.u32 [%a], 7; J: bar.sync 0;"
    " ld.global.u32 %r5, [%a]; st.global.u32 [%at], %r5;",
    "generic": "cvta.shared.u64 %a, SHARED; st.u32 [%a], %r1; bar.sync 0; ld.shared.u32 %r5, [%r6]; st.global.u32 [%at], %r5;",
    "within a warp first": "{ .reg .b32 q; shr.u32 q, %r0, 1; min.u32 q, q, 15; mad.lo.u32 q, q, 4, %r6; st.shared.u32 [q], %r1; }"
    " bar.sync 0; ld.shared.u32 %r5, [%r6]; st.global.u32 [%at], %r5;",
}
OTHER = {
    "other values": SAME["one instruction, shared"].replace("%r1;", "%r2;"),
    "one other value": "@%p1 mov.u32 %r1, 8; " + SAME["one instruction, shared"],
    "other values in global memory": SAME["global"].replace("%r1;", "%r2;"),
    "a branch each, other values": SAME["a branch each"].replace("[%r6], 7", "[%r6], 8"),
    "half of a vector": SAME["vectors"].replace("{%r1, %r1}", "{%r1, %r2}"),
    "read by another warp with no barrier": SAME["a branch each"].replace("bar.sync 0;", "bar.warp.sync -1;"),
    "read with no barrier": SAME["one instruction, shared"].replace("bar.sync 0;", ""),
    "written while it is read": "@%p0 bra L; bar.sync 0; st.shared.u32 [%r6], %r1; bra J; L: st.shared.u32 [%r6], 7; bar.sync 0;"
    " ld.shared.u32 %r5, [%r6]; J:",
}


def run(body: str, grid: int = 1, **options: object) -> np.ndarray:
    body = body.replace("cvta.shared.u64 %a, SHARED;", "{ .reg .b64 q; mov.u64 q, s; cvta.shared.u64 %a, q; }")
    out = np.zeros(64, np.uint32)
    run_ptx(TEXT.replace("BODY", body), [np.zeros(4, np.uint32), out], grid=grid, block=64, **options)  # type: ignore[arg-type]
    return out


@pytest.mark.parametrize("name", SAME)
def test_equal_values_are_a_race_that_may_be_allowed(name: str) -> None:
    with pytest.raises(tc.HazardError, check=is_hazard("race", "same-value")) as caught:
        run(SAME[name])
    assert (caught.value.kind, caught.value.cause) == ("race", "same-value")
    assert len(caught.value.threads) == 2
    assert (run(SAME[name], allow=("same-value",)) == 7).all()


@pytest.mark.parametrize("name", OTHER)
def test_what_is_not_equal_stays_a_race(name: str) -> None:
    with pytest.raises(tc.HazardError) as caught:
        run(OTHER[name], allow=["same-value"])
    assert (caught.value.kind, caught.value.cause) == ("race", "")


def test_of_several_ctas() -> None:
    body = "st.global.u32 [%a], %r1;"
    with pytest.raises(tc.HazardError, check=is_hazard("race", "same-value")):
        run(body, grid=3)
    run(body, grid=3, allow=("same-value",))
    with pytest.raises(tc.HazardError, match="race"):
        run("mov.u32 %r1, %ctaid.x; " + body, grid=3, allow=("same-value",))


def test_names_are_checked(tmp_path) -> None:
    for wrong in ("same-value", ("race",), 3, (["same-value"],)):
        with pytest.raises(tc.LaunchError, match=mentions("allow", "same-value")):
            run("", allow=wrong)
    file = tmp_path / "k.ptx"
    file.write_text(TEXT.replace("BODY", SAME["global"]))
    words = [str(file), "zeros:uint32:4", "zeros:uint32:64", "--block", "64"]
    assert CliRunner().invoke(emulate, words).exception is not None
    done = CliRunner().invoke(emulate, [*words, "--allow", "same-value"])
    assert done.exit_code == 0 and "no hazard" in done.output
