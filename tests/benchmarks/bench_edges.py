"""Measure the cost of edge tiles on a GPU: `python tests/benchmarks/bench_edges.py`.

A 2 GiB float32 array of 16381 x 32749 through 64x64 tiles in shared memory with `outside="zero"`, against the same kernel on
16384 x 32768 and torch's copy_, by gmem_smem and by ldgsts; ten launches a measurement, medians, equality checked.
"""

from __future__ import annotations

import statistics
from typing import Any

import tilecopy as tc
import torch
from figures import record


def tiles(rows: int, columns: int, pitch: int, op: str) -> tc.BuiltKernel:
    """Every tile of A to shared memory and on to B; rows are ``pitch`` elements apart."""
    k = tc.KernelBuilder("tiles", threads=256)
    a, b = (k.param(name, (rows, columns), "float32", strides=(pitch, 1)) for name in ("A", "B"))
    tile = k.shared((64, 64), "float32", name="tile")
    x, y = k.block_id("x"), k.block_id("y")
    box = (slice(y * 64, y * 64 + 64), slice(x * 64, x * 64 + 64))
    getattr(k.cta, op)(tile[:, :], a[box], outside="zero")
    if op == "copy_async":
        k.cp_async_commit()
        k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[box], tile[:, :], outside="zero")
    return k.build(target="sm_90a", grid=(-(-columns // 64), -(-rows // 64)))


def seconds(work: Any) -> float:
    """Median of seven measurements of ten launches."""
    times = []
    for _ in range(7):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e4)
    return statistics.median(times)


def main() -> None:
    """Print terabytes a second and shares of the whole-tile kernel."""
    for op in ("copy", "copy_async"):
        whole = 0.0
        for rows, columns, pitch in ((16384, 32768, 32768), (16381, 32749, 32768), (16381, 32749, 32749)):
            a = torch.empty(rows * pitch, device="cuda").random_().as_strided((rows, columns), (pitch, 1))
            b = torch.zeros(rows * pitch, device="cuda").as_strided((rows, columns), (pitch, 1))
            kernel = tiles(rows, columns, pitch, op)
            stream = torch.cuda.current_stream().cuda_stream
            launch = kernel.prepare(a, b, stream=stream)
            launch()
            torch.cuda.synchronize()
            assert torch.equal(a, b)
            rate = 2 * 4 * rows * columns / seconds(launch) / 1e12
            plain = 2 * 4 * rows * columns / seconds(lambda a=a, b=b: b.copy_(a)) / 1e12
            whole = whole or rate
            record(f"edges: {op}, {rows} x {columns}, rows {pitch} apart", rate, "TB/s", torch=plain, whole_tiles=whole)
            print(
                f"{op:<10} {rows} x {columns}, rows {pitch} apart: {rate:.2f} TB/s, {rate / whole:.3f} of whole tiles, "
                f"{rate / plain:.3f} of torch copy_"
            )


if __name__ == "__main__":
    main()
