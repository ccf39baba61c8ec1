"""A job of `tilecopy run` as data, and the kernels that it needs."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import attrs
import numpy as np

from ..errors import RequestError
from ..kernel import BuiltKernel, KernelBuilder
from ..layout import Layout, S, SwizzledLayout, TileLayout, swizzle
from ..registry import default_registry
from ..target import Target

_UNITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


@attrs.frozen
class Job:
    """What is asked.

    Attributes:
        tile: rows and columns of a tile.
        threads: threads of a CTA.
        swizzle: mode of the shared layout, or None.
        pad: elements added to each row of the shared layout.
        variant: a variant to demand, or None.
        target: architecture, or None for the GPU's own.
        executor: ``cuda``, ``emulator`` or None for the GPU where there is one.
    """

    tile: tuple[int, int] = (128, 64)
    threads: int = 128
    swizzle: str | None = None
    pad: int = 0
    variant: str | None = None
    target: str | None = None
    executor: str | None = None


@attrs.frozen(eq=False)
class Part:
    """The tiles of one size: the inner ones, those of the right edge, the bottom edge or the corner."""

    where: str
    tile: tuple[int, int]
    count: int
    kernel: BuiltKernel


@attrs.frozen(eq=False)
class Outcome:
    """What was done.

    Attributes:
        shape: of the array.
        dtype: of the array.
        order: ``C`` or ``F``.
        parts: one for each size of tile.
        bytes: of the array.
        seconds: of the copy alone (a median on the GPU).
        runs: how many copies that is the median of.
        executor: which ran it.
        verified: how the result was checked.
    """

    shape: tuple[int, ...]
    dtype: str
    order: str
    parts: tuple[Part, ...]
    bytes: int
    seconds: float
    runs: int
    executor: str
    target: str
    verified: str

    @property
    def gb_per_s(self) -> float:
        """Read and written."""
        return 2 * self.bytes / self.seconds / 1e9 if self.seconds else 0.0


def as_rows(array: Any, width: int) -> list[Any]:
    """An array's own memory as 2-D views of unsigned words, no byte copied.

    The axes are taken in memory order, all but the last together as rows. One row alone (a vector) becomes rows of
    ``width`` and a rest.
    """
    flat = array if array.flags.c_contiguous else array.T
    flat = np.ascontiguousarray(flat) if not flat.flags.c_contiguous else flat
    size = flat.dtype.itemsize
    unit = next(width_bytes for width_bytes in (8, 4, 2, 1) if size % width_bytes == 0)
    columns = (flat.shape[-1] if flat.ndim else 1) * (size // unit)
    words = flat.reshape(-1).view(_UNITS[unit])
    if columns < len(words):
        return [words.reshape(-1, columns)]
    whole = len(words) // width * width
    parts = words[:whole].reshape(-1, width), words[whole:].reshape(1, -1)
    return [part for part in parts if part.size]


def shared_layout(job: Job, tile: tuple[int, int], dtype: str) -> Layout:
    """The layout of a tile in shared memory: row-major, padded or swizzled."""
    if job.pad and job.swizzle:
        raise RequestError("--swizzle and --pad are two ways to the same end; give one")
    if job.pad < 0:
        raise RequestError(f"--pad is at least 0, not {job.pad}")
    rows, columns = tile
    plain = TileLayout(S[(rows, columns) : (columns + job.pad, 1)])
    return SwizzledLayout(swizzle(job.swizzle, dtype), plain) if job.swizzle else plain


def build_parts(job: Job, shape: tuple[int, int], dtype: str, target: Target) -> list[Part]:
    """The kernels of a 2-D array: one for the inner tiles, one for each edge that the tile does not divide."""
    inner_and_edge = [
        [(0, extent // step, step), (extent // step * step, 1, extent % step)]
        for extent, step in zip(shape, job.tile, strict=True)
    ]
    names = ("inner", "right edge", "bottom edge", "corner")
    parts = []
    for where, (rows, columns) in zip(names, product(*inner_and_edge), strict=True):
        starts, counts, tile = zip(rows, columns, strict=True)
        if all(counts) and all(tile):
            parts.append(
                Part(where, tile, prod(counts), _tile_kernel(job, shape, dtype, target, tile, starts, counts, where))
            )
    return parts


def _tile_kernel(
    job: Job,
    shape: tuple[int, int],
    dtype: str,
    target: Target,
    tile: tuple[int, int],
    starts: tuple[int, int],
    counts: tuple[int, int],
    where: str,
) -> BuiltKernel:
    elements = tile[0] * tile[1]
    threads = max(t for t in range(1, min(job.threads, elements) + 1) if elements % t == 0)
    kernel = KernelBuilder(f"tilecopy_{where.replace(' ', '_')}", threads=threads)
    source = kernel.param("source", shape, dtype)
    result = kernel.param("result", shape, dtype)
    staging = kernel.shared(tile, dtype, layout=shared_layout(job, tile, dtype), name="tile")
    block = kernel.block_id("x")  # one dimension: y and z end at 65535
    row = starts[0] + block // counts[1] * tile[0]
    column = starts[1] + block % counts[1] * tile[1]
    box = (slice(row, row + tile[0]), slice(column, column + tile[1]))
    forced = next((p.variant for p in default_registry().plugins() if p.variant and p.name == job.variant), None)
    asynchronous = forced is not None and forced.op == "copy_async"
    if asynchronous:
        kernel.cta.copy_async(staging[:, :], source[box], variant=job.variant)
        kernel.cp_async_commit()
        kernel.cp_async_wait(0)
    else:
        kernel.cta.copy(staging[:, :], source[box], variant=job.variant)
    kernel.cta_sync()
    kernel.cta.copy(result[box], staging[:, :], variant=None if asynchronous else job.variant)
    return kernel.build(target=target, grid=(counts[0] * counts[1],))
