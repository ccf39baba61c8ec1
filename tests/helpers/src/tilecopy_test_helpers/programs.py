"""Kernels that several tests run: on the emulator, through the assemblers and on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilecopy as tc

from tilecopy_core import S, TileLayout, laneid

from . import byte_arrays


def round_trip(
    shape: tuple[int, int],
    tile: tuple[int, int],
    dtype: str = "float16",
    *,
    threads: int = 128,
    layout: tc.Layout | None = None,
    target: str = "sm_90a",
    scope: str = "cta",
) -> tc.BuiltKernel:
    """Every tile of A to shared memory and on to B."""
    k = tc.KernelBuilder("round_trip", threads=threads)
    a, b = k.param("A", shape, dtype), k.param("B", shape, dtype)
    x, y = k.block_id("x"), k.block_id("y")
    staging = k.shared(tile, dtype, layout=layout, name="tile")
    box = (slice(y * tile[0], y * tile[0] + tile[0]), slice(x * tile[1], x * tile[1] + tile[1]))
    copies = getattr(k, scope)
    copies.copy(staging[:, :], a[box])
    k.cta_sync()
    copies.copy(b[box], staging[:, :])
    return k.build(target=target, grid=(shape[1] // tile[1], shape[0] // tile[0]))


def shared_dump(
    a_shape: tuple[int, ...],
    a_strides: tuple[int, ...],
    a_box: tuple[slice, ...],
    s_shape: tuple[int, ...],
    s_layout: tc.Layout,
    s_box: tuple[slice, ...],
    dtype: str,
    *,
    threads: int,
    count: int,
    target: str = "sm_90a",
) -> tc.BuiltKernel:
    """A box of A to a box of shared memory, then raw shared elements at given element addresses to B."""
    bits = tc.dtype_of(dtype).bits
    k = tc.KernelBuilder("shared_dump", threads=threads)
    a = k.param("A", a_shape, dtype, strides=a_strides)
    places = k.param("places", (count,), "int32", align_bytes=4)
    b = k.param("B", (count,), dtype, align_bytes=bits // 8)
    staging = k.shared(s_shape, dtype, layout=s_layout, name="tile")
    k.cta.copy(staging[s_box], a[a_box])
    k.cta_sync()
    type, register = (f"u{max(bits, 16)}", f"b{max(bits, 16)}")
    first = k.address(staging[(0,) * len(s_shape)])
    for turn in k.range(-(-count // threads)):
        i = turn * threads + k.thread_id()
        with k.if_(i < count):
            k.inline_ptx(
                f"{{{{ .reg .b32 at; .reg .{register} v; mad.lo.s32 at, {{0}}, {bits // 8}, {{2}};\n"
                f"ld.shared.u{bits} v, [at]; st.global.{type if bits > 8 else 'u8'} {{1}}, v; }}}}",
                k.load(places[i]),
                b[i],
                first,
            )
    return k.build(target=target, grid=1)


def run_shared_dump(
    a_shape: tuple[int, ...],
    a_strides: tuple[int, ...],
    a_box: tuple[slice, ...],
    s_shape: tuple[int, ...],
    s_layout: tc.Layout,
    s_box: tuple[slice, ...],
    s_addresses: Any,
    dtype: str,
    *,
    threads: int,
    executor: str,
    target: str = "sm_90a",
) -> tuple[tc.BuiltKernel, Any, Any]:
    """Run :func:`shared_dump`; returns the kernel, what shared memory holds at the oracle's addresses, and what it should."""
    kernel = shared_dump(
        a_shape,
        a_strides,
        a_box,
        s_shape,
        s_layout,
        s_box,
        dtype,
        threads=threads,
        count=len(s_addresses),
        target=target,
    )
    itemsize = tc.dtype_of(dtype).bits // 8
    span = sum((e - 1) * s for e, s in zip(a_shape, a_strides, strict=True)) + 1
    memory = byte_arrays.random_array((span,), f"u{itemsize}")
    a = np.lib.stride_tricks.as_strided(memory, a_shape, tuple(s * itemsize for s in a_strides))
    a = a.view(tc.dtype_of(dtype).numpy())
    out = np.zeros(len(s_addresses), a.dtype)
    kernel(a, np.asarray(s_addresses, np.int32), out, executor=executor)
    return kernel, out, np.ascontiguousarray(a[a_box]).ravel()


def tiles(
    shape: tuple[int, int],
    tile: tuple[int, int],
    dtype: str = "float16",
    *,
    outside: Any = "zero",
    halo: int = 0,
    op: str = "copy",
    row: int | None = None,
    layout: tc.Layout | None = None,
    threads: int = 128,
    scope: str = "cta",
    target: str = "sm_90a",
    grid: bool = True,
) -> tc.BuiltKernel:
    """Every tile of A with its halo, edges included, to C as it lies in shared memory; without halo, on to B too."""
    k = tc.KernelBuilder("tiles", threads=threads)
    strides = (row or shape[1], 1)
    a, b = (k.param(name, shape, dtype, strides=strides) for name in "AB")
    extents = tuple(t + 2 * halo for t in tile)
    counts = tuple(-(-s // t) for s, t in zip(shape, tile, strict=True))
    c = k.param("C", (*counts, *extents), dtype)
    staging = k.shared(extents, dtype, layout=layout, name="tile")
    y, x = k.block_id("y"), k.block_id("x")
    box = tuple(slice(i * t - halo, i * t + t + halo) for i, t in zip((y, x), tile, strict=True))
    copies = getattr(k, scope)
    getattr(copies, op)(staging[:, :], a[box], outside=outside)
    if op == "copy_async":
        k.cp_async_commit()
        k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(c[y, x, :, :], staging[:, :])
    if not halo:
        copies.copy(b[box], staging[:, :], outside="keep")
    return k.build(target=target, grid=counts[::-1] if grid else None)


def edge_of(variant: str) -> tc.BuiltKernel:
    """One copy at the edge by each variant."""
    if variant == "reg":
        k = tc.KernelBuilder("edge", threads=32)
        a, b = k.param("A", (100, 72), "float16"), k.param("B", (100, 72), "float16")
        frag = k.local((32, 8), "float16", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]), name="frag")
        y, x = k.block_id("y"), k.block_id("x")
        box = (slice(y * 32, y * 32 + 32), slice(x * 8, x * 8 + 8))
        k.warp.copy(frag[:, :], a[box], outside=1)
        k.warp.copy(b[box], frag[:, :], outside="keep")
        return k.build(target="sm_90a", grid=(9, 4))
    op = "copy_async" if variant in ("ldgsts", "ragged_async") else "copy"
    threads = 96 if "ragged" in variant else 128
    kernel = tiles((100, 72), (16, 64), op=op, threads=threads)
    assert kernel.plans[0].variant == variant
    return kernel


def transposed_words(dtype: str = "float16", target: str = "sm_90a") -> tc.BuiltKernel:
    """A tile of A to B transposed: shared memory is read in words along the rows, global memory written in 16 bytes down them.

    Between the two each thread permutes its registers: of float16 8 x 2 elements, of uint8 16 x 4.
    """
    columns = 32 // tc.dtype_of(dtype).bits
    rows = 4 * columns
    shape = (8 * rows, 32 * columns)
    k = tc.KernelBuilder("transposed_words", threads=256)
    a, b = k.param("A", shape, dtype), k.param("B", shape[::-1], dtype)
    staging = k.shared(
        shape, dtype, layout=tc.SwizzledLayout(tc.swizzle("128B", dtype), TileLayout(S[shape])), name="tile"
    )
    split = (8, rows, 32, columns)
    by_rows = k.local(shape, dtype, layout=TileLayout(S[split : (32 @ tc.tx, columns, 1 @ tc.tx, 1)]), name="by_rows")
    by_columns = k.local(
        shape, dtype, layout=TileLayout(S[split : (32 @ tc.tx, 1, 1 @ tc.tx, rows)]), name="by_columns"
    )
    k.cta.copy(staging[:, :], a[:, :])
    k.cta_sync()
    k.cta.copy(by_rows[:, :], staging[:, :], variant="reg")
    k.cta.copy(by_columns[:, :], by_rows[:, :])
    k.cta.copy(b.T[:, :], by_columns[:, :])
    return k.build(target=target, grid=1)


def two_columns(target: str) -> tc.BuiltKernel:
    """Ones into the one and twos into the other: what is written between two rows of either is the other's."""
    k = tc.KernelBuilder("two_columns", threads=32)
    left, right = (k.param(name, (8, 32), "int32", strides=(64, 1)) for name in ("L", "R"))
    for row in range(8):
        k.store(left[row, k.thread_id()], 1)
        k.store(right[row, k.thread_id()], 2)
    return k.build(target=target, grid=1)
