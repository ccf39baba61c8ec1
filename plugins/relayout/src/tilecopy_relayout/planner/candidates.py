"""Functions that list the candidate tilings of a relayout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from .problem import Problem
from .tilings import CHUNK_BYTES, LANES, Kind, Tiling, dims_by_stride, sector_elems, thread_values_of, vector

SHORT_RUN_BYTES, RUN_BYTES = (32, 64), (128, 256, 512)
"""Contiguous bytes of a box on one side; the short runs are only for small arrays."""
LONG_RUN_BYTES, LONG_TILE_BYTES = (1024, 2048, 4096), 16384
"""For boxes that would otherwise be small because of the place of the other side's innermost dimension."""
THREADS = (128, 256, 512, 1024)
TILE_BYTES, THREAD_BYTES = (4096, 65536), (16, 256)
"""The smallest and largest box in shared memory, and the smallest and largest part of one thread."""
SMALL_BYTES, SMALL_TILE_BYTES, SMALL_THREAD_BYTES = 1 << 25, 1024, (16, 64)
"""Arrays below this size do not fill the GPU with large boxes. Their boxes may be smaller, with fewer bytes per thread."""
DIRECT_TILE_BYTES, DIRECT_THREAD_BYTES = (4096, 8192, 16384, 2048), (8, 64)
"""The bytes of a box, and of a thread, without shared memory. The first of equal candidates is chosen."""
SHIFTED_ROWS_BYTES, SHIFTED_LENGTH_BYTES, SHIFTED_THREADS = (512, 256), (416, 1024), (512, 1024, 256)
"""Boxes of misaligned rows. They are large, because each row has a margin (416 with it is three lines; four boxes per SM)."""
LEAST_BYTES = LANES * CHUNK_BYTES
"""The smallest box with work for a warp. For smaller boxes, one element per thread is as fast."""
ELEMENT_THREADS = 256
MOST_IDLE = 8
"""The most threads of a CTA per active thread (an extent of 67 has no divisor near 64). With more, one element per thread is faster."""


def candidates(problem: Problem) -> list[Tiling]:
    """Return the candidate tilings of a relayout in normal form. There is at least one."""
    inner, rank = problem.innermost, len(problem.extents)
    tilings: list[Tiling] = []
    if not problem.reversed & {inner, rank - 1}:
        tilings = [
            tiling
            for tiling in (_direct_tilings if inner == rank - 1 else _staged_tilings)(problem)
            if tiling.divides or thread_values_of(problem, tiling).threads * MOST_IDLE >= tiling.threads
        ]
    return tilings or [Tiling("element", (1,) * rank, ELEMENT_THREADS, tuple(range(rank)))]


def orders(problem: Problem) -> list[tuple[int, ...]]:
    """Return the orders in which CTAs may move the boxes: by destination strides, and by source strides."""
    return list(dict.fromkeys((dims_by_stride(problem, "dst")[::-1], dims_by_stride(problem, "src")[::-1])))


def _direct_tilings(problem: Problem) -> Iterator[Tiling]:
    inner = dims_by_stride(problem, "dst")
    tiles = [_tile_of_runs(problem, (inner, nbytes)) for nbytes in DIRECT_TILE_BYTES]
    yield from _tilings_of(problem, tiles, ("direct",), (64, *THREADS), DIRECT_THREAD_BYTES)


def _staged_tilings(problem: Problem) -> Iterator[Tiling]:
    by_src, by_dst = dims_by_stride(problem, "src"), dims_by_stride(problem, "dst")
    aligned = vector(problem, by_src[0], "src") > 1 or vector(problem, by_dst[0], "dst") > 1
    small = problem.size_bytes < SMALL_BYTES
    runs = SHORT_RUN_BYTES + RUN_BYTES if small else RUN_BYTES
    short = min(problem.extents[by_src[0]], problem.extents[by_dst[0]]) * problem.elem_bytes < RUN_BYTES[0]
    longer = [*product(LONG_RUN_BYTES, RUN_BYTES), *product(RUN_BYTES, LONG_RUN_BYTES)] if short or not aligned else []
    tiles = []
    for src_run, dst_run in [*product(runs, runs), *longer]:
        tile = _tile_of_runs(problem, (by_src, src_run), (by_dst, dst_run))
        most = LONG_TILE_BYTES if aligned and max(src_run, dst_run) >= LONG_RUN_BYTES[0] else TILE_BYTES[1]
        if (SMALL_TILE_BYTES if small else TILE_BYTES[0]) <= prod(tile) * problem.elem_bytes <= most:
            tiles.append(tile)
    tiles = tiles or [_tile_of_runs(problem, (by_src, RUN_BYTES[0]), (by_dst, RUN_BYTES[0]))]
    kinds: tuple[Kind, ...] = ("scatter", "gather")
    if small and aligned:  # they differ in the vector between global memory and registers
        kinds = kinds[:1] if vector(problem, by_src[0], "src") >= vector(problem, by_dst[0], "dst") else kinds[1:]
    threads = (32, 64, *THREADS)
    yield from _tilings_of(problem, tiles, kinds, threads, SMALL_THREAD_BYTES if small else THREAD_BYTES)
    a, b, early = by_src[0], by_dst[0], sector_elems(problem)
    far = not small and vector(problem, b, "dst") == 1 and problem.dst[b] == 1 and not problem.reversed
    if far and a != b == len(problem.extents) - 1 and problem.extents[b] >= 8 * early:
        for rows, length in product(SHIFTED_ROWS_BYTES, SHIFTED_LENGTH_BYTES):
            tile = (*_tile_of_runs(problem, (by_src[:1], rows))[:-1], length // problem.elem_bytes)
            if prod(tile) * problem.elem_bytes <= TILE_BYTES[1]:
                yield from _tilings_of(problem, [tile], ("shifted",), SHIFTED_THREADS, THREAD_BYTES)


def _tile_of_runs(problem: Problem, *runs: tuple[Sequence[int], int]) -> tuple[int, ...]:
    """Return the box that has runs of the given bytes along orders of dimensions, as far as the dimensions allow."""
    tile = [1] * len(problem.extents)
    for order, run_bytes in runs:
        have, elems = 1, max(1, run_bytes // problem.elem_bytes)
        for n in order:
            extent, wanted = problem.extents[n], -(-elems // have)
            if n not in problem.reversed:
                tile[n] = max(tile[n], min(extent, 1 << (wanted - 1).bit_length()))
            have *= tile[n]
            if tile[n] < extent or have >= elems:
                break
    return tuple(tile)


def _tilings_of(
    problem: Problem,
    tiles: Sequence[tuple[int, ...]],
    kinds: tuple[Kind, ...],
    threads: Sequence[int],
    thread_bytes: tuple[int, int],
) -> Iterator[Tiling]:
    """Yield the tilings of each box with each suitable number of threads, in each order and kind."""
    both = orders(problem)
    for tile in dict.fromkeys(tiles):
        nbytes = prod(tile) * problem.elem_bytes
        if nbytes < LEAST_BYTES:
            continue
        fit = [count for count in threads if thread_bytes[0] <= nbytes / count <= thread_bytes[1]]
        for count in fit or [max(LANES, min(threads[-1], nbytes // CHUNK_BYTES // LANES * LANES))]:
            for order in both:
                for kind in kinds:
                    yield Tiling(kind, tile, count, order)
