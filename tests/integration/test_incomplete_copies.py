"""Exported copies that not all of their threads execute: the emulator tells, without any macro."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import HazardError
from tilecopy_emulator import run_cuda, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions

pytest.importorskip("cuda.bindings.nvrtc")
sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples"))
from nvrtc import compiled

ROWS, COLUMNS = 64, 32
SCOPES = {"cta": tc.cta(128), "warpgroup": tc.warpgroup(), "warp": tc.warp()}


def ptx_of(scope: Any, body: str, rows: Any = ROWS, arguments: str = "") -> str:
    """A kernel with functions ``load`` (A to a shared tile) and ``store`` (the tile to B)."""
    a, b = (tc.Buffer((rows, COLUMNS), "float32", space="global", name=name) for name in "AB")
    tile = tc.Buffer((ROWS, COLUMNS), "float32", space="shared", name="tile")
    load = tc.plan(tile[:, :], a[:ROWS, :], scope=scope, target="sm_80", outside=None if rows is ROWS else "zero")
    store = tc.plan(b[:ROWS, :], tile[:, :], scope=scope, target="sm_80", outside=None if rows is ROWS else "zero")
    return compiled(
        f"""{tc.cuda_header([load.cuda("load"), store.cuda("store")])}
extern "C" __global__ void kernel(const void* A, void* B{arguments})
{{
    __shared__ __align__(128) char tile[{ROWS * COLUMNS * 4}];
    uint32_t t = tilecopy::shared_address(tile);
    int thread = threadIdx.x;
    {body}
}}
"""
    )


def run(text: str, block: Any, grid: int = 1, *numbers: int) -> bool:
    """Whether a kernel has copied all of A to B."""
    a = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)
    b = np.zeros_like(a)
    run_ptx(text, [a, b, *numbers], grid=grid, block=block)
    return bool(np.array_equal(a, b))


WHOLE = "load(t, A); __syncthreads(); store(B, t);"


@pytest.mark.parametrize("kind", SCOPES)
@pytest.mark.parametrize("block", [16, 64, 100, (16, 8)])
def test_a_block_of_too_few_threads_is_told(kind: str, block: Any) -> None:
    """Threads of one index in a block of two dimensions write the same bytes, too, which is a race."""
    text = ptx_of(SCOPES[kind], WHOLE)
    if kind == "warp" and block == 64:
        with pytest.raises(HazardError, check=is_hazard("race")):  # two warps write one tile
            run(text, block)
        return
    with pytest.raises(HazardError) as error:
        run(text, block)
    assert (
        error.value.kind == "incomplete"
        if isinstance(block, int) and kind != "warp"
        else error.value.kind in ("incomplete", "race")
    )


HALF = "load(t, A); store(B, t);"


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (f"if (thread < 64) {{ {HALF} }}", 64),
        (f"if (thread % 2) {{ {HALF} }}", 0),
        ("if (thread == 127) return; load(t, A);", 127),
        ("load(t, A); __syncthreads(); store(B, t); if (thread < 32) load(t, A);", 32),
        ("for (int i = 0; i <= thread / 64; ++i) { load(t, A); } __syncthreads(); store(B, t);", 2),
        ("load(t, A, thread + 1); __syncthreads(); store(B, t);", 128),
    ],
)
def test_threads_that_leave_a_copy_out_are_told(body: str, number: int) -> None:
    for grid in (1, 3):
        with pytest.raises(HazardError) as error:
            run(ptx_of(SCOPES["cta"], body.replace("store(B, t)", "if (blockIdx.x == 0) store(B, t)")), 128, grid)
        assert error.value.kind == "incomplete" and error.value.threads and error.value.line
        assert str(number) in str(error.value) and "load" in str(error.value)


@pytest.mark.parametrize(
    ("body", "block"),
    [
        (WHOLE, 128),
        ("for (int i = 0; i < 3; ++i) { " + WHOLE + " __syncthreads(); }", 128),
        ("if (thread >= 64 && thread < 192) load(t, A, thread - 64); __syncthreads(); if (thread >= 128) store(B, t, thread - 128);", 256),
        ("load(t, A, thread); load(t, A, thread + 64); __syncthreads(); store(B, t, thread); store(B, t, thread + 64);", 64),
        ("if (thread < 40) load(t, A); else load(t, A, thread); __syncthreads(); store(B, t);", 128),
        ("int i = threadIdx.x + 64 * threadIdx.y; load(t, A, i); __syncthreads(); store(B, t, i);", (64, 2)),
    ],
)  # fmt: skip
def test_copies_that_are_complete_run(body: str, block: Any) -> None:
    assert run(ptx_of(SCOPES["cta"], body), block)


def test_a_warp_copies_alone() -> None:
    body = "if (thread / 32 == 1) load(t, A); __syncthreads(); if (thread / 32 == 3) store(B, t);"
    assert run(ptx_of(SCOPES["warp"], body), 128)
    with pytest.raises(HazardError, check=is_hazard("incomplete")):
        run(ptx_of(SCOPES["warp"], body), 100)
    with pytest.raises(HazardError, check=is_hazard("incomplete")):
        run(ptx_of(SCOPES["warp"], "if (thread / 16 == 1) load(t, A);"), 128)


def test_blocks_that_part_are_looked_at_one_by_one() -> None:
    body = "if (blockIdx.x < 2 || thread < 96) load(t, A, thread); __syncthreads();"
    with pytest.raises(HazardError, check=is_hazard("incomplete", 0, "(2,0,0)")):
        run(ptx_of(SCOPES["cta"], body), 128, 4)


def test_sizes_that_are_computed_before_the_block_change_nothing() -> None:
    text = ptx_of(
        SCOPES["cta"], "load(t, A, M); __syncthreads(); store(B, t, M);", tc.symbol("M", lower=1, upper=4096), ", int M"
    )
    assert run(text, 128, 1, ROWS)
    with pytest.raises(HazardError, check=is_hazard("incomplete")):
        run(text, 64, 1, ROWS)
    with pytest.raises(HazardError, check=is_hazard("race")):
        run(text, (64, 2), 1, ROWS)


@pytest.mark.parametrize("options", [["-DTILECOPY_ASSERT"], ["--device-debug"]])
def test_debug_builds_demand_the_threads_of_the_plan(options: list[str]) -> None:
    """On a GPU this is all that tells; on the emulator it is told before the first thread copies."""
    a, b = (tc.Buffer((ROWS, COLUMNS), "float32", space="global", name=name) for name in "AB")
    tile = tc.Buffer((ROWS, COLUMNS), "float32", space="shared", name="tile")
    load = tc.plan(tile[:, :], a[:, :], scope=tc.cta(128), target="sm_80").cuda("load")
    store = tc.plan(b[:, :], tile[:, :], scope=tc.cta(128), target="sm_80").cuda("store")
    source = f"""{tc.cuda_header([load, store])}
extern "C" __global__ void kernel(const void* A, void* B)
{{
    __shared__ __align__(128) char tile[{ROWS * COLUMNS * 4}];
    uint32_t t = tilecopy::shared_address(tile);
    {WHOLE}
}}
"""
    values = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)
    copied = np.zeros_like(values)
    assert not run_cuda(source, [values, copied], grid=1, block=128, options=options).printed
    assert np.array_equal(values, copied)
    with pytest.raises(HazardError, match=r"load.*128") as error:
        run_cuda(source, [values, copied], grid=1, block=64, options=options)
    assert error.value.kind == "trap"


def test_assertions_run_on_the_emulator() -> None:
    row = tc.symbol("row", upper=3)
    a, tile = (
        tc.Buffer((ROWS, COLUMNS), "float32", space="global", name="A"),
        tc.Buffer((16, COLUMNS), "float32", space="shared", name="tile"),
    )
    load = tc.plan(tile[:, :], a[row * 16 : row * 16 + 16, :], scope=tc.cta(128), target="sm_80").cuda("load")
    source = f"""{tc.cuda_header([load])}
extern "C" __global__ void kernel(const void* A, int row)
{{
    __shared__ __align__(128) char tile[{16 * COLUMNS * 4}];
    load(tilecopy::shared_address(tile), A, row);
}}
"""
    values = np.zeros((ROWS, COLUMNS), np.float32)
    run_cuda(source, [values, 3], grid=1, block=128, options=["-DTILECOPY_ASSERT"])
    with pytest.raises(HazardError, match=mentions("load", "row", 0, 3)) as error:
        run_cuda(source, [values, 4], grid=1, block=128, options=["-DTILECOPY_ASSERT"])
    assert error.value.kind == "trap" and error.value.threads
