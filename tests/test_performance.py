"""What work of real sizes costs: a process with many variants before its first plan, and a large array on the emulator."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from many_variants import READY, cpu_seconds, install_many
from tilecopy_testkit import oracle
from tilecopy_testkit.programs import round_trip

LIMIT_SECONDS = 0.150
"""Of CPU time on an idle machine, beyond what Python and its import of NumPy take (tests/benchmarks/bench_startup.py)."""
MARGIN = 2
"""CPU time grows where other programs share the caches and the cores."""


def test_200_variants_are_ready_in_time(tmp_path: Path) -> None:
    install_many(tmp_path, 200)
    ready = f"{READY}; assert sum(plugin.status == 'ready' for plugin in found) >= 200, found"
    found = cpu_seconds({"numpy": ("import numpy", tmp_path), "ready": (ready, tmp_path)}, runs=5)
    assert found["ready"] - found["numpy"] < MARGIN * LIMIT_SECONDS


def test_a_full_4096_x_4096_float32_round_trip_takes_seconds_on_the_emulator() -> None:
    kernel = round_trip((4096, 4096), (32, 32), "float32")
    a = oracle.random_array((4096, 4096), np.float32)
    b = np.zeros_like(a)
    started = time.perf_counter()
    kernel(a, b, executor="emulator")
    assert time.perf_counter() - started < 30
    assert oracle.same_bytes(a, b)
