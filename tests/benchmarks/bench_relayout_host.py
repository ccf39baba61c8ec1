"""Host time of a relayout from the second call on, beside torch's own ``copy_(x.t())``: microseconds, medians.

    python tests/benchmarks/bench_relayout_host.py

Needs a GPU, torch with CUDA and tilecopy-relayout. The arrays are so small that the GPU keeps up with any host.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import torch
from tilecopy_relayout import relayout

CALLS, ROUNDS = 500, 31


def microseconds(call: Callable[[], object]) -> float:
    """Of one call, as the host sees it; the GPU is idle before each round."""
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - started) / CALLS * 1e6)
    return round(statistics.median(times), 2)


def main() -> None:
    x = torch.randn(64, 64, device="cuda", dtype=torch.float16)
    out = torch.empty(64, 64, device="cuda", dtype=torch.float16)
    calls: dict[str, Callable[[], object]] = {
        "torch out.copy_(x.t())": lambda: out.copy_(x.t()),
        "torch x.t().contiguous()": lambda: x.t().contiguous(),
        "relayout(x, (1, 0))": lambda: relayout(x, (1, 0)),
        "relayout(x, (1, 0), out=out)": lambda: relayout(x, (1, 0), out=out),
        "relayout(x, 'a b -> b a')": lambda: relayout(x, "a b -> b a"),
    }
    for call in calls.values():
        call()
    print(
        json.dumps({"device": torch.cuda.get_device_name(), **{n: microseconds(c) for n, c in calls.items()}}, indent=2)
    )


if __name__ == "__main__":
    main()
