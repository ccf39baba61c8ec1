"""The picture "banks": the bank of each word, phase by phase, before and after another layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from .counts import BANKS, WORD, Phase, phases_of
from .grids import LINE, table_shape
from .moves import instructions_text
from .page import MOST_BOXES, Box, Grid, Page, Panel, rectangles
from .part import Part, too_large
from .running import CopySide, Movement, grid_of, places, run_copy

MOST_PATTERNS = 4
CHUNK = 16
"""Bytes of a box of a layout's picture at most."""


def shared_side(movement: Movement) -> CopySide:
    """The side in shared memory whose accesses are of threads.

    Raises:
        RequestError: there is none.
    """
    for side in (movement.source, movement.destination):
        if side.space == "shared" and len(side.touched) and not movement.by_engine:
            return side
    raise tc.RequestError(
        f"draw: {movement.variant} has no thread that loads or stores shared memory, so there are no banks to draw (what an engine "
        "does there no document says)"
    )


def before_of(movement: Movement, before: tc.TileLayout | None) -> Movement | None:
    """The same copy with another layout of the shared buffer, by default the one without its swizzle; None where that is the same."""
    request, side = movement.request, shared_side(movement)
    old = side.region.buffer
    layout = old.layout.unswizzled if before is None else before
    if layout == old.layout:
        return None
    buffer = tc.Buffer(
        old.shape, old.dtype, space="shared", layout=layout, name=old.name, align_bytes=old.align_bytes, elem_offset=old.elem_offset
    )  # fmt: skip
    other = tc.Region(buffer, side.region.starts, side.region.extents)
    dst, src = (request.dst, other) if side is movement.source else (other, request.src)
    found = tc.plan(
        dst, src, op=request.op, scope=request.scope, target=request.target, outside=request.outside, variant=movement.variant,
        **dict(request.options),
    )  # fmt: skip
    return run_copy(found.request, found.variant, found.partition)


def draw_banks(
    movement: Movement, before: Movement | None, part: Part, width: float
) -> tuple[str, Page, list[dict[str, Any]]]:
    """The picture, and its phases as data.

    Raises:
        RequestError: the part is none of it, or it does not fit.
    """
    side = shared_side(movement)
    verb = "read" if side is movement.source else "written"
    title = f"Which bank: {side} {verb}, {side.region.buffer.dtype}, {movement.variant}"
    page = Page(width)
    page.heading(
        title, "A warp is served 128 bytes' worth of threads at a time (a phase). Words of one bank that differ are served one after "
        "another, a wavefront each. A row is a thread, a column one of the 32 banks of 4 bytes.",
    )  # fmt: skip
    stacks, data = [], []
    for heading, state in [("Before: ", before), ("After: ", movement)] if before is not None else [("", movement)]:
        assert state is not None
        each = shared_side(state)
        words, phases = heading + _in_words(each.region.buffer.layout, state.size), phases_of(part.of(each.touched))
        stacks.append(_panels(words, phases))
        data.append({"title": words, "phases": [_phase_data(phase) for phase in phases]})
    if not page.panels(*stacks):
        raise too_large(f"{len(side.touched)} accesses", "part='instruction 0, warp 0'")
    used = {box.fill for stack in stacks for panel in stack for box in panel.boxes}
    told = {
        2: "words of one thread, in banks of their own",
        3: "a bank that several threads want at different addresses: its turn",
    }
    page.legend({fill: text for fill, text in told.items() if fill in used}, {})
    page.notes([
        f"Instructions: {instructions_text(movement)}.",
        "Alike are phases that differ in threads and in which bank is the first. Addresses are those that the emitted text used on the emulator.",
    ])  # fmt: skip
    return title, page, data


def _in_words(layout: Any, size: int) -> str:
    """A layout, its swizzle by the bytes that it spans where it is one of the hardware's."""
    swizzle, plain = layout.swizzle, str(layout.unswizzled).removeprefix("TileLayout(").removesuffix(")")
    if swizzle is None:
        return f"no swizzle, {plain}"
    known = swizzle.atom_len == 3 and swizzle.chunk_elems * size == CHUNK
    return f"{CHUNK << swizzle.swizzle_len}-byte swizzle of {plain}" if known else f"{swizzle} of {plain}"


def _panels(heading: str, phases: Sequence[Phase]) -> list[Panel]:
    """One panel for each way in which phases look, the worst first."""
    kinds: dict[Any, list[Phase]] = {}
    for phase in phases:
        kinds.setdefault(phase.pattern, []).append(phase)
    alike = sorted(
        kinds.values(), key=lambda found: (-found[0].wavefronts, found[0].step, found[0].warp, found[0].number)
    )
    total, least = sum(phase.wavefronts for phase in phases), len(phases)
    times = "the least" if total == least else f"{total / least:.3g} times the least"
    found = []
    hidden = Counter(each.wavefronts for group in alike[MOST_PATTERNS:] for each in group)
    rest = "".join(f", {count} more phases of {wavefronts}" for wavefronts, count in sorted(hidden.items()))
    for number, group in enumerate(alike[:MOST_PATTERNS]):
        phase = group[0]
        said = f"{phase.wavefronts} wavefront{'s' * (phase.wavefronts > 1)}" + f"; {len(group)} alike" * (
            len(group) > 1
        )
        what = f"instruction {phase.step}, warp {phase.warp}, phase {phase.number}: {said}"
        threads = {row: f"t{thread}" for row, thread in enumerate(phase.threads.tolist())}
        grid = Grid.empty(threads, {bank: str(bank) for bank in range(0, BANKS, 4)}, BANKS, what)
        last = number == min(len(alike), MOST_PATTERNS) - 1
        below = f"in all {total} wavefronts for {least} phases ({times}){rest}" if last else ""
        found.append(
            Panel(
                heading * (number == 0), grid, _boxes(phase), cell=(12.9, 13.3, 13), padding=0, below=below, blank=True
            )
        )
    return found


def _boxes(phase: Phase) -> list[Box]:
    crowded = {bank for bank in range(BANKS) if phase.turns[phase.banks == bank].max(initial=0) > 1}
    boxes = []
    for row, (banks, turns) in enumerate(zip(phase.banks.tolist(), phase.turns.tolist(), strict=True)):
        alone = np.full((1, BANKS), -1)
        for bank, turn in zip(banks, turns, strict=True):
            if bank in crowded:
                boxes.append(
                    Box(
                        (row, bank, row + 1, bank + 1), str(turn), 3, f"t{phase.threads[row]}: bank {bank}, turn {turn}"
                    )
                )
            else:
                alone[0, bank] = 1
        tip = f"t{phase.threads[row]}: banks {banks[0]} to {banks[-1]}"
        boxes += [Box((row, place[1], row + 1, place[3]), "", 2, tip) for _, place in rectangles(alone)]
    return boxes


def _phase_data(phase: Phase) -> dict[str, Any]:
    return {
        "instruction": phase.step, "warp": phase.warp, "phase": phase.number, "wavefronts": phase.wavefronts,
        "threads": phase.threads.tolist(), "banks": phase.banks.tolist(), "turns": phase.turns.tolist(),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ layouts


@attrs.frozen
class Tile:
    """A box of a buffer in memory.

    Attributes:
        name, layout, shape: of the buffer.
        starts, extents: of the box.
        size: bytes of an element.
    """

    name: str
    layout: tc.TileLayout
    shape: tuple[int, ...]
    starts: tuple[int, ...]
    extents: tuple[int, ...]
    size: int


def draw_layout(tile: Tile, before: tc.TileLayout | None, part: Part, width: float) -> tuple[str, Page, dict[str, Any]]:
    """The bank of each element of a box in memory, before and after the swizzle (or beside another layout).

    Raises:
        RequestError: the part is none of it, or it does not fit.
    """
    layout, size, table = tile.layout, tile.size, table_shape(tile.extents)
    rows, columns = part.window(table)
    title = f"Which bank: {tile.name}, elements of {size} bytes"
    page = Page(width)
    page.heading(
        title, "One box = elements side by side whose bytes are side by side too, at most 16 bytes. Label: its banks (4 bytes each); "
        "shade: the eighth of the line of 128 bytes.",
    )  # fmt: skip
    other = before if before is not None else layout.unswizzled if layout.swizzle is not None else None
    panels, data = [], {}
    for name, each in [("before", other), ("after", layout)] if other is not None else [("layout", layout)]:
        at = places(each, tile.shape, grid_of(tile.starts, tile.extents), {})["m"]
        offsets = (at * size).reshape(table)[slice(*rows), slice(*columns)]
        heading = f"{name.capitalize()}: " * (other is not None) + _in_words(each, size)
        panels.append(_layout_panel(heading, offsets, size, rows[0], columns[0]))
        data[name] = offsets.tolist()
    large = any(len(panel.boxes) > 2 * MOST_BOXES or panel.rows > 64 for panel in panels)
    if large or not page.panels(*([panel] for panel in panels)):
        parts = f"part='rows 0:{min(32, table[0])}, columns 0:{min(64 // len(panels), table[1])}'"
        raise too_large(f"{table[0]} rows of {table[1]} elements", parts)
    used = sorted({box.fill for panel in panels for box in panel.boxes})
    page.legend(
        {fill: f"banks {4 * fill} to {4 * fill + 3} and {4 * fill + 16} to {4 * fill + 19}" for fill in used}, {}
    )
    return title, page, data


def _layout_panel(title: str, offsets: Any, size: int, row: int, column: int) -> Panel:
    """A box where the bytes go on along a row, at most 16 and inside one unit of 16."""
    step = np.diff(offsets, axis=1, prepend=offsets[:, :1] - 2 * size)
    begins = (step != size) | (offsets % CHUNK == 0)
    ids = np.cumsum(begins.ravel()).reshape(offsets.shape)
    boxes = []
    for _, place in sorted(rectangles(ids), key=lambda each: each[1]):
        first, last = int(offsets[place[0], place[1]]), int(offsets[place[0], place[3] - 1]) + size - 1
        banks = [first // WORD % BANKS, last // WORD % BANKS]
        label = str(banks[0]) if banks[0] == banks[1] else f"{banks[0]}-{banks[1]}"
        boxes.append(
            Box(
                place,
                label,
                banks[0] // 4 % 4,
                f"row {place[0] + row}, column {place[1] + column}: bytes {first} to {last}",
            )
        )
    rows, columns = (
        {at: str(at + first) for at in range(extent)}
        for extent, first in zip(offsets.shape, (row, column), strict=True)
    )
    wide = (boxes[0].place[3] - boxes[0].place[1]) * size
    while wide > size and (offsets[:, 0] % wide).any():
        wide //= 2
    down = offsets[: max(1, LINE // max(wide, WORD)), 0]
    words = np.unique((down[:, None] // WORD + np.arange(max(1, wide // WORD))).ravel())
    turns = int(np.bincount(words % BANKS).max())
    below = f"down a column, {len(down)} threads of {wide} bytes: {turns} wavefront{'s' * (turns > 1)}"
    return Panel(title, Grid(ids, ids, rows, columns, "column"), boxes, below=below)
