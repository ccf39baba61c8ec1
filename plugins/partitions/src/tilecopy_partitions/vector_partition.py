"""Partitions of a copy's elements over rounds, threads and vectors. Several variants use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import attrs

from tilecopy_core import RequestError
from tilecopy_core.integers import Expr, Int, add, bounds_of, divisor_of, is_multiple, key_of, mul, sub
from tilecopy_core.layout import Iter, Pair, Swizzle, TileLayout, fuse, fuse_pairs, m
from tilecopy_core.plugin import CopyRequest, Decline, Region, frozen, structural_equal

WIDTHS_BITS = (128, 64, 32, 16, 8)
"""Vector widths of ordinary loads and stores, widest first."""


@frozen
class Side:
    """A frozen record of one operand of a ``[outer, threads, vec]`` partition.

    ``layout`` has the region's elements in the partition's order, as element offsets from the buffer's start; its size is
    ``outer * threads * vec``, or less where the last round is guarded.
    """

    region: Region
    layout: TileLayout

    @property
    def swizzle(self) -> Swizzle | None:
        """The swizzle that is applied to the element offsets, or None without a swizzle."""
        return self.layout.swizzle

    def offset(self, round_index: Int, thread: Int, shape: tuple[int, int, int]) -> Int:
        """Return the element offset of a thread's vector in one round, before the swizzle."""
        return self.layout.along(m, (round_index * shape[1] + thread) * shape[2])


@frozen
class Guard:
    """A frozen record of the bounds check of one dimension. A vector is in bounds if ``0 <= start + coordinate < size``.

    Attributes:
        dim: the dimension, or None for the number of elements of the copy, which the last round may exceed.
        start: coordinate of the box's first element.
        size: extent of the dimension.
        extent: extent of the box.
        ends: whether the box can begin before the first element, and whether it can end after the last.
        coordinates: the coordinate of each element from the box's start, in the partition's order.
    """

    region: Region
    dim: int | None
    start: Int = attrs.field(eq=key_of)
    size: Int = attrs.field(eq=key_of)
    extent: int
    ends: tuple[bool, bool]
    coordinates: TileLayout

    @classmethod
    def of(cls, region: Region, dim: int) -> Guard | None:
        """Return the bounds check of dimension ``dim``. Return None if the region is always in bounds there."""
        ends = region.exceeds(dim)
        if not any(ends):
            return None
        outer, extent, inner = prod(region.extents[:dim]), region.extents[dim], prod(region.extents[dim + 1 :])
        along = TileLayout.of((Iter(outer, 0), Iter(extent, 1), Iter(inner, 0)))
        return cls(region, dim, region.starts[dim], region.buffer.shape[dim], extent, ends, along)

    @classmethod
    def tail(cls, request: CopyRequest, count: int) -> Guard:
        """Return the bounds check of the last round. It masks vectors past the last element of the copy."""
        return cls(request.dst, None, 0, count, count, (False, True), TileLayout.of((Iter(count, 1),)))

    def over(self, iters: Sequence[Iter]) -> Guard:
        """Return this bounds check for the same elements in another order."""
        return attrs.evolve(self, coordinates=TileLayout.of(iters))

    def __str__(self) -> str:
        if self.dim is None:
            return "the tail"
        which = {(True, True): "both ends", (True, False): "low end", (False, True): "high end"}[self.ends]
        return f"{self.region.buffer.name} dimension {self.dim} ({which})"

    def why_split(self, vec: int) -> str | None:
        """Return why a vector of ``vec`` elements may straddle the array's edge. Return None if no vector can."""
        iters = self.coordinates.shard
        tail = iters[-1] if iters else Iter(1, 0)
        if vec == 1 or (structural_equal(tail.stride, 0) and tail.extent % vec == 0):
            return None
        what = f"{self.region.buffer.name}, dimension {self.dim}"
        step = vec * tail.stride
        if tail.extent % vec or any(it.stride % step for it in iters[:-1]):
            return f"{what}: the {vec} elements of a vector must be adjacent in this dimension, got {self.coordinates}"
        wanted: list[tuple[str, Int]] = [("start", self.start)] if self.ends[0] else []
        if self.ends[1]:
            wanted += [("size", self.size)] if self.ends[0] else [("size minus start", sub(self.size, self.start))]
        for name, value in wanted:
            if not is_multiple(value, step):
                return f"{what}: the {name} must be a multiple of {step} so that no vector straddles the edge, got {value}, a multiple of {divisor_of(value)}"
        return None

    def position(self, flat: Int) -> Int:
        """Return an element's coordinate in the buffer, given the element's index in the partition's order."""
        return add(self.start, self.coordinates.along(m, flat))


def guards_of(*regions: Region) -> tuple[Guard, ...]:
    """Return a bounds check for each dimension in which a region may be out of bounds."""
    return tuple(filter(None, (Guard.of(region, dim) for region in regions for dim in range(len(region.starts)))))


@frozen
class VectorPartition:
    """A frozen record of ``outer`` rounds. In each round, ``threads`` threads copy ``vec`` contiguous elements each.

    Attributes:
        narrowed: why each wider width was not taken, widest first.
        guards: what a vector must meet to be moved; () where all do.
        edge: the partition for boxes that overhang, where that can be; this one is for boxes that lie inside.
        tail: the partition of what wide vectors leave of each row, or None.
    """

    outer: int
    threads: int
    vec: int
    vec_bits: int
    dst: Side
    src: Side
    narrowed: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    edge: VectorPartition | None = None
    tail: VectorPartition | None = None

    @property
    def rounds(self) -> int:
        """The number of rounds, including the rounds of the tail."""
        return self.outer + (0 if self.tail is None else self.tail.rounds)

    instructions_per_thread = rounds

    @property
    def vec_bytes(self) -> int:
        """The number of bytes of one vector."""
        return self.vec_bits // 8

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape ``(outer, threads, vec)``."""
        return self.outer, self.threads, self.vec

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        guarded = f", guarded: {', '.join(map(str, self.guards))}" if self.guards else ""
        later = f"; then {self.tail.summary()}" if self.tail is not None else ""
        width = f"{self.vec_bits} bits, {self.vec_bytes} bytes each"
        return f"outer {self.outer} x threads {self.threads} x vec {self.vec} ({width}){guarded}{later}"


def slice_layout(operand: str, region: Region) -> TileLayout | Decline:
    """Return the memory layout of a region's box. Return Decline if the box has none."""
    layout, buffer = region.sliced_layout(), region.buffer
    if layout is None:
        return Decline(f"{operand} {region} must not split an extent of its layout, got {buffer.layout}")
    if layout.axes != (m,):
        named = ", ".join(axis.name for axis in layout.axes if axis != m)
        return Decline(
            f"{operand} {buffer.name} in {buffer.space} memory must have a layout over the memory axis m only, got axis {named}"
        )
    return layout


def refine(*sides: Sequence[Iter]) -> list[Pair] | None:
    """Split the iters of several layouts into equal extents, in logical order. Return None if no split exists."""
    stacks = [list(fuse(side)) for side in sides]
    pairs: list[Pair] = []
    while all(stacks):
        last = [stack.pop() for stack in stacks]
        extent = min([it.extent for it in last])
        for place, it in enumerate(last):
            if it.extent > extent:
                if it.extent % extent:
                    return None
                stacks[place].append(Iter(it.extent // extent, it.stride * extent, it.axis))
                last[place] = Iter(extent, it.stride, it.axis)
        pairs.append(tuple(last))
    return pairs[::-1]


def by_descending_stride(pairs: Sequence[Pair], *, broadcasts_first: bool = False) -> list[Pair]:
    """Return iter pairs sorted by descending stride of the first iter. Symbolic strides are first, stride 0 is last."""

    def key(pair: Pair) -> tuple[int, int]:
        stride = pair[0].stride
        if isinstance(stride, Expr):
            return 0, -(bounds_of(stride)[0] or 0)
        return (0, 0) if stride == 0 and broadcasts_first else (1, -stride)

    return fuse_pairs(sorted(pairs, key=key))


def orders_of(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Return the iter orders to try. If there are broadcasts, one order has them last and another has them first."""
    last = by_descending_stride(pairs)
    if not any(pair[0].extent > 1 and structural_equal(pair[0].stride, 0) for pair in pairs):
        return [last]
    return [last, by_descending_stride(pairs, broadcasts_first=True)]


@frozen
class Run:
    """A frozen record of how vectors access one operand. ``region`` has the operand's dtype, alignment and name.

    ``iters`` are the steps that its addresses take; vectors are carved from the last. ``start`` is the element offset of the
    box from the buffer's start.
    """

    region: Region
    iters: Sequence[Iter]
    start: Int
    swizzle: Swizzle | None = None

    def why_not_width(self, bits: int) -> str | None:
        """Return why vectors of ``bits`` bits do not fit. Return None if they fit."""
        buffer = self.region.buffer
        vec = bits // buffer.dtype.bits
        if vec * buffer.dtype.bits != bits or vec == 0:
            return f"a vector must hold a whole number of {buffer.dtype} elements, got {bits} bits"
        if vec > 1:
            tail = self.iters[-1] if self.iters else Iter(1, 1)
            if not structural_equal(tail.stride, 1):
                return (
                    f"{buffer.name}: the innermost stride must be 1 for a vector of {vec} elements, got {tail.stride}"
                )
            if tail.extent % vec:
                return f"{buffer.name}: contiguous runs must be multiples of {vec} elements, got {tail.extent} elements"
            for it in self.iters[:-1]:
                if not is_multiple(it.stride, vec):
                    return f"{buffer.name}: strides must be multiples of {vec} elements, got {it.stride}"
            starts = [("start", add(self.start, buffer.storage_offset))]
            if self.swizzle is not None:  # which comes between the two
                starts = [("start", self.start), ("buffer's storage offset", buffer.storage_offset)]
            for what, at in starts:
                if not is_multiple(at, vec):
                    return f"{buffer.name}: the {what} must be a multiple of {vec} elements, got {at}, a multiple of {divisor_of(at)}"
            if self.swizzle is not None and vec > self.swizzle.chunk_elems:
                return f"{buffer.name}: a vector must have at most the {self.swizzle.chunk_elems} elements of a swizzle chunk, got {vec} elements"
        if buffer.space in ("global", "shared") and buffer.align_bytes % (bits // 8):
            return f"{buffer.name} must be aligned to {bits // 8} bytes for vectors of {bits} bits, got {buffer.align_bytes} bytes"
        return None


def widest(
    runs: Sequence[Run], widths_bits: Sequence[int], also: Callable[[int], str | None]
) -> tuple[int, tuple[str, ...]] | Decline:
    """Return the largest width in bits that fits and the reason against each larger width. Return Decline if none fits.

    ``widths_bits`` has the widest first. ``also`` returns another reason against a vector of some elements, or None.
    """
    narrowed: list[str] = []
    for bits in widths_bits:
        why = next(filter(None, (run.why_not_width(bits) for run in runs)), None)
        why = why or also(bits // runs[0].region.buffer.dtype.bits)
        if why is None:
            return bits, tuple(narrowed)
        narrowed.append(f"{bits} bits: {why}")
    return Decline(f"no vector width of {', '.join(map(str, widths_bits))} bits is possible: {'; '.join(narrowed)}")


def synthesize(
    request: CopyRequest, leader: Region, widths_bits: Sequence[int] = WIDTHS_BITS, *, ragged: bool = False
) -> VectorPartition | Decline:
    """Return the partition ``[outer, threads, vec]`` with the widest vector. Return Decline if no vector fits.

    The order is that of descending strides of the leader, ``request.dst`` or ``request.src`` (else RequestError is raised).
    ``widths_bits`` are the allowed widths, widest first. If ``ragged``, the number of vectors need not be a multiple of the
    threads, and the last round is guarded. If the request's regions may overhang, ``edge`` of the partition is for edge tiles:
    it may have another width, and each of its vectors is wholly inside or outside.
    """
    if leader is not request.dst and leader is not request.src:
        raise RequestError(f"synthesize: leader must be request.dst or request.src, got {leader}")
    regions = (leader, request.src if leader is request.dst else request.dst)
    lead, follow = (slice_layout("destination" if r is request.dst else "source", r) for r in regions)
    if isinstance(lead, Decline):
        return lead
    if isinstance(follow, Decline):
        return follow
    split = _Split(request, regions, (lead, follow), (), ragged)
    inside = _best(split, widths_bits)
    guards = guards_of(request.dst, request.src) if request.may_exceed_bounds else ()
    if not guards or isinstance(inside, Decline):
        return inside
    edge = _best(attrs.evolve(split, guards=guards), WIDTHS_BITS)
    if isinstance(edge, Decline):
        return Decline(f"for edge tiles: {edge.reason}")
    return attrs.evolve(inside, edge=edge)


@frozen(eq=False)
class _Split:
    """A frozen record of the input of :func:`synthesize`, the leader's region and layout first."""

    request: CopyRequest
    regions: tuple[Region, Region]
    layouts: tuple[TileLayout, TileLayout]
    guards: tuple[Guard, ...]
    ragged: bool


def _best(split: _Split, widths_bits: Sequence[int]) -> VectorPartition | Decline:
    """Return the partition with the fewest rounds of all orders of the elements."""
    sides = [layout.shard for layout in (*split.layouts, *(guard.coordinates for guard in split.guards))]
    pairs = refine(*sides)
    if pairs is None:  # the logical order is kept, each side in its own iters
        orders = [[list(fuse(side)) for side in sides]]
    else:
        orders = [[[pair[n] for pair in order] for n in range(len(sides))] for order in orders_of(pairs)]
    partitions = [(_with_tail if split.ragged else _vectors)(split, order, widths_bits) for order in orders]
    fitting = [partition for partition in partitions if isinstance(partition, VectorPartition)]
    return min(fitting, key=lambda each: each.rounds) if fitting else partitions[0]


def _with_tail(split: _Split, iters: list[list[Iter]], widths_bits: Sequence[int]) -> VectorPartition | Decline:
    """Return the partition with the fewest rounds: one width, or wide vectors and narrower ones for the tail of each row."""
    best = _vectors(split, iters, widths_bits)
    row_elems = iters[0][-1].extent if iters[0] else 1
    if any(not side or side[-1].extent != row_elems for side in iters):
        return best
    for place, bits in enumerate(widths_bits):
        vec = bits // split.regions[0].buffer.dtype.bits
        tail_elems = row_elems % vec if vec > 1 else 0
        if tail_elems in (0, row_elems) or (isinstance(best, VectorPartition) and best.rounds == 1):
            continue
        body = _vectors(split, _with_rows_of(iters, row_elems - tail_elems), (bits,))
        if isinstance(body, Decline):
            continue
        steps = [mul(side[-1].stride, row_elems - tail_elems) for side in iters]
        lead, follow = (
            TileLayout.of(x.shard, x.replica, {m: add(x.offset_on(m), step)}, x.swizzle)
            for x, step in zip(split.layouts, steps, strict=False)
        )
        guards = tuple(
            attrs.evolve(guard, start=add(guard.start, step))
            for guard, step in zip(split.guards, steps[2:], strict=True)
        )
        shifted = attrs.evolve(split, layouts=(lead, follow), guards=guards)
        tail = _with_tail(shifted, _with_rows_of(iters, tail_elems), widths_bits[place + 1 :])
        if isinstance(tail, Decline):
            continue
        both = attrs.evolve(body, tail=tail)
        if isinstance(best, Decline) or both.rounds < best.rounds:
            best = both
    return best


def _with_rows_of(iters: list[list[Iter]], row_elems: int) -> list[list[Iter]]:
    """Return every side's iters with its innermost one cut to so many elements."""
    return [[*side[:-1], attrs.evolve(side[-1], extent=row_elems)] for side in iters]


def _vectors(split: _Split, iters: list[list[Iter]], widths_bits: Sequence[int]) -> VectorPartition | Decline:
    """Return the partition for one order, given the iters of leader, follower and guards in that order."""
    count, threads = prod(it.extent for it in iters[0]), split.request.scope.threads
    sides = list(zip(split.regions, split.layouts, iters, strict=False))
    runs = [Run(region, side_iters, layout.offset_on(m), layout.swizzle) for region, layout, side_iters in sides]
    guarded = [guard.over(guard_iters) for guard, guard_iters in zip(split.guards, iters[2:], strict=True)]

    def fits(vec: int) -> str | None:
        if count % (vec if split.ragged else threads * vec):
            return f"the number of elements must be a multiple of {threads} threads x {vec} elements, got {count}"
        return next(filter(None, (guard.why_split(vec) for guard in guarded)), None)

    width = widest(runs, widths_bits, fits)
    if isinstance(width, Decline):
        return width
    bits, narrowed = width
    lead, follow = (Side(region, layout.with_iters(side_iters)) for region, layout, side_iters in sides)
    dst, src = (lead, follow) if split.regions[0] is split.request.dst else (follow, lead)
    vec = bits // split.regions[0].buffer.dtype.bits
    if count % (threads * vec):
        guarded.append(Guard.tail(split.request, count))
    return VectorPartition(-(-count // (threads * vec)), threads, vec, bits, dst, src, narrowed, tuple(guarded))
