"""The picture "boxes": what an engine moves with each instruction."""

from __future__ import annotations

import attrs
import numpy as np
import tilecopy as tc

from .grids import LINE, by_address, by_coordinate
from .moves import MOST_BOXES, MOST_ROWS, coordinate, instructions_text, ranked, region_text, starting
from .page import Box, Page, Panel, rectangles
from .part import Part, too_large
from .running import COLUMN_BYTES, LANE_BYTES, NO_PLACE, Movement, Touched


def pieces_of(movement: Movement, part: Part) -> tuple[Touched, Touched]:
    """What goes from where to where, neighbours that stay neighbours as one piece, on both sides alike."""
    step = ranked(movement.source.step)
    sides = [attrs.evolve(each, step=step) for each in (movement.source, movement.destination)]
    chosen = part.of(attrs.evolve(sides[0], cta=np.arange(len(step)))).cta
    source, destination = (each.only(chosen) for each in sides)
    order = np.lexsort((destination.offset, source.offset * (source.read > 0), destination.cta, source.step))
    source, destination = source.only(order), destination.only(order)
    if movement.request.dst.buffer.space == "tmem":
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
    request = movement.request
    title = (
        f"What the engine moves: {region_text(request.src, movement.start_source)} ({request.src.buffer.space}) to "
        f"{region_text(request.dst, movement.start_destination)} ({request.dst.buffer.space}), {request.dst.buffer.dtype}, {movement.variant}"
    )
    page = Page(width)
    page.heading(
        title,
        "Thread t0 issues. One box = bytes that are side by side on both sides. Label: the instruction (c0 the first), and the first element.",
    )
    left = _panel(movement, "source", source)
    right = (
        _tensor_panel(movement, destination)
        if request.dst.buffer.space == "tmem"
        else _panel(movement, "destination", destination, source)
    )
    if (
        max(len(left.boxes), len(right.boxes)) > MOST_BOXES
        or max(left.rows, right.rows) > 2 * MOST_ROWS
        or not page.panels([left], [right])
    ):
        raise too_large(f"{len(source)} pieces", f"part='instruction 0' (of {int(source.step.max()) + 1})")
    steps = np.unique(source.step).tolist()
    legend = {}
    for fill in range(4):
        there = [f"c{step}" for step in steps if step % 4 == fill]
        if there:
            legend[fill] = f"instruction {', '.join(there if len(there) < 5 else [*there[:3], '...'])}"
    absent = left.gaps or right.gaps
    page.legend(
        legend,
        ({"frame": "lanes of one warp"} if right.frames else {})
        | ({"absent": "not read or not written"} if absent else {}),
    )
    page.notes([f"Instructions: {instructions_text(movement)}.", *_descriptor(movement)])
    page.notes(["Run on the emulator with marks in the source: every byte arrived where the copy says."])
    return title, page


def _descriptor(movement: Movement) -> list[str]:
    found = getattr(movement.partition, "descriptor", None)
    if found is None:
        return []
    return [
        f"Descriptor: ldo {found.ldo} and sdo {found.sdo} (units of 16 bytes as encoded), swizzle code {found.swizzle}."
    ]


def _panel(movement: Movement, name: str, touched: Touched, source: Touched | None = None) -> Panel:
    """A side in global memory by coordinate, in shared memory by address; where from, of the destination."""
    region = movement.side(name)[0]
    _, _, origin = movement.side("source")
    whole, several = region.buffer.space == "global", len(np.unique(touched.step)) > 1
    read = touched.only(touched.read > 0) if name == "source" else touched
    rows = np.flatnonzero(touched.read > 0) if name == "source" else np.arange(len(touched))
    grid = by_coordinate(movement, name, read) if whole else by_address(movement, name, read)
    if whole:  # a box is what one instruction takes
        ids = np.where(grid.ids >= 0, read.step[np.maximum(grid.ids, 0)], NO_PLACE)
        boxes = [Box(p, f"c{n}", n % 4, f"instruction c{n}") for n, p in rectangles(ids)]
    else:
        ids, boxes = grid.ids, []
        for number, place in rectangles(grid.ids):
            row, step = int(rows[number]), int(read.step[number])
            start = int((source or touched).offset[row])
            covered = np.flatnonzero((origin >= start) & (origin < start + int(touched.size[row])))
            first = ",".join(map(str, coordinate(movement, "source", int(covered[0])))) if len(covered) else "fill"
            size = int(touched.size[row])
            first += f" ({size} bytes)" if size > LINE else ""
            tip = f"c{step}: {movement.steps[int(np.unique(movement.source.step)[step])].opcode}, bytes {read.offset[number]} to {read.offset[number] + read.size[number] - 1}"
            boxes.append(Box(place, f"c{step} {first}" if several else first, step % 4, tip))
    how = "by coordinate" if whole else "by byte address"
    return Panel(
        f"{name.capitalize()}: {region.buffer.space} {region.buffer.name}, {how}", grid.columns_are, len(grid.ids), grid.ids.shape[1], sorted(boxes, key=lambda b: b.place),
        row_labels=grid.row_names, column_labels=starting(grid.column_names, boxes), cell=(0, 64, 18 if len(grid.ids) <= 40 else 12),
    )  # fmt: skip


def _tensor_panel(movement: Movement, touched: Touched) -> Panel:
    """Tensor memory: a row is eight lanes, a column four bytes; the lanes of a warp are framed."""
    lanes, columns = touched.offset // LANE_BYTES, touched.offset % LANE_BYTES // COLUMN_BYTES
    wide = int(columns.max()) + 4
    ids = np.full((128, wide), NO_PLACE)
    for lane, column, step, size in zip(
        lanes.tolist(), columns.tolist(), touched.step.tolist(), touched.size.tolist(), strict=True
    ):
        ids[lane, column : column + size // COLUMN_BYTES] = step
    coarse = ids[::8]
    boxes = []
    for number, (r0, c0, r1, c1) in rectangles(coarse):
        for top in range(r0 - r0 % 4, r1, 4):
            place = (max(r0, top), c0, min(r1, top + 4), c1)
            boxes.append(
                Box(
                    place,
                    f"c{number}",
                    number % 4,
                    f"instruction c{number}: lanes {8 * place[0]} to {8 * place[2] - 1}",
                )
            )
    return Panel(
        "Destination: tensor memory", "column after the first, 4 bytes each; rows: lanes", 16, wide, sorted(boxes, key=lambda b: b.place),
        frames=[(top, 0, top + 4, wide) for top in range(0, 16, 4)], row_labels={row: str(8 * row) for row in range(0, 16, 2)},
        column_labels={c: str(c) for c in range(0, wide, max(1, wide // 8))},
        beside=[((top, top + 4), (f"lanes {8 * top}-{8 * top + 31}", f"read by warp {top // 4}")) for top in range(0, 16, 4)],
        cell=(0, 40, 18),
    )  # fmt: skip
