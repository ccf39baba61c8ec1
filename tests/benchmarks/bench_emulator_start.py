"""Measure the emulator's time before a kernel's first instruction: `python tests/benchmarks/bench_emulator_start.py [--against PATH]`.

Milliseconds of CPU time, the best of three processes: one entry of a text with 213 entries, and the second kernel of a process that
includes a header of cooperative groups or libcu++ (from its source to its report). With ``--against`` another checkout does the same
in the same minutes, in turn, and the last column is the quotient.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, ENTRIES = 3, 213
BODY = "\n".join(
    f"    add.u32 %r{1 + i % 7}, %r{1 + (i + 1) % 7}, {i}; ld.shared.v2.u32 {{%r1, %r2}}, [%r3+{8 * i}];"
    for i in range(90)
)
ENTRY = """
.visible .entry k{0}(.param .u64 k{0}_param_0, .param .u64 k{0}_param_1, .param .u32 k{0}_param_2) .maxntid 1024
{{
    .reg .b32 %r<9>;
{1}
    ret;
}}
"""
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
SOURCES = {
    "cooperative groups": """
#include <cooperative_groups.h>
__global__ void k(int* x) { auto b = cooperative_groups::this_thread_block(); x[b.thread_rank()] = VALUE; b.sync(); }
""",
    "libcu++": """
#include <cuda/barrier>
#include <cuda/std/array>
__global__ void k(int* x) { cuda::std::array<int, 4> a{1, 2, 3, VALUE}; x[threadIdx.x] = a[threadIdx.x & 3]; }
""",
}


def measure() -> dict[str, float]:
    """The seconds of each case, in a new process."""
    import numpy as np
    from tilecopy_emulator import parse, run_cuda

    text = HEAD + "".join(ENTRY.format(number, BODY) for number in range(ENTRIES))
    start = time.process_time()
    parse(text, f"k{ENTRIES - 1}")
    seconds = {f"one of {ENTRIES} entries": time.process_time() - start}
    for name, source in SOURCES.items():
        for value in ("1", "2"):
            start = time.process_time()
            run_cuda(source.replace("VALUE", value), [np.zeros(32, np.int32)], grid=1, block=32)
            seconds[f"kernel {value} with {name}"] = time.process_time() - start
    return seconds


def in_a_process(root: Path) -> dict[str, float]:
    """What :func:`measure` returns with the packages of a checkout."""
    paths = [root, *(folder / "src" for folder in sorted((root / "plugins").iterdir()))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    words = [sys.executable, __file__, "--measure"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="compare with another checkout (its root)")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.measure:
        print(json.dumps(measure()))
        return
    roots = [ROOT, *([words.against.resolve()] if words.against else [])]
    runs = [[in_a_process(root) for root in roots] for _ in range(PROCESSES)]
    for name in runs[0][0]:
        best = [1000 * min(run[number][name] for run in runs) for number in range(len(roots))]
        quotient = f"{best[1] / best[0]:8.1f} times" if len(best) > 1 else ""
        print(f"{name:32}" + "".join(f"{each:10.1f} ms" for each in best) + quotient)


if __name__ == "__main__":
    main()
