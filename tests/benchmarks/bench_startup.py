"""Measure the CPU time before the first plan for different numbers of installed variants: `python tests/benchmarks/bench_startup.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tilecopy_test_helpers.many_variants import IMPORT, READY, cpu_seconds, install_many

COUNTS = (0, 50, 200)


def main() -> None:
    """Print what comes on top of the interpreter's own start."""
    with tempfile.TemporaryDirectory() as name:
        folders = {count: Path(name) / str(count) for count in COUNTS}
        for count, folder in folders.items():
            install_many(folder, count)
        codes = {what: (what, folders[0]) for what in ("pass", "import numpy", IMPORT)}
        found = cpu_seconds(codes | {str(count): (READY, folder) for count, folder in folders.items()}, runs=15)
    start = found.pop("pass")
    print("CPU time beyond the interpreter's own start:")
    for what, seconds in found.items():
        label = f"first-party variants and {what} more, ready for the first plan" if what.isdecimal() else what
        print(f"{label}: {(seconds - start) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
