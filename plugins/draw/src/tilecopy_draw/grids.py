"""Grids of numbers (which access, piece or register holds each element), and what pictures of several kinds say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .counts import counts_of
from .page import Box, Grid, Panel
from .running import NO_PLACE, CopySide, Movement, Touched

LINE = 128
"""Bytes of a line of a picture by address: what 32 banks hold."""
UNIT = 16
"""Bytes of the widest cell there: no access of a thread in shared memory is wider."""


def table_shape(extents: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a box: the last dimension that is not 1 runs along a row; a long single dimension is folded."""
    found = [extent for extent in extents if extent > 1] or [1]
    if len(found) == 1:
        length = found[0]
        row = next((row for row in (64, 32, 16) if length > row and length % row == 0), length)
        return length // row, row
    return prod(found[:-1]), found[-1]


def holders(offsets: Any, starts: Any, sizes: Any) -> Any:
    """For each byte (-1: none) which of some pieces covers it, the first where several begin together; -1 where none does."""
    if not len(starts):
        return np.full(len(offsets), NO_PLACE)
    begins, first = np.unique(starts, return_index=True)
    at = np.searchsorted(begins, offsets, "right") - 1
    rows = first[np.maximum(at, 0)]
    return np.where((at >= 0) & (offsets >= 0) & (offsets < begins[at] + sizes[rows]), rows, NO_PLACE)


def by_coordinate(side: CopySide, ids: Any) -> Grid:
    """The elements of a side's box in rows and columns, each with its number."""
    wide = [dim for dim, extent in enumerate(side.region.extents) if extent > 1] or [0]
    rows, columns = shape = table_shape(side.region.extents)
    folded = len(wide) == 1
    first = [side.coordinate(row * columns) for row in range(rows)]
    named = [",".join(str(place[dim]) for dim in (wide if folded else wide[:-1])) for place in first]
    begin = side.start[wide[-1]] if side.start and not (folded and rows > 1) else 0
    elements = np.arange(len(side.elements)).reshape(shape)
    return Grid(
        ids.reshape(shape), elements, named if rows > 1 else [""], [str(begin + column) for column in range(columns)],
        "element of the row" if folded else "column",
    )  # fmt: skip


def touched_by_coordinate(side: CopySide, touched: Touched) -> Grid:
    """As :func:`by_coordinate`, the numbers being the rows of accesses."""
    return by_coordinate(side, holders(side.elements, touched.offset, touched.size))


def by_address(side: CopySide, touched: Touched, size: int, line: int = LINE) -> Grid:
    """The bytes that accesses touched, in lines; a cell is the widest unit that none of them splits.

    Args:
        side: of a copy.
        touched: its accesses, or some of them.
        size: bytes of an element.
        line: bytes of a line.
    """
    unit = int(np.gcd.reduce([UNIT, *np.unique(touched.offset).tolist(), *np.unique(touched.size).tolist()]))
    ends = np.unique(np.stack([touched.offset // line, (touched.offset + touched.size - 1) // line]), axis=1).T.tolist()
    used = np.unique(np.concatenate([np.arange(first, last + 1) for first, last in ends]))
    cells = (used[:, None] * line + np.arange(0, line, unit)).ravel()
    ids = holders(cells, touched.offset, touched.size).reshape(len(used), -1)
    elements = holders(cells, side.elements, np.full(len(side.elements), max(size, unit))).reshape(ids.shape)
    names = [str(number * line) for number in used.tolist()], [str(byte) for byte in range(0, line, unit)]
    return Grid(ids, elements, *names, f"byte in the line of {line} bytes" + " (32 banks)" * (line == LINE))


def registers_of(movement: Movement) -> tuple[Any, Any, Any]:
    """Thread, 32-bit register and how many hold it too, of each element of the box, by what arrived.

    A register of 64 bits counts as two.
    """
    request, size = movement.request, movement.size
    flat, copies = np.full(request.dst.size, NO_PLACE), np.ones(request.dst.size, np.int64)
    if request.dst.buffer.space == "local":
        per_thread = len(movement.arrived) // movement.threads
        held = movement.arrived[::size]
        at = np.flatnonzero(held >= 0)
        elements, first, count = np.unique(held[at] // size, return_index=True, return_counts=True)
        flat[elements], copies[elements] = at[first] * size, count
    else:
        per_thread = request.src.buffer.span_elems * size
        there = movement.destination.elements
        flat[there >= 0] = movement.arrived[there[there >= 0]]
    return np.where(flat >= 0, flat // per_thread, NO_PLACE), flat % per_thread // 4, copies


# ------------------------------------------------------------------------------------------------ words


def side_panel(side: CopySide, grid: Grid, boxes: Sequence[Box], **look: Any) -> Panel:
    """The panel of a side in memory: global memory by coordinate, shared memory by address."""
    how = "by coordinate" if side.space == "global" else "by byte address"
    return Panel(f"{side.name.capitalize()}: {side.space} {side.label}, {how}", grid, boxes, **look)


def listed(names: list[str]) -> str:
    """Names with commas; of many the first ones and the last."""
    return ", ".join(names if len(names) < 6 else [*names[:3], "...", names[-1]])


def instructions_text(movement: Movement) -> str:
    """Opcodes and how often each, in order."""
    counts = Counter(step.opcode for step in movement.steps)
    return f"Instructions: {', then '.join(f'{count} x {opcode}' for opcode, count in counts.items())}."


def notes_of(movement: Movement) -> list[str]:
    """What was counted and verified."""
    found = []
    for side, verb in zip(movement.sides, ("read", "written"), strict=True):
        if side.by_threads:
            requests, number, least = counts_of(side).values()
            what = "sectors of 32 bytes" if side.space == "global" else "wavefronts"
            found.append(f"{side.label}: {requests} requests, {number} {what} {verb} ({least} is the least).")
    values = "".join(f"; {name} = {value}" for name, value in movement.values.items())
    local = "local" in movement.request.spaces
    checked = "what arrived was read back" if local else "every byte arrived where the copy says"
    return [*found, f"Run on the emulator with marks in the source: {checked}{values}."]
