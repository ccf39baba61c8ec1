"""ldgsts against its specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import S, TileLayout
from tilecopy_test_helpers import byte_arrays, demos
from tilecopy_test_helpers.mentions import mentions


def plan(start: int = 0, dtype: str = "float16", threads: int = 128, target: str = "sm_90a", **more: Any) -> tc.Plan:
    a = tc.Buffer((128, 64), dtype, space="global", name="A")
    s = tc.Buffer((128, 32), dtype, space="shared", name="s")
    return tc.plan(s[:, :], a[:, start : start + 32], op="copy_async", scope=tc.cta(threads), target=target, **more)


@pytest.mark.parametrize(
    ("dtype", "start", "vec", "cp_size", "outer"),
    [("float16", 0, 8, 16, 4), ("float32", 0, 4, 16, 8), ("float16", 4, 4, 8, 8), ("float16", 2, 2, 4, 16)],
)
def test_the_seeds_four_row_table(dtype: str, start: int, vec: int, cp_size: int, outer: int) -> None:
    found = plan(start, dtype)
    assert found.variant == "ldgsts" and found.priority == 20
    assert (found.partition.vec, found.partition.vec_bits // 8, found.partition.outer) == (vec, cp_size, outer)


def test_what_cannot_reach_four_bytes_is_declined() -> None:
    with pytest.raises(tc.NoVariantError) as caught:
        plan(1, variant="ldgsts")
    assert mentions(128, 64, 32).search(caught.value.declined["ldgsts"])


def test_shared_to_global_is_declined() -> None:
    a = tc.Buffer((128, 32), "float16", space="global", name="A")
    s = tc.Buffer((128, 32), "float16", space="shared", name="s")
    with pytest.raises(tc.NoVariantError) as caught:
        tc.plan(a[:, :], s[:, :], op="copy_async", scope=tc.cta(128), target="sm_90a")
    assert mentions("shared", "global").search(caught.value.declined["ldgsts"])


def test_an_older_target_is_told_the_architecture() -> None:
    with pytest.raises(tc.NoVariantError, match=mentions("sm_80")):
        plan(target="sm_75")


def test_emission_is_one_instruction_a_round_and_no_wait() -> None:
    k = tc.KernelBuilder("k", threads=128)
    a, s = k.param("A", (128, 32), "float16"), k.shared((128, 32), "float16")
    k.cta.copy_async(s[:, :], a[:, :])
    text = k.build(target="sm_90a", grid=1).ptx
    assert text.count("cp.async.cg.shared.global") == 4
    assert "commit" not in text and "wait" not in text and "bar" not in text
    assert ".version 7.0" in text and ".target sm_80" in text


@given(st.sampled_from(["uint8", "float16", "float32", "int64"]), st.sampled_from([0, 1, 2, 4, 8, 16]), st.booleans())
def test_loads_are_right_or_declined(dtype: str, start: int, swizzled: bool) -> None:
    plain = TileLayout(S[32, 64])
    layout = tc.SwizzledLayout(tc.swizzle("128B", dtype), plain) if swizzled else plain
    k = tc.KernelBuilder("k", threads=64)
    a, b = k.param("A", (32, 96), dtype), k.param("B", (32, 64), dtype)
    s = k.shared((32, 64), dtype, layout=layout, name="s")
    k.cta.copy_async(s[:, :], a[:, start : start + 64], variant="ldgsts")
    k.cp_async_commit()
    k.cp_async_wait()
    k.cta_sync()
    for i in range(32):
        k.store(b[i, k.thread_id()], k.load(s[i, k.thread_id()]))
    bits = tc.dtype_of(dtype).bits
    if start * bits % 32:
        with pytest.raises(tc.NoVariantError, match="ldgsts"):
            k.build(target="sm_80", grid=1)
        return
    source = byte_arrays.random_array((32, 96), dtype)
    result = np.zeros((32, 64), dtype)
    k.build(target="sm_80", grid=1)(source, result, executor="emulator")
    assert byte_arrays.same_bytes(result, np.ascontiguousarray(source[:, start : start + 64]))


def test_the_seeds_demo() -> None:
    demos.DEMOS["ldgsts"].check(demos.ldgsts(elementwise=True), "emulator")
