"""Measure the memory of a process that keeps building kernels: `python tests/benchmarks/bench_service.py [KERNELS] [THREADS]`.

Each kernel has a shape of its own, is built, launched once on torch tensors, checked, and dropped. What the driver says is free on the
GPU and what the process holds are printed as it goes; past the first tenth neither may grow by more than 16 MiB.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import tilecopy as tc
import torch

GROWTH_BYTES = 16 << 20


def resident_bytes() -> int:
    """Of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def one(rows: int, source: torch.Tensor, result: torch.Tensor) -> None:
    """Build the kernel that writes one row of a result with ``rows`` rows, and launch it."""
    k = tc.KernelBuilder("service", threads=64)
    a, b = k.param("A", (rows, 64), "float32"), k.param("B", (rows, 64), "float32")
    t = k.thread_id()
    k.store(b[rows - 1, t], k.load(a[rows - 1, t]) + rows)
    k.build(target="sm_90", grid=1)(source[:rows], result[:rows])


def main() -> None:
    """Make the kernels; exit 1 where memory grows or a result is wrong."""
    kernels, threads = map(int, (sys.argv[1:] + ["100000", "8"][len(sys.argv) - 1 :])[:2])
    source, result = torch.ones(kernels, 64, device="cuda"), torch.zeros(kernels, 64, device="cuda")
    started, held, rows = time.perf_counter(), [], 0
    while rows < kernels:
        some = range(rows + 1, min(rows + kernels // 10, kernels) + 1)
        workers = [
            threading.Thread(target=lambda own=some[n::threads]: [one(each, source, result) for each in own])
            for n in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        rows = some[-1]
        torch.cuda.synchronize()
        held.append((-torch.cuda.mem_get_info()[0], resident_bytes()))
        free, resident = -held[-1][0] / 2**20, held[-1][1] / 2**20
        seconds = time.perf_counter() - started
        print(
            f"{rows:>7} kernels  {free:9.1f} MiB free on the GPU  {resident:7.1f} MiB resident  {seconds:6.1f} s",
            flush=True,
        )
    right = bool((result == torch.arange(2, kernels + 2, device="cuda")[:, None]).all())
    grown = [max(0, last - first) for first, last in zip(held[0], held[-1], strict=True)]
    print(
        f"every result right: {right}; grown by {grown[0] / 2**20:.1f} MiB on the GPU, {grown[1] / 2**20:.1f} MiB resident"
    )
    raise SystemExit(not right or max(grown) > GROWTH_BYTES)


if __name__ == "__main__":
    main()
