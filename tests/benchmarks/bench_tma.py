"""Compare tensor copies (TMA) with torch's copy_, bulk, ldgsts and separate loads: `python tests/benchmarks/bench_tma.py`.

2 GiB in and 2 GiB out of random bytes, equality checked, medians over batches of ten launches by device events. Needs torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import tilecopy as tc
from figures import record
from tilecopy import S, TileLayout

COLUMNS = 8192
ROWS = (2 << 30) // 2 // COLUMNS
LAUNCHES, BATCHES = 10, 7
MULTIPROCESSORS = 132


def tile_of(k: tc.KernelBuilder, rows: int, columns: int, dtype: str, swizzle: bool, stages: int = 1) -> tc.Buffer:
    """Tiles of boxes whose rows are 128 bytes, one beside the other, or row major."""
    width = 128 // tc.dtype_of(dtype).bytes
    layout: Any = TileLayout(S[stages, rows, columns])
    if swizzle:
        strides = (rows * columns, width, rows * width, 1)
        layout = TileLayout(S[(stages, rows, columns // width, width) : strides])
        layout = tc.SwizzledLayout(tc.swizzle("128B", dtype), layout)
    return k.shared((stages, rows, columns), dtype, layout=layout, name="tile", align_bytes=1024)


def single(rows: int, columns: int, swizzle: bool) -> tc.BuiltKernel:
    """One tile a CTA by one thread; the SM's other CTAs hide its latency."""
    k = tc.KernelBuilder("tma_single", threads=32)
    a, b = k.param("A", (ROWS, COLUMNS), "float16"), k.param("B", (ROWS, COLUMNS), "float16")
    tile, full = tile_of(k, rows, columns, "float16", swizzle), k.mbarrier("full")
    block = k.block_id("x")
    across = COLUMNS // columns
    y, x = block // across * rows, block % across * columns
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(rows * columns * 2)
        k.thread.copy_async(tile[0], a[y : y + rows, x : x + columns], mbar=full[0], variant="tma")
        full.wait(0)
        k.thread.copy_async(b[y : y + rows, x : x + columns], tile[0], variant="tma_store")
        k.bulk_commit()
        k.bulk_wait(0, read=True)
    return k.build(target="sm_90", grid=ROWS // rows * across)


def several(rows: int, columns: int, swizzle: bool, stages: int) -> tc.BuiltKernel:
    """Some neighbouring tiles a CTA: all are fetched, and sent out when the last has arrived."""
    k = tc.KernelBuilder("tma_several", threads=32)
    a, b = k.param("A", (ROWS, COLUMNS), "float16"), k.param("B", (ROWS, COLUMNS), "float16")
    tile, full = tile_of(k, rows, columns, "float16", swizzle, stages), k.mbarrier("full")
    across = COLUMNS // columns // stages
    block = k.block_id("x")
    y, x = block // across * rows, block % across * (columns * stages)
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(rows * columns * 2 * stages)
        for n in range(stages):
            at = slice(x + n * columns, x + (n + 1) * columns)
            k.thread.copy_async(tile[n], a[y : y + rows, at], mbar=full[0], variant="tma")
        full.wait(0)
        for n in range(stages):
            at = slice(x + n * columns, x + (n + 1) * columns)
            k.thread.copy_async(b[y : y + rows, at], tile[n], variant="tma_store")
        k.bulk_commit()
        k.bulk_wait(0, read=True)
    return k.build(target="sm_90", grid=ROWS // rows * across)


def loop(variant: str, threads: int, stages: int = 4, edge: int = 64) -> tc.BuiltKernel:
    """One CTA an SM reads 64x64 float32 tiles into a ring of shared memory, and adds up one word of each."""
    columns = 2048
    rows = (2 << 30) // 4 // columns
    tiles = rows // edge * (columns // edge)
    per = tiles // MULTIPROCESSORS // stages * stages
    k = tc.KernelBuilder(f"loop_{variant}", threads=threads)
    a, out = k.param("A", (rows, columns), "float32"), k.param("out", (MULTIPROCESSORS, threads), "float32")
    ring = k.shared((stages, edge, edge), "float32", name="ring", align_bytes=1024)
    full, block, tid = k.mbarrier("full", count=stages), k.block_id("x"), k.thread_id()
    total = k.local((1,), "float32", name="total")
    k.store(total[0], 0.0)

    def fetch(n: Any, slot: int) -> None:
        tile = n * MULTIPROCESSORS + block
        y, x = tile // (columns // edge) * edge, tile % (columns // edge) * edge
        source = a[y : y + edge, x : x + edge]
        if variant == "ldgsts":
            k.cta.copy_async(ring[slot], source, variant="ldgsts")
            k.cp_async_commit()
            return
        with k.if_(tid == 0):
            full.arrive_expect_tx(edge * edge * 4, index=slot)
            k.thread.copy_async(ring[slot], source, mbar=full[slot], variant=variant)

    with k.if_(tid == 0):
        for slot in range(stages):
            full.init(1, index=slot)
        k.fence_mbarrier_init()
    k.cta_sync()
    for slot in range(stages - 1):
        fetch(slot, slot)
    with k.range(per // stages) as lap:
        for slot in range(stages):
            n = lap * stages + slot
            if variant == "ldgsts":
                k.cp_async_wait(stages - 2)
            else:
                full.wait(lap % 2, index=slot)
            k.cta_sync()
            with k.if_(n + (stages - 1) < per):
                fetch(n + (stages - 1), (slot + stages - 1) % stages)
            if variant == "ldgsts":
                with k.if_(n + (stages - 1) >= per):
                    k.cp_async_commit()
            k.store(total[0], k.load(total[0]) + k.load(ring[slot, tid % edge, tid // edge]))
    k.store(out[block, tid], k.load(total[0]))
    kernel = k.build(target="sm_90", grid=MULTIPROCESSORS)
    kernel_bytes[id(kernel)] = per * MULTIPROCESSORS * edge * edge * 4
    return kernel


kernel_bytes: dict[int, int] = {}


def shared_rows(ctas: int, multicast: bool) -> tc.BuiltKernel:
    """Clusters whose CTAs all need the same tiles of 64x256 float16, one after the other: one share each for all, or each its own."""
    rows, columns, stages, count = 64, 256, 4, 64
    k = tc.KernelBuilder("cast", threads=32)
    a, out = k.param("A", (1024 * rows, columns), "float16"), k.param("out", (128,), "int32")
    ring = tile_of(k, rows, columns, "float16", True, stages)
    full = k.mbarrier("full", count=stages)
    block, rank = k.block_id("x"), k.cluster_rank()
    share = rows // ctas
    with k.if_(k.thread_id() == 0):
        for slot in range(stages):
            full.init(1, index=slot)
        k.fence_mbarrier_init()
    k.cluster_sync()
    with k.range(count // stages) as lap:
        for slot in range(stages):
            n = (lap * stages + slot + block // ctas * 8) % 1024
            with k.if_(k.thread_id() == 0):
                full.arrive_expect_tx(rows * columns * 2, index=slot)
            with k.if_(k.thread_id() == 0):
                if multicast:
                    part = slice(rank * share, rank * share + share)
                    at = n * rows + rank * share
                    mask = (1 << ctas) - 1
                    k.thread.copy_async(
                        ring[slot, part, :], a[at : at + share, :], mbar=full[slot], multicast=mask, variant="tma"
                    )
                else:
                    k.thread.copy_async(ring[slot], a[n * rows : n * rows + rows, :], mbar=full[slot], variant="tma")
        for slot in range(stages):
            full.wait(lap % 2, index=slot)
        k.cluster_sync()  # every CTA has read its slots: they are free for the next lap
    with k.if_(k.thread_id() == 0):
        k.store(out[block], 1)
    return k.build(target="sm_90", grid=128, cluster=ctas)


def timed(torch: Any, launch: Callable[[], Any]) -> float:
    """Milliseconds of a launch: the median over batches."""
    times = []
    for _ in range(BATCHES):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(LAUNCHES):
            launch()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / LAUNCHES)
    return median(times)


def main() -> None:
    """Print every figure."""
    import torch

    a = torch.randint(0, 1 << 15, (ROWS, COLUMNS), dtype=torch.int16, device="cuda").view(torch.float16)
    b = torch.empty_like(a)
    plain = timed(torch, lambda: b.copy_(a))
    print(f"copy_: {plain:.3f} ms, {2 * a.nbytes / plain / 1e6:.0f} GB/s")
    for swizzle in (True, False):
        best = []
        for rows, columns in ((64, 64), (64, 128), (32, 256), (128, 64), (16, 256), (128, 128)):
            if not swizzle and columns > 256:
                continue
            for stages in (1, 2, 4):
                if rows * columns * 2 * stages > 200 * 1024:
                    continue
                kernel = single(rows, columns, swizzle) if stages == 1 else several(rows, columns, swizzle, stages)
                b.zero_()
                launch = kernel.prepare(a, b)
                launch()
                torch.cuda.synchronize()
                equal = bool((a.view(torch.int16) == b.view(torch.int16)).all())
                best.append((plain / timed(torch, launch), rows, columns, stages, equal))
        for ratio, rows, columns, stages, equal in sorted(best, reverse=True)[:4]:
            name = f"tma: {stages} tiles of {rows}x{columns} a CTA, swizzle {swizzle}"
            record(name, ratio * 2 * a.nbytes / plain / 1e9, "TB/s", torch=2 * a.nbytes / plain / 1e9)
            print(f"swizzle {swizzle}: {stages} tiles of {rows}x{columns} a CTA: {ratio:.3f} of copy_, equal {equal}")
        assert all(each[-1] for each in best)
    x = a.view(torch.float32).view(-1)[: (2 << 30) // 4].view(-1, 2048)
    x = torch.nan_to_num(torch.rand_like(x[:1])).expand_as(x).contiguous()
    out = torch.zeros(MULTIPROCESSORS, 256, device="cuda")
    for variant in ("tma", "ldgsts", "bulk"):
        kernel = loop(variant, 256)
        launch = kernel.prepare(x, out)
        launch()
        torch.cuda.synchronize()
        took = timed(torch, launch)
        record(f"tma: loop by {variant}", kernel_bytes[id(kernel)] / took / 1e9, "TB/s")
        print(
            f"loop of 64x64 float32, 4 stages, one CTA an SM, {variant}: {kernel_bytes[id(kernel)] / took / 1e9:.2f} TB/s"
        )
    rows = torch.rand(1024 * 64, 256, device="cuda").half()
    done = torch.zeros(128, dtype=torch.int32, device="cuda")
    for ctas in (2, 4):
        ms = {cast: timed(torch, shared_rows(ctas, cast).prepare(rows, done)) for cast in (False, True)}
        record(f"tma: multicast to clusters of {ctas}", ms[True] * 1e3, "us", separate=ms[False] * 1e3)
        print(
            f"clusters of {ctas}: separate {ms[False] * 1e3:.1f} us, multicast {ms[True] * 1e3:.1f} us, {ms[False] / ms[True]:.2f}"
        )
    kernel, small = single(64, 64, True), tc.KernelBuilder("same", threads=32)
    pa, pb = small.param("A", (ROWS, COLUMNS), "float16"), small.param("B", (ROWS, COLUMNS), "float16")
    small.store(pb[0, 0], small.load(pa[0, 0]))
    other = small.build(target="sm_90", grid=1)
    host = {}
    tiny = attrs_grid(kernel)
    for name, each in (("maps", tiny), ("none", other)):
        each(a, b)
        torch.cuda.synchronize()
        took = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(50):
                each(a, b)
            took.append((time.perf_counter() - start) / 50 * 1e6)
            torch.cuda.synchronize()
        host[name] = median(took)
    print(f"host time of a call: {host['maps']:.2f} us with two maps, {host['none']:.2f} us without")


def attrs_grid(kernel: tc.BuiltKernel) -> tc.BuiltKernel:
    """The kernel with a grid of one CTA."""
    import attrs

    return attrs.evolve(kernel, grid=(1, 1, 1))


if __name__ == "__main__":
    main()
