"""Measure the time to build and assemble eight kernels with one thread and with eight: `python tests/benchmarks/bench_threads.py`.

Without a GPU it measures the assemblers alone. With one, it also loads the kernels' texts by the driver, whose own cache of machine
code is off. Every figure is the median of several rounds. Each round has new kernels (other names), because a program builds a kernel once.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ["CUDA_CACHE_DISABLE"] = "1"

import tilecopy as tc
from figures import record
from tilecopy.assemblers import available_assemblers
from tilecopy.executors import get_executor, unavailable_reason

ROUNDS = 11
TILES = [
    (rows, threads, dtype)
    for rows, (threads, dtype) in zip(
        (64, 128) * 4,
        [(t, d) for t in (96, 128) for d in ("uint8", "float16", "float32", "float64")],
        strict=True,
    )
]
"""Rows of a tile, threads and element type of the eight kernels."""


def build(index: int, target: str, name: str) -> tc.BuiltKernel:
    """One of the eight kernels: tiles through shared memory."""
    rows, threads, dtype = TILES[index]
    k = tc.KernelBuilder(f"{name}_{index}", threads=threads)
    a, b = k.param("A", (1 << 16, 64), dtype), k.param("B", (1 << 16, 64), dtype)
    tile = k.shared((rows, 64), dtype, name="tile")
    box = slice(k.block_id("x") * rows, k.block_id("x") * rows + rows)
    k.cta.copy(tile[:, :], a[box, :])
    k.cta_sync()
    k.cta.copy(b[box, :], tile[:, :])
    return k.build(target=target, grid=(1 << 16) // rows)


def one_after_the_other(work: Callable[[int], Any]) -> float:
    """Seconds of the eight pieces of work in this thread."""
    started = time.perf_counter()
    for index in range(len(TILES)):
        work(index)
    return time.perf_counter() - started


def side_by_side(work: Callable[[int], Any]) -> float:
    """Seconds of the eight pieces of work in eight threads, which exist and wait for the start."""
    start = threading.Barrier(len(TILES) + 1)

    def run(index: int) -> None:
        start.wait()
        work(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(TILES))]
    for thread in threads:
        thread.start()
    start.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def compare(what: str, work: Callable[[int, str], Any]) -> None:
    """Print the medians of both, and their ratio. Both take turns, because a shared host is slower for seconds."""
    for index in range(len(TILES)):
        work(index, "warm")
    seconds: dict[Callable[..., float], list[float]] = {one_after_the_other: [], side_by_side: []}
    for n in range(ROUNDS):
        for run, times in seconds.items():
            times.append(run(lambda index, name=f"{run.__name__}{n}": work(index, name)))
    alone, together = map(statistics.median, seconds.values())
    record(f"threads: {what}, 8 kernels", together * 1e3, "ms", one_thread=alone * 1e3)
    print(f"{what:<36}{alone * 1e3:>14.1f}{together * 1e3:>14.1f}{together / alone:>8.2f}", flush=True)


def main() -> None:
    """Print the table."""
    print(f"{f'{os.cpu_count()} CPUs; 8 kernels, ms':<36}{'one thread':>14}{'8 threads':>14}{'ratio':>8}")
    compare("build", lambda index, name: build(index, "sm_90a", name))
    for assembler in available_assemblers():
        compare(f"build and {assembler}", lambda index, name, a=assembler: build(index, "sm_90a", name).cubin(a))
        kernels = [build(index, "sm_90a", "one") for index in range(len(TILES))]
        compare(f"{assembler} alone", lambda index, name, a=assembler, k=kernels: k[index].cubin(a))
    if unavailable_reason("cuda") is not None:
        return
    cuda: Any = get_executor("cuda")
    texts = [kernel.ptx.encode() + b"\0" for kernel in kernels]

    def load(index: int, name: str) -> None:
        with cuda.driver.active(0):
            cuda.driver.call("cuModuleUnload", cuda.driver.call("cuModuleLoadData", texts[index]))

    compare("load of PTX by the driver", load)


if __name__ == "__main__":
    main()
