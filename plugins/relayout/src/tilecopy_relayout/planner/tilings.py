"""Tilings of relayouts: the box that each CTA moves, and the elements of the box that each thread moves.

``direct``: global -> registers -> global. The innermost dimension stays innermost.
``gather``: global -> shared along the source, shared -> registers -> global along the destination.
``scatter``: global -> registers along the source, registers -> shared -> global along the destination.
``shifted``: like scatter, for a destination whose rows begin anywhere in a sector. Each row of a box is written from the
start of a sector.
``element``: one element per thread, for an innermost dimension that is read backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import Literal

from tilecopy_core.plugin import frozen

from .problem import Problem

Kind = Literal["direct", "gather", "scatter", "shifted", "element"]
Side = Literal["src", "dst"]
SIDES: tuple[Side, Side] = ("src", "dst")
SCATTERS = ("scatter", "shifted")
"""The kinds whose threads read global memory directly into registers, along the source."""

LANES = 32
LINE_BYTES, SECTOR_BYTES = 128, 32
CHUNK_BYTES = 16
"""The widest access of one thread."""
WORD_BYTES = 4
"""Narrower elements go through shared memory several at a time."""
ALONE_BYTES, ALONE_CTAS = 1 << 16, 1 << 12
"""A CTA moves two boxes if a box has at least these bytes (an SM holds three) and there are at least this many boxes."""
MOST_TOGETHER = 8
"""The most elements across the vectors that one thread moves if there are no more."""


@frozen
class Tiling:
    """A frozen record of how a relayout is divided among CTAs and threads.

    Attributes:
        tile: extent of one CTA's box along each dimension of the problem. For ``shifted`` it includes a margin along the
            last dimension, of which a box writes a part.
        order: the dimensions in the order of the CTAs, slowest first.
    """

    kind: Kind
    tile: tuple[int, ...]
    threads: int
    order: tuple[int, ...]

    def nbytes(self, problem: Problem) -> int:
        """Return the number of bytes of one box."""
        return prod(self.tile) * problem.elem_bytes

    @property
    def divides(self) -> bool:
        """True if every extent of the box is a power of two, or if the kind is ``shifted``."""
        return self.kind == "shifted" or prod(self.tile).bit_count() == 1

    def steps(self, problem: Problem) -> tuple[int, ...]:
        """Return the distance in elements from the start of one box to the next, along each dimension."""
        if self.kind != "shifted":
            return self.tile
        return (*self.tile[:-1], self.tile[-1] - sector_elems(problem))

    def grid_dims(self, problem: Problem) -> list[int]:
        """Return the dimensions that have more than one box, with the slowest dimension first."""
        counts = self.counts(problem)
        return [n for n in self.order if counts[n] > 1]

    def tiles_per_cta(self, problem: Problem) -> int:
        """Return the number of boxes that a CTA moves in succession. The boxes are adjacent along one dimension.

        It is 2 if a box takes so much shared memory that few CTAs share an SM. Then the loads of the second box are in
        flight while the first is stored. In other cases, other CTAs hide the latency.
        """
        grid_dims = self.grid_dims(problem)
        if self.kind != "scatter" or self.nbytes(problem) < ALONE_BYTES or not grid_dims:
            return 1
        counts = self.counts(problem)
        return 2 if counts[grid_dims[-1]] % 2 == 0 and prod(counts) >= ALONE_CTAS else 1

    def last_tile_shift(self, problem: Problem) -> tuple[int, ...]:
        """Return how many elements the last box is moved back along each dimension to end at the array's edge.

        A shifted box moves some elements a second time, to the same places, and no element outside. The shift is 0 if the boxes
        end with the dimension, or if it would split a vector. In the second case the last box reaches out of bounds.
        """
        spare = [
            count * step - extent
            for count, step, extent in zip(self.counts(problem), self.steps(problem), problem.extents, strict=True)
        ]
        if self.kind == "shifted":
            spare[-1] = 0  # its rows begin where sectors do
        for side in SIDES:
            inner = dims_by_stride(problem, side)[0]
            if spare[inner] % vector(problem, inner, side):
                spare[inner] = 0
        return tuple(spare)

    def overhangs(self, problem: Problem) -> bool:
        """Return True if a box may reach out of bounds."""
        boxes = zip(problem.extents, self.tile, self.last_tile_shift(problem), strict=True)
        return self.kind == "shifted" or any(whole % extent and not shift for whole, extent, shift in boxes)

    def counts(self, problem: Problem) -> tuple[int, ...]:
        """Return the number of boxes along each dimension."""
        extents = list(problem.extents)
        if self.kind == "shifted":
            extents[-1] += sector_elems(problem) - 1  # the last one may begin that much early
        return tuple(-(-extent // step) for extent, step in zip(extents, self.steps(problem), strict=True))


def sector_elems(problem: Problem) -> int:
    """Return the number of elements in a memory sector (32 bytes)."""
    return SECTOR_BYTES // problem.elem_bytes


@frozen
class LayoutMode:
    """A frozen record of a layout mode: a factor of a dimension's extent that selects a thread or a register.

    Attributes:
        weight: elements along the dimension per step of the mode.
        stride: threads or registers per step of the mode.
        thread: True if the mode selects a thread, False for a register.
    """

    dim: int
    extent: int
    weight: int
    stride: int
    thread: bool


@frozen
class ThreadValueLayout:
    """A frozen record of which elements of a box each thread moves.

    Attributes:
        modes: the modes of each dimension, innermost first.
        run: the dimension of the thread's vectors in global memory.
        vec: elements of a vector.
        other: the dimension that is innermost in shared memory; ``run`` for ``direct``.
        word: elements along ``other`` that a thread moves together.
    """

    modes: tuple[LayoutMode, ...]
    run: int
    vec: int
    other: int
    word: int

    @property
    def threads(self) -> int:
        """The number of active threads of a CTA."""
        return prod(mode.extent for mode in self.modes if mode.thread)

    @property
    def permutes_registers(self) -> bool:
        """True if a thread must permute elements in registers between global-memory vectors and shared-memory words."""
        return self.vec > 1 and self.word > 1

    def lanes(self, step: Callable[[LayoutMode], int]) -> list[int]:
        """Return an offset for each lane of the first warp. A step along a mode adds ``step(mode)`` to the offset."""
        offsets = [0]
        for mode in self.modes:
            if mode.thread and mode.stride < LANES:
                lane_step = step(mode)
                offsets = [o + n * lane_step for n in range(min(mode.extent, LANES // mode.stride)) for o in offsets]
        return offsets

    @property
    def lanes_across(self) -> int:
        """The number of lanes of a warp that are adjacent along the dimension ``other``."""
        across = [d for d in self.modes if d.thread and d.dim == self.other and d.stride < LANES]
        return min(across[0].extent, LANES // across[0].stride) if across else 1


@lru_cache(maxsize=1024)
def dims_by_stride(problem: Problem, side: Side) -> tuple[int, ...]:
    """Return the dimensions sorted by their stride in one array, smallest first. Dimensions of stride 0 are last."""
    steps = getattr(problem, side)
    return tuple(sorted(range(len(steps)), key=lambda n: (steps[n] == 0, steps[n], -n)))


def vector(problem: Problem, dim: int, side: Side) -> int:
    """Return how many elements a vector along a dimension can have if every vector in the array must be aligned."""
    steps, align = (problem.src, problem.src_align) if side == "src" else (problem.dst, problem.dst_align)
    if steps[dim] != 1:
        return 1
    return gcd(max(1, align // problem.elem_bytes), *steps[:dim], *steps[dim + 1 :])


class _ModeAllocator:
    """An allocator of the modes of a box, from the innermost of each dimension outwards."""

    def __init__(self, tile: Sequence[int]) -> None:
        self.tile, self.left, self.modes = tile, list(tile), list[LayoutMode]()
        self.counts = {True: 1, False: 1}  # of threads and of registers

    def take(self, dim: int, most: int, *, thread: bool) -> int:
        """Add a mode. Return its extent: the largest divisor of the dimension's remaining extent up to ``most``."""
        remaining = self.left[dim]
        extent = next(n for n in range(max(1, min(most, remaining)), 0, -1) if remaining % n == 0)
        if extent > 1:
            self.modes.append(LayoutMode(dim, extent, self.tile[dim] // remaining, self.counts[thread], thread))
        self.left[dim] = remaining // extent
        self.counts[thread] *= extent
        return extent

    def spread(self, dims: Sequence[int], threads: int) -> None:
        """Divide the remaining extent of each dimension among the remaining threads, and then among registers."""
        for dim in dims:
            self.take(dim, threads // self.counts[True], thread=True)
        for dim in dims:
            self.take(dim, self.left[dim], thread=False)


@lru_cache(maxsize=1024)
def thread_values_of(problem: Problem, tiling: Tiling) -> ThreadValueLayout:
    """Return a tiling's thread-value layout. In global memory, vectors are contiguous, and adjacent lanes share a line.

    Eight lanes of 16 bytes access one line of 128 bytes of global memory. Four such groups are one word apart in shared
    memory, so that a warp accesses every bank once (see :func:`~tilecopy_relayout.planner.kernels.shared_layout`).
    """
    box, elem = _ModeAllocator(tiling.tile), problem.elem_bytes
    outwards = dims_by_stride(problem, "src" if tiling.kind in SCATTERS else "dst")
    if tiling.kind == "direct":
        run = len(tiling.tile) - 1
        vec = box.take(run, min(vector(problem, run, "src"), vector(problem, run, "dst")), thread=False)
        box.spread(outwards, tiling.threads)
        return ThreadValueLayout(tuple(box.modes), run, vec, run, 1)
    inner: tuple[int, int] = problem.innermost, len(tiling.tile) - 1
    other, run = inner if tiling.kind == "gather" else inner[::-1]
    vec = box.take(run, vector(problem, run, "dst" if tiling.kind == "gather" else "src"), thread=False)
    word = box.take(other, _together(box.left[other], max(1, WORD_BYTES // elem)), thread=False)
    lanes = box.take(run, min(tiling.threads, max(1, LINE_BYTES // (vec * elem))), thread=True)
    box.take(other, max(1, LANES // lanes), thread=True)
    rest = [run, *(n for n in outwards if n not in inner), other]
    box.spread(rest[::-1] if tiling.kind == "shifted" else rest, tiling.threads)
    return ThreadValueLayout(tuple(box.modes), run, vec, other, word)


def _together(extent: int, word: int) -> int:
    """Return the number of elements per thread across the vectors: those of a word, or all if there are few."""
    if extent % word == 0 and extent > 2 * word:
        return word
    return extent if extent <= MOST_TOGETHER else 1


@frozen
class SmemLayout:
    """A frozen record of a box's layout in shared memory, with padding after every ``vec`` rows.

    Attributes:
        steps: the stride of each dimension in elements.
        run: the dimension whose rows are padded.
        vec: rows between pads.
        jump: elements from one group of ``vec`` rows to the next.
    """

    steps: tuple[int, ...]
    run: int
    vec: int
    jump: int

    def step(self, mode: LayoutMode) -> int:
        """Return the stride of a layout mode in shared memory, in elements."""
        if mode.dim == self.run and mode.weight >= self.vec:
            return mode.weight // self.vec * self.jump
        return mode.weight * self.steps[mode.dim]


def smem_layout_of(problem: Problem, tiling: Tiling, thread_values: ThreadValueLayout) -> SmemLayout:
    """Return the shared-memory layout of a tiling.

    Adjacent lanes along ``run`` are ``vec`` rows apart, and a row often spans all banks. Padding as long as the words that
    the lanes across read together moves each group of lanes to other banks.
    """
    # Whether a thread's words are contiguous and read in the widest vectors.
    whole = thread_values.word == tiling.tile[thread_values.other]
    unit = max(1, CHUNK_BYTES // problem.elem_bytes) if whole else thread_values.lanes_across * thread_values.word
    steps, step, jump = [0] * len(problem.extents), 1, 1
    for n in dims_by_stride(problem, "src" if tiling.kind == "gather" else "dst"):
        steps[n] = step
        if n == thread_values.run:
            jump = step * thread_values.vec
            if jump % (2 * unit) == 0:
                jump += unit
            step = jump * (tiling.tile[n] // thread_values.vec)
        else:
            step *= tiling.tile[n]
    return SmemLayout(tuple(steps), thread_values.run, thread_values.vec, jump)
