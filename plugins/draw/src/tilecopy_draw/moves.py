"""The picture "moves": which thread moves which vector, where it lies on both sides, by which instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from .counts import phases_of, sectors_of, wavefronts_of
from .fragments import listed, owners_of, register_legend, register_panel
from .grids import LINE, by_address, holders, table_shape, touched_by_coordinate
from .page import MOST_BOXES, MOST_ROWS, Box, Grid, Page, Panel, rectangles
from .part import Part, too_large
from .running import CopySide, Movement, Touched

MOST_FRAMES = 48


def draw_moves(movement: Movement, part: Part, width: float) -> tuple[str, Page]:
    """The picture, whole or in zooms.

    Raises:
        RequestError: the part is none of it, or it does not fit.
    """
    request = movement.request
    sides = (movement.source, movement.destination)
    chosen = [attrs.evolve(side, touched=_within(side, part.of(side.touched), part)) for side in sides]
    title = f"Who moves each element: {request.op} {movement}, {request.scope.threads} threads, {movement.variant}"
    page = Page(width)
    page.heading(title, _subtitle(movement))
    if not _whole(page, movement, chosen, part):
        page = Page(width)
        page.heading(
            title,
            f"{_subtitle(movement)} Too many boxes for one page: each zoom outlines what the next one shows.",
        )
        if part.given or not _zooms(page, movement):
            raise _too_large(movement, max((side.touched for side in chosen), key=len))
    page.notes([f"Instructions: {instructions_text(movement)}.", *notes_of(movement)])
    return title, page


def _within(side: CopySide, touched: Touched, part: Part) -> Touched:
    """The accesses that touch the rows and columns that are meant."""
    if (part.rows is None and part.columns is None) or not len(touched):
        return touched
    shape = table_shape(side.region.extents)
    rows, columns = part.window(shape)
    inner = side.elements.reshape(shape)[slice(*rows), slice(*columns)].ravel()
    found = np.unique(holders(inner, touched.offset, touched.size))
    return touched.only(found[found >= 0])


def _too_large(movement: Movement, touched: Touched) -> tc.RequestError:
    rows, columns = table_shape(movement.request.dst.extents)
    steps, warps = len(np.unique(touched.step)), len(np.unique(touched.thread // 32))
    parts = f"part='instruction 0, warp 0' (there are {steps} and {warps} of them)"
    return too_large(
        f"{len(touched)} vectors", f"{parts} or part='rows 0:{min(16, rows)}, columns 0:{min(16, columns)}'"
    )


def _subtitle(movement: Movement) -> str:
    sides = (movement.source.touched, movement.destination.touched)
    sizes = sorted({size for touched in sides for size in touched.size.tolist()})
    count = sizes[0] // movement.size
    box = f"One box = one vector of {' or '.join(map(str, sizes))} bytes"
    box += f" = {count} element{'s' * (count > 1)}" if len(sizes) == 1 else ""
    shared = any(len(np.unique(np.stack([t.step, t.offset]), axis=1).T) < len(t) for t in sides)
    more = "; t0 +1: one thread more does the same" if shared else ""
    local = " In registers: one 32-bit register of one thread, t5 r0." if "local" in movement.request.spaces else ""
    matrices = any("matrix" in step.opcode for step in movement.steps)
    who = (
        "a row of a matrix. Label: the thread that gives its address"
        if matrices
        else "moved by one thread in one instruction. Label: thread"
    )
    return f"{box}, {who}{more}.{local}"


def instructions_text(movement: Movement) -> str:
    """Opcodes and how often each, in order."""
    return ", then ".join(
        f"{count} x {opcode}" for opcode, count in Counter(step.opcode for step in movement.steps).items()
    )


def notes_of(movement: Movement) -> list[str]:
    """What was counted and verified."""
    found = []
    for side, verb in ((movement.source, "read"), (movement.destination, "written")):
        if side.space in ("global", "shared") and len(side.touched) and not movement.by_engine:
            count, what = (
                (sectors_of, "sectors of 32 bytes") if side.space == "global" else (wavefronts_of, "wavefronts")
            )
            requests, number, least = count(side.touched)
            found.append(f"{side.label}: {requests} requests, {number} {what} {verb} ({least} is the least).")
    values = "".join(f"; {name} = {value}" for name, value in movement.values.items())
    checked = (
        "what arrived was read back" if "local" in movement.request.spaces else "every byte arrived where the copy says"
    )
    return [*found, f"Run on the emulator with marks in the source: {checked}{values}."]


# ------------------------------------------------------------------------------------------------ the whole


def shades(touched: Touched) -> tuple[dict[int, int], dict[int, str]]:
    """The fill of each access, by warp, or by instruction where one warp is all; and the legend of them."""
    warps = touched.thread // 32
    values, what = (warps, "warp") if len(np.unique(warps)) > 1 else (touched.step, "instruction")
    legend = {}
    for fill in range(4):
        there = [str(value) for value in np.unique(values).tolist() if value % 4 == fill]
        if there:
            legend[fill] = f"{what}{'s' * (len(there) > 1)} {listed(there)}"
    return {row: value % 4 for row, value in enumerate(values.tolist())}, legend


def _whole(page: Page, movement: Movement, chosen: Sequence[CopySide], part: Part) -> bool:
    """Both sides with every box labelled; False where they do not fit."""
    followed, told = _followed(movement, chosen)
    for line in (LINE, LINE // 2, LINE // 4):
        panels, fills = list[Panel](), list[dict[int, str]]()
        for side in chosen:
            if side.space == "local":
                grid = owners_of(movement)[0]
                grid = grid.window(*part.window(grid.shape))
                title = f"{side.name.capitalize()}: registers of {side.label}, by coordinate"
                panels.append(register_panel(grid, title, np.isin(grid.elements, followed)))
                fills.append(register_legend(grid.ids))
                continue
            if len(side.touched) > MOST_BOXES:
                return False
            panels.append(_panel(movement, side, followed, line, part))
            fills.append(shades(side.touched)[1])
        if all(panel.rows <= MOST_ROWS for panel in panels) and page.panels(*([panel] for panel in panels)):
            legend = {fill: "; ".join(dict.fromkeys(each[fill] for each in fills if fill in each)) for fill in range(4)}
            page.legend({fill: text for fill, text in legend.items() if text}, _signs(panels, "one vector, followed"))
            page.notes([told] if told else [])
            return True
    return False


def _signs(panels: Sequence[Panel], followed: str) -> dict[str, str]:
    found = {"frame": "one instruction"} if any(panel.frames for panel in panels) else {}
    found |= {"followed": followed} if any(panel.followed for panel in panels) else {}
    return found | ({"absent": "not touched"} if any(panel.gaps for panel in panels) else {})


def _panel(movement: Movement, side: CopySide, followed: Any, wide: int, part: Part | None, title: str = "") -> Panel:
    """A side in memory, a box for each access: global memory by coordinate, shared memory by address."""
    touched = side.touched
    how = "by coordinate" if side.space == "global" else "by byte address"
    if side.space == "global":
        grid = touched_by_coordinate(side, touched)
        grid = grid.cropped() if part is not None and part.given else grid
    else:
        grid = by_address(side, touched, movement.size, wide)
    fills, _ = shades(touched)
    opcodes = {step.line: step.opcode for step in movement.steps}
    sharers = Counter(zip(touched.step.tolist(), touched.offset.tolist(), strict=True))
    boxes = []
    for number, place in sorted(rectangles(grid.ids), key=lambda each: each[1]):
        offset, size, line, thread = (
            int(values[number]) for values in (touched.offset, touched.size, touched.line, touched.thread)
        )
        more = sharers[int(touched.step[number]), offset] - 1
        elements = side.elements_in(offset, size)
        element = side.coordinate(int(elements[0])) if len(elements) else "none of the box"
        tip = f"thread {thread}: {opcodes[line]} (PTX line {line}), element {element}, bytes {offset} to {offset + size - 1} of {side.label}"
        boxes.append(Box(place, f"t{thread}" + f" +{more}" * bool(more), fills[number], tip))
    steps = np.where(grid.ids >= 0, touched.step[np.maximum(grid.ids, 0)], -1)
    frames = (
        sorted((place, number) for number, place in rectangles(steps))
        if len(np.unique(touched.step)) > 1 and not title
        else []
    )
    frames = frames if len(frames) <= MOST_FRAMES else []
    banded = all(place[1] == 0 and place[3] == grid.shape[1] for place, _ in frames)
    return Panel(
        title or f"{side.name.capitalize()}: {side.space} {side.label}, {how}", grid, boxes, frames=[place for place, _ in frames],
        followed=[place for _, place in rectangles(np.where(np.isin(grid.elements, followed), 0, -1))],
        beside=[((place[0], place[2]), f"instruction {number}") for place, number in frames] if banded else (),
    )  # fmt: skip


def _followed(movement: Movement, chosen: Sequence[CopySide]) -> tuple[Any, str]:
    """The elements of one vector, and a line that tells of it: one that lies in another place of its line, if there is one."""
    side, other = chosen if len(chosen[0].touched) else reversed(chosen)
    touched, best = side.touched, None
    for row in range(min(len(touched), 64)):
        offset, size = int(touched.offset[row]), int(touched.size[row])
        inside = side.elements_in(offset, size)
        moved = len(inside) > 0 and other.space != "local" and offset % LINE != other.elements[inside[0]] % LINE
        if len(inside) and (best is None or row == 1 or moved):
            best = row, inside
        if moved:
            break
    if best is None:
        return np.zeros(0, int), ""
    row, inside = best
    offset, size = int(touched.offset[row]), int(touched.size[row])
    begins = f"{side.label}{list(side.coordinate(int(inside[0])))}, bytes {offset} to {offset + size - 1}"
    told = f"Outlined: the vector of t{touched.thread[row]} that begins at {begins}"
    if other.space != "local" and side is chosen[0]:
        told += f"; it lies at byte {other.elements[inside].min()} of {other.label}"
    return inside, f"{told}."


# ------------------------------------------------------------------------------------------------ zooms


def _zooms(page: Page, movement: Movement) -> bool:
    """The whole box by warp and instruction, one instruction by thread, one phase; False where it does not fit."""
    sides = [side for side in (movement.source, movement.destination) if len(side.touched)]
    outer, inner = min(sides, key=lambda s: s.space != "global"), min(sides, key=lambda s: s.space != "shared")
    touched = outer.touched
    grid = touched_by_coordinate(outer, touched)
    warps, fills = touched.thread // 32, shades(touched)[0]
    rows = np.maximum(grid.ids, 0)
    bands = np.where(grid.ids >= 0, (touched.step * 64 + warps)[rows], -1)
    shown = (touched.step == 0) & (warps < 4)
    by_number = {int(number): fills[row] for row, number in enumerate(touched.step * 64 + warps)}
    found = sorted(rectangles(bands), key=lambda each: each[1])
    boxes = [Box(p, f"warp {n % 64}", by_number[n], f"instruction {n // 64}, warp {n % 64}") for n, p in found]
    frames = [place for _, place in rectangles(np.where(bands >= 0, bands // 64, -1))]
    first = [place for _, place in rectangles(np.where((grid.ids >= 0) & shown[rows], 0, -1))]
    if len(boxes) > 4 * MOST_BOXES or grid.shape[0] > 16 * MOST_ROWS or max(len(frames), len(first)) > MOST_BOXES:
        return False
    left = Panel(
        f"1 {outer.name}, the whole box: who, by warp", grid, boxes, frames=frames if len(frames) > 1 else (), followed=first, optional=True,
        cell=(0, 340 / grid.shape[1], max(1.0, min(18.0, 600 / grid.shape[0]))),
    )  # fmt: skip
    one = inner.touched.only((inner.touched.step == 0) & (inner.touched.thread < 128))
    part = attrs.evolve(inner, touched=one)
    phase = _phase(part) if inner.space == "shared" else None
    for line in (LINE, LINE // 2, LINE // 4):
        title = f"2 instruction 0 by thread: {inner.space} {inner.label}"
        right = _panel(movement, part, [] if phase is None else phase[1], line, Part(instruction=0), title)
        if right.rows <= MOST_ROWS and page.panels(
            [left], [right] if phase is None else [right, phase[0]], beside=True
        ):
            used = {box.fill for panel in (left, right) for box in panel.boxes}
            legend = shades(touched)[1]
            page.legend(
                {fill: legend[fill] for fill in sorted(used)}, _signs([left, right], "what the next zoom shows")
            )
            return True
    return False


def _phase(side: CopySide) -> tuple[Panel, list[int]] | None:
    """Bank, thread and element of each vector of one phase, by bank, and its elements; None of one with many threads."""
    phase = phases_of(side.touched)[:2][-1]
    if len(phase.threads) > 8:
        return None
    boxes, within = [], list[int]()
    for column, row in enumerate(np.argsort(phase.banks[:, 0], kind="stable").tolist()):
        banks, thread = phase.banks[row], int(phase.threads[row])
        at = int(np.flatnonzero(side.touched.thread == thread)[0])
        elements = side.elements_in(int(side.touched.offset[at]), int(side.touched.size[at])).tolist()
        first = ",".join(map(str, side.coordinate(elements[0]))) if elements else ""
        within += elements
        for line, text in enumerate(
            (f"{banks[0]}-{banks[-1]}" if len(banks) > 1 else str(banks[0]), f"t{thread}", first)
        ):
            boxes.append(Box((line, column, line + 1, column + 1), text))
    count = len(phase.threads)
    title = f"3 one phase (t{phase.threads[0]} to t{phase.threads[-1]}): {phase.wavefronts} wavefront{'s' * (phase.wavefronts > 1)}"
    grid = Grid.empty({0: "bank", 1: "thread", 2: "element"}, {}, count, "element: the first of the vector")
    return Panel(title, grid, boxes, followed=[(0, 0, 3, count)]), within
