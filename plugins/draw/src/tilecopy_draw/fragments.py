"""The picture "fragment": the thread and register, or the lane and column of tensor memory, that hold each element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy.harness import TMEM_LANES

from .grids import WORDS, first_registers, instructions_text, owners_of, register_panel, registers_of, side_title
from .selection import Selection, TooLargeError
from .svg import MOST_HEIGHT, Figure, Grid, Panel, Rectangle, rectangles
from .trace import AXES, COLUMN_BYTES, LANE_BYTES, NO_PLACE, CopyTrace, elements_of

TENSOR_AXES = {"TLane", "TCol"}
_SCOPES = {"warp": {"laneid"}, "warpgroup": {"laneid", "wid_in_wg", "tid_in_wg"}}


def load_of(buffer: tc.Buffer) -> tc.Plan:
    """Return a plan that loads a fragment with a buffer's layout. The scope is the smallest with enough threads."""
    layout: Any = buffer.layout
    named = {axis.name for axis in layout.axes if axis.name != "m"}
    if not named or not named <= set(AXES):
        what = f"has the axes {', '.join(sorted(named))}" if named else "has no thread axis: use kind 'banks'"
        raise tc.RequestError(
            f"draw: kind 'fragment' needs thread axes of one CTA, or tensor memory axes, but {layout} {what}"
        )
    last = sum(AXES[axis.name][0] * (int(layout.reach(axis)) - 1) for axis in layout.axes if axis.name != "m")
    kind = next((kind for kind, axes in _SCOPES.items() if named <= axes), "cta")
    scope = tc.cta((last // 32 + 1) * 32) if kind == "cta" else getattr(tc, kind)()
    fragment = tc.Buffer(buffer.shape, buffer.dtype, space="local", layout=layout, name=buffer.name)
    array = tc.Buffer(buffer.shape, buffer.dtype, space="global", name="array")
    return tc.plan(fragment[...], array[...], scope=scope, target="sm_90a")


def draw_fragment(trace: CopyTrace, selection: Selection) -> Iterator[Figure]:
    """Yield a figure of the whole fragment, then zoomed figures. If the caller rejects all, raise TooLargeError."""
    sides = [side for side in trace.sides if side.space == "local"]
    if not sides:
        raise tc.RequestError(f"draw: kind 'fragment' needs a copy to or from registers, got {trace}: omit kind")
    side, size = sides[-1], trace.size
    grid, copies = owners_of(trace, side, Selection()), int(registers_of(trace, side)[2].max())
    per_box = 4 // size
    box = f"one 32-bit register of one thread = {per_box} element{'s' * (per_box > 1)}"
    if not per_box:
        box = f"{size // 4} 32-bit registers of one thread, the first in the label = 1 element"
    extents, names = " x ".join(map(str, side.region.extents)), " to ".join(copy_side.label for copy_side in sides)
    title = f"Who owns each element: {names}, {side.region.buffer.dtype} {extents}, {trace.threads} threads"
    several = f" {copies} threads hold each element; the label names the first." if copies > 1 else ""
    subtitle = f"One box = {box}. Label: thread and register. Shade: register.{several}"
    verb = "loaded into registers" if side is trace.destination else "stored from registers"
    notes = [f"Verified on the emulator: marked elements were {verb} by {trace.variant} and read back."]
    notes = [instructions_text(trace), *notes] if len(sides) > 1 else notes
    threads = np.unique(grid.ids[grid.ids >= 0] // WORDS)
    owner = 5 if 5 in threads else int(threads.max(initial=0))
    signs = {"followed": f"all elements of thread {owner}", "absent": "held by no thread"}

    stacks = []
    for copy_side in sides:
        window = owners_of(trace, copy_side, selection)
        heading = side_title(copy_side) if len(sides) > 1 else ""
        stacks.append([register_panel(window, heading, window.ids // WORDS == owner)])
    yield Figure(title, subtitle, stacks, signs, notes)
    rows, columns = grid.ids.shape
    if not selection.is_partial:
        warps = rectangles(grid.ids // WORDS // 32, grid.ids >= 0)
        boxes = [Rectangle(place, f"warp {number}", 0, f"warp {number}") for number, place in warps]
        for inner in first_registers(trace, side, "2 the first rows and columns", owner):
            outer = Panel(
                "1 the whole fragment by warp", grid, boxes, followed=[(0, 0, inner.rows, inner.columns)], optional=True,
                cell=(0, 380 / columns, min(18.0, 480 / rows)),
            )  # fmt: skip
            yield Figure(title, subtitle, [[outer], [inner]], signs, notes, beside=True)
    raise TooLargeError.of(f"{rows} rows of {columns} elements", (rows, columns))


def draw_tensor(region: tc.Region, selection: Selection) -> Iterator[Figure]:
    """Yield a picture of tensor memory by lane and column. Lanes with the same elements are drawn as one row."""
    layout: Any = region.buffer.layout
    size, (places, element) = region.buffer.dtype.bits // 8, elements_of(region, {})[1]
    if not len(element) or layout.reach(tc.TLane) > TMEM_LANES or layout.reach(tc.TCol) * size > LANE_BYTES:
        raise tc.RequestError(
            f"draw: the layout of {region} must fit {TMEM_LANES} tensor memory lanes of {LANE_BYTES} bytes, got {layout}"
        )
    selection.of()
    for replica in layout.replica:
        step = replica.stride * (LANE_BYTES if replica.axis.name == "TLane" else size)
        places = (places + step * np.arange(replica.extent)[:, None, None]).reshape(-1, len(element))
    lanes, inside = np.divmod(places, LANE_BYTES)
    element_ids = np.full((TMEM_LANES, LANE_BYTES // COLUMN_BYTES), region.size)
    for word in range(max(1, size // COLUMN_BYTES)):
        # the first of those that share a column
        np.minimum.at(element_ids, (lanes, inside // COLUMN_BYTES + word), element)
    element_ids[element_ids == region.size] = NO_PLACE
    alike: dict[bytes, list[int]] = {}
    for lane in np.unique(lanes).tolist():
        alike.setdefault(element_ids[lane].tobytes(), []).append(lane)
    names = [" ".join(map(str, same if len(same) < 6 else [*same[:3], "...", same[-1]])) for same in alike.values()]
    ids = element_ids[[same[0] for same in alike.values()]]
    columns = [str(column) for column in range(len(element_ids[0]))]
    grid = Grid(ids, ids, names, columns, "column of 4 bytes; rows: lanes").crop()
    window, boxes, copies = grid.window(*selection.window(grid.ids.shape)), [], places.size // len(element)
    for number, place in rectangles(window.ids):
        index = zip(region.starts, np.unravel_index(number, region.extents), strict=True)
        label = ",".join(str(start + along) for start, along in index)
        where = f"lane {window.row_names[place[0]]}, column {window.column_names[place[1]]}"
        boxes.append(Rectangle(place, label, int(copies > 1), f"{where}: element ({label})"))
    fills = {0: "stored once", 1: f"one of {copies} locations of the element"}
    high = max(12, min(18, MOST_HEIGHT / len(window.ids)))
    title = f"Where each element is stored: tensor memory {region}, elements of {size} bytes"
    subtitle = "One box = an element, or all elements of a 32-bit column. Label: the first element. One row = lanes with the same elements."
    data = {"element": element.tolist(), "lane": lanes.tolist(), "byte": inside.tolist()}
    panel = Panel("", window, boxes, fills, cell=(0, 64, high))
    yield Figure(title, subtitle, [[panel]], {"absent": "no element"}, data=data)
    raise TooLargeError.of(f"{len(grid.ids)} rows of {grid.ids.shape[1]} columns", grid.ids.shape)
