"""Element offsets computed from coordinates, for any box of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilecopy_core.plugin import Buffer, Int, Region, TileLayout, m


def coordinates_of(flat: Int, extents: Sequence[int]) -> list[Int]:
    """Return the coordinates of an element of a box from its row-major index."""
    inner, coordinates = prod(extents), list[Int]()
    for extent in extents:
        inner //= extent
        coordinates.append(flat // inner % extent)
    return coordinates


def place_of(buffer: Buffer, coordinates: Sequence[Int]) -> Int:
    """Return the offset of an element in a buffer, before the swizzle. Its coordinates must be in bounds."""
    if not isinstance(buffer.layout, TileLayout):  # of a shape known at launch: one stride per dimension
        return buffer.layout.offset_of(coordinates)
    index: Int = 0
    for coordinate, size in zip(coordinates, buffer.shape, strict=True):
        index = index * size + coordinate
    shard, start = buffer.layout.shard, buffer.layout.offset_on(m)
    steps = coordinates_of(index, [it.extent for it in shard])
    return sum([step * it.stride for step, it in zip(steps, shard, strict=True)], start)


def why_not_memory(operand: str, buffer: Buffer) -> str | None:
    """Return an error message for a layout over other axes than the memory axis m. Return None for other layouts."""
    named = ", ".join(axis.name for axis in buffer.layout.axes if axis != m)
    if named:
        return f"{operand} {buffer.name} in {buffer.space} memory must have a layout over the memory axis m only, got axis {named}"
    return None


def why_unaligned(buffer: Buffer) -> str | None:
    """Return an error message for a buffer whose elements may be misaligned. Return None for other buffers."""
    needed = buffer.dtype.bytes
    if buffer.align_bytes % needed:
        return f"{buffer.name} must be aligned to {needed} bytes for its elements, got align_bytes={buffer.align_bytes}"
    return None


def tile_layout(region: Region) -> TileLayout:
    """Return the layout of a region's buffer. If the buffer's shape is symbolic, return the layout of the box."""
    whole = region.buffer.layout
    layout = whole if isinstance(whole, TileLayout) else region.sliced_layout()
    assert layout is not None
    return layout
