"""Kernels whose copies take every path to memory: what they cost is known from the emulator's counts."""

from __future__ import annotations

from typing import Any

import tilecopy as tc
from tilecopy import S, TileLayout, laneid

from tilecopy_test_helpers.programs import round_trip


def swizzled(mode: Any, dtype: str, shape: tuple[int, ...]) -> tc.Layout:
    return tc.SwizzledLayout(tc.swizzle(mode, dtype), TileLayout(S[shape]))


def fragments(dtype: str, layout: tc.Layout | None, rows: int = 4) -> tc.BuiltKernel:
    """Rows of a tile through shared memory into a warp's registers and out, some of them to other registers first."""
    k = tc.KernelBuilder("fragments", threads=32)
    a, b = k.param("A", (rows * 32, 16), dtype), k.param("B", (rows * 32, 16), dtype)
    at = slice(k.block_id() * 32, k.block_id() * 32 + 32)
    tile = k.shared((32, 16), dtype, layout=layout, name="tile")
    held = k.local((32, 16), dtype, layout=TileLayout(S[(32, 16) : (1 @ laneid, 1)]), name="held")
    turned = k.local((32, 16), dtype, layout=TileLayout(S[(32, 4, 4) : (1 @ laneid, 1, 4)]), name="turned")
    k.warp.copy(tile[:, :], a[at, :])
    k.warp_sync()
    k.warp.copy(held[:, :], tile[:, :])
    k.warp.copy(turned[:, :], held[:, :])
    k.warp.copy(b[at, :], turned[:, :])
    return k.build(target="sm_90", grid=rows)


def engines(load: str, store: str, layout: tc.Layout | None, dtype: str = "float16") -> tc.BuiltKernel:
    """Tiles in and out by one thread and an engine."""
    k = tc.KernelBuilder("engines", threads=64)
    a, b = k.param("A", (256, 128), dtype), k.param("B", (256, 128), dtype)
    tile = k.shared((64, 64), dtype, layout=layout, name="tile", align_bytes=1024)
    full, block = k.mbarrier("full"), k.block_id("x")
    box = slice(block // 2 * 64, block // 2 * 64 + 64), slice(block % 2 * 64, block % 2 * 64 + 64)
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(64 * 64 * tc.dtype_of(dtype).bytes)
        k.thread.copy_async(tile[:, :], a[box], mbar=full[0], variant=load)
        full.wait(0)
        k.thread.copy_async(b[box], tile[:, :], variant=store)
        k.bulk_commit()
        k.bulk_wait(0)
    return k.build(target="sm_90a", grid=8)


def exchange() -> tc.BuiltKernel:
    """Two CTAs send each other a tile."""
    k = tc.KernelBuilder("exchange", threads=64)
    a, b = k.param("A", (4 * 64, 32), "float32"), k.param("B", (4 * 64, 32), "float32")
    rows = slice(k.block_id() * 64, k.block_id() * 64 + 64)
    own, other = k.shared((64, 32), "float32", name="own"), k.shared((64, 32), "float32", name="other")
    full = k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(64 * 32 * 4)
    k.cta.copy(own[:, :], a[rows, :])
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(other[:, :], own[:, :], mbar=full, remote_cta_id=1 - k.cluster_rank())
    full.wait(0)
    k.cta.copy(b[rows, :], other[:, :])
    k.cluster_sync()
    return k.build(target="sm_90a", grid=4, cluster=2)


def tiles(
    variant: str, tile: tuple[int, int], *, op: str = "copy", dtype: str = "float16", threads: int = 96, **how: Any
) -> tc.BuiltKernel:
    """Tiles of counts that need not divide, in by one variant and out by ragged."""
    k = tc.KernelBuilder("tiles", threads=threads)
    a, b = k.param("A", (4 * tile[0], 256), dtype), k.param("B", (4 * tile[0], 256), dtype)
    staging = k.shared(tile, dtype, name="tile")
    box = slice(k.block_id() * tile[0], k.block_id() * tile[0] + tile[0]), slice(0, tile[1])
    getattr(k.cta, op)(staging[:, :], a[box], variant=variant, **how)
    if op == "copy_async":
        k.cp_async_commit()
        k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[box], staging[:, :], variant="ragged")
    return k.build(target="sm_80", grid=4)


def warps() -> tc.BuiltKernel:
    """Each warp of a CTA moves a tile of its own."""
    k = tc.KernelBuilder("warps", threads=96)
    a, b = k.param("A", (4 * 96, 16), "float16"), k.param("B", (4 * 96, 16), "float16")
    tiles = k.shared((3, 32, 16), "float16", name="tiles")
    first = k.block_id() * 96 + k.warp_id() * 32
    k.warp.copy(tiles[k.warp_id()], a[first : first + 32, :])
    k.warp_sync()
    k.warp.copy(b[first : first + 32, :], tiles[k.warp_id()])
    return k.build(target="sm_90", grid=4)


def matrices(shape: tuple[int, int], dtype: str, fragment: TileLayout, target: str) -> tc.BuiltKernel:
    """A fragment of tensor cores, stored the other way round in shared memory."""
    k = tc.KernelBuilder("matrices", threads=32)
    a, b = k.param("A", shape[::-1], dtype), k.param("B", shape, dtype)
    tile = k.shared(shape[::-1], dtype, name="tile")
    held = k.local(shape, dtype, layout=fragment, name="held")
    k.warp.copy(tile[:, :], a[:, :])
    k.warp_sync()
    k.warp.copy(held[:, :], tile.T[:, :], variant="ldmatrix")
    k.warp.copy(b[:, :], held[:, :])
    return k.build(target=target, grid=1)


KERNELS = {
    "warps": warps,
    "ldmatrix": lambda: matrices((16, 16), "float16", tc.mma_fragment("m16n8k16", "A", "float16"), "sm_90"),
    "ldmatrix of bytes": lambda: matrices((16, 32), "int8", tc.mma_fragment("m16n8k32", "A", "int8"), "sm_100a"),
    "gmem_smem": lambda: round_trip((128, 256), (32, 64), "float16"),
    "one byte": lambda: round_trip((128, 256), (32, 64), "uint8", layout=TileLayout(S[(32, 64) : (1, 32)])),
    "padded": lambda: round_trip((128, 256), (32, 64), "float32", layout=TileLayout(S[(32, 64) : (65, 1)])),
    "columns": lambda: round_trip((128, 256), (32, 64), "float32", layout=TileLayout(S[(32, 64) : (1, 32)])),
    "swizzled": lambda: round_trip((128, 256), (32, 64), "float16", layout=swizzled("128B", "float16", (32, 64))),
    "rolled": lambda: round_trip(
        (256, 128), (128, 128), "float32", threads=32, layout=TileLayout(S[(128, 128) : (129, 1)])
    ),
    "reg, regperm": lambda: fragments("float32", None),
    "reg, padded": lambda: fragments("float16", TileLayout(S[(32, 16) : (24, 1)])),
    "tma": lambda: engines("tma", "tma_store", swizzled("128B", "float16", (64, 64))),
    "bulk": lambda: engines("bulk", "bulk_store", None),
    "tma of words": lambda: engines("tma", "tma_store", None, "float32"),
    "dsmem": exchange,
    "ldgsts": lambda: tiles("ldgsts", (24, 64), op="copy_async"),
    "ragged": lambda: tiles("ragged", (7, 51)),
    "ragged_async": lambda: tiles("ragged_async", (9, 100), op="copy_async"),
    "ragged bytes": lambda: tiles("ragged", (5, 37), dtype="uint8"),
}
