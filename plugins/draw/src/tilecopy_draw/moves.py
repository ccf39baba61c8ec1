"""The picture "moves": which thread moves which vector, where it lies on both sides, by which instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from .counts import phases_of
from .fragments import owners_of, register_panel
from .grids import (
    LINE,
    by_address,
    holders,
    instructions_text,
    listed,
    notes_of,
    side_panel,
    table_shape,
    touched_by_coordinate,
)
from .page import MOST_BOXES, Box, Grid, Panel, Sheet, outlines, rectangles
from .part import Part, too_large
from .running import CopySide, Movement, Touched

MOST_FRAMES = 48
_LINES = (LINE, LINE // 2, LINE // 4)
"""Bytes of a line of shared memory: the longest that fits."""


def draw_moves(movement: Movement, part: Part) -> Iterator[Sheet]:
    """The picture, whole or in zooms.

    Raises:
        RequestError: an engine moves the bytes, the part is none of it, or it does not fit.
    """
    if movement.by_engine:
        raise tc.RequestError(
            f"draw: one thread issues {movement.variant}, and an engine moves the bytes; draw kind 'boxes'"
        )
    request = movement.request
    if not any(len(side.touched) for side in movement.sides):
        raise tc.RequestError(f"draw: {movement} moves nothing where it was run: its box lies outside of an array")
    chosen = [attrs.evolve(side, touched=_within(side, part)) for side in movement.sides]
    title = f"Who moves each element: {request.op} {movement}, {request.scope.threads} threads, {movement.variant}"
    subtitle, notes = _subtitle(movement), [instructions_text(movement), *notes_of(movement)]
    if all(len(side.touched) <= MOST_BOXES for side in chosen):
        followed, told = _followed(chosen)
        signs = {"frame": "one instruction", "followed": "one vector, followed", "absent": "not touched"}
        for line in _LINES:
            stacks = [[_panel(movement, side, followed, line, part)] for side in chosen]
            yield Sheet(title, subtitle, stacks, signs, [*told, *notes])
    if not part.given:
        zoomed = f"{subtitle} Too many boxes for one page: each zoom outlines what the next one shows."
        signs = {"frame": "one instruction", "followed": "what the next zoom shows", "absent": "not touched"}
        for stacks in _zooms(movement):
            yield Sheet(title, zoomed, stacks, signs, notes, beside=True)
    touched = max((side.touched for side in chosen), key=len)
    rows, columns = table_shape(request.dst.extents)
    there = f"there are {len(np.unique(touched.step))} and {len(np.unique(touched.warp))} of them"
    raise too_large(
        f"{len(touched)} vectors",
        f"part='instruction 0, warp 0' ({there}) or part='rows 0:{min(16, rows)}, columns 0:{min(16, columns)}'",
    )


def _within(side: CopySide, part: Part) -> Touched:
    """The accesses that are meant, of those the ones that touch the rows and columns that are meant."""
    touched = part.of(side.touched)
    if (part.rows is None and part.columns is None) or not len(touched):
        return touched
    shape = table_shape(side.region.extents)
    rows, columns = part.window(shape)
    inner = side.elements.reshape(shape)[slice(*rows), slice(*columns)].ravel()
    found = np.unique(holders(inner, touched.offset, touched.size))
    return touched.only(found[found >= 0])


def _subtitle(movement: Movement) -> str:
    touched = [side.touched for side in movement.sides]
    sizes = sorted({size for each in touched for size in each.size.tolist()})
    count = sizes[0] // movement.size
    box = f"One box = one vector of {' or '.join(map(str, sizes))} bytes"
    box += f" = {count} element{'s' * (count > 1)}" if len(sizes) == 1 else ""
    shared = any(len(np.unique(np.stack([t.step, t.offset]), axis=1).T) < len(t) for t in touched)
    more = "; t0 +1: one thread more does the same" if shared else ""
    local = " In registers: one 32-bit register of one thread, t5 r0." if "local" in movement.request.spaces else ""
    matrices = any("matrix" in step.opcode for step in movement.steps)
    who = (
        "a row of a matrix. Label: the thread that gives its address"
        if matrices
        else "moved by one thread in one instruction. Label: thread"
    )
    return f"{box}, {who}{more}.{local}"


def _shades(touched: Touched) -> tuple[list[int], dict[int, str]]:
    """The fill of each access, by warp, or by instruction where one warp is all; and the legend of them."""
    values, what = (touched.warp, "warp") if len(np.unique(touched.warp)) > 1 else (touched.step, "instruction")
    legend = {}
    for fill in range(4):
        there = [str(value) for value in np.unique(values).tolist() if value % 4 == fill]
        if there:
            legend[fill] = f"{what}{'s' * (len(there) > 1)} {listed(there)}"
    return (values % 4).tolist(), legend


def _panel(movement: Movement, side: CopySide, followed: Any, line: int, part: Part) -> Panel:
    """One side: memory with a box for each access, shared memory in lines of so many bytes; or registers."""
    touched = side.touched
    if side.space == "local":
        grid = owners_of(movement)[0]
        grid = grid.window(*part.window(grid.ids.shape))
        title = f"{side.name.capitalize()}: registers of {side.label}, by coordinate"
        return register_panel(grid, title, np.isin(grid.elements, followed))
    if side.space == "global":
        grid = touched_by_coordinate(side, touched)
        grid = grid.cropped() if part.given else grid
    else:
        grid = by_address(side, touched, movement.size, line)
    fills, legend = _shades(touched)
    opcodes = {step.line: step.opcode for step in movement.steps}
    sharers = Counter(zip(touched.step.tolist(), touched.offset.tolist(), strict=True))
    boxes = []
    for number, place in rectangles(grid.ids):
        step, at, thread, _, offset, size, _ = touched.row(number)
        more = sharers[step, offset] - 1
        elements = side.elements_in(offset, size)
        element = side.coordinate(int(elements[0])) if len(elements) else "none of the box"
        tip = f"thread {thread}: {opcodes[at]} (PTX line {at}), element {element}, bytes {offset} to {offset + size - 1} of {side.label}"
        boxes.append(Box(place, f"t{thread}" + f" +{more}" * bool(more), fills[number], tip))
    several = len(np.unique(touched.step)) > 1
    frames = rectangles(touched.step[np.maximum(grid.ids, 0)], (grid.ids >= 0) & several)
    frames = frames if len(frames) <= MOST_FRAMES else []
    banded = all(place[1] == 0 and place[3] == grid.ids.shape[1] for _, place in frames)
    return side_panel(
        side, grid, boxes, fills=legend, frames=[place for _, place in frames], followed=outlines(np.isin(grid.elements, followed)),
        beside=[((place[0], place[2]), f"instruction {number}") for number, place in frames] if banded else (),
    )  # fmt: skip


def _followed(chosen: Sequence[CopySide]) -> tuple[Any, list[str]]:
    """The elements of one vector, and the line that tells of it: one that lies in another place of its line, if there is one."""
    side, other = chosen if len(chosen[0].touched) else reversed(chosen)
    found, moved = [], []
    for row in range(min(len(side.touched), 64)):
        _, _, thread, _, offset, size, _ = side.touched.row(row)
        inside = side.elements_in(offset, size)
        if not len(inside):
            continue
        begins = f"{side.label}{list(side.coordinate(int(inside[0])))}, bytes {offset} to {offset + size - 1}"
        told = f"Outlined: the vector of t{thread} that begins at {begins}"
        if other.space != "local" and side is chosen[0]:
            told += f"; it lies at byte {other.elements[inside].min()} of {other.label}"
        found.append((inside, [f"{told}."]))
        if other.space != "local" and offset % LINE != other.elements[inside[0]] % LINE:
            moved.append(found[-1])
    return [*moved, *found[1:2], *found, (np.zeros(0, int), [])][0]


# ------------------------------------------------------------------------------------------------ zooms


def _zooms(movement: Movement) -> Iterator[list[list[Panel]]]:
    """The whole box by warp and instruction, one instruction by thread, one phase."""
    sides = [side for side in movement.sides if len(side.touched)]
    outer, inner = min(sides, key=lambda s: s.space != "global"), min(sides, key=lambda s: s.space != "shared")
    touched = outer.touched
    fills, legend = _shades(touched)
    grid = touched_by_coordinate(outer, touched)
    rows, there = np.maximum(grid.ids, 0), grid.ids >= 0
    by_request = dict(zip(touched.request.tolist(), fills, strict=True))
    boxes = []
    for number, place in rectangles(touched.request[rows], there):
        step, warp = divmod(number, 64)
        boxes.append(Box(place, f"warp {warp}", by_request[number], f"instruction {step}, warp {warp}"))
    frames = outlines(there, touched.step[rows])
    high = grid.ids.shape[0]
    left = Panel(
        f"1 {outer.name}, the whole box: who, by warp", grid, boxes, legend, frames=frames if len(frames) > 1 else (), optional=True,
        followed=outlines(there & ((touched.step == 0) & (touched.warp < 4))[rows]),
        cell=(0, 340 / grid.ids.shape[1], max(1.0, min(18.0, 600 / high))),
    )  # fmt: skip
    one = attrs.evolve(inner, touched=inner.touched.only((inner.touched.step == 0) & (inner.touched.warp < 4)))
    phase = _phase(one) if inner.space == "shared" else None
    within, below = phase or ([], [])
    for line in _LINES:
        right = _panel(movement, one, within, line, Part(instruction=0))
        title = f"2 instruction 0 by thread: {inner.space} {inner.label}"
        yield [[left], [attrs.evolve(right, title=title, fills={}), *below]]


def _phase(side: CopySide) -> tuple[list[int], list[Panel]] | None:
    """The elements of one phase, and the bank, thread and element of each of its vectors, by bank; None of one with many threads."""
    phase = phases_of(side.touched)[:2][-1]
    count = len(phase.threads)
    if count > 8:
        return None
    boxes, within = [], list[int]()
    for column, row in enumerate(np.argsort(phase.banks[:, 0], kind="stable").tolist()):
        banks, thread = phase.banks[row], int(phase.threads[row])
        _, _, _, _, offset, size, _ = side.touched.row(int(np.flatnonzero(side.touched.thread == thread)[0]))
        elements = side.elements_in(offset, size).tolist()
        within += elements
        first = ",".join(map(str, side.coordinate(elements[0]))) if elements else ""
        texts = (f"{banks[0]}-{banks[-1]}" if len(banks) > 1 else str(banks[0]), f"t{thread}", first)
        boxes += [Box((line, column, line + 1, column + 1), text) for line, text in enumerate(texts)]
    title = f"3 one phase (t{phase.threads[0]} to t{phase.threads[-1]}): {phase.wavefronts} wavefront{'s' * (phase.wavefronts > 1)}"
    grid = Grid.empty(["bank", "thread", "element"], [""] * count, "element: the first of the vector")
    return within, [Panel(title, grid, boxes, followed=[(0, 0, 3, count)])]
