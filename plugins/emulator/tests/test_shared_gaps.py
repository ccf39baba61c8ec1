"""An access past the end of a variable in shared memory is in no other variable."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.mentions import is_hazard


def run(body: str, declared: str, dynamic: int = 0) -> int:
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 pool[];
.visible .entry k(.param .u64 A)
{{
    .reg .b32 %r<5>; .reg .b64 %d; {declared}
    ld.param.u64 %d, [A]; mov.u32 %r0, pool;
    {body}
    st.global.u32 [%d], %r1; ret;
}}"""
    out = np.zeros(1, np.uint32)
    run_ptx(text, [out], grid=1, block=1, dynamic_shared_bytes=dynamic)
    return int(out[0])


TWO = ".shared .align 4 .b32 a[32]; .shared .align 4 .b32 b[32];"


@pytest.mark.parametrize(
    "body",
    ["st.shared.u32 [a+128], 1;", "st.shared.u32 [a+140], 1;", "st.shared.u32 [b+-4], 1;", "st.shared.u32 [b+128], 1;"],
)
def test_an_access_past_a_variable_is_in_no_other(body: str) -> None:
    with pytest.raises(HazardError, check=is_hazard("bounds", body[15])):
        run(body + "mov.u32 %r1, 1;", TWO, dynamic=64)


def test_gaps_do_not_count() -> None:
    assert run("mov.u32 %r1, %total_smem_size;", TWO + "st.shared.u32 [a], 1; st.shared.u32 [b], 1;", dynamic=64) == 320


def test_where_memory_is_full_there_are_none() -> None:
    size = (227 << 10) - 256
    run("st.shared.u32 [b+124], 1; mov.u32 %r1, 1; st.shared.u32 [a], 1;", TWO, dynamic=size)
