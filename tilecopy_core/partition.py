"""Partitions that variants share: how the elements of a copy are split over rounds, threads and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from .errors import FLAG, TEXT, Kind, RequestError, a, checked, many, maybe, whole
from .expr import INT, Expr, Int, bounds_of, divisor_of, is_multiple, same
from .layout import Iter, Swizzle, TileLayout, fuse, m
from .memory import Region
from .request import CopyRequest, Decline

WIDTHS_BITS = (128, 64, 32, 16, 8)
"""Vector widths of ordinary loads and stores, widest first."""


_REGION = a("a Region such as buffer[0:8, :]", Region)
_LAYOUT = a("a TileLayout", TileLayout)
_REQUEST = a("a CopyRequest", CopyRequest)
_ITERS = many(a("an Iter", Iter))
_COUNT = whole(1, 2**63 - 1)
_WIDTHS = many(whole(1, 1024))


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(it, Iter) for it in pair)


def _is_split(shape: Any) -> bool:
    return isinstance(shape, tuple) and len(shape) == 3 and all(map(_COUNT.fits, shape))


_PAIRS = many(Kind("a pair of Iter", _is_pair))


@attrs.frozen
class Side:
    """One operand of a ``[outer, threads, vec]`` partition.

    Attributes:
        region: the operand.
        layout: the region's elements in the partition's order, as element offsets from the buffer's start; its size
            is ``outer * threads * vec``.
    """

    region: Region = attrs.field(validator=_REGION)
    layout: TileLayout = attrs.field(validator=_LAYOUT)

    @property
    def swizzle(self) -> Swizzle | None:
        """Applied to the offsets afterwards, or None."""
        return self.layout.swizzle

    @checked(round_index=INT, thread=INT, shape=Kind("three extents", _is_split))
    def offset(self, round_index: Int, thread: Int, shape: tuple[int, int, int]) -> Int:
        """Element offset (before the swizzle) of a thread's vector in one round."""
        return self.layout.unswizzled.apply(round_index, thread, 0, shape=shape).get("m", 0)


@attrs.frozen
class VectorPartition:
    """``outer`` rounds, in each of which every thread moves ``vec`` contiguous elements.

    Attributes:
        outer: number of rounds.
        threads: threads of the scope.
        vec: elements of one vector.
        vec_bits: width of one vector.
        dst: the destination in this order.
        src: the source in this order.
        narrowed: why each wider width was not taken, widest first.
    """

    outer: int = attrs.field(validator=_COUNT)
    threads: int = attrs.field(validator=_COUNT)
    vec: int = attrs.field(validator=_COUNT)
    vec_bits: int = attrs.field(validator=_COUNT)
    dst: Side = attrs.field(validator=a("a Side", Side))
    src: Side = attrs.field(validator=a("a Side", Side))
    narrowed: tuple[str, ...] = attrs.field(default=(), validator=many(TEXT))

    @property
    def vec_bytes(self) -> int:
        """Bytes of one vector."""
        return self.vec_bits // 8

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(outer, threads, vec)``."""
        return self.outer, self.threads, self.vec

    def summary(self) -> str:
        """One line for ``plan.explain()``."""
        return (
            f"outer {self.outer} x threads {self.threads} x vec {self.vec} ({self.vec_bits} bits, "
            f"{self.vec_bytes} bytes each)"
        )


@checked(operand=TEXT, region=_REGION)
def sliced(operand: str, region: Region) -> TileLayout | Decline:
    """The layout of a region's box over memory alone, or why it has none."""
    layout = region.sliced_layout()
    if layout is None:
        return Decline(
            f"{operand} {region} is not a layout of its own: the box cuts inside an iter of {region.buffer.layout}"
        )
    if any(axis != m for axis in layout.axes):
        named = ", ".join(axis.name for axis in layout.axes if axis != m)
        return Decline(f"{operand} {region.buffer.name} in {region.buffer.space} memory has strides along {named}")
    return layout


Pair = tuple[Iter, Iter]
"""One run of the common iteration space: the same extent, as each side strides along it."""


@checked(first=_ITERS, second=_ITERS)
def refine(first: Sequence[Iter], second: Sequence[Iter]) -> list[Pair] | None:
    """Both sides' iters split along common extents, in logical order; None where that cannot be done."""
    left, right = list(fuse(first)), list(fuse(second))
    pairs: list[Pair] = []
    while left and right:
        a, b = left.pop(), right.pop()
        extent = min(a.extent, b.extent)
        if a.extent % extent or b.extent % extent:
            return None
        pairs.append((Iter(extent, a.stride, a.axis), Iter(extent, b.stride, b.axis)))
        if a.extent > extent:
            left.append(Iter(a.extent // extent, a.stride * extent, a.axis))
        if b.extent > extent:
            right.append(Iter(b.extent // extent, b.stride * extent, b.axis))
    return pairs[::-1]


@checked(pairs=_PAIRS)
def fuse_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs without those of extent 1, neighbours that continue each other on both sides fused."""
    fused: list[Pair] = []
    for pair in pairs:
        extent = pair[0].extent
        if extent == 1:
            continue
        last = fused[-1] if fused else None
        if last is not None and all(
            outer.axis == inner.axis and same(outer.stride, inner.stride * extent)
            for outer, inner in zip(last, pair, strict=True)
        ):
            first, second = (
                Iter(outer.extent * extent, it.stride, it.axis) for outer, it in zip(last, pair, strict=True)
            )
            fused[-1] = (first, second)
        else:
            fused.append(pair)
    return fused


@checked(pairs=_PAIRS, broadcasts_first=FLAG)
def by_descending_stride(pairs: Sequence[Pair], *, broadcasts_first: bool = False) -> list[Pair]:
    """Pairs ordered by the first side's stride, largest first; symbolic strides lead, broadcasts (stride 0) are last."""

    def key(pair: Pair) -> tuple[int, int]:
        stride = pair[0].stride
        if isinstance(stride, Expr):
            return 0, -(bounds_of(stride)[0] or 0)
        return (0, 0) if stride == 0 and broadcasts_first else (1, -stride)

    return fuse_pairs(sorted(pairs, key=key))


@checked(pairs=_PAIRS)
def orders_of(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """The orders to try, the preferred first: with broadcasts last, and (they may hide a contiguous run) first."""
    last = by_descending_stride(pairs)
    if not any(pair[0].extent > 1 and same(pair[0].stride, 0) for pair in pairs):
        return [last]
    return [last, by_descending_stride(pairs, broadcasts_first=True)]


@attrs.frozen
class Run:
    """One operand as vectors see it.

    Attributes:
        region: the operand, for its element type, alignment and name.
        iters: steps that its addresses take; vectors are carved from the last.
        start: element offset of the box from the buffer's start.
        swizzle: of the operand, or None.
    """

    region: Region = attrs.field(validator=_REGION)
    iters: Sequence[Iter] = attrs.field(validator=_ITERS)
    start: Int = attrs.field(validator=INT)
    swizzle: Swizzle | None = attrs.field(default=None, validator=maybe(a("a Swizzle", Swizzle)))

    @checked(bits=whole(1, 1024))
    def why_not_width(self, bits: int) -> str | None:
        """Why vectors of ``bits`` do not fit, or None."""
        buffer = self.region.buffer
        vec = bits // buffer.dtype.bits
        if vec * buffer.dtype.bits != bits or vec == 0:
            return f"{bits} bits are not a whole number of {buffer.dtype} elements"
        if vec > 1:
            tail = self.iters[-1] if self.iters else Iter(1, 1)
            if not same(tail.stride, 1):
                return f"{buffer.name}: the innermost stride is {tail.stride} elements, so nothing is contiguous"
            if tail.extent % vec:
                return f"{buffer.name}: {tail.extent} contiguous elements are not a multiple of {vec}"
            for it in self.iters[:-1]:
                if not is_multiple(it.stride, vec):
                    return f"{buffer.name}: the stride {it.stride} is not a multiple of {vec} elements"
            for what, start in self._starts():
                if not is_multiple(start, vec):
                    return (
                        f"{buffer.name}: the {what} {start} is a multiple of {divisor_of(start)} elements, not of {vec}"
                    )
            if self.swizzle is not None and vec > self.swizzle.chunk_elems:
                return f"{buffer.name}: {vec} elements are longer than a swizzle chunk of {self.swizzle.chunk_elems}"
        if buffer.space in ("global", "shared") and buffer.align_bytes % (bits // 8):
            return f"{buffer.name}: aligned to {buffer.align_bytes} bytes, {bits // 8} are needed"
        return None

    def _starts(self) -> list[tuple[str, Int]]:
        """Where the addresses begin: one sum, but for a swizzle, which comes between the two."""
        own = self.region.buffer.elem_offset
        if self.swizzle is None:
            return [("start", self.start + own)]
        return [("start", self.start), ("buffer's own start", own)]


@checked(
    runs=Kind("Runs, at least one", lambda runs: bool(many(a("a Run", Run)).fits(runs) and runs)),
    widths_bits=_WIDTHS,
    also=Kind("a function of the number of elements", callable),
)
def widest(
    runs: Sequence[Run], widths_bits: Sequence[int], also: Callable[[int], str | None]
) -> tuple[int, tuple[str, ...]] | Decline:
    """The widest vector that every operand allows, in bits, and why each wider one was not taken.

    Args:
        runs: the operands.
        widths_bits: what may be taken, widest first.
        also: why a vector of that many elements does not fit for another reason, or None.
    """
    narrowed: list[str] = []
    for bits in widths_bits:
        why = next(filter(None, (run.why_not_width(bits) for run in runs)), None)
        why = why or also(bits // runs[0].region.buffer.dtype.bits)
        if why is None:
            return bits, tuple(narrowed)
        narrowed.append(f"{bits} bits: {why}")
    return Decline(f"no vector width of {', '.join(map(str, widths_bits))} bits fits: {'; '.join(narrowed)}")


@checked(request=_REQUEST, leader=_REGION, widths_bits=_WIDTHS)
def synthesize(
    request: CopyRequest, leader: Region, widths_bits: Sequence[int] = WIDTHS_BITS
) -> VectorPartition | Decline:
    """Split a copy between two memories into ``[outer, threads, vec]`` (seed gmem_smem, "Algorithm").

    Args:
        request: the copy.
        leader: the operand (``request.dst`` or ``request.src``) whose strides, descending, give the order.
        widths_bits: the vector widths that may be taken, widest first.

    Returns:
        The partition with the widest vector that both sides allow, or why there is none.
    """
    if leader is not request.dst and leader is not request.src:
        raise RequestError(f"synthesize: leader is request.dst or request.src, not {leader}")
    follower = request.src if leader is request.dst else request.dst
    lead = sliced("destination" if leader is request.dst else "source", leader)
    follow = sliced("destination" if follower is request.dst else "source", follower)
    if isinstance(lead, Decline):
        return lead
    if isinstance(follow, Decline):
        return follow
    pairs = refine(lead.shard, follow.shard)
    if pairs is None:  # the logical order is kept, each side in its own iters
        orders = [(list(fuse(lead.shard)), list(fuse(follow.shard)))]
    else:
        orders = [([a for a, _ in order], [b for _, b in order]) for order in orders_of(pairs)]
    found = [_vectors(request, leader, (lead, follow), order, widths_bits) for order in orders]
    return max(found, key=lambda each: each.vec_bits if isinstance(each, VectorPartition) else 0)


def _vectors(
    request: CopyRequest,
    leader: Region,
    layouts: tuple[TileLayout, TileLayout],
    iters: tuple[list[Iter], list[Iter]],
    widths_bits: Sequence[int],
) -> VectorPartition | Decline:
    """The partition of one order: leader and follower as layouts, and their iters in that order."""
    count, threads = leader.size, request.scope.threads
    regions = (leader, request.src if leader is request.dst else request.dst)
    runs = [Run(r, own, x.offset_on(m), x.swizzle) for r, own, x in zip(regions, iters, layouts, strict=True)]

    def divides(vec: int) -> str | None:
        return f"{count} elements are not a multiple of {threads} threads x {vec}" if count % (threads * vec) else None

    width = widest(runs, widths_bits, divides)
    if isinstance(width, Decline):
        return width
    bits, narrowed = width
    lead, follow = (Side(r, x.with_iters(own)) for r, x, own in zip(regions, layouts, iters, strict=True))
    dst, src = (lead, follow) if leader is request.dst else (follow, lead)
    vec = bits // leader.buffer.dtype.bits
    return VectorPartition(count // (threads * vec), threads, vec, bits, dst, src, narrowed)
