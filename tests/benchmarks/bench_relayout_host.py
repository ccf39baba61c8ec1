"""Compare the host time of a relayout, from the second call on, with torch's ``copy_(x.t())``: medians in microseconds.

    python tests/benchmarks/bench_relayout_host.py

Needs a GPU, torch with CUDA and tilecopy-relayout. The arrays are so small that the GPU keeps up with any host.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

import torch
from tilecopy_relayout import relayout

CALLS, ROUNDS = 500, 31


def microseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the host's time of each call. They take turns: a processor that others use too is slower for some seconds, for all alike.

    The GPU is idle before each round.
    """
    times = defaultdict[str, list[float]](list)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - started) / CALLS * 1e6)
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


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
    print(json.dumps({"device": torch.cuda.get_device_name(), **microseconds(calls)}, indent=2))


if __name__ == "__main__":
    main()
