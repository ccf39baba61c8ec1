"""Grids and captions that several kinds of pictures use. A cell holds the number of an access or a register."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from tilecopy.costs import LINE_BYTES
from tilecopy.harness import TMEM_LANES

from .counts import counts_of
from .selection import Selection
from .svg import Grid, Panel, Rectangle, outlines, rectangles
from .trace import COLUMN_BYTES, LANE_BYTES, NO_PLACE, CopySide, CopyTrace, holders

UNIT = 16
"""Bytes of the widest cell of shared memory: a thread accesses at most 16 bytes."""
WORDS = 4096
"""More registers than a thread has: the number of a register in a grid is ``thread * WORDS + register``."""
FOLDS = (64, 32, 16)
"""Row lengths into which a one-dimensional box is folded, longest first."""
ALIKE = (8, 4, 2, 1)
"""Numbers of equal lanes of tensor memory that are drawn as one row, largest first."""


def table_shape(extents: tuple[int, ...], fold: int = FOLDS[0]) -> tuple[int, int]:
    """Return the shape ``(rows, columns)`` of a drawn box. A long one-dimensional box is split into several rows."""
    extents_above_1 = [extent for extent in extents if extent > 1] or [1]
    if len(extents_above_1) == 1:
        length = extents_above_1[0]
        row = next((row for row in FOLDS if row <= fold and length > row and length % row == 0), length)
        return length // row, row
    return prod(extents_above_1[:-1]), extents_above_1[-1]


def within(side: CopySide, touched: Any, selection: Selection) -> Any:
    """Return the indices of the accesses that touch the selected rows and columns."""
    if (selection.rows is None and selection.columns is None) or not len(touched):
        return np.arange(len(touched))
    shape = table_shape(side.region.extents)
    rows, columns = selection.window(shape)
    inner = side.elements.reshape(shape)[slice(*rows), slice(*columns)].ravel()
    elements = np.unique(holders(inner, touched.byte, touched.bytes))
    return elements[elements >= 0]


def by_coordinate(side: CopySide, ids: Any, fold: int = FOLDS[0]) -> Grid:
    """Return a grid with a cell per element of a source or destination box. ``ids`` has each cell's number."""
    wide = [dim for dim, extent in enumerate(side.region.extents) if extent > 1] or [0]
    rows, columns = shape = table_shape(side.region.extents, fold)
    folded = len(wide) == 1
    first = [side.coordinate(row * columns) for row in range(rows)]
    named = [",".join(str(place[dim]) for dim in (wide if folded else wide[:-1])) for place in first]
    begin = side.start[wide[-1]] if side.start and not (folded and rows > 1) else 0
    elements = np.arange(len(side.elements)).reshape(shape)
    return Grid(
        ids.reshape(shape), elements, named if rows > 1 else [""], [str(begin + column) for column in range(columns)],
        "element of the row" if folded else "column",
    )  # fmt: skip


def by_address(side: CopySide, touched: Any, size: int, line: int = LINE_BYTES) -> Grid:
    """Return a grid of shared memory. A row is an accessed line of ``line`` bytes; a cell has at most 16 bytes."""
    unit = int(np.gcd.reduce([UNIT, *np.unique(touched.byte).tolist(), *np.unique(touched.bytes).tolist()]))
    ends = np.unique(np.stack([touched.byte // line, (touched.byte + touched.bytes - 1) // line]), axis=1).T.tolist()
    used = np.unique(np.concatenate([np.arange(first, last + 1) for first, last in ends]))
    cells = (used[:, None] * line + np.arange(0, line, unit)).ravel()
    ids = holders(cells, touched.byte, touched.bytes).reshape(len(used), -1)
    elements = holders(cells, side.elements, np.full(len(side.elements), max(size, unit))).reshape(ids.shape)
    names = [str(number * line) for number in used.tolist()], [str(byte) for byte in range(0, line, unit)]
    return Grid(ids, elements, *names, f"byte in the line of {line} bytes" + " (32 banks)" * (line == LINE_BYTES))


def tensor_panel(side: CopySide, touched: Any, prefix: str = "") -> Panel:
    """Return a panel of tensor memory. One box shows the lanes and columns that one warp accesses in one instruction.

    A label is ``prefix`` and the number of the instruction, or ``instruction`` and the number if there is no prefix.
    """
    columns, lanes = touched.byte % LANE_BYTES // COLUMN_BYTES, touched.byte // LANE_BYTES
    wide = int((columns + touched.bytes // COLUMN_BYTES).max())
    ids = np.full((TMEM_LANES, wide), NO_PLACE)
    for word in range(int(touched.bytes.max()) // COLUMN_BYTES):
        ids[lanes, columns + word] = 4 * touched.instruction + lanes // 32
    alike = next(alike for alike in ALIKE if (np.repeat(ids[::alike], alike, axis=0) == ids).all())
    names = [str(lane) for lane in range(0, TMEM_LANES, alike)], [str(column) for column in range(wide)]
    grid = Grid(ids[::alike], ids[::alike], *names, "column from the first, 4 bytes each; rows: lanes")
    boxes = []
    for number, place in rectangles(grid.ids):
        step = number // 4
        lanes_text = f"lanes {alike * place[0]} to {alike * place[2] - 1}"
        boxes.append(
            Rectangle(place, f"{prefix or 'instruction '}{step}", step % 4, f"instruction {prefix}{step}: {lanes_text}")
        )
    rows_per_warp = 32 // alike
    warps = [(top, top + rows_per_warp) for top in range(0, TMEM_LANES // alike, rows_per_warp)]
    return Panel(
        f"{side.name.capitalize()}: tensor memory {side.label}, by lane and column", grid, boxes, frames=[(a, 0, b, wide) for a, b in warps],
        beside=[((a, b), f"lanes {alike * a}-{alike * b - 1}, warp {a // rows_per_warp}") for a, b in warps],
        fills=legend_of("instruction", touched.instruction.tolist(), prefix), cell=(0, 40, max(2.25 * alike, 4.5)), optional=True,
    )  # fmt: skip


def registers_of(trace: CopyTrace, side: CopySide) -> tuple[Any, Any, Any]:
    """Return three arrays with one value per element of the box: first thread, 32-bit register and number of threads.

    A 64-bit register counts as two.
    """
    source, destination, size = trace.source, trace.destination, trace.size
    if destination.space == "local":
        offsets = np.arange(0, len(trace.arrival_map), size)
    else:
        offsets = destination.elements[destination.elements >= 0]
    came = trace.arrival_map[offsets]
    places = np.where(came >= 0, offsets if side.name == destination.name else came, NO_PLACE)
    pairs = np.unique(np.stack([np.where(came >= 0, source.element_at(came), NO_PLACE), places]), axis=1)
    elements, first, count = np.unique(pairs[0], return_index=True, return_counts=True)
    known = elements >= 0
    flat, copies = np.full(side.region.size, NO_PLACE), np.ones(side.region.size, np.int64)
    flat[elements[known]], copies[elements[known]] = pairs[1][first[known]], count[known]
    per_thread = side.region.buffer.span_elems * size
    return np.where(flat >= 0, flat // per_thread, NO_PLACE), flat % per_thread // 4, copies


def owners_of(
    trace: CopyTrace, side: CopySide, selection: Selection, elements: Any = None, fold: int = FOLDS[0]
) -> Grid:
    """Return a grid of the registers that hold a box. If ``elements`` is None, draw the selected elements."""
    threads, registers, _ = registers_of(trace, side)
    chosen = threads >= 0
    if elements is None:
        chosen[chosen] = selection.of(warp=threads[chosen] // 32, thread=threads[chosen])
    else:
        chosen &= np.isin(np.arange(len(threads)), elements)
    grid = by_coordinate(side, np.where(chosen, threads * WORDS + registers, NO_PLACE), fold)
    return grid.window(*selection.window(grid.ids.shape))


def register_panel(grid: Grid, title: str, followed: Any) -> Panel:
    """Return a panel with one box per register of a thread. ``followed`` is a mask of the grid cells to outline."""
    boxes, used = [], set[int]()
    for number, place in rectangles(grid.ids):
        thread, register = divmod(number, WORDS)
        used.add(register)
        boxes.append(Rectangle(place, f"t{thread} r{register}", register % 4, f"thread {thread}, register {register}"))
    fills = legend_of("register", used, "r")
    return Panel(title, grid, boxes, fills, followed=outlines(followed, grid.ids), cell=(0, 48, 20))


def first_registers(trace: CopyTrace, side: CopySide, title: str, owner: int = NO_PLACE) -> Iterator[Panel]:
    """Yield panels of the registers that hold the first rows and columns, widest first. Outline thread ``owner``."""
    rows, columns = table_shape(side.region.extents)
    for wide in (64, 32, 16, 8):
        grid = owners_of(trace, side, Selection(rows=(0, min(16, rows)), columns=(0, min(wide, columns))))
        yield register_panel(grid, title, (grid.ids >= 0) & (grid.ids // WORDS == owner))


def side_title(side: CopySide) -> str:
    """Return the title of a source or destination panel, with the words ``by coordinate`` or ``by byte address``."""
    how = "by byte address" if side.space == "shared" else "by coordinate"
    what = "registers of" if side.space == "local" else side.space
    return f"{side.name.capitalize()}: {what} {side.label}, {how}"


# ------------------------------------------------------------------------------------------------ words


def legend_of(what: str, numbers: Any, prefix: str = "") -> dict[int, str]:
    """Return the legend of the fills. Numbers that are equal modulo 4 have the same fill."""
    by_fill = {fill: [f"{prefix}{n}" for n in sorted(set(numbers)) if n % 4 == fill] for fill in range(4)}
    return {
        fill: f"{what}{'s' * (len(names) > 1)} {', '.join(names if len(names) < 6 else [*names[:3], '...', names[-1]])}"
        for fill, names in by_fill.items()
        if names
    }


def instructions_text(trace: CopyTrace) -> str:
    """Return a string with the opcodes of the copy in order, each with the number of instructions."""
    counts = Counter(step.opcode for step in trace.steps)
    return f"Instructions: {', then '.join(f'{count} x {opcode}' for opcode, count in counts.items())}."


def notes_of(trace: CopyTrace) -> list[str]:
    """Return notes: requests, sectors and wavefronts of source and destination, and what the emulator verified."""
    lines = []
    for side, verb in zip(trace.sides, ("read", "written"), strict=True):
        if side.by_threads:
            requests, number, least = counts_of(side).values()
            what = "sectors of 32 bytes" if side.space == "global" else "wavefronts"
            lines.append(f"{side.label}: {requests} requests, {number} {what} {verb} ({least} is the minimum).")
    values = "".join(f"; {name} = {value}" for name, value in trace.values.items())
    return [*lines, f"Verified on the emulator with marked bytes: each byte arrived where the copy requires{values}."]
