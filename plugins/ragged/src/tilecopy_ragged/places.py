"""The place of an element from its coordinates, for any box of a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from tilecopy_core.plugin import Buffer, Int, Region, TileLayout, m


def place_of(buffer: Buffer, coordinates: Sequence[Int]) -> Int:
    """Return the element offset (before the swizzle) of an element; it is meaningless for coordinates outside the shape."""
    if not isinstance(buffer.layout, TileLayout):  # of a shape known at launch: one stride a dimension
        return buffer.layout.offset_of(coordinates)
    index: Int = 0
    for coordinate, size in zip(coordinates, buffer.shape, strict=True):
        index = index * size + coordinate
    layout = buffer.layout.unswizzled
    place: Int = layout.offset.get("m", 0)
    inner = layout.size
    for it in layout.shard:
        inner //= it.extent
        place = place + index // inner % it.extent * it.stride
    return place


def why_not_memory(operand: str, buffer: Buffer) -> str | None:
    """Return why a buffer's layout is not over memory alone, or None."""
    others = [axis.name for axis in buffer.layout.axes if axis != m]
    named = ", ".join(others)
    return f"{operand} {buffer.name} in {buffer.space} memory has strides along {named}" if others else None


def why_unaligned(buffer: Buffer) -> str | None:
    """Return why an element of a buffer may not be accessed by itself, or None."""
    needed = buffer.dtype.bytes
    return (
        f"{buffer.name}: aligned to {buffer.align_bytes} bytes; its elements need {needed}"
        if buffer.align_bytes % needed
        else None
    )


def tile_layout(region: Region) -> TileLayout:
    """Return the layout of a region's buffer; for a symbolic shape, where every box has a layout, that of the box."""
    whole = region.buffer.layout
    layout = whole if isinstance(whole, TileLayout) else region.sliced_layout()
    assert layout is not None
    return layout
