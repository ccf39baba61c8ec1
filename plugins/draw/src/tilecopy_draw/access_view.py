"""The picture "moves": the thread and instruction that move each vector, and the vector's source and destination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy.costs import LINE_BYTES

from . import grids
from .counts import phases_of
from .selection import Selection, TooLargeError
from .svg import MOST_BOXES, Figure, Grid, Panel, Rectangle, outlines, rectangles
from .trace import WARPS, CopySide, CopyTrace, holders, requests_of

MOST_FRAMES = 48
_SIZES = tuple(zip((LINE_BYTES, LINE_BYTES // 2, LINE_BYTES // 4), grids.FOLDS, strict=True))
"""Pairs to try, longest first: bytes of a line of shared memory, elements of a row of a one-dimensional box."""


def draw_moves(trace: CopyTrace, selection: Selection) -> Iterator[Figure]:
    """Yield figures of the whole copy, then zoomed figures. If the caller rejects all of them, raise TooLargeError."""
    if trace.by_engine:
        raise tc.RequestError(
            f"draw: kind 'moves' needs a copy whose bytes are moved by threads, but variant {trace.variant} uses a copy engine: use kind 'bulk'"
        )
    request = trace.request
    if not trace.steps:
        raise tc.RequestError(
            f"draw: {trace} must move at least one element, but the box is out of bounds if run-time integers have their minimum values: use another box"
        )
    touched_by_both = np.concatenate([side.accesses for side in trace.sides])
    masks = np.split(selection.mask(touched_by_both), [len(trace.source.accesses)])
    chosen = []
    for side, mask in zip(trace.sides, masks, strict=True):
        touched = side.accesses[mask]
        chosen.append(attrs.evolve(side, accesses=touched[grids.within(side, touched, selection)]))
    memories = [side for side in chosen if side.space != "local"]
    if memories and not any(len(side.accesses) for side in memories):
        raise tc.RequestError("draw: no access matches all parts of select: pass fewer parts")
    title = f"Who moves each element: {request.op} {trace}, {request.scope.threads} threads, {trace.variant}"
    subtitle, notes = _subtitle(trace), [grids.instructions_text(trace), *grids.notes_of(trace)]
    framed = "lanes of one warp" if "tmem" in request.spaces else "one instruction"
    one = "one vector on both sides" if memories else "one element on both sides"
    signs = {"frame": framed, "followed": one, "absent": "not accessed"}
    if all(len(side.accesses) <= MOST_BOXES or side.space == "tmem" for side in chosen):
        followed, note = _follow_vector(chosen)
        # a register is drawn if a selected access moves it
        moving = np.concatenate([_elements(side) for side in memories]) if selection.is_partial and memories else None
        for sizes in _SIZES:
            stacks = [[_panel(trace, side, followed, sizes, selection, moving)] for side in chosen]
            yield Figure(title, subtitle, stacks, signs, [*note, *notes])
    if not selection.is_partial and memories:
        zoomed = f"{subtitle} Too many boxes for one page" + (
            "." if "tmem" in request.spaces else ": each zoom outlines what the next one shows."
        )
        signs |= {"followed": "the part in the next zoom"}
        for stacks in _zooms(trace):
            yield Figure(title, zoomed, stacks, signs, notes, beside=True)
    touched = max((side.accesses for side in chosen), key=len)
    accesses: tuple[str, ...] = ("warp 0",)
    counts = ""
    if len(touched):
        one = f"instruction {touched.instruction[0]}, warp {touched.warp[0]}"
        accesses = (one, f"{one}, phase {touched.phase[0]}")
        counts = f"of {len(np.unique(touched.instruction))} instructions and {len(np.unique(touched.warp))} warps"
    what = f"{len(touched)} vectors" if len(touched) else f"{request.dst.size} elements"
    raise TooLargeError.of(what, grids.table_shape(request.dst.extents), accesses, counts)


def _elements(side: CopySide) -> Any:
    """Return the elements that the accesses of a side in memory touch."""
    return np.flatnonzero(holders(side.elements, side.accesses.byte, side.accesses.bytes) >= 0)


def _subtitle(trace: CopyTrace) -> str:
    touched = [side.accesses for side in trace.sides]
    registers = "one 32-bit register of one thread, such as t5 r0"
    if trace.request.spaces == ("local", "local"):
        return f"One box = {registers}. Shade: register."
    sizes = sorted({size for side_accesses in touched for size in side_accesses.bytes.tolist()})
    count = max(1, sizes[0] // trace.size)
    box = f"One box = one vector of {' or '.join(map(str, sizes))} bytes"
    box += f" = {count} element{'s' * (count > 1)}" if len(sizes) == 1 else ""
    shared = any(len(np.unique(np.stack([t.instruction, t.byte]), axis=1).T) < len(t) for t in touched)
    more = "; t0 +1: one more thread accesses the same bytes" if shared else ""
    local = f" In registers: {registers}." if "local" in trace.request.spaces else ""
    if "tmem" in trace.request.spaces:
        return f"One box = the lanes of one warp and the columns that one instruction moves. Label: instruction.{local}"
    who = "moved by one thread in one instruction. Label: thread"
    if any("matrix" in step.opcode for step in trace.steps):
        who = "a row of a matrix. Label: the thread that supplies its address"
    return f"{box}, {who}{more}.{local}"


def _shades(touched: Any) -> tuple[list[int], dict[int, str]]:
    """Return the fill of each access, by warp (or by instruction if there is only one warp), and the legend."""
    values, what = (touched.warp, "warp") if len(np.unique(touched.warp)) > 1 else (touched.instruction, "instruction")
    return (values % 4).tolist(), grids.legend_of(what, values.tolist())


def _panel(
    trace: CopyTrace, side: CopySide, followed: Any, sizes: tuple[int, int], selection: Selection, meant: Any = None
) -> Panel:
    """Return the panel of one side: memory with one box per access, shared memory in lines; or registers."""
    touched, (line, fold) = side.accesses, sizes
    if side.space == "local":
        grid = grids.owners_of(trace, side, selection, meant, fold)
        return grids.register_panel(grid, grids.side_title(side), np.isin(grid.elements, followed))
    if side.space == "tmem":
        return grids.tensor_panel(side, touched)
    if side.space == "shared" and len(touched):
        grid = grids.by_address(side, touched, trace.size, line)
    else:
        whole = grids.by_coordinate(side, holders(side.elements, touched.byte, touched.bytes))
        window = whole.window(*selection.window(whole.ids.shape))
        grid = (whole if (window.ids >= 0).any() else window).crop() if selection.is_partial else whole
    shades, legend = _shades(touched)
    opcodes = {step.line: step.opcode for step in trace.steps}
    sharers = Counter(zip(touched.instruction.tolist(), touched.byte.tolist(), strict=True))
    boxes = []
    for number, place in rectangles(grid.ids):
        step, at, thread, _, offset, size = touched[number].tolist()[:6]
        more = sharers[step, offset] - 1
        elements = side.elements_in(offset, size)
        element = side.coordinate(int(elements[0])) if len(elements) else "outside the box"
        tip = f"thread {thread}: {opcodes[at]} (PTX line {at}), element {element}, bytes {offset} to {offset + size - 1} of {side.label}"
        boxes.append(Rectangle(place, f"t{thread}" + f" +{more}" * bool(more), shades[number], tip))
    several = len(np.unique(touched.instruction)) > 1
    steps = touched.instruction[np.maximum(grid.ids, 0)] if several else grid.ids
    frames = rectangles(steps, (grid.ids >= 0) & several)
    frames = frames if len(frames) <= MOST_FRAMES else []
    banded = all(place[1] == 0 and place[3] == grid.ids.shape[1] for _, place in frames)
    return Panel(
        grids.side_title(side), grid, boxes, legend, frames=[place for _, place in frames], followed=outlines(np.isin(grid.elements, followed)),
        beside=[((place[0], place[2]), f"instruction {number}") for number, place in frames] if banded else (),
    )  # fmt: skip


def _follow_vector(chosen: Sequence[CopySide]) -> tuple[Any, list[str]]:
    """Return the elements of the vector to outline and its description; prefer one whose offset in its line changes."""
    side, other = chosen if len(chosen[0].accesses) else reversed(chosen)
    if side.space == other.space == "local":
        one = min(1, side.region.size - 1)
        return np.array([one]), [f"Outlined: {other.label}{list(other.coordinate(one))}."]
    outlined, moved = [], []
    for touched in side.accesses[:64]:
        inside = side.elements_in(touched.byte, touched.bytes)
        if not len(inside):
            continue
        last = touched.byte + touched.bytes - 1
        begins = f"{side.label}{list(side.coordinate(int(inside[0])))}, bytes {touched.byte} to {last}"
        note = f"Outlined: the vector of t{touched.thread} that begins at {begins}"
        if other.space != "local" and side is chosen[0]:
            note += f"; it goes to byte {other.elements[inside].min()} of {other.label}"
        outlined.append((inside, [f"{note}."]))
        if other.space != "local" and touched.byte % LINE_BYTES != other.elements[inside[0]] % LINE_BYTES:
            moved.append(outlined[-1])
    return [*moved, *outlined[1:2], *outlined, (np.zeros(0, int), [])][0]


# ------------------------------------------------------------------------------------------------ zooms


def _zooms(trace: CopyTrace) -> Iterator[list[list[Panel]]]:
    """Yield three zooms: the whole box by warp and instruction, one instruction by thread, one phase."""
    sides = [side for side in trace.sides if len(side.accesses)]
    if "tmem" in trace.request.spaces:
        yield from _tensor_zooms(trace, sides[0])
        return
    outer, inner = min(sides, key=lambda s: s.space != "global"), min(sides, key=lambda s: s.space != "shared")
    touched = outer.accesses
    fills, legend = _shades(touched)
    grid = grids.by_coordinate(outer, holders(outer.elements, touched.byte, touched.bytes))
    rows, inside = np.maximum(grid.ids, 0), grid.ids >= 0
    by_request = dict(zip(requests_of(touched).tolist(), fills, strict=True))
    boxes = []
    for number, place in rectangles(requests_of(touched)[rows], inside):
        step, warp = divmod(number, WARPS)
        boxes.append(Rectangle(place, f"warp {warp}", by_request[number], f"instruction {step}, warp {warp}"))
    frames = outlines(inside, touched.instruction[rows])
    high, wide = grid.ids.shape
    warps_panel = Panel(
        f"1 {outer.name}: the whole box by warp", grid, boxes, legend, frames=frames if len(frames) > 1 else (), optional=True,
        followed=outlines(inside & ((touched.instruction == 0) & (touched.warp < 4))[rows]),
        cell=(0, 340 / wide, max(1.0, min(18.0, 600 / high))),
    )  # fmt: skip
    first = inner.accesses[(inner.accesses.instruction == 0) & (inner.accesses.warp < 4)]
    one = attrs.evolve(inner, accesses=first)
    within, below = _phase(one) if inner.space == "shared" else ([], [])
    for sizes in _SIZES:
        right = _panel(trace, one, within, sizes, Selection(instruction=0))
        title = f"2 {inner.space} {inner.label}: instruction 0 by thread"
        yield [[warps_panel], [attrs.evolve(right, title=title, fills={}), *below]]


def _tensor_zooms(trace: CopyTrace, side: CopySide) -> Iterator[list[list[Panel]]]:
    """Yield two zooms: tensor memory by warp and instruction, and the first registers by thread."""
    registers = next(side for side in trace.sides if side.space == "local")
    outer = _panel(trace, side, (), _SIZES[0], Selection())
    for inner in grids.first_registers(trace, registers, f"{grids.side_title(registers)}: the first rows and columns"):
        yield [[outer], [inner]]


def _phase(side: CopySide) -> tuple[list[int], list[Panel]]:
    """Return the elements of one phase and a table of its vectors in the order of banks; both empty above 8 threads."""
    phase = phases_of(side.accesses)[:2][-1]
    count = len(phase.threads)
    if count > 8:
        return [], []
    boxes, within = [], list[int]()
    for column, row in enumerate(np.argsort(phase.banks[:, 0], kind="stable").tolist()):
        banks, thread = phase.banks[row], int(phase.threads[row])
        touched = side.accesses[side.accesses.thread == thread][0]
        elements = side.elements_in(touched.byte, touched.bytes).tolist()
        within += elements
        first = ",".join(map(str, side.coordinate(elements[0]))) if elements else ""
        texts = (f"{banks[0]}-{banks[-1]}" if len(banks) > 1 else str(banks[0]), f"t{thread}", first)
        boxes += [Rectangle((line, column, line + 1, column + 1), text) for line, text in enumerate(texts)]
    title = f"3 one phase (t{phase.threads[0]} to t{phase.threads[-1]}): {phase.wavefronts} wavefront{'s' * (phase.wavefronts > 1)}"
    grid = Grid.empty(["bank", "thread", "element"], [""] * count, "element: first of the vector")
    return within, [Panel(title, grid, boxes, followed=[(0, 0, 3, count)])]
