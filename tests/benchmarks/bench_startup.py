"""Measure the CPU time before the first plan for different numbers of installed variants: `python tests/benchmarks/bench_startup.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tilecopy_test_helpers.many_variants import IMPORT, READY, cpu_seconds, install_many

COUNTS = (0, 50, 200)


def main() -> None:
    """Print what comes on top of Python and NumPy."""
    with tempfile.TemporaryDirectory() as name:
        folders = {count: Path(name) / str(count) for count in COUNTS}
        for count, folder in folders.items():
            install_many(folder, count)
        codes = {"numpy": ("import numpy", folders[0]), "import": (IMPORT, folders[0])}
        found = cpu_seconds(codes | {str(count): (READY, folder) for count, folder in folders.items()}, runs=15)
    numpy = found.pop("numpy")
    print(f"Python and its import of NumPy: {numpy * 1e3:.0f} ms of CPU time. Beyond that:")
    print(f"import tilecopy: {(found.pop('import') - numpy) * 1e3:.0f} ms")
    for count, seconds in found.items():
        print(f"first-party variants and {count} more, ready for the first plan: {(seconds - numpy) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
