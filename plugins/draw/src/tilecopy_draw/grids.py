"""Grids of numbers: which access, piece or register holds each element, by coordinate, by byte address, or by thread."""

from __future__ import annotations

from math import prod
from typing import Any

import attrs
import numpy as np

from .running import NO_PLACE, Movement, Touched

LINE = 128
"""Bytes of a line of a picture by address: what 32 banks hold."""
UNIT = 16
"""Bytes of the widest cell there: no access of a thread in shared memory is wider."""


@attrs.frozen(eq=False)
class Grid:
    """A grid of numbers, -1 where nothing is.

    Attributes:
        ids: the number of each cell, ``(rows, columns)``.
        elements: the element of the box that each cell belongs to, likewise; -1 where it is none.
        row_names, column_names: at the rows and columns that are named.
        columns_are: what a column is.
        by_coordinate: rows and columns are those of the box.
    """

    ids: Any
    elements: Any
    row_names: dict[int, str]
    column_names: dict[int, str]
    columns_are: str
    by_coordinate: bool

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> Grid:
        """Some rows and columns, by their numbers from 0."""
        (r0, r1), (c0, c1) = rows, columns
        return Grid(
            self.ids[r0:r1, c0:c1],
            self.elements[r0:r1, c0:c1],
            {row - r0: name for row, name in self.row_names.items() if r0 <= row < r1},
            {column - c0: name for column, name in self.column_names.items() if c0 <= column < c1},
            self.columns_are,
            self.by_coordinate,
        )


def table_shape(extents: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a box: the last dimension that is not 1 runs along a row; a long single dimension is folded."""
    found = [extent for extent in extents if extent > 1] or [1]
    if len(found) == 1:
        length = found[0]
        row = next((row for row in (64, 32, 16) if length > row and length % row == 0), length)
        return length // row, row
    return prod(found[:-1]), found[-1]


def holder_of(offsets: Any, touched: Touched) -> Any:
    """For each byte (-1: none) which row of the accesses covers it, the first where several do; -1 where none does."""
    if not len(touched):
        return np.full(len(offsets), NO_PLACE)
    order = np.lexsort((np.arange(len(touched)), touched.offset))
    starts, first = np.unique(touched.offset[order], return_index=True)
    at = np.searchsorted(starts, offsets, "right") - 1
    rows = order[first[np.maximum(at, 0)]]
    covered = (at >= 0) & (offsets >= 0) & (offsets < touched.offset[rows] + touched.size[rows])
    return np.where(covered, rows, NO_PLACE)


def by_coordinate(movement: Movement, name: str, touched: Touched | None, ids: Any = None) -> Grid:
    """The elements of a side's box in rows and columns; their numbers are the rows of accesses that touched them, or ``ids``."""
    region, _, elements = movement.side(name)
    shape = table_shape(region.extents)
    if touched is not None:
        ids = holder_of(elements, touched)
    begins = movement.start_source if name == "source" else movement.start_destination
    starts = [start for start, extent in zip(begins, region.extents, strict=True) if extent > 1]
    folded = len(starts) < 2
    first = starts[-1] if starts else 0
    leading = [extent for extent in region.extents if extent > 1][:-1]
    rows = {}
    for row in range(shape[0]):
        if folded:
            rows[row] = str(first + row * shape[1]) if shape[0] > 1 else ""
        else:
            index = [int(i) + s for i, s in zip(np.unravel_index(row, leading), starts[:-1], strict=True)]
            rows[row] = ",".join(map(str, index))
    columns = {column: str(column + (0 if folded else first)) for column in range(shape[1])}
    return Grid(
        ids.reshape(shape), np.arange(len(elements)).reshape(shape),
        rows, columns, "element of the row" if folded else "column", True,
    )  # fmt: skip


def by_address(movement: Movement, name: str, touched: Touched, line: int = LINE) -> Grid:
    """The bytes that a side's accesses touched, in lines; a cell is the widest unit, of at most 16 bytes, that none of them splits."""
    _, _, elements = movement.side(name)
    size = movement.request.dst.buffer.dtype.bits // 8
    unit = int(np.gcd.reduce([UNIT, *np.unique(touched.offset).tolist(), *np.unique(touched.size).tolist()]))
    first, last = touched.offset // line, (touched.offset + touched.size - 1) // line
    used = np.unique(
        np.concatenate([np.arange(a, b + 1) for a, b in set(zip(first.tolist(), last.tolist(), strict=True))])
    )
    cells = (used[:, None] * line + np.arange(0, line, unit)).ravel()
    ids = holder_of(cells, touched).reshape(len(used), -1)
    owner = np.full(cells.shape, NO_PLACE)
    inside = np.flatnonzero(elements >= 0)
    order = inside[np.argsort(elements[inside], kind="stable")]
    at = np.searchsorted(elements[order], cells, "right") - 1
    found = order[np.maximum(at, 0)]
    near = (at >= 0) & (cells - elements[found] < max(size, unit))
    owner[near] = found[near]
    rows = {row: str(number * line) for row, number in enumerate(used.tolist())}
    columns = {column: str(column * unit) for column in range(line // unit)}
    banks = " (32 banks)" if line == LINE else ""
    return Grid(ids, owner.reshape(ids.shape), rows, columns, f"byte in the line of {line} bytes{banks}", False)


def registers_of(movement: Movement) -> tuple[Any, Any, Any]:
    """Thread, 32-bit register and how many hold it too, of each element of the box, by what arrived.

    A register of 64 bits counts as two.
    """
    request = movement.request
    size = request.dst.buffer.dtype.bits // 8
    if request.dst.buffer.space == "local":
        per_thread = len(movement.arrived) // movement.threads
        held = movement.arrived[::size] // size
        at = np.flatnonzero(movement.arrived[::size] >= 0)
        elements, first, count = np.unique(held[at], return_index=True, return_counts=True)
        flat = np.full(request.dst.size, NO_PLACE)
        flat[elements] = at[first] * size
        copies = np.zeros(request.dst.size, np.int64)
        copies[elements] = count
    else:
        per_thread = request.src.buffer.span_elems * size
        there = movement.element_destination
        flat = np.where(there >= 0, movement.arrived[np.maximum(there, 0)], NO_PLACE)
        copies = np.ones(len(flat), np.int64)
    return np.where(flat >= 0, flat // per_thread, NO_PLACE), flat % per_thread // 4, copies


def arrived_elements(movement: Movement, elements: Any) -> Any:
    """Which elements of the destination's box hold what came from some elements of the source's, by the marks; as flags."""
    request = movement.request
    size = request.dst.buffer.dtype.bits // 8
    there = movement.element_destination
    if "local" in request.spaces:
        return np.isin(np.arange(request.dst.size), elements)
    values = movement.arrived[np.maximum(there, 0)]
    return (there >= 0) & (values >= 0) & np.isin(values // size, elements)
