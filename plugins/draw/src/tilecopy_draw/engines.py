"""The picture "boxes": what an engine moves with each instruction."""

from __future__ import annotations

import attrs
import numpy as np
import tilecopy as tc

from .fragments import listed
from .grids import LINE, by_address, by_coordinate, holders
from .moves import instructions_text, notes_of
from .page import MOST_BOXES, MOST_ROWS, Box, Grid, Page, Panel, rectangles
from .part import Part, too_large
from .running import COLUMN_BYTES, LANE_BYTES, NO_PLACE, CopySide, Movement, Touched


def pieces_of(movement: Movement, part: Part) -> tuple[Touched, Touched]:
    """What goes from where to where, neighbours that stay neighbours as one piece, on both sides alike."""
    source, destination = movement.source.touched, movement.destination.touched
    chosen = part.of(attrs.evolve(source, cta=np.arange(len(source)))).cta
    order = np.lexsort([each[chosen] for each in (destination.offset, destination.cta, source.step)])
    filled = (source.read == 0)[chosen][order]
    source, destination = (each.only(chosen).only(order) for each in (source, destination))
    if movement.destination.space == "tmem":
        return source, destination
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


def draw_boxes(movement: Movement, part: Part, width: float) -> tuple[str, Page]:
    """The picture.

    Raises:
        RequestError: threads move the bytes, the part is none of it, or it does not fit.
    """
    if not movement.by_engine:
        raise tc.RequestError(
            f"draw: {movement.variant} moves bytes by threads: kind 'moves' shows them, 'boxes' are of engines"
        )
    source, destination = pieces_of(movement, part)
    title = f"What the engine moves: {movement}, {movement.variant}"
    page = Page(width)
    page.heading(
        title, "Thread t0 issues. One box = bytes that are side by side on both sides. Label: the instruction (c0 the first), and the "
        "first element.",
    )  # fmt: skip
    left = _panel(movement, movement.source, source, source)
    tensor = movement.destination.space == "tmem"
    right = _tensor_panel(destination) if tensor else _panel(movement, movement.destination, destination, source)
    boxes, rows = max(len(left.boxes), len(right.boxes)), max(left.rows, right.rows)
    if boxes > MOST_BOXES or rows > 16 * MOST_ROWS or not page.panels([left], [right]):
        raise too_large(
            f"{len(source)} pieces",
            f"part='instruction 0' (there are {int(movement.source.touched.step.max()) + 1} of them)",
        )
    steps = np.unique(source.step).tolist()
    there = {fill: [f"c{step}" for step in steps if step % 4 == fill] for fill in range(4)}
    signs = ({"frame": "lanes of one warp"} if tensor else {}) | (
        {"absent": "not read or not written"} if left.gaps or right.gaps else {}
    )
    page.legend({fill: f"instruction {listed(names)}" for fill, names in there.items() if names}, signs)
    page.notes([f"Instructions: {instructions_text(movement)}."])
    if (found := getattr(movement.partition, "descriptor", None)) is not None:
        page.notes(
            [
                f"Descriptor: ldo {found.ldo} and sdo {found.sdo} (units of 16 bytes as encoded), swizzle code {found.swizzle}."
            ]
        )
    page.notes(notes_of(movement))
    return title, page


def _panel(movement: Movement, side: CopySide, touched: Touched, source: Touched) -> Panel:
    """A side in global memory by coordinate, in shared memory by address; where each piece is from, by ``source``."""
    several = len(np.unique(touched.step)) > 1
    ids = holders(side.elements, np.where(source.read > 0, touched.offset, NO_PLACE), touched.size)
    if side.space == "global":  # a box is what one instruction takes
        grid = by_coordinate(side, np.where(ids >= 0, touched.step[np.maximum(ids, 0)], NO_PLACE))
        boxes = [
            Box(place, f"c{number}", number % 4, f"instruction c{number}") for number, place in rectangles(grid.ids)
        ]
    else:
        grid, boxes = by_address(side, touched, movement.size), []
        for number, place in rectangles(grid.ids):
            step, size, offset = int(touched.step[number]), int(touched.size[number]), int(touched.offset[number])
            elements = movement.source.elements_in(int(source.offset[number]), size) if source.read[number] else []
            first = ",".join(map(str, movement.source.coordinate(int(elements[0])))) if len(elements) else "fill"
            label = f"c{step} " * several + first + f" ({size} bytes)" * (size > LINE)
            boxes.append(Box(place, label, step % 4, f"c{step}: bytes {offset} to {offset + size - 1} of {side.label}"))
    how = "by coordinate" if side.space == "global" else "by byte address"
    high = max(1.0, min(18.0, 860 / grid.shape[0]))
    return Panel(
        f"{side.name.capitalize()}: {side.space} {side.label}, {how}",
        grid,
        sorted(boxes, key=lambda b: b.place),
        cell=(0, 64, high),
        optional=high < 12,
    )


def _tensor_panel(touched: Touched) -> Panel:
    """Tensor memory: a row is eight lanes, a column four bytes; the lanes of a warp are framed."""
    lanes, columns = touched.offset // LANE_BYTES, touched.offset % LANE_BYTES // COLUMN_BYTES
    wide = int((columns + touched.size // COLUMN_BYTES).max())
    ids = np.full((128, wide), NO_PLACE)
    for lane, column, step, size in zip(
        lanes.tolist(), columns.tolist(), touched.step.tolist(), touched.size.tolist(), strict=True
    ):
        ids[lane, column : column + size // COLUMN_BYTES] = step
    rows = {row: str(8 * row) for row in range(16)}
    grid = Grid(
        ids[::8], ids[::8], rows, {c: str(c) for c in range(wide)}, "column after the first, 4 bytes each; rows: lanes"
    )
    boxes = []
    for warp in range(4):
        for number, (r0, c0, r1, c1) in rectangles(grid.ids[4 * warp : 4 * warp + 4]):
            place = (4 * warp + r0, c0, 4 * warp + r1, c1)
            boxes.append(
                Box(
                    place,
                    f"c{number}",
                    number % 4,
                    f"instruction c{number}: lanes {8 * place[0]} to {8 * place[2] - 1}",
                )
            )
    return Panel(
        "Destination: tensor memory", grid, sorted(boxes, key=lambda b: b.place),
        frames=[(top, 0, top + 4, wide) for top in range(0, 16, 4)],
        beside=[((top, top + 4), f"lanes {8 * top}-{8 * top + 31}, warp {top // 4}") for top in range(0, 16, 4)], cell=(0, 40, 18),
    )  # fmt: skip
