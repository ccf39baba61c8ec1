"""What a process with many variants pays before its first plan."""

from __future__ import annotations

from pathlib import Path

from many_variants import READY, cpu_seconds, install_many

LIMIT_SECONDS = 0.150
"""Of CPU time on an idle machine, beyond what Python and its import of NumPy take (tests/benchmarks/bench_startup.py)."""
MARGIN = 2
"""CPU time grows where other programs share the caches and the cores."""


def test_200_variants_are_ready_in_time(tmp_path: Path) -> None:
    install_many(tmp_path, 200)
    ready = f"{READY}; assert sum(plugin.status == 'ready' for plugin in found) >= 200, found"
    found = cpu_seconds({"numpy": ("import numpy", tmp_path), "ready": (ready, tmp_path)}, runs=5)
    assert found["ready"] - found["numpy"] < MARGIN * LIMIT_SECONDS
