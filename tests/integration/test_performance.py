"""What work of real sizes costs: a process with many variants before its first plan, and a large array on the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
