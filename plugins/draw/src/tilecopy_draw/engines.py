"""The picture "boxes": what an engine moves with each instruction."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import tilecopy as tc

from .grids import LINE, by_address, by_coordinate, holders, instructions_text, listed, notes_of, side_panel
from .page import Box, Grid, Panel, Sheet, rectangles
from .part import Part, too_large
from .running import COLUMN_BYTES, LANE_BYTES, NO_PLACE, CopySide, Movement, Touched


def pieces_of(movement: Movement, part: Part) -> tuple[Touched, Touched]:
    """What goes from where to where, neighbours that stay neighbours as one piece, on both sides alike."""
    source, destination = movement.source.touched, movement.destination.touched
    chosen = part.of(attrs.evolve(source, cta=np.arange(len(source)))).cta
    order = np.lexsort([each[chosen] for each in (destination.offset, destination.cta, source.step)])
    source, destination = (each.only(chosen).only(order) for each in (source, destination))
    if movement.destination.space == "tmem":
        return source, destination
    filled = source.read == 0
    follows = (source.offset[1:] == (source.offset + source.size)[:-1]) | filled[1:]
    follows &= destination.offset[1:] == (destination.offset + destination.size)[:-1]
    follows &= (source.step[1:] == source.step[:-1]) & (destination.cta[1:] == destination.cta[:-1])
    follows &= (filled[1:] == filled[:-1]) & ((source.read == source.size) | filled)[:-1]
    first = np.flatnonzero(~np.concatenate([[False], follows]))
    sizes, reads = (np.add.reduceat(value, first) for value in (source.size, source.read))
    if len(np.unique(sizes[reads > 0])) > 1:  # a swizzle leaves runs of several lengths: each unit by itself
        return source, destination
    joined = [attrs.evolve(each.only(first), size=sizes, read=reads) for each in (source, destination)]
    return joined[0], joined[1]


def draw_boxes(movement: Movement, part: Part) -> Iterator[Sheet]:
    """The picture.

    Raises:
        RequestError: threads move the bytes, the part is none of it, or it does not fit.
    """
    if not movement.by_engine:
        raise tc.RequestError(
            f"draw: {movement.variant} moves bytes by threads: kind 'moves' shows them, 'boxes' are of engines"
        )
    source, destination = pieces_of(movement, part)
    subtitle = (
        "Thread t0 issues. One box = bytes that are side by side on both sides. Label: the instruction (c0 the first), and the "
        "first element."
    )
    steps = np.unique(source.step).tolist()
    fills = {fill: f"instruction {listed([f'c{s}' for s in steps if s % 4 == fill])}" for fill in range(4)}
    panels = []
    for side, touched in ((movement.source, source), (movement.destination, destination)):
        panel = _tensor_panel(touched) if side.space == "tmem" else _panel(movement, side, touched, source)
        panels.append([attrs.evolve(panel, fills=fills)])
    signs = {"frame": "lanes of one warp", "absent": "not read or not written"}
    notes = [instructions_text(movement)]
    if (found := getattr(movement.partition, "descriptor", None)) is not None:
        notes.append(
            f"Descriptor: ldo {found.ldo} and sdo {found.sdo} (units of 16 bytes as encoded), swizzle code {found.swizzle}."
        )
    notes += notes_of(movement)
    yield Sheet(f"What the engine moves: {movement}, {movement.variant}", subtitle, panels, signs, notes)
    there = int(movement.source.touched.step.max()) + 1
    raise too_large(f"{len(source)} pieces", f"part='instruction 0' (there are {there} of them)")


def _panel(movement: Movement, side: CopySide, touched: Touched, source: Touched) -> Panel:
    """A side in global memory by coordinate, in shared memory by address; where each piece is from, by ``source``."""
    several = "c{} " if len(np.unique(touched.step)) > 1 else ""
    if side.space == "global":  # a box is what one instruction takes
        ids = holders(side.elements, np.where(source.read > 0, touched.offset, NO_PLACE), touched.size)
        grid = by_coordinate(side, np.where(ids >= 0, touched.step[np.maximum(ids, 0)], NO_PLACE))
        boxes = [Box(place, f"c{step}", step % 4, f"instruction c{step}") for step, place in rectangles(grid.ids)]
    else:
        grid, boxes = by_address(side, touched, movement.size), []
        for number, place in rectangles(grid.ids):
            step, _, _, _, offset, size, _ = touched.row(number)
            elements = movement.source.elements_in(int(source.offset[number]), size) if source.read[number] else []
            first = ",".join(map(str, movement.source.coordinate(int(elements[0])))) if len(elements) else "fill"
            label = several.format(step) + first + f" ({size} bytes)" * (size > LINE)
            boxes.append(Box(place, label, step % 4, f"c{step}: bytes {offset} to {offset + size - 1} of {side.label}"))
    high = max(1.0, min(18.0, 860 / len(grid.ids)))
    return side_panel(side, grid, boxes, cell=(0, 64, high), optional=high < 12)


def _tensor_panel(touched: Touched) -> Panel:
    """Tensor memory: a row is eight lanes, a column four bytes; the lanes of a warp are framed."""
    columns, words = touched.offset % LANE_BYTES // COLUMN_BYTES, touched.size // COLUMN_BYTES
    wide = int((columns + words).max())
    ids = np.full((128, wide), NO_PLACE)
    lanes = touched.offset // LANE_BYTES
    for lane, column, count, step in np.stack([lanes, columns, words, touched.step], axis=1).tolist():
        ids[lane, column : column + count] = 4 * step + lane // 32
    names = [str(lane) for lane in range(0, 128, 8)], [str(column) for column in range(wide)]
    grid = Grid(ids[::8], ids[::8], *names, "column after the first, 4 bytes each; rows: lanes")
    boxes = []
    for number, place in rectangles(grid.ids):
        step = number // 4
        boxes.append(
            Box(place, f"c{step}", step % 4, f"instruction c{step}: lanes {8 * place[0]} to {8 * place[2] - 1}")
        )
    return Panel(
        "Destination: tensor memory", grid, boxes, frames=[(top, 0, top + 4, wide) for top in range(0, 16, 4)],
        beside=[((top, top + 4), f"lanes {8 * top}-{8 * top + 31}, warp {top // 4}") for top in range(0, 16, 4)], cell=(0, 40, 18),
    )  # fmt: skip
