"""The picture "fragment": which thread and register holds each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilecopy as tc

from .grids import Grid, by_coordinate, registers_of
from .moves import MOST_BOXES, MOST_ROWS
from .page import Box, Page, Panel, rectangles
from .part import Part, too_large
from .running import Movement

WORDS = 4096
"""More registers than a thread has."""


def load_of(layout: tc.TileLayout, shape: tuple[int, ...], dtype: Any, name: str) -> tc.Plan:
    """A copy from global memory into registers with a layout, by the smallest scope that its thread axes name.

    Raises:
        RequestError: it names no threads, or those of more than a CTA.
        NoVariantError: no installed variant loads such a fragment.
    """
    named = {axis.name for axis in layout.axes if axis.name != "m"}
    warps = {"laneid"}
    if named <= warps:
        scope = tc.warp()
    elif named <= {"laneid", "wid_in_wg", "tid_in_wg"}:
        scope = tc.warpgroup()
    elif named <= {"laneid", "wid_in_wg", "tid_in_wg", "warpid", "wgid", "tx"}:
        last = {"tx": 1, "warpid": 32, "wgid": 128, "laneid": 1, "wid_in_wg": 32, "tid_in_wg": 1}
        threads = 1 + sum(last[axis.name] * (int(layout.reach(axis)) - 1) for axis in layout.axes if axis.name in last)
        scope = tc.cta(-(-threads // 32) * 32)
    else:
        raise tc.RequestError(
            f"draw: {layout} lies over {', '.join(sorted(named))}; a fragment is held by the threads of one CTA"
        )
    if not named:
        raise tc.RequestError(f"draw: {layout} names no threads, so it is no fragment; kind 'banks' draws it as memory")
    fragment = tc.Buffer(shape, dtype, space="local", layout=layout, name=name)
    array = tc.Buffer(shape, dtype, space="global", name="array")
    whole = tuple(slice(0, extent) for extent in shape)
    return tc.plan(fragment[whole], array[whole], scope=scope, target="sm_90a")


def draw_fragment(movement: Movement, part: Part, width: float) -> tuple[str, Page]:
    """The picture.

    Raises:
        RequestError: no side is in registers, the part is none of it, or it does not fit.
    """
    request = movement.request
    if "local" not in request.spaces:
        raise tc.RequestError("draw: no side of this copy is in registers, so there is no fragment to draw")
    name = "source" if request.src.buffer.space == "local" else "destination"
    region = movement.side(name)[0]
    threads, registers, copies = registers_of(movement)
    ids = np.where(threads >= 0, threads * WORDS + registers, -1)
    grid = by_coordinate(movement, name, None, ids)
    per_box = max(1, 32 // region.buffer.dtype.bits)
    title = f"Who owns each element: {region.buffer.name}, {region.buffer.dtype} {' x '.join(map(str, region.extents))}, {movement.threads} threads"
    page = Page(width)
    held = copies.max(initial=1)
    several = f" Each element is held by {held} threads; the first is named." if held > 1 else ""
    subtitle = f"One box = one 32-bit register of one thread = {per_box} element{'s' if per_box > 1 else ''}. Label: thread and register. Shade: register.{several}"
    page.heading(title, subtitle)
    rows, columns = part.window(grid.ids.shape)
    window = grid.window(rows, columns)
    owner = 5 if (threads == 5).any() else int(threads.max())
    panel = _panel(window, owner, "")
    whole = part.rows is None and part.columns is None
    if whole and (len(panel.boxes) > MOST_BOXES or panel.rows > MOST_ROWS or not panel.width(width - 48)):
        _zooms(page, grid, owner, width)
    elif panel.rows > MOST_ROWS or len(panel.boxes) > 2 * MOST_BOXES or not page.panels([panel]):
        raise _too_large(grid)
    used = sorted({int(n) % WORDS for n in np.unique(ids[ids >= 0]).tolist()})
    legend = {}
    for fill in range(4):
        there = [f"r{n}" for n in used if n % 4 == fill]
        if there:
            legend[fill] = ", ".join(there if len(there) < 6 else [*there[:3], "...", there[-1]])
    page.legend(legend, {"followed": f"all that thread {owner} holds"})
    verb = "stored from registers" if name == "source" else "loaded into registers"
    page.notes([f"Marked elements were {verb} by {movement.variant} on the emulator and read back."])
    return title, page


def _too_large(grid: Grid) -> tc.RequestError:
    rows, columns = grid.ids.shape
    return too_large(
        f"{rows} rows of {columns} elements", f"part='rows 0:{min(16, rows)}, columns 0:{min(16, columns)}'"
    )


def _panel(grid: Grid, owner: int, title: str) -> Panel:
    boxes = []
    for number, place in sorted(rectangles(grid.ids), key=lambda each: each[1]):
        thread, register = divmod(number, WORDS)
        boxes.append(Box(place, f"t{thread} r{register}", register % 4, f"thread {thread}, register {register}"))
    followed = [place for number, place in rectangles(grid.ids) if number // WORDS == owner]
    return Panel(
        title, "column", len(grid.ids), grid.ids.shape[1], boxes, followed=followed, row_labels=grid.row_names, column_labels=grid.column_names,
        cell=(0, 48, 20),
    )  # fmt: skip


def _zooms(page: Page, grid: Grid, owner: int, width: float) -> None:
    """The whole by warp, and the first rows and columns by thread and register."""
    rows, columns = grid.ids.shape
    room = (width - 48 - 28) * 0.5
    for wide in (64, 32, 16, 8):
        inner = _panel(grid.window((0, min(16, rows)), (0, min(wide, columns))), owner, "2 its first rows and columns")
        if inner.width(room):
            break
    else:
        raise _too_large(grid)
    warps = np.where(grid.ids >= 0, grid.ids // WORDS // 32, -1)
    height = min(18.0, 480 / rows)
    found = sorted(rectangles(warps), key=lambda each: each[1])
    if len(found) > MOST_BOXES:
        raise _too_large(grid)
    labelled = all((p[2] - p[0]) * height >= 12 and (p[3] - p[1]) * (room - 40) / columns >= 60 for _, p in found)
    boxes = [Box(place, f"warp {number}" if labelled else "", 0, f"warp {number}") for number, place in found]
    outer = Panel(
        "1 the whole fragment, by warp", f"{rows} rows, {columns} columns", rows, columns, boxes, followed=[(0, 0, inner.rows, inner.columns)],
        row_labels=grid.row_names, column_labels=grid.column_names, cell=(0, (room - 60) / columns, height),
    )  # fmt: skip
    page.panels([outer], [inner])
