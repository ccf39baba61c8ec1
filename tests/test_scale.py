"""Sizes of real work."""

from __future__ import annotations

import time

import numpy as np
from tilecopy_testkit import oracle
from tilecopy_testkit.programs import round_trip


def test_a_full_4096_x_4096_float32_round_trip_takes_seconds_on_the_emulator() -> None:
    kernel = round_trip((4096, 4096), (32, 32), "float32")
    a = oracle.random_array((4096, 4096), np.float32)
    b = np.zeros_like(a)
    started = time.perf_counter()
    kernel(a, b, executor="emulator")
    assert time.perf_counter() - started < 30
    assert oracle.same_bytes(a, b)
