"""Generic loads, stores and atomics of a variable by its name: they access the variable's own state space."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions


def run(body: str) -> list[int]:
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.global .align 16 .b32 g[4] = {{1, 2, 3, 4}};
.const .align 16 .b32 c[4] = {{5, 6, 7, 8}};
.visible .entry k(.param .u64 A)
{{
    .reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p;
    .shared .align 16 .b32 before[4]; .shared .align 16 .b32 s[4]; .local .align 16 .b32 l[4];
    ld.param.u64 %d0, [A]; mov.u32 %r1, 7; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
    {body}
    st.global.v4.u32 [%d0], {{%r1, %r2, %r3, %r4}};
    ret;
}}"""
    out = np.zeros(4, np.uint32)
    run_ptx(text, [out], grid=1, block=1)
    return out.tolist()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("st.shared.u32 [s], %r1; ld.u32 %r2, [s];", [7, 7, 0, 0]),
        ("st.u32 [s+4], %r1; ld.shared.u32 %r2, [s+4];", [7, 7, 0, 0]),
        ("st.v2.u32 [s+8], {%r1, %r2}; ld.v2.u32 {%r2, %r3}, [s+8];", [7, 7, 0, 0]),
        ("st.shared.u32 [s], %r1; atom.add.u32 %r2, [s], 5; red.add.u32 [s], 1; ld.volatile.u32 %r3, [s];", [7, 7, 13, 0]),
        ("st.u32 [l+12], %r1; ld.local.u32 %r2, [l+12]; ld.u32 %r3, [l+12];", [7, 7, 7, 0]),
        ("ld.u32 %r2, [g+4]; atom.exch.b32 %r3, [g], 9; ld.u32 %r4, [g];", [7, 2, 1, 9]),
        ("mbarrier.init.b64 [s], 1; mbarrier.arrive.b64 %d1, [s]; mbarrier.inval.b64 [s];", [7, 0, 0, 0]),
        ("prefetch.L2 [g]; prefetch.L1 [s]; prefetch.L1 [l];", [7, 0, 0, 0]),
    ],
)  # fmt: skip
def test_the_space_is_the_variables(body: str, expected: list[int]) -> None:
    assert run(body) == expected


def test_its_bounds_are_checked_there() -> None:
    with pytest.raises(HazardError, check=is_hazard("bounds", "s")):
        run("ld.u32 %r2, [s+16];")
    with pytest.raises(HazardError, check=is_hazard("poison", "s")):
        run("ld.u32 %r2, [s]; st.global.u32 [%d0], %r2;")


@pytest.mark.parametrize(
    "body", ["ld.u32 %r2, [c];", "atom.add.u32 %r2, [c], 1;", "ld.u64 %d1, [A];", "prefetch.L1 [c];"]
)
def test_constants_and_parameters_are_read_by_their_space_alone(body: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(12)):
        run(body)
