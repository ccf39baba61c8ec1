"""Measure the host time from a description to PTX, and of the import: `python tests/benchmarks/bench_emit.py`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
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


def import_seconds(code: str, runs: int = 7) -> float:
    """Least CPU seconds of a fresh interpreter that does one import, of modules that are compiled as pip leaves them."""
    script = f"import time; {code}; print(time.process_time())"
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", script]
        found = [
            float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
            for _ in range(runs + 1)
        ]
    return min(found[1:])


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
    numpy, both = import_seconds("import numpy"), import_seconds("import tilecopy_core")
    print(
        f"CPU time of a process: import numpy {numpy * 1e3:.0f} ms; import tilecopy_core {both * 1e3:.0f} ms, {1e3 * (both - numpy):.0f} ms over numpy's own"
    )


if __name__ == "__main__":
    main()
