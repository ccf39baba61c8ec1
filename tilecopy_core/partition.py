"""Partitions that variants share: how the elements of a copy are split over rounds, threads and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from .errors import TEXT, LayoutError, RequestError, a, many, shown, whole
from .expr import INT, Expr, Int, bounds_of, divisor_of, is_multiple, same
from .layout import Iter, Swizzle, TileLayout, fuse, m
from .memory import Region
from .request import CopyRequest, Decline

WIDTHS_BITS = (128, 64, 32, 16, 8)
"""Vector widths of ordinary loads and stores, widest first."""


_REGION = a("a Region such as buffer[0:8, :]", Region)
_LAYOUT = a("a TileLayout", TileLayout)
_ITERS = many(a("an Iter", Iter))
_COUNT = whole(1, 2**63 - 1)


@attrs.frozen
class Side:
    """One operand of a ``[outer, threads, vec]`` partition.

    Attributes:
        region: the operand.
        layout: the region's elements in the partition's order, as element offsets from the buffer's start; its size
            is ``outer * threads * vec``.
    """

    region: Region
    layout: TileLayout

    def __attrs_post_init__(self) -> None:
        if type(self.region) is not Region:
            _REGION.check(self.region, "Side", "region")
        if type(self.layout) is not TileLayout:
            _LAYOUT.check(self.layout, "Side", "layout")

    @property
    def swizzle(self) -> Swizzle | None:
        """Applied to the offsets afterwards, or None."""
        return self.layout.swizzle

    def offset(self, round_index: Int, thread: Int, shape: tuple[int, int, int]) -> Int:
        """Element offset (before the swizzle) of a thread's vector in one round."""
        if type(shape) is not tuple or len(shape) != 3:
            raise LayoutError(f"Side.offset: shape is the three extents of the partition, not {shown(shape)}")
        return self.layout.unswizzled.apply(round_index, thread, 0, shape=shape).get("m", 0)


_SIDE = a("a Side", Side)
_SPLIT = {
    **dict.fromkeys(("outer", "threads", "vec", "vec_bits"), _COUNT),
    "dst": _SIDE,
    "src": _SIDE,
    "narrowed": many(TEXT),
}


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

    outer: int
    threads: int
    vec: int
    vec_bits: int
    dst: Side
    src: Side
    narrowed: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        for name, kind in _SPLIT.items():
            value = getattr(self, name)
            if not kind.fits(value):
                kind.check(value, "VectorPartition", name)

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


def by_descending_stride(pairs: Sequence[Pair], *, broadcasts_first: bool = False) -> list[Pair]:
    """Pairs ordered by the first side's stride, largest first; symbolic strides lead, broadcasts (stride 0) are last."""

    def key(pair: Pair) -> tuple[int, int]:
        stride = pair[0].stride
        if isinstance(stride, Expr):
            return 0, -(bounds_of(stride)[0] or 0)
        return (0, 0) if stride == 0 and broadcasts_first else (1, -stride)

    return fuse_pairs(sorted(pairs, key=key))


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

    region: Region
    iters: Sequence[Iter]
    start: Int
    swizzle: Swizzle | None = None

    def __attrs_post_init__(self) -> None:
        if (
            type(self.region) is not Region
            or type(self.iters) not in (tuple, list)
            or set(map(type, self.iters)) - {Iter}
        ):
            _REGION.check(self.region, "Run", "region")
            _ITERS.check(self.iters, "Run", "iters")
        if type(self.start) is not int and not isinstance(self.start, Expr):
            INT.check(self.start, "Run", "start")
        if self.swizzle is not None and type(self.swizzle) is not Swizzle:
            raise RequestError(f"Run: swizzle is a Swizzle, or None, not {shown(self.swizzle)}")

    def why_not_width(self, bits: int) -> str | None:
        """Why vectors of ``bits`` do not fit, or None."""
        if type(bits) is not int or bits < 1:
            _COUNT.check(bits, "why_not_width", "bits")
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
    lead, follow = (Side(r, x._with_iters(own)) for r, x, own in zip(regions, layouts, iters, strict=True))
    dst, src = (lead, follow) if leader is request.dst else (follow, lead)
    vec = bits // leader.buffer.dtype.bits
    return VectorPartition(count // (threads * vec), threads, vec, bits, dst, src, narrowed)
