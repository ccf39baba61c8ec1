"""What work of real sizes costs: a process with many variants before its first plan, a large array on the emulator,
and the calls that build one copy."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.kernel.statements import CopyStatement
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.many_variants import READY, calls_of, install_many
from tilecopy_test_helpers.programs import round_trip

MAX_CALLS_PER_VARIANT = 4_000
"""Calls and returns of functions: what one more installed variant may cost until its first plan."""


def test_an_installed_variant_costs_little_until_the_first_plan(tmp_path: Path) -> None:
    calls = {}
    for count in (20, 220):
        install_many(tmp_path / str(count), count)
        calls[count] = calls_of(READY, tmp_path / str(count))
    assert calls[220] - calls[20] < 200 * MAX_CALLS_PER_VARIANT


def test_a_full_4096_x_4096_float32_round_trip_on_the_emulator() -> None:
    kernel = round_trip((4096, 4096), (32, 32), "float32")
    a = byte_arrays.random_array((4096, 4096), np.float32)
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


def test_one_copy_turns_to_other_files_at_most_600_times() -> None:
    """From its regions to the end of its text, once everything is loaded: whoever follows a copy turns as often."""
    assert turns_of_a_copy() and turns_of_a_copy() <= 600


def turns_of_a_copy() -> int:
    """Calls of a function in another file (that it has one: not what attrs generates), while the README's first copy is built."""
    k = tc.KernelBuilder("roundtrip", threads=128)
    a = k.param("A", (24 * 128, 64), "float16")
    swizzled = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[128, 64]))
    tile, row = k.shared((128, 64), "float16", layout=swizzled, name="tile"), k.block_id("x") * 128
    turns, counted = 0, True

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal turns, counted
        if event not in ("call", "return"):
            return
        if frame.f_code is CopyStatement.lower.__code__:
            counted = event == "call"
        caller, file = frame.f_back, frame.f_code.co_filename
        while caller is not None and caller.f_code.co_filename.startswith("<"):
            caller = caller.f_back
        if event == "call" and counted and not file.startswith("<") and caller is not None:
            turns += file != caller.f_code.co_filename

    sys.setprofile(profile)
    try:
        k.cta.copy(tile[:, :], a[row : row + 128, :])
        counted = False
        k.build(target="sm_90a", grid=(24,))
    finally:
        sys.setprofile(None)
    return turns


def test_a_round_costs_as_little_where_the_threads_do_not_divide_the_tile() -> None:
    """Calls of functions for one more round: 96 threads, whose last round is guarded, beside 128, which divide the tile."""
    rounds = {96: (22, 43), 128: (16, 32)}
    calls = {}
    for threads, (few, many) in rounds.items():
        more = calls_of_a_build((128, 64), threads) - calls_of_a_build((64, 64), threads)
        calls[threads] = more / (many - few)
    assert 0 < calls[96] <= 1.5 * calls[128], calls


def calls_of_a_build(tile: tuple[int, int], threads: int) -> int:
    """Calls of functions while the round trip of a tile of 8-byte elements is built the second time."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    round_trip((24 * tile[0], 64), tile, "float64", threads=threads)
    sys.setprofile(count)
    try:
        round_trip((24 * tile[0], 64), tile, "float64", threads=threads)
    finally:
        sys.setprofile(None)
    return calls
