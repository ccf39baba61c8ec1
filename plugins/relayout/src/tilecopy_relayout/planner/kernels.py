"""Functions that build relayout kernels. Each CTA moves its box with a few tile copies, for example through shared memory.

Elements of 1 and 2 bytes go through shared memory as words, and are permuted in the registers of their thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import tilecopy as tc
from tilecopy import KernelBuilder  # imported with this module, so that the first relayout need not import it

from tilecopy_core import S, TileLayout

from .problem import Problem
from .tilings import LANES, SmemLayout, ThreadValueLayout, Tiling, sector_elems, smem_layout_of, thread_values_of


def build(problem: Problem, tiling: Tiling, target: str) -> tc.BuiltKernel:
    """Build the kernel of a tiling. The parameters ``src`` and ``dst`` have the problem's dimensions."""
    shape, dtype = problem.extents, problem.dtype
    k = KernelBuilder("relayout", threads=tiling.threads)
    src = k.param("src", shape, dtype, strides=problem.src, align_bytes=problem.src_align)
    dst = k.param("dst", shape, dtype, strides=problem.dst, align_bytes=problem.dst_align)
    if tiling.kind == "element":
        return k.build(target=target, grid=_elements(k, src, dst, problem, tiling))
    grid, numbers = _boxes(k, problem, tiling)
    starts = _starts(problem, tiling, numbers)
    box, into = _box(problem, tiling, starts)
    overhangs, shared = tiling.overhangs(problem), any(tiling.last_tile_shift(problem))
    read: dict[str, Any] = {"outside": "zero"} if overhangs else {}
    write: dict[str, Any] = ({"outside": "keep"} if overhangs else {}) | ({"relaxed": True} if shared else {})
    thread_values = thread_values_of(problem, tiling)

    def local(label: str, *, words: bool) -> tc.Region:
        return k.local(tiling.tile, dtype, layout=fragment(thread_values, len(shape), words=words), name=label)[...]

    vectors = local("vectors", words=False)
    if tiling.kind == "direct":
        k.cta.copy(vectors, src[box], **read)
        k.cta.copy(dst[into], vectors, **write)
        return k.build(target=target, grid=grid)
    words = local("words", words=True) if thread_values.permutes_registers else vectors
    layout = shared_layout(tiling, smem_layout_of(problem, tiling, thread_values))
    tile = k.shared(tiling.tile, dtype, layout=layout, name="tile")[...]
    if tiling.kind == "gather":
        k.cta.copy(tile, src[box], **read)
        k.cta_sync()
        k.cta.copy(words, tile, variant="reg")
        if thread_values.permutes_registers:
            k.cta.copy(vectors, words)
        k.cta.copy(dst[into], vectors, **write)
        return k.build(target=target, grid=grid)
    turns = tiling.tiles_per_cta(problem)
    k.cta.copy(vectors, src[box], **read)
    for turn in k.range(turns) if turns > 1 else (0,):
        if thread_values.permutes_registers:
            k.cta.copy(words, vectors)
        k.cta.copy(tile, words, variant="reg")
        k.cta_sync()
        if turns > 1:
            with k.if_(turn + 1 < turns):
                later = _starts(problem, tiling, numbers, turn + 1)
                k.cta.copy(vectors, src[_box(problem, tiling, later)[0]], **read)
        if tiling.kind == "scatter":
            k.cta.copy(dst[_box(problem, tiling, _starts(problem, tiling, numbers, turn))[1]], tile, **write)
        else:
            _rows(k, problem, tiling, dst, starts, tile, write)
        if turns > 1:
            k.cta_sync()
    return k.build(target=target, grid=grid)


def _box(problem: Problem, tiling: Tiling, starts: Sequence[Any]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the box with these starts, in the source and in the destination."""
    into = [slice(first, first + extent) for first, extent in zip(starts, tiling.tile, strict=True)]
    if tiling.kind == "shifted":
        into[-1] = slice(starts[-1] - sector_elems(problem), starts[-1] - sector_elems(problem) + tiling.tile[-1])
    box = [  # a dimension walked backwards has boxes of one
        slice(extent - 1 - s, extent - s) if n in problem.reversed else place
        for n, (extent, s, place) in enumerate(zip(problem.extents, starts, into, strict=True))
    ]
    return tuple(box), tuple(into)


def _rows(
    k: tc.KernelBuilder,
    problem: Problem,
    tiling: Tiling,
    dst: tc.Buffer,
    starts: Sequence[Any],
    tile: tc.Region,
    write: dict[str, Any],
) -> None:
    """Write each row of a box by a warp, from the last sector that begins at or before the box's part of the row."""
    early, warps = sector_elems(problem), tiling.threads // LANES
    length, rows = tiling.tile[-1] - early, prod(tiling.tile[:-1])
    for turn in k.range(-(-rows // warps), unroll=False):  # as quick as unrolled, and sooner assembled
        number: Any = k.warp_id() + turn * warps
        with k.if_(number < rows) if rows % warps else nullcontext():
            places = _coordinates(number, tiling.tile[:-1])
            at = [start + place for start, place in zip(starts, places, strict=False)]
            offset = sum((a * step for a, step in zip(at, problem.dst, strict=False)), start=0)
            begin = early - offset % early
            first = starts[-1] - early + begin
            into = [slice(a, a + 1) for a in at] + [slice(first, first + length)]
            out_of = [slice(place, place + 1) for place in places] + [slice(begin, begin + length)]
            k.warp.copy(dst[tuple(into)], tile.buffer[tuple(out_of)], **write)


def _elements(k: tc.KernelBuilder, src: tc.Buffer, dst: tc.Buffer, problem: Problem, tiling: Tiling) -> int:
    """Move one element per thread, in the order of the destination, and return the number of CTAs."""
    count = problem.size
    number: Any = k.block_id("x") * tiling.threads + k.thread_id()
    register = k.local((1,) * len(problem.extents), src.dtype, name="held")
    with k.if_(number < count):
        into = _coordinates(number, problem.extents)
        indices = enumerate(zip(into, problem.extents, strict=True))
        out_of = [extent - 1 - at if n in problem.reversed else at for n, (at, extent) in indices]
        k.thread.copy(register[...], src[tuple(slice(at, at + 1) for at in out_of)])
        k.thread.copy(dst[tuple(slice(at, at + 1) for at in into)], register[...])
    return -(-count // tiling.threads)


def _coordinates(number: Any, extents: Sequence[int]) -> list[Any]:
    """Return the coordinates of an element in row-major order."""
    coordinates: list[Any] = []
    for extent in reversed(extents):
        coordinates.insert(0, number % extent)
        number = number // extent
    return coordinates


def fragment(thread_values: ThreadValueLayout, rank: int, *, words: bool) -> TileLayout:
    """Return a register layout of a box, in shared-memory order if ``words`` is True, else in global-memory order."""
    iters: list[list[tuple[int, Any]]] = [[] for _ in range(rank)]
    by_words = words and thread_values.permutes_registers
    for mode in thread_values.modes:
        stride = mode.stride
        if by_words and not mode.thread and mode.weight == 1 and mode.dim in (thread_values.run, thread_values.other):
            stride = 1 if mode.dim == thread_values.other else thread_values.word
        iters[mode.dim].insert(0, (mode.extent, stride @ tc.tx if mode.thread else stride))
    flat = [it for dim_iters in iters for it in dim_iters or [(1, 0)]]
    return TileLayout(S[tuple(extent for extent, _ in flat) : tuple(stride for _, stride in flat)])


def shared_layout(tiling: Tiling, smem_layout: SmemLayout) -> TileLayout:
    """Return the layout of a CTA's box in shared memory."""
    iters: list[tuple[int, int]] = []
    for n, (extent, step) in enumerate(zip(tiling.tile, smem_layout.steps, strict=True)):
        rows = smem_layout.vec if n == smem_layout.run else extent
        iters += [(extent // rows, smem_layout.jump), (rows, step)] if rows < extent else [(extent, step)]
    return TileLayout(S[tuple(extent for extent, _ in iters) : tuple(step for _, step in iters)])


def _boxes(k: tc.KernelBuilder, problem: Problem, tiling: Tiling) -> tuple[int, list[Any]]:
    """Return the number of CTAs, and the index of this CTA's first box along each dimension."""
    counts, numbers = list(tiling.counts(problem)), list[Any]([0] * len(tiling.tile))
    grid_dims, turns = tiling.grid_dims(problem), tiling.tiles_per_cta(problem)
    if turns > 1:
        counts[grid_dims[-1]] //= turns
    rest: Any = k.block_id("x")
    for place, n in reversed(list(enumerate(grid_dims))):
        numbers[n] = rest % counts[n] if place else rest
        rest = rest // counts[n]
    if turns > 1:
        numbers[grid_dims[-1]] *= turns
    return prod(counts), numbers


def _starts(problem: Problem, tiling: Tiling, numbers: Sequence[Any], turn: Any = 0) -> list[Any]:
    """Return the starts of a CTA's box in an iteration; iterations go along the fastest dimension."""
    fastest, steps = tiling.grid_dims(problem)[-1:], tiling.steps(problem)
    starts: list[Any] = []
    for n, (number, back) in enumerate(zip(numbers, tiling.last_tile_shift(problem), strict=True)):
        start = (number + turn if n in fastest else number) * steps[n]
        starts.append(tc.minimum(start, problem.extents[n] - tiling.tile[n]) if back else start)
    return starts
