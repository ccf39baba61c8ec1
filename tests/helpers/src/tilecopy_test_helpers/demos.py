"""The seeds' demonstration programs and their neighbours, as kernels that tests, sessions and READMEs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from tilecopy_core import R, S, TCol, TileLayout, TLane, laneid

from . import byte_arrays


def by_elements(k: tc.KernelBuilder, dst: tc.Region, src: tc.Region, *, threads: int) -> None:
    """A 2-D copy with nothing but loads and stores of elements: for tests that have no other variant installed."""
    columns = dst.extents[1]
    with k.range(dst.size // threads) as turn:
        flat = turn * threads + (k.thread_id() if threads > 1 else 0)
        row, column = flat // columns, flat % columns
        value = k.load(src.buffer[src.starts[0] + row, src.starts[1] + column])
        k.store(dst.buffer[dst.starts[0] + row, dst.starts[1] + column], value)


def gmem_smem(target: str = "sm_90a", dtype: str = "float32") -> tc.BuiltKernel:
    """A warp takes a 32x32 tile to shared memory, and back by halves (so that other lanes read than wrote)."""
    k = tc.KernelBuilder("gmem_smem_demo", threads=32)
    a, b = k.param("A", (32, 32), dtype), k.param("B", (32, 32), dtype)
    staging = k.shared((32, 32), dtype, name="A_smem")
    k.warp.copy(staging[:, :], a[:, :])
    k.cta_sync()
    for half in (slice(0, 16), slice(16, 32)):
        k.warp.copy(b[:, half], staging[:, half])
    return k.build(target=target, grid=1)


def reg(target: str = "sm_90a", dtype: str = "float32", columns: int = 8) -> tc.BuiltKernel:
    """A warp takes rows from shared memory to registers, computes on them, and puts them back."""
    k = tc.KernelBuilder("reg_demo", threads=32)
    b = k.param("B", (32, columns), dtype)
    tid = k.thread_id()
    staging = k.shared((32, columns), dtype, name="A_smem")
    for kk in range(columns):
        k.store(staging[31 - tid, kk], k.cast(31 - tid + kk + 1, dtype))
    k.cta_sync()
    fragment = k.local((32, columns), dtype, layout=TileLayout(S[(32, columns) : (1 @ laneid, 1)]), name="R")
    k.warp.copy(fragment[:, :], staging[:, :])
    k.cta_sync()
    own = k.registers(fragment)
    for kk in range(columns):
        k.store(staging[31 - tid, kk], 0)
        k.store(own[kk], k.load(own[kk]) * 2 + 1)
    k.cta_sync()
    k.warp.copy(staging[:, :], fragment[:, :])
    k.cta_sync()
    for kk in range(columns):
        k.store(b[31 - tid, kk], k.load(staging[31 - tid, kk]))
    return k.build(target=target, grid=1)


def ldgsts(target: str = "sm_90a", dtype: str = "float16", *, elementwise: bool = False) -> tc.BuiltKernel:
    """A CTA loads a 128x32 tile asynchronously, commits, waits, and writes it out."""
    k = tc.KernelBuilder("ldgsts_demo", threads=128)
    a, b = k.param("A", (128, 32), dtype), k.param("B", (128, 32), dtype)
    staging = k.shared((128, 32), dtype, name="A_smem")
    k.cta.copy_async(staging[:, :], a[:, :], variant="ldgsts")
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    for half in (slice(0, 16), slice(16, 32)):
        if elementwise:
            by_elements(k, b[:, half], staging[:, half], threads=128)
        else:
            k.cta.copy(b[:, half], staging[:, half])
    return k.build(target=target, grid=1)


def pipeline(
    target: str = "sm_90a", *, rows: int = 64, tiles: int = 6, ctas: int = 2, stages: int = 3, asynchronous: bool = True
) -> tc.BuiltKernel:
    """out[r, c] = sum over tiles of 2 * A[tile, r, c]: a loop over k tiles that computes while loads fly."""
    width, threads = 64, 128
    k = tc.KernelBuilder("pipeline" if asynchronous else "no_pipeline", threads=threads)
    a = k.param("A", (ctas * tiles * rows, width), "float32")
    out = k.param("OUT", (ctas * rows, width), "float32")
    cta = k.block_id("x")
    ring = k.shared((stages * rows, width), "float32", name="ring")
    turns = rows * width // (threads * 4)
    layout = TileLayout(S[(4, turns, 32, 4) : (1 @ tc.warpid, 4, 1 @ laneid, 1)])
    part = k.local((rows, width), "float32", layout=layout, name="part")
    total = k.local((rows, width), "float32", layout=layout, name="total")
    count = rows * width // threads
    for i in range(count):
        k.store(k.registers(total)[i], 0.0)

    def tile(number: tc.Int) -> tc.Region:
        first = (cta * tiles + number) * rows
        return a[first : first + rows, :]

    def stage(number: tc.Int) -> tc.Region:
        first = number % stages * rows
        return ring[first : first + rows, :]

    def compute(number: tc.Int) -> None:
        k.cta.copy(part[:, :], stage(number))
        for i in range(count):
            k.store(k.registers(total)[i], k.load(k.registers(total)[i]) + k.load(k.registers(part)[i]) * 2.0)

    if asynchronous:
        for number in range(stages - 1):
            k.cta.copy_async(stage(number), tile(number))
            k.cp_async_commit()
        with k.range(tiles) as number:
            k.cp_async_wait(stages - 2)
            k.cta_sync()  # the tile is there, and everyone is done with the stage that is filled next
            with k.if_(number + (stages - 1) < tiles):
                k.cta.copy_async(stage(number + (stages - 1)), tile(number + (stages - 1)))
            k.cp_async_commit()
            compute(number)
    else:
        with k.range(tiles) as number:
            k.cta_sync()
            k.cta.copy(stage(number), tile(number))
            k.cta_sync()
            compute(number)
    k.cta.copy(out[cta * rows : cta * rows + rows, :], total[:, :])
    return k.build(target=target, grid=ctas)


def bulk(target: str = "sm_90", *, tiles: int = 5) -> tc.BuiltKernel:
    """A CTA doubles tiles in a ring of two: in by bulk copies, doubled by all threads, out by bulk copies."""
    k = tc.KernelBuilder("bulk_demo", threads=64)
    a, b = k.param("A", (tiles * 32, 32), "int32"), k.param("B", (tiles * 32, 32), "int32")
    ring, full, tid = k.shared((64, 32), "int32", name="ring"), k.mbarrier("full", count=2), k.thread_id()

    def rows(tile: int) -> slice:
        return slice(tile * 32, tile * 32 + 32)

    def fetch(tile: int) -> None:
        full.arrive_expect_tx(32 * 32 * 4, index=tile % 2)
        k.thread.copy_async(ring[rows(tile % 2), :], a[rows(tile), :], mbar=full[tile % 2], variant="bulk")

    with k.if_(tid == 0):
        for slot in range(2):
            full.init(1, index=slot)
        k.fence_mbarrier_init()
    k.cta_sync()
    with k.if_(tid == 0):
        fetch(0)
    for tile in range(tiles):
        slot = tile % 2
        full.wait(tile // 2 % 2, index=slot)
        with k.range(16) as row:
            element = ring[slot * 32 + row * 2 + tid // 32, tid % 32]
            k.store(element, k.load(element) * 2)
        k.fence_proxy_async()
        k.cta_sync()
        with k.if_(tid == 0):
            k.thread.copy_async(b[rows(tile), :], ring[rows(slot), :], variant="bulk_store")
            k.bulk_commit()
            if tile + 1 < tiles:
                if tile:
                    k.bulk_wait(1, read=True)  # the other slot has been read
                fetch(tile + 1)
    with k.if_(tid == 0):
        k.bulk_wait(0, read=True)
    return k.build(target=target, grid=1)


def tma(target: str = "sm_90") -> tc.BuiltKernel:
    """A CTA doubles a swizzled tile: in by a tensor copy, doubled by all threads, out by another; tiles overhang the array."""
    k = tc.KernelBuilder("tma_demo", threads=32)
    a, b = k.param("A", (40, 48), "int32"), k.param("B", (40, 48), "int32")
    layout = tc.SwizzledLayout(tc.swizzle("128B", "int32"), TileLayout(S[32, 32]))
    tile, full, tid = k.shared((32, 32), "int32", layout=layout, name="tile"), k.mbarrier("full"), k.thread_id()
    row, column = k.block_id("y") * 32, k.block_id("x") * 32
    box = slice(row, row + 32), slice(column, column + 32)
    with k.if_(tid == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(32 * 32 * 4)
        k.thread.copy_async(tile[:, :], a[box], mbar=full[0], outside="zero", variant="tma")
    k.cta_sync()
    full.wait(0)
    with k.range(32) as line:
        k.store(tile[line, tid], k.load(tile[line, tid]) * 2)
    k.fence_proxy_async()
    k.cta_sync()
    with k.if_(tid == 0):
        k.thread.copy_async(b[box], tile[:, :], outside="zero", variant="tma_store")
        k.bulk_commit()
        k.bulk_wait(0, read=True)
    return k.build(target=target, grid=(2, 2))


def dsmem(
    target: str = "sm_90",
    *,
    layout: tc.Layout | None = None,
    cluster: int = 2,
    box: tuple[slice, slice] = (slice(0, 128), slice(0, 64)),
    computed: bool = False,
    elementwise: bool = False,
) -> tc.BuiltKernel:
    """CTA 0 stages a tile and sends it to the last CTA of the cluster, which waits and writes it out."""
    k = tc.KernelBuilder("dsmem_demo", threads=32)
    a, b = k.param("A", (128, 64), "float16"), k.param("B", (128, 64), "float16")
    source = k.shared((128, 64), "float16", layout=layout, name="src_smem")
    destination = k.shared((128, 64), "float16", layout=layout, name="dst_smem")
    mbar = k.mbarrier("mbar")
    tid, rank = k.thread_id(), k.cluster_rank()
    nbytes = (box[0].stop - box[0].start) * (box[1].stop - box[1].start) * 2

    def stage(dst: tc.Region, src: tc.Region) -> None:
        if elementwise:
            by_elements(k, dst, src, threads=1)
        else:
            k.thread.copy(dst, src)

    with k.if_(tid == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
    k.cluster_sync()
    with k.if_(tid == 0):
        with k.if_(rank == 0):
            stage(source[box], a[box])
            k.fence_proxy_async()
            target_cta = rank + (cluster - 1) if computed else cluster - 1
            k.thread.copy_async(destination[box], source[box], mbar=mbar[0], remote_cta_id=target_cta)
        with k.if_(rank == cluster - 1):
            mbar.arrive_expect_tx(nbytes)
            mbar.wait(0)
            stage(b[box], destination[box])
    k.cluster_sync()
    return k.build(target=target, grid=cluster, cluster=cluster)


def tcgen05_cp(
    target: str = "sm_100a",
    *,
    dtype: str = "uint8",
    columns: int = 16,
    layout: tc.Layout | None = None,
    elementwise: bool = False,
) -> tc.BuiltKernel:
    """A warpgroup fills a shared tile, copies it to tensor memory and reads it back in all four warps."""
    words = columns * tc.dtype_of(dtype).bits // 32
    k = tc.KernelBuilder("tcgen05_cp_demo", threads=128)
    a = k.param("A", (32, columns), dtype)
    b = k.param("B", (128, words), "uint32")
    staging = k.shared((32, columns), dtype, layout=layout, name="A_smem", align_bytes=1024)
    mbar = k.mbarrier("cp_mbar")
    tmem = k.tmem(
        (32, columns),
        dtype,
        layout=TileLayout(S[(32, columns) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]),
        name="tmem",
    )
    fragment = k.local(words, "uint32", name="fragment")
    tid = k.thread_id()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(tmem, columns=32)
    with k.if_(tid == 0):
        mbar.init(1)
    if elementwise:
        by_elements(k, staging[:, :], a[:, :], threads=128)
    else:
        k.cta.copy(staging[:, :], a[:, :])
    k.fence_proxy_async()
    k.cta_sync()
    with k.if_(tid == 0):
        k.thread.copy_async(tmem[:, :], staging[:, :])
        k.tcgen05_commit(mbar[0])
    mbar.wait(0)
    k.tcgen05_fence_after()
    k.tcgen05_ld(fragment, tmem)
    k.tcgen05_wait_ld()
    for i in range(words):
        k.store(b[tid, i], k.load(fragment[i]))
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(tmem, columns=32)
    return k.build(target=target, grid=1)


def producer_consumer(target: str = "sm_90", *, rounds: int = 7, stages: int = 2) -> tc.BuiltKernel:
    """One warp fills the stages of a ring, two warps read them; mbarriers alone order them, phase by phase."""
    k = tc.KernelBuilder("producer_consumer", threads=96)
    a, b = k.param("A", (rounds, 32), "float32"), k.param("B", (rounds, 64), "float32")
    ring = k.shared((stages, 32), "float32", name="ring")
    full, empty = k.mbarrier("full", count=stages), k.mbarrier("empty", count=stages)
    tid, warp, lane = k.thread_id(), k.warp_id(), k.lane_id()
    with k.if_(tid == 0):
        for stage in range(stages):
            full.init(32, index=stage)
            empty.init(64, index=stage)
    k.cta_sync()
    with k.if_(warp == 0), k.range(rounds) as i:
        with k.if_(i >= stages):
            empty.wait((i // stages + 1) % 2, index=i % stages)
        k.store(ring[i % stages, lane], k.load(a[i, lane]))
        full.arrive(index=i % stages)
    with k.if_(warp > 0), k.range(rounds) as i:
        full.wait(i // stages % 2, index=i % stages)
        k.store(b[i, tid - 32], k.load(ring[i % stages, 31 - lane]) + k.load(ring[i % stages, lane]))
        empty.arrive(index=i % stages)
    return k.build(target=target, grid=1)


@attrs.frozen
class Demo:
    """A demo, its inputs and what it must give.

    Attributes:
        make: builds it for a target.
        arguments: fresh arguments; the last is the result.
        expected: the result, from the arguments before it.
        variants: what must be installed.
        min_arch: oldest architecture; ``specific`` ones need a suffix.
    """

    make: Callable[..., tc.BuiltKernel]
    arguments: Callable[[], list[Any]]
    expected: Callable[[list[Any]], Any]
    variants: tuple[str, ...]
    min_arch: int = 75
    specific: bool = False

    def runs(self, target: str) -> bool:
        """Whether a target has what the demo needs."""
        chosen = tc.target_of(target)
        if self.specific:
            return chosen.arch in (100, 103, 110) and bool(chosen.suffix)
        return chosen.arch >= self.min_arch

    def check(self, kernel: tc.BuiltKernel, executor: str) -> None:
        """Run it and compare every byte."""
        arguments = self.arguments()
        expected = self.expected(arguments[:-1])
        kernel(*arguments, executor=executor)
        assert byte_arrays.same_bytes(arguments[-1], np.ascontiguousarray(expected)), kernel.name


def _same(shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    return {
        "arguments": lambda: [byte_arrays.random_array(shape, dtype), np.zeros(shape, dtype)],
        "expected": lambda inputs: inputs[0],
    }


def _pipeline_input() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 100, (2 * 6 * 64, 64)).astype(np.float32), np.zeros((2 * 64, 64), np.float32)]


def _pipeline_result(inputs: list[Any]) -> Any:
    return (2 * inputs[0].reshape(2, 6, 64, 64).sum(axis=1)).reshape(128, 64).astype(np.float32)


DEMOS: dict[str, Demo] = {
    "gmem_smem": Demo(gmem_smem, **_same((32, 32), "float32"), variants=("gmem_smem",)),
    "reg": Demo(
        reg,
        lambda: [np.zeros((32, 8), np.float32)],
        lambda _: ((np.arange(32)[:, None] + np.arange(8) + 1) * 2 + 1).astype(np.float32),
        variants=("reg",),
    ),
    "ldgsts": Demo(ldgsts, **_same((128, 32), "float16"), variants=("gmem_smem", "ldgsts"), min_arch=80),
    "pipeline": Demo(pipeline, _pipeline_input, _pipeline_result, variants=("ldgsts", "reg"), min_arch=80),
    "producer_consumer": Demo(
        producer_consumer,
        lambda: [np.random.default_rng(0).random((7, 32), dtype=np.float32), np.zeros((7, 64), np.float32)],
        lambda inputs: np.tile(inputs[0] + inputs[0][:, ::-1], (1, 2)),
        variants=(),
        min_arch=90,
    ),
    "bulk": Demo(
        bulk,
        lambda: [byte_arrays.random_array((160, 32), "int32"), np.zeros((160, 32), np.int32)],
        lambda inputs: inputs[0] * np.int32(2),
        variants=("bulk", "bulk_store"),
        min_arch=90,
    ),
    "tma": Demo(
        tma,
        lambda: [byte_arrays.random_array((40, 48), "int32"), np.zeros((40, 48), np.int32)],
        lambda inputs: inputs[0] * np.int32(2),
        variants=("tma", "tma_store"),
        min_arch=90,
    ),
    "dsmem": Demo(dsmem, **_same((128, 64), "float16"), variants=("gmem_smem", "dsmem"), min_arch=90),
    "tcgen05_cp": Demo(
        tcgen05_cp,
        lambda: [byte_arrays.random_array((32, 16), "uint8"), np.zeros((128, 4), np.uint32)],
        lambda inputs: np.tile(inputs[0].view(np.uint32), (4, 1)),
        variants=("gmem_smem", "tcgen05_cp"),
        min_arch=100,
        specific=True,
    ),
}
