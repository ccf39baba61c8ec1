"""Partitions that variants share: how the elements of a copy are split over rounds, threads and vectors."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .expr import Int, as_expr, bounds_of, divisor_of, is_multiple, same
from .layout import Iter, Swizzle, TileLayout, fuse, m, split_swizzle
from .memory import Region
from .request import CopyRequest, Decline

WIDTHS_BITS = (128, 64, 32, 16, 8)
"""Vector widths of ordinary loads and stores, widest first."""


@attrs.frozen
class Side:
    """One operand of a ``[outer, threads, vec]`` partition.

    Attributes:
        region: the operand.
        layout: the region's elements in the partition's order, as element offsets from the buffer's start; its size
            is ``outer * threads * vec``.
        swizzle: applied to the offset afterwards, or None.
    """

    region: Region
    layout: TileLayout
    swizzle: Swizzle | None = None

    def offset(self, round_index: Int, thread: Int, shape: tuple[int, int, int]) -> Int:
        """Element offset (before the swizzle) of a thread's vector in one round."""
        return self.layout.apply(round_index, thread, 0, shape=shape).get("m", 0)


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


def sliced(operand: str, region: Region) -> tuple[TileLayout, Swizzle | None] | Decline:
    """The tile layout (over memory alone) and swizzle of a region's box, or why it has none."""
    layout = region.sliced_layout()
    if layout is None:
        return Decline(
            f"{operand} {region} is not a layout of its own: the box cuts inside an iter of {region.buffer.layout}"
        )
    swizzle, tile = split_swizzle(layout)
    if any(axis != m for axis in tile.axes):
        named = ", ".join(axis.name for axis in tile.axes if axis != m)
        return Decline(f"{operand} {region.buffer.name} in {region.buffer.space} memory has strides along {named}")
    return tile, swizzle


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


def by_descending_stride(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs ordered by the first side's stride, largest first; broadcasts (stride 0) and symbolic strides lead."""

    def key(pair: Pair) -> tuple[int, int]:
        stride = as_expr(pair[0].stride)
        if stride.terms:
            return 0, -(bounds_of(stride)[0] or 0)
        return (0, 0) if stride.const == 0 else (1, -stride.const)

    return fuse_pairs(sorted(pairs, key=key))


def why_not_width(bits: int, region: Region, iters: Sequence[Iter], offset: Int, swizzle: Swizzle | None) -> str | None:
    """Why vectors of ``bits`` do not fit one side, or None.

    Args:
        bits: width of the vector.
        region: the operand, for its element type, alignment and name.
        iters: memory iters in order; the last is the one that vectors are carved from.
        offset: element offset of the box from the buffer's start.
        swizzle: the side's swizzle.
    """
    buffer = region.buffer
    vec = bits // buffer.dtype.bits
    if vec * buffer.dtype.bits != bits:
        return f"{bits} bits are not a whole number of {buffer.dtype} elements"
    if vec > 1:
        tail = iters[-1] if iters else Iter(1, 1)
        if not same(tail.stride, 1):
            return f"{buffer.name}: the innermost stride is {tail.stride} elements, so nothing is contiguous"
        if tail.extent % vec:
            return f"{buffer.name}: {tail.extent} contiguous elements are not a multiple of {vec}"
        for it in iters[:-1]:
            if not is_multiple(it.stride, vec):
                return f"{buffer.name}: the stride {it.stride} is not a multiple of {vec} elements"
        for what, start in (("start", offset), ("buffer's own start", buffer.elem_offset)):
            if not is_multiple(start, vec):
                return f"{buffer.name}: the {what} {start} is a multiple of {divisor_of(start)} elements, not of {vec}"
        if swizzle is not None and vec > swizzle.chunk_elems:
            return f"{buffer.name}: {vec} elements are longer than a swizzle chunk of {swizzle.chunk_elems}"
    if buffer.space in ("global", "shared") and buffer.align_bytes % (bits // 8):
        return f"{buffer.name}: aligned to {buffer.align_bytes} bytes, {bits // 8} are needed"
    return None


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
    follower = request.src if leader is request.dst else request.dst
    names = {id(request.dst): "destination", id(request.src): "source"}
    sides = []
    for region in (leader, follower):
        cut = sliced(names[id(region)], region)
        if isinstance(cut, Decline):
            return cut
        sides.append(cut)
    (lead_tile, lead_swizzle), (follow_tile, follow_swizzle) = sides
    pairs = refine(lead_tile.shard, follow_tile.shard)
    if pairs is None:  # the logical order is kept, each side in its own iters
        lead_iters, follow_iters = list(fuse(lead_tile.shard)), list(fuse(follow_tile.shard))
    else:
        ordered = by_descending_stride(pairs)
        lead_iters, follow_iters = [pair[0] for pair in ordered], [pair[1] for pair in ordered]
    count, threads = leader.size, request.scope.threads
    lead_offset, follow_offset = lead_tile.offset_on(m), follow_tile.offset_on(m)
    narrowed: list[str] = []
    for bits in widths_bits:
        vec = bits // leader.buffer.dtype.bits
        why = why_not_width(bits, leader, lead_iters, lead_offset, lead_swizzle)
        why = why or why_not_width(bits, follower, follow_iters, follow_offset, follow_swizzle)
        if why is None and count % (threads * vec):
            why = f"{count} elements are not a multiple of {threads} threads x {vec}"
        if why is not None:
            narrowed.append(f"{bits} bits: {why}")
            continue
        lead = Side(leader, TileLayout.of(lead_iters, (), lead_tile.spec.offset), lead_swizzle)
        follow = Side(follower, TileLayout.of(follow_iters, (), follow_tile.spec.offset), follow_swizzle)
        dst, src = (lead, follow) if leader is request.dst else (follow, lead)
        return VectorPartition(count // (threads * vec), threads, vec, bits, dst, src, tuple(narrowed))
    return Decline(f"no vector width of {', '.join(map(str, widths_bits))} bits fits: {'; '.join(narrowed)}")
