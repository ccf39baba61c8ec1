"""The picture "fragment": which thread and register holds each element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tilecopy as tc

from .grids import WORDS, first_registers, instructions_text, owners_of, register_panel, registers_of, side_title
from .page import Box, Panel, Sheet, rectangles
from .part import Part, TooLarge
from .running import AXES, Movement

_SCOPES = {"warp": {"laneid"}, "warpgroup": {"laneid", "wid_in_wg", "tid_in_wg"}}


def load_of(buffer: tc.Buffer) -> tc.Plan:
    """A copy from global memory into a fragment of a buffer's layout, by the smallest scope that its thread axes name.

    Raises:
        RequestError: it names no threads, or those of more than a CTA.
        NoVariantError: no installed variant loads such a fragment.
    """
    layout: Any = buffer.layout
    named = {axis.name for axis in layout.axes if axis.name != "m"}
    if not named or not named <= set(AXES):
        what = f"lies over {', '.join(sorted(named))}" if named else "names no threads; kind 'banks' draws it as memory"
        raise tc.RequestError(f"draw: a fragment is held by the threads of one CTA, and {layout} {what}")
    last = sum(AXES[axis.name][0] * (int(layout.reach(axis)) - 1) for axis in layout.axes if axis.name != "m")
    kind = next((kind for kind, axes in _SCOPES.items() if named <= axes), "cta")
    scope = tc.cta((last // 32 + 1) * 32) if kind == "cta" else getattr(tc, kind)()
    fragment = tc.Buffer(buffer.shape, buffer.dtype, space="local", layout=layout, name=buffer.name)
    array = tc.Buffer(buffer.shape, buffer.dtype, space="global", name="array")
    return tc.plan(fragment[...], array[...], scope=scope, target="sm_90a")


def draw_fragment(movement: Movement, part: Part) -> Iterator[Sheet | TooLarge]:
    """The picture, whole or in zooms.

    Raises:
        RequestError: no side is in registers, the part is none of it, or it does not fit.
    """
    sides = [side for side in movement.sides if side.space == "local"]
    if not sides:
        raise tc.RequestError("draw: no side of this copy is in registers, so there is no fragment to draw")
    side, size = sides[-1], movement.size
    grid, held = owners_of(movement, side, Part()), int(registers_of(movement, side)[2].max())
    per_box = 4 // size
    box = f"one 32-bit register of one thread = {per_box} element{'s' * (per_box > 1)}"
    if not per_box:
        box = f"{size // 4} 32-bit registers of one thread, from the one that is named = 1 element"
    extents, names = " x ".join(map(str, side.region.extents)), " to ".join(each.label for each in sides)
    title = f"Who owns each element: {names}, {side.region.buffer.dtype} {extents}, {movement.threads} threads"
    several = f" Each element is held by {held} threads; the first is named." if held > 1 else ""
    subtitle = f"One box = {box}. Label: thread and register. Shade: register.{several}"
    verb = "loaded into registers" if side is movement.destination else "stored from registers"
    notes = [f"Marked elements were {verb} by {movement.variant} on the emulator and read back."]
    notes = [instructions_text(movement), *notes] if len(sides) > 1 else notes
    threads = np.unique(grid.ids[grid.ids >= 0] // WORDS)
    owner = 5 if 5 in threads else int(threads.max(initial=0))
    signs = {"followed": f"all that thread {owner} holds", "absent": "held by none"}

    stacks = []
    for each in sides:
        window = owners_of(movement, each, part)
        heading = side_title(each) if len(sides) > 1 else ""
        stacks.append([register_panel(window, heading, window.ids // WORDS == owner)])
    yield Sheet(title, subtitle, stacks, signs, notes)
    rows, columns = grid.ids.shape
    if not part.given:
        found = rectangles(grid.ids // WORDS // 32, grid.ids >= 0)
        boxes = [Box(place, f"warp {number}", 0, f"warp {number}") for number, place in found]
        for inner in first_registers(movement, side, "2 its first rows and columns", owner):
            outer = Panel(
                "1 the whole fragment, by warp", grid, boxes, followed=[(0, 0, inner.rows, inner.columns)], optional=True,
                cell=(0, 380 / columns, min(18.0, 480 / rows)),
            )  # fmt: skip
            yield Sheet(title, subtitle, [[outer], [inner]], signs, notes, beside=True)
    yield TooLarge.of(f"{rows} rows of {columns} elements", (rows, columns))
