"""The picture "fragment": which thread and register holds each element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tilecopy as tc

from .grids import by_coordinate, listed, registers_of
from .page import Box, Grid, Panel, Sheet, outlines, rectangles
from .part import Part, too_large
from .running import Movement

WORDS = 4096
"""More registers than a thread has: a number of a grid is that of the thread times this, and the register."""
_SCOPES = {"warp": {"laneid"}, "warpgroup": {"laneid", "wid_in_wg", "tid_in_wg"}}
_THREADS = {"laneid": 1, "wid_in_wg": 32, "tid_in_wg": 1, "warpid": 32, "wgid": 128, "tx": 1}
"""Threads from one place along an axis to the next."""


def load_of(buffer: tc.Buffer) -> tc.Plan:
    """A copy from global memory into a fragment of a buffer's layout, by the smallest scope that its thread axes name.

    Raises:
        RequestError: it names no threads, or those of more than a CTA.
        NoVariantError: no installed variant loads such a fragment.
    """
    layout: Any = buffer.layout
    named = {axis.name for axis in layout.axes if axis.name != "m"}
    if not named or not named <= set(_THREADS):
        what = f"lies over {', '.join(sorted(named))}" if named else "names no threads; kind 'banks' draws it as memory"
        raise tc.RequestError(f"draw: a fragment is held by the threads of one CTA, and {layout} {what}")
    last = sum(_THREADS[axis.name] * (int(layout.reach(axis)) - 1) for axis in layout.axes if axis.name != "m")
    kind = next((kind for kind, axes in _SCOPES.items() if named <= axes), "cta")
    scope = tc.cta((last // 32 + 1) * 32) if kind == "cta" else getattr(tc, kind)()
    fragment = tc.Buffer(buffer.shape, buffer.dtype, space="local", layout=layout, name=buffer.name)
    array = tc.Buffer(buffer.shape, buffer.dtype, space="global", name="array")
    return tc.plan(fragment[...], array[...], scope=scope, target="sm_90a")


def owners_of(movement: Movement) -> tuple[Grid, int]:
    """The registers of the side that is in registers, by coordinate, and how many threads hold each element at most."""
    threads, registers, copies = registers_of(movement)
    return by_coordinate(movement.fragment, np.where(threads >= 0, threads * WORDS + registers, -1)), int(
        copies.max(initial=1)
    )


def register_panel(grid: Grid, title: str, followed: Any) -> Panel:
    """A box for each register of a thread; ``followed``: which cells of the grid are outlined."""
    boxes, used = [], set[int]()
    for number, place in rectangles(grid.ids):
        thread, register = divmod(number, WORDS)
        used.add(register)
        boxes.append(Box(place, f"t{thread} r{register}", register % 4, f"thread {thread}, register {register}"))
    fills = {fill: listed([f"r{n}" for n in sorted(used) if n % 4 == fill]) for fill in range(4)}
    return Panel(title, grid, boxes, fills, followed=outlines(followed, grid.ids), cell=(0, 48, 20))


def draw_fragment(movement: Movement, part: Part) -> Iterator[Sheet]:
    """The picture, whole or in zooms.

    Raises:
        RequestError: no side is in registers, the part is none of it, or it does not fit.
    """
    if "local" not in movement.request.spaces:
        raise tc.RequestError("draw: no side of this copy is in registers, so there is no fragment to draw")
    side = movement.fragment
    grid, held = owners_of(movement)
    dtype, per_box = side.region.buffer.dtype, 4 // movement.size
    box = f"one 32-bit register of one thread = {per_box} element{'s' * (per_box > 1)}"
    if not per_box:
        box = f"{movement.size // 4} 32-bit registers of one thread, from the one that is named = 1 element"
    extents = " x ".join(map(str, side.region.extents))
    title = f"Who owns each element: {side.label}, {dtype} {extents}, {movement.threads} threads"
    several = f" Each element is held by {held} threads; the first is named." if held > 1 else ""
    subtitle = f"One box = {box}. Label: thread and register. Shade: register.{several}"
    verb = "stored from registers" if side is movement.source else "loaded into registers"
    notes = [f"Marked elements were {verb} by {movement.variant} on the emulator and read back."]
    window = grid.window(*part.window(grid.ids.shape))
    threads = np.unique(grid.ids[grid.ids >= 0] // WORDS)
    owner = 5 if 5 in threads else int(threads.max())
    signs = {"followed": f"all that thread {owner} holds", "absent": "held by none"}
    panel = register_panel(window, "", window.ids // WORDS == owner)
    yield Sheet(title, subtitle, [[panel]], signs, notes)
    rows, columns = grid.ids.shape
    if not part.given:
        found = rectangles(grid.ids // WORDS // 32, grid.ids >= 0)
        boxes = [Box(place, f"warp {number}", 0, f"warp {number}") for number, place in found]
        for wide in (64, 32, 16, 8):
            window = grid.window((0, min(16, rows)), (0, min(wide, columns)))
            inner = register_panel(window, "2 its first rows and columns", window.ids // WORDS == owner)
            outer = Panel(
                "1 the whole fragment, by warp", grid, boxes, followed=[(0, 0, inner.rows, inner.columns)], optional=True,
                cell=(0, 380 / columns, min(18.0, 480 / rows)),
            )  # fmt: skip
            yield Sheet(title, subtitle, [[outer], [inner]], signs, notes, beside=True)
    raise too_large(
        f"{rows} rows of {columns} elements", f"part='rows 0:{min(16, rows)}, columns 0:{min(16, columns)}'"
    )
