"""The options, the kernel and the report of `tilecopy run`."""

from __future__ import annotations

from math import prod
from typing import Any

import attrs
from tilecopy import BuiltKernel, KernelBuilder

from tilecopy_core.description import Target
from tilecopy_core.errors import RequestError
from tilecopy_core.layout import Layout, S, SwizzledLayout, TileLayout, swizzle
from tilecopy_core.registry import default_registry

from .npy import bytes_of


@attrs.frozen
class Job:
    """The options of ``tilecopy run``. An option that is not passed is None. ``pad`` is in elements per row."""

    tile: tuple[int, int] = (128, 64)
    threads: int = 128
    swizzle: str | None = None
    pad: int = 0
    variant: str | None = None
    target: str | None = None
    executor: str | None = None


@attrs.frozen(eq=False)
class TiledCopy:
    """A kernel that copies its first parameter to its second parameter in ``count`` tiles, one CTA per tile."""

    tile: tuple[int, int]
    count: int
    kernel: BuiltKernel


@attrs.frozen(eq=False)
class TransferReport:
    """A frozen record of a finished job that copied an array from one file to another and verified the copy.

    Attributes:
        shape, dtype, bytes: the array's shape, dtype and number of bytes.
        seconds: the time of the move alone (the median on the GPU).
        runs: the number of moves that were timed.
        executor: the executor that ran the kernel.
        target: the target of the kernel.
        verified: how the result was checked.
    """

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    seconds: float
    runs: int
    executor: str
    target: str
    verified: str

    @property
    def gb_per_s(self) -> float:
        """The throughput in GB/s. Each byte counts twice: it is read and written."""
        return 2 * self.bytes / self.seconds / 1e9 if self.seconds else 0.0


@attrs.frozen(eq=False)
class RunReport(TransferReport):
    """The report of ``tilecopy run``. ``order`` is the memory order, C or F. ``tiled`` is None for an empty array."""

    order: str
    tiled: TiledCopy | None


def as_rows(array: Any) -> Any:
    """Return the memory of a C- or Fortran-contiguous array as a 2-D view of unsigned integers.

    The axes are in memory order; all but the last are merged into rows. A vector is one row.
    """
    last = (array if array.flags.c_contiguous else array.T).shape[-1:]
    size = array.dtype.itemsize
    unit = next(width_bytes for width_bytes in (8, 4, 2, 1) if size % width_bytes == 0)
    return bytes_of(array).view(f"u{unit}").reshape(-1, max(prod(last) * (size // unit), 1))


def tile_of(job: Job, shape: tuple[int, int]) -> tuple[int, int]:
    """Return the shape of a tile: ``--tile``, limited to the array's extents. The tile of a one-row array has one row.

    An array's extent above the number of threads is rounded up to a multiple of this number, because a prime extent would
    leave one thread.
    """
    asked = job.tile if shape[0] > 1 else (1, prod(job.tile))
    rows, columns = (
        min(step, extent if extent <= job.threads else -(-extent // job.threads) * job.threads)
        for step, extent in zip(asked, shape, strict=True)
    )
    return rows, columns


def shared_layout(job: Job, tile: tuple[int, int], dtype: str) -> Layout:
    """Return the layout of a tile in shared memory: row-major, padded or swizzled."""
    if job.pad and job.swizzle:
        raise RequestError(
            "--swizzle and --pad must not be combined, because each sets the tile's layout in shared memory: use only one of them"
        )
    rows, columns = tile
    plain = TileLayout(S[(rows, columns) : (columns + job.pad, 1)])
    return SwizzledLayout(swizzle(job.swizzle, dtype), plain) if job.swizzle else plain


def tiled_copy(job: Job, shape: tuple[int, int], dtype: str, target: Target) -> TiledCopy:
    """Return the kernel that copies a non-empty 2-D array, one tile per CTA."""
    tile = tile_of(job, shape)
    across, down = (-(-extent // step) for extent, step in zip(reversed(shape), reversed(tile), strict=True))
    elements = tile[0] * tile[1]
    threads = max(t for t in range(1, min(job.threads, elements) + 1) if elements % t == 0)
    kernel = KernelBuilder("tilecopy_run", threads=threads)
    source = kernel.param("source", shape, dtype)
    result = kernel.param("result", shape, dtype)
    staging = kernel.shared(tile, dtype, layout=shared_layout(job, tile, dtype), name="tile")
    block = kernel.block_id("x")  # one dimension: y and z end at 65535
    row, column = block // across * tile[0], block % across * tile[1]
    box = (slice(row, row + tile[0]), slice(column, column + tile[1]))
    records = [plugin.variant for plugin in default_registry().plugins() if plugin.name == job.variant]
    op = next((record.op for record in records if record), "copy")
    getattr(kernel.cta, op)(staging[:, :], source[box], variant=job.variant, outside="keep")
    if op == "copy_async":
        kernel.cp_async_commit()
        kernel.cp_async_wait(0)
    kernel.cta_sync()
    kernel.cta.copy(result[box], staging[:, :], variant=job.variant if op == "copy" else None, outside="keep")
    return TiledCopy(tile, across * down, kernel.build(target=target, grid=(across * down,)))
