"""Compare the ldgsts pipeline with the same kernel with synchronous copies: `python tests/benchmarks/bench_pipeline.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent)]
from bench_round_trip import median_seconds
from figures import record
from tilecopy_test_helpers import demos


def main() -> None:
    """Print a table: time and read bandwidth of both, and the gain."""
    ctas, tiles, rows = 132, 256, 64  # one CTA an SM: what it does not overlap itself, nobody overlaps for it
    a = torch.randint(0, 100, (ctas * tiles * rows, 64), device="cuda").float()
    expected = 2 * a.view(ctas, tiles, rows, 64).sum(dim=1).view(ctas * rows, 64)
    nbytes = a.numel() * 4
    times = {}
    print(f"{'pipeline over ' + str(nbytes >> 20) + ' MiB':<32}{'ms':>8}{'TB/s read':>11}  equal")
    for name, stages, asynchronous in (
        ("synchronous copies", 4, False),
        ("ldgsts, 3 stages", 3, True),
        ("ldgsts, 4 stages", 4, True),
    ):
        kernel = demos.pipeline("sm_90", rows=rows, tiles=tiles, ctas=ctas, stages=stages, asynchronous=asynchronous)
        out = torch.zeros(ctas * rows, 64, device="cuda")
        times[name] = median_seconds(lambda kernel=kernel, out=out: kernel(a, out))
        equal = bool(torch.equal(out, expected))
        record(f"pipeline: {name}", nbytes / times[name] / 1e12, "TB/s read")
        print(f"{name:<32}{times[name] * 1e3:>8.3f}{nbytes / times[name] / 1e12:>11.3f}  {equal}")
        if not equal:
            raise SystemExit(f"{name}: the result differs")
    best = min(times["ldgsts, 3 stages"], times["ldgsts, 4 stages"])
    print(f"gain of the pipeline: {times['synchronous copies'] / best:.2f}x")


if __name__ == "__main__":
    main()
