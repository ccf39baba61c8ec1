"""Partitions whose last round may copy fewer elements. Without a layout, element offsets come from coordinates."""

from __future__ import annotations

import attrs

from tilecopy_core.plugin import CopyRequest, Decline, Int, frozen
from tilecopy_partitions import Guard, Side, VectorPartition, guards_of, synthesize

from .box_offsets import coordinates_of, place_of, tile_layout, why_not_memory, why_unaligned


@frozen
class Scattered(Side):
    """A frozen record of an operand whose box has no layout. Element offsets are computed from coordinates."""

    def offset(self, round_index: Int, thread: Int, shape: tuple[int, int, int]) -> Int:
        """Return the offset of a thread's element in one round, before the swizzle."""
        steps = coordinates_of(round_index * shape[1] + thread, self.region.extents)
        return place_of(self.region.buffer, [s + step for s, step in zip(self.region.starts, steps, strict=True)])


def ragged_partition(request: CopyRequest) -> VectorPartition | Decline:
    """Return the partition with the widest vectors. Vectors are single elements if a box splits a layout's extent."""
    for operand, region in (("destination", request.dst), ("source", request.src)):
        if why := why_not_memory(operand, region.buffer):
            return Decline(why)
    if request.dst.sliced_layout() is None or request.src.sliced_layout() is None:
        return _partition_by_coordinates(request)
    return synthesize(request, leader=request.side_in("global"), ragged=True)


def _partition_by_coordinates(request: CopyRequest) -> VectorPartition | Decline:
    """Return the partition in which thread ``i % threads`` copies element ``i`` in round ``i // threads``."""
    count, threads, buffer = request.dst.size, request.scope.threads, request.dst.buffer
    if reason := why_unaligned(request.dst.buffer) or why_unaligned(request.src.buffer):
        return Decline(reason)
    dst, src = (Scattered(region, tile_layout(region)) for region in (request.dst, request.src))
    edges = guards_of(request.dst, request.src) if request.may_exceed_bounds else ()
    tail = () if count % threads == 0 else (Guard.tail(request, count),)
    why = f"a vector must have one element, because {request.dst} or {request.src} splits an extent of its layout"
    whole = VectorPartition(-(-count // threads), threads, 1, buffer.dtype.bits, dst, src, (why,), tail)
    return attrs.evolve(whole, edge=attrs.evolve(whole, guards=(*edges, *tail))) if edges else whole
