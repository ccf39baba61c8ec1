"""Measure the host time from a description to PTX: `python tests/benchmarks/bench_emit.py`. `bench_start.py` measures imports."""

from __future__ import annotations

import statistics
import time

import tilecopy as tc
from figures import record


def describe_and_build() -> str:
    """The 128x64 float16 round trip, from nothing to PTX text."""
    k = tc.KernelBuilder("round_trip", threads=128)
    a, b = k.param("A", (1 << 20, 64), "float16"), k.param("B", (1 << 20, 64), "float16")
    tile = k.shared((128, 64), "float16", name="tile")
    rows = slice(k.block_id("x") * 128, k.block_id("x") * 128 + 128)
    k.cta.copy(tile[:, :], a[rows, :])
    k.cta_sync()
    k.cta.copy(b[rows, :], tile[:, :])
    return k.build(target="sm_90a", grid=(8192,)).ptx


def main() -> None:
    """Print the figures."""
    for _ in range(5):
        describe_and_build()
    times = []
    for _ in range(100):
        started = time.perf_counter()
        describe_and_build()
        times.append(time.perf_counter() - started)
    print(
        f"description to PTX text, warm: median {statistics.median(times) * 1e3:.2f} ms, smallest {min(times) * 1e3:.2f} ms"
    )
    record("emit: description to PTX text", statistics.median(times) * 1e3, "ms")


if __name__ == "__main__":
    main()
