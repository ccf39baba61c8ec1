"""Compare the throughput of the grid copies on a GPU with torch's copy_: `python tests/benchmarks/bench_round_trip.py`.

2 GiB in and 2 GiB out of random bytes, equality checked, medians of device events. Needs torch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import tilecopy as tc
import torch
from figures import record

NBYTES = 2 << 30


def median_seconds(work: Callable[[], Any], runs: int = 30, warm_up: int = 5, batch: int = 4) -> float:
    """Median of device events around batches of launches, so that the host's share of a launch is hidden for all alike."""
    for _ in range(warm_up):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(batch):
            work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e-3 / batch)
    return statistics.median(times)


def gmem_smem(rows: int) -> tc.BuiltKernel:
    """128x64 float16 tiles through shared memory, 128 threads."""
    k = tc.KernelBuilder("bench_gmem_smem", threads=128)
    a, b = k.param("A", (rows, 64), "float16"), k.param("B", (rows, 64), "float16")
    tile = k.shared((128, 64), "float16", name="tile")
    box = slice(k.block_id("x") * 128, k.block_id("x") * 128 + 128)
    k.cta.copy(tile[:, :], a[box, :])
    k.cta_sync()
    k.cta.copy(b[box, :], tile[:, :])
    return k.build(target="sm_90a", grid=(rows // 128,))


def ldgsts(rows: int, tile_rows: int = 32) -> tc.BuiltKernel:
    """Tiles of 64 float16 columns filled by cp.async; 32 rows keep the loads of an SM flowing best."""
    k = tc.KernelBuilder("bench_ldgsts", threads=128)
    a, b = k.param("A", (rows, 64), "float16"), k.param("B", (rows, 64), "float16")
    tile = k.shared((tile_rows, 64), "float16", name="tile")
    box = slice(k.block_id("x") * tile_rows, k.block_id("x") * tile_rows + tile_rows)
    k.cta.copy_async(tile[:, :], a[box, :], variant="ldgsts")
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[box, :], tile[:, :])
    return k.build(target="sm_90a", grid=(rows // tile_rows,))


def reg(rows: int, vectors: int = 1) -> tc.BuiltKernel:
    """Through registers alone, 16 bytes times ``vectors`` a thread, consecutive threads on consecutive 16 bytes."""
    k = tc.KernelBuilder("bench_reg", threads=128)
    a, b = k.param("A", (rows, 64), "float16"), k.param("B", (rows, 64), "float16")
    tile_rows = vectors * 16
    layout = tc.TileLayout(tc.S[(vectors, 128, 8) : (8, 1 @ tc.tx, 1)])
    fragment = k.local((tile_rows, 64), "float16", layout=layout, name="fragment")
    box = slice(k.block_id("x") * tile_rows, k.block_id("x") * tile_rows + tile_rows)
    k.cta.copy(fragment[:, :], a[box, :])
    k.cta.copy(b[box, :], fragment[:, :])
    return k.build(target="sm_90a", grid=(rows // tile_rows,))


def main() -> None:
    """Print a table: TB/s read + written, and the ratio to torch in this run."""
    rows = NBYTES // 128
    source = torch.randint(0, 256, (NBYTES,), dtype=torch.uint8, device="cuda")
    a = source.view(torch.float16).view(rows, 64)
    b = torch.empty_like(a)
    peer = median_seconds(lambda: b.copy_(a))
    print(f"{'copy of 2 GiB':<24}{'TB/s':>8}{'of torch':>10}  equal")
    print(f"{'torch copy_':<24}{2 * NBYTES / peer / 1e12:>8.3f}{1:>10.3f}")
    for make in (gmem_smem, ldgsts, reg):
        try:
            kernel = make(rows)
        except tc.NoVariantError as error:
            print(f"{make.__name__:<24} not installed: {str(error).splitlines()[-1].strip()}")
            continue
        b.zero_()
        seconds = median_seconds(lambda kernel=kernel: kernel(a, b))
        equal = bool(torch.equal(a.view(torch.int32), b.view(torch.int32)))
        rate, torch_rate = (2 * NBYTES / each / 1e12 for each in (seconds, peer))
        record(f"round trip: {make.__name__}", rate, "TB/s", torch=torch_rate)
        print(f"{make.__name__:<24}{rate:>8.3f}{peer / seconds:>10.3f}  {equal}")
        if not equal:
            raise SystemExit(f"{make.__name__}: the result differs")


def launch_overhead() -> None:
    """Host time of one launch with two torch tensors."""
    kernel = gmem_smem(128)
    a = torch.zeros(128, 64, dtype=torch.float16, device="cuda")
    b = torch.zeros_like(a)
    for _ in range(200):
        kernel(a, b)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(2000):
        kernel(a, b)
    seconds = (time.perf_counter() - started) / 2000
    torch.cuda.synchronize()
    print(f"host time of one launch, two torch tensors: {seconds * 1e6:.1f} us")


if __name__ == "__main__":
    main()
    launch_overhead()
