"""The picture "bulk": the bytes that each instruction of a bulk or tensor copy moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy.costs import LINE_BYTES

from .grids import by_address, by_coordinate, instructions_text, legend_of, notes_of, side_title, tensor_panel, within
from .selection import Selection, TooLargeError
from .svg import Figure, Panel, Rectangle, rectangles
from .trace import NO_PLACE, CopySide, CopyTrace, holders


def pieces_of(trace: CopyTrace, selection: Selection) -> tuple[Any, Any]:
    """Return the accesses to source and destination, merged into byte ranges that are contiguous in both memories."""
    source, destination = (side.accesses for side in trace.sides)
    chosen = selection.mask(source)
    source, destination = source[chosen], destination[chosen]
    inside = within(trace.destination, destination, selection)
    source, destination = source[inside], destination[inside]
    if not len(source):
        raise tc.RequestError("draw: no access matches all parts of select: pass fewer parts")
    order = np.lexsort([destination.byte, destination.cta, source.instruction])
    source, destination = source[order], destination[order]
    if trace.destination.space == "tmem":
        return source, destination
    filled = source.read == 0
    follows = (source.byte[1:] == (source.byte + source.bytes)[:-1]) | filled[1:]
    follows &= destination.byte[1:] == (destination.byte + destination.bytes)[:-1]
    follows &= (source.instruction[1:] == source.instruction[:-1]) & (destination.cta[1:] == destination.cta[:-1])
    follows &= (filled[1:] == filled[:-1]) & ((source.read == source.bytes) | filled)[:-1]
    first = np.flatnonzero(~np.concatenate([[False], follows]))
    sizes, reads = (np.add.reduceat(value, first) for value in (source.bytes, source.read))
    if len(np.unique(sizes[reads > 0])) <= 1:  # otherwise a swizzle splits them into several lengths: keep each unit
        source, destination = source[first], destination[first]
        for pieces in (source, destination):
            pieces.bytes, pieces.read = sizes, reads
    return source, destination


def draw_bulk(trace: CopyTrace, selection: Selection) -> Iterator[Figure]:
    """Yield the picture of a bulk or tensor copy. If the caller rejects the picture, raise TooLargeError."""
    if not trace.by_engine:
        raise tc.RequestError(
            f"draw: kind 'bulk' needs a bulk or tensor copy, but variant {trace.variant} moves the bytes by threads: use kind 'moves'"
        )
    source, destination = pieces_of(trace, selection)
    subtitle = (
        "Thread t0 issues the copy. One box = bytes that are contiguous on both sides. Label: the instruction (c0 is the first) "
        "and the first element."
    )
    panels = [[_panel(trace, trace.source, source, source)], [_panel(trace, trace.destination, destination, source)]]
    signs = {"frame": "lanes of one warp", "absent": "neither read nor written"}
    notes = [instructions_text(trace)]
    if (descriptor := getattr(trace.partition, "descriptor", None)) is not None:
        notes.append(
            f"Matrix descriptor: ldo {descriptor.ldo} and sdo {descriptor.sdo} (encoded, units of 16 bytes), swizzle code {descriptor.swizzle}."
        )
    notes += notes_of(trace)
    yield Figure(f"What the engine moves: {trace}, {trace.variant}", subtitle, panels, signs, notes)
    count = int(trace.source.accesses.instruction.max()) + 1
    raise TooLargeError(f"{len(source)} pieces", (("instruction 0",),), f"of {count} instructions")


def _panel(trace: CopyTrace, side: CopySide, touched: Any, source: Any) -> Panel:
    """Return the panel of a side: global memory by coordinate, shared memory by address; ``source`` labels each piece."""
    if side.space == "tmem":
        return tensor_panel(side, touched, "c")
    if side.space == "global":  # a box is what one instruction takes
        ids = holders(side.elements, np.where(source.read > 0, touched.byte, NO_PLACE), touched.bytes)
        grid = by_coordinate(side, np.where(ids >= 0, touched.instruction[np.maximum(ids, 0)], NO_PLACE))
        boxes = [Rectangle(place, f"c{step}", step % 4, f"instruction c{step}") for step, place in rectangles(grid.ids)]
    else:
        grid, boxes = by_address(side, touched, trace.size), []
        several = len(np.unique(touched.instruction)) > 1
        for number, place in rectangles(grid.ids):
            step, offset, size = (int(touched[name][number]) for name in ("instruction", "byte", "bytes"))
            elements = trace.source.elements_in(int(source.byte[number]), size) if source.read[number] else []
            first = ",".join(map(str, trace.source.coordinate(int(elements[0])))) if len(elements) else "fill"
            label = f"c{step} " * several + first + f" ({size} bytes)" * (size > LINE_BYTES)
            boxes.append(
                Rectangle(place, label, step % 4, f"c{step}: bytes {offset} to {offset + size - 1} of {side.label}")
            )
    high = max(1.0, min(18.0, 860 / len(grid.ids)))
    fills = legend_of("instruction", touched.instruction.tolist(), "c")
    return Panel(side_title(side), grid, boxes, fills, cell=(0, 64, high), optional=high < 12)
