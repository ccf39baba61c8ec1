"""The picture "moves": which thread moves which vector, where it lies on both sides, by which instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from .counts import phases_of, sectors_of, wavefronts_of
from .grids import LINE, Grid, arrived_elements, by_address, by_coordinate, holder_of, registers_of, table_shape
from .page import Box, Page, Panel, rectangles
from .part import Part, too_large
from .running import Movement, Touched

MOST_BOXES, MOST_ROWS = 512, 48
"""Of one picture whose boxes have labels, and rows of one panel."""
MOST_FRAMES = 48


def ranked(steps: Any) -> Any:
    """The instructions of one side, numbered from 0."""
    return np.unique(steps, return_inverse=True)[1] if len(steps) else steps


@attrs.frozen(eq=False)
class Drawn:
    """A side of a copy ready for a panel.

    Attributes:
        name: ``source`` or ``destination``.
        touched: its accesses, ``step`` numbered from 0 on this side.
        fills: of each access.
        grid: of the accesses; of registers of ``thread * 4096 + register``.
        labels: of each number of the grid.
        tips: likewise.
        steps: of each number the instruction, or -1.
    """

    name: str
    touched: Touched
    fills: dict[int, int]
    grid: Grid
    labels: dict[int, str]
    tips: dict[int, str]
    steps: dict[int, int]

    def panel(self, title: str, followed: Any, *, frames: bool = True) -> Panel:
        """With the elements that are followed outlined."""
        boxes = [
            Box(place, self.labels[number], self.fills[number], self.tips[number])
            for number, place in rectangles(self.grid.ids)
        ]
        boxes.sort(key=lambda box: box.place)
        of_step = np.vectorize(lambda number: self.steps.get(number, -1), otypes=[np.int64])(self.grid.ids)
        found = sorted(rectangles(of_step)) if frames and len(set(self.steps.values())) > 1 else []
        found = found if len(found) <= MOST_FRAMES else []
        wide = self.grid.ids.shape[1]
        banded = found and all(place[1] == 0 and place[3] == wide for _, place in found)
        beside = (
            [((p[0], p[2]), (f"instruction {n}",)) for n, p in found]
            if banded and all(p[2] > p[0] for _, p in found)
            else []
        )
        here = np.where(np.isin(self.grid.elements, followed) & (self.grid.ids >= 0), 1, -1)
        return Panel(
            title, self.grid.columns_are, len(self.grid.ids), wide, boxes,
            frames=[place for _, place in found], followed=[place for _, place in rectangles(here)],
            row_labels=self.grid.row_names, column_labels=starting(self.grid.column_names, boxes), beside=beside,
        )  # fmt: skip


def starting(names: dict[int, str], boxes: Sequence[Box]) -> dict[int, str]:
    """Of the names of columns those at which boxes begin, where these are several."""
    begins = {box.place[1] for box in boxes}
    return {column: name for column, name in names.items() if column in begins or len(begins) < 4}


def shades(touched: Touched) -> tuple[dict[int, int], dict[int, str]]:
    """The fill of each access, by warp, or by instruction where one warp is all; and the legend of them."""
    warps = touched.thread // 32
    several = len(np.unique(warps)) > 1
    values, what = (warps, "warp") if several else (touched.step, "instruction")
    fills = {row: int(value) % 4 for row, value in enumerate(values.tolist())}
    legend: dict[int, str] = {}
    for fill in range(4):
        there = [str(value) for value in np.unique(values).tolist() if value % 4 == fill]
        if there:
            shown = there if len(there) <= 4 else [*there[:2], "...", there[-1]]
            legend[fill] = f"{what}{'s' if len(there) > 1 else ''} {', '.join(shown)}"
    return fills, legend


def region_text(region: tc.Region, start: Sequence[int]) -> str:
    """A box of a buffer with its starts as numbers."""
    parts = [f"{s}:{s + e}" if e > 1 else str(s) for s, e in zip(start, region.extents, strict=True)]
    return f"{region.buffer.name}[{', '.join(parts)}]"


def coordinate(movement: Movement, name: str, element: int) -> tuple[int, ...]:
    """The coordinate of an element of a side's box in its buffer."""
    region, _, _ = movement.side(name)
    start = movement.start_source if name == "source" else movement.start_destination
    return tuple(int(i) + s for i, s in zip(np.unravel_index(element, region.extents), start, strict=True))


def side_of(movement: Movement, name: str, touched: Touched, fills: dict[int, int], line: int = LINE) -> Drawn:
    """A side of the copy: global memory by coordinate, shared memory by address, registers by thread and register."""
    region, _, elements = movement.side(name)
    steps = movement.steps
    lines = np.unique(movement.side(name)[1].step)
    if region.buffer.space == "local":
        threads, registers, copies = registers_of(movement)
        ids = np.where(threads >= 0, threads * 4096 + registers, -1)
        grid = by_coordinate(movement, name, None, ids)
        labels, tips = {}, {}
        for number, more in zip(ids.tolist(), copies.tolist(), strict=True):
            labels[number] = f"t{number >> 12} r{number & 4095}" + ("" if more < 2 else f" +{more - 1}")
            tips[number] = f"thread {number >> 12}, register {number & 4095}"
        return Drawn(name, touched, {n: (n & 4095) % 4 for n in labels}, grid, labels, tips, {})
    grid = (
        by_coordinate(movement, name, touched)
        if region.buffer.space == "global"
        else by_address(movement, name, touched, line)
    )
    labels, tips, of_step = {}, {}, {}
    places = list(zip(touched.offset.tolist(), touched.size.tolist(), strict=True))
    sharers: dict[tuple[int, int], set[int]] = {}
    for place, thread in zip(places, touched.thread.tolist(), strict=True):
        sharers.setdefault(place, set()).add(thread)
    for number in np.unique(grid.ids[grid.ids >= 0]).tolist():
        thread, step, (offset, size) = int(touched.thread[number]), int(touched.step[number]), places[number]
        executed = steps[int(lines[step])]
        more = len(sharers[places[number]]) - 1
        labels[number] = f"t{thread}" + (f" +{more}" if more else "")
        of_step[number] = step
        covered = np.flatnonzero((elements >= offset) & (elements < offset + size))
        first = coordinate(movement, name, int(covered[0])) if len(covered) else ()
        tips[number] = (
            f"thread {thread}: {executed.opcode} (PTX line {executed.line}), element {first}, bytes {offset} to {offset + size - 1} "
            f"of {region.buffer.name}"
        )
    return Drawn(name, touched, fills, grid, labels, tips, of_step)


def draw_moves(movement: Movement, part: Part, width: float) -> tuple[str, Page]:
    """The picture, whole or in zooms.

    Raises:
        RequestError: the part is none of it, or it does not fit.
    """
    sides = {
        name: attrs.evolve(t, step=ranked(t.step))
        for name, t in (("source", movement.source), ("destination", movement.destination))
    }
    chosen = {name: _within(movement, name, part.of(touched), part) for name, touched in sides.items()}
    request = movement.request
    title = f"Who moves each element: {request.op} {_what(movement)}, {request.dst.buffer.dtype}, {request.scope.threads} threads, {movement.variant}"
    page = Page(width)
    page.heading(title, _subtitle(movement))
    if max(map(len, chosen.values())) > MOST_BOXES or not _whole(page, movement, chosen, part):
        page = Page(width)
        page.heading(
            title,
            f"{_subtitle(movement)} Too many boxes for one page: 1 the whole box, 2 one instruction, 3 one phase of it.",
        )
        _zooms(page, movement, sides, chosen, part)
    page.notes(notes_of(movement))
    return title, page


def _within(movement: Movement, name: str, touched: Touched, part: Part) -> Touched:
    """The accesses that touch the rows and columns that are meant."""
    region, _, elements = movement.side(name)
    if (part.rows is None and part.columns is None) or not len(touched):
        return touched
    shape = table_shape(region.extents)
    rows, columns = part.window(shape)
    inner = elements.reshape(shape)[slice(*rows), slice(*columns)].ravel()
    found = np.unique(holder_of(inner, touched))
    return touched.only(found[found >= 0])


def _too_large(movement: Movement, touched: Touched) -> tc.RequestError:
    rows, columns = table_shape(movement.request.dst.extents)
    parts = f"part='instruction 0, warp 0' (of {touched.step.max() + 1} and {touched.thread.max() // 32 + 1})"
    return too_large(
        f"{len(touched)} vectors", f"{parts} or part='rows 0:{min(16, rows)}, columns 0:{min(64, columns)}'"
    )


def _what(movement: Movement) -> str:
    src, dst = movement.request.src, movement.request.dst
    return (
        f"{region_text(src, movement.start_source)} ({src.buffer.space}) to "
        f"{region_text(dst, movement.start_destination)} ({dst.buffer.space})"
    )


def _subtitle(movement: Movement) -> str:
    sizes = sorted({*movement.source.size.tolist(), *movement.destination.size.tolist()})
    size = movement.request.dst.buffer.dtype.bits // 8
    several = " or ".join(str(each) for each in sizes)
    count = sizes[0] // size
    box = f"One box = one vector of {several} bytes" + (
        f" = {count} element{'s' if count > 1 else ''}" if len(sizes) == 1 else ""
    )
    local = " In registers: one 32-bit register of one thread, t5 r0." if "local" in movement.request.spaces else ""
    shared = any(
        len(set(zip(t.step.tolist(), t.offset.tolist(), strict=True))) < len(t)
        for t in (movement.source, movement.destination)
    )
    more = "; t0 +1: one thread more does the same" if shared else ""
    return f"{box}, moved by one thread in one instruction. Label: thread{more}.{local}"


def followed_elements(movement: Movement, chosen: dict[str, Touched]) -> tuple[Any, Any, str]:
    """The elements of one vector on both sides, and a line that tells of it: one that lies in another place of its row."""
    name = "source" if len(chosen["source"]) else "destination"
    region, _, elements = movement.side(name)
    touched = chosen[name].only(chosen[name].step == chosen[name].step.min(initial=0))
    other = movement.element_destination if name == "source" else movement.element_source
    best: Any = None
    for row in range(min(len(touched), 64)):
        offset, size = int(touched.offset[row]), int(touched.size[row])
        inside = np.flatnonzero((elements >= offset) & (elements < offset + size))
        if not len(inside):
            continue
        moved = "local" not in movement.request.spaces and offset % LINE != other[inside[0]] % LINE
        if best is None or row == 1 or moved:
            best = int(touched.thread[row]), inside, offset, size
        if moved:
            break
    if best is None:
        return np.zeros(0, int), np.zeros(0, int), ""
    thread, inside, offset, size = best
    there = np.flatnonzero(arrived_elements(movement, inside)) if name == "source" else inside
    first = coordinate(movement, name, int(inside[0]))
    told = f"Outlined: the vector of t{thread} that begins at {region.buffer.name}{list(first)}, bytes {offset} to {offset + size - 1}"
    if "local" not in movement.request.spaces and len(there):
        address = int(movement.element_destination[there].min())
        told += f"; it lies at byte {address} of {movement.request.dst.buffer.name}"
    return (inside, there, f"{told}.") if name == "source" else (inside, inside, f"{told}.")


def _titles(movement: Movement) -> dict[str, str]:
    found = {}
    for name, region in (("source", movement.request.src), ("destination", movement.request.dst)):
        how = {"global": "by coordinate", "local": "registers, by coordinate"}.get(
            region.buffer.space, "by byte address"
        )
        found[name] = f"{name.capitalize()}: {region.buffer.space} {region.buffer.name}, {how}"
    return found


def _whole(page: Page, movement: Movement, chosen: dict[str, Touched], part: Part) -> bool:
    """Both sides with every box labelled; False where they do not fit."""
    from_, to, told = followed_elements(movement, chosen)
    titles = _titles(movement)
    for line in (LINE, LINE // 2, LINE // 4):
        panels, legend = [], {}
        for name, followed in (("source", from_), ("destination", to)):
            fills, words = shades(chosen[name])
            legend.update(words)
            drawn = side_of(movement, name, chosen[name], fills, line)
            if drawn.grid.by_coordinate:
                drawn = attrs.evolve(drawn, grid=drawn.grid.window(*part.window(drawn.grid.ids.shape)))
            panels.append(drawn.panel(titles[name], followed))
            if movement.side(name)[0].buffer.space == "local":
                legend = {
                    fill: f"register {fill}, {fill + 4}, ..."
                    for fill in range(4)
                    if any(b.fill == fill for b in panels[-1].boxes)
                } | legend
        if any(panel.rows > MOST_ROWS for panel in panels):
            continue
        if page.panels(*([panel] for panel in panels)):
            _explain(page, movement, panels, legend, told)
            return True
    return False


def _explain(page: Page, movement: Movement, panels: Sequence[Panel], legend: dict[int, str], told: str) -> None:
    signs = {}
    if any(panel.frames for panel in panels):
        signs["frame"] = "one instruction"
    if any(panel.followed for panel in panels):
        signs["followed"] = "one vector, followed"
    if any(panel.gaps for panel in panels):
        signs["absent"] = "not touched"
    page.legend(
        {
            fill: text
            for fill, text in legend.items()
            if any(box.fill == fill for panel in panels for box in panel.boxes)
        },
        signs,
    )
    page.notes([f"Instructions: {instructions_text(movement)}.", *([told] if told else [])])


def instructions_text(movement: Movement) -> str:
    """Opcodes and how often each, in order."""
    counts: dict[str, int] = {}
    for step in movement.steps:
        counts[step.opcode] = counts.get(step.opcode, 0) + 1
    return ", then ".join(f"{count} x {opcode}" for opcode, count in counts.items())


def notes_of(movement: Movement) -> list[str]:
    """What was counted and verified."""
    found = []
    by_engine = movement.by_engine
    for region, touched, verb in (
        (movement.request.src, movement.source, "read"),
        (movement.request.dst, movement.destination, "written"),
    ):
        if not len(touched) or by_engine:
            continue
        if region.buffer.space == "global":
            requests, sectors, least = sectors_of(touched)
            found.append(
                f"{region.buffer.name}: {requests} requests, {sectors} sectors of 32 bytes {verb} ({least} is the least)."
            )
        if region.buffer.space == "shared":
            requests, wavefronts, least = wavefronts_of(touched)
            found.append(
                f"{region.buffer.name}: {requests} requests, {wavefronts} wavefronts {verb} ({least} is the least)."
            )
    run = "Run on the emulator with marks in the source: every byte arrived where the copy says"
    if movement.values:
        run += "; " + ", ".join(f"{name} = {value}" for name, value in movement.values.items())
    return [*found, f"{run}."]


def _zooms(page: Page, movement: Movement, sides: dict[str, Touched], chosen: dict[str, Touched], part: Part) -> None:
    """The whole box by warp and instruction, one instruction by thread, one phase."""
    name = "source" if len(sides["source"]) and movement.request.src.buffer.space == "global" else "destination"
    name = name if len(sides[name]) else "source"
    touched = sides[name]
    whole = by_coordinate(movement, name, touched)
    warps = touched.thread // 32
    bands = np.where(whole.ids >= 0, (touched.step * 64 + warps)[np.maximum(whole.ids, 0)], -1)
    first = int(chosen[name].step.min(initial=1 << 30))
    lowest = int(chosen[name].thread.min(initial=0)) // 32
    few = chosen[name].only(chosen[name].step == first)
    few = few.only(few.thread < 32 * (lowest + 4)) if len(few) > 128 else few
    _, legend = shades(touched)
    by_warp = len(np.unique(warps)) > 1
    boxes = [
        Box(
            place,
            f"warp {number % 64}",
            (number % 64 if by_warp else number // 64) % 4,
            f"instruction {number // 64}, warp {number % 64}",
        )
        for number, place in sorted(rectangles(bands), key=lambda each: each[1])
    ]
    if len(boxes) > 4 * MOST_BOXES or whole.ids.shape[0] > 16 * MOST_ROWS:
        raise _too_large(movement, touched)
    height = max(1.0, min(18.0, 600 / whole.ids.shape[0]))
    tallest = min(box.place[2] - box.place[0] for box in boxes) * height
    wide = min((box.place[3] - box.place[1]) * 340 / whole.ids.shape[1] for box in boxes)
    if tallest < 12 or wide < 60:
        boxes = [attrs.evolve(box, label="") for box in boxes]
    bands_of = [place for _, place in rectangles(np.where(bands >= 0, bands // 64, -1))]
    bands_of = bands_of if 1 < len(bands_of) <= MOST_FRAMES else []
    shown = np.isin(whole.ids, np.flatnonzero((touched.step == first) & np.isin(touched.thread, few.thread)))
    left = Panel(
        f"1 {name}, the whole box: who, by warp", f"{whole.ids.shape[0]} rows, {whole.ids.shape[1]} columns", len(whole.ids), whole.ids.shape[1], boxes,
        frames=bands_of, followed=[place for _, place in rectangles(np.where(shown, 1, -1))][:MOST_FRAMES],
        row_labels=whole.row_names, column_labels=whole.column_names, cell=(0, 340 / whole.ids.shape[1], height),
    )  # fmt: skip
    inner = "destination" if len(sides["destination"]) and movement.request.dst.buffer.space == "shared" else name
    step = int(chosen[inner].step.min(initial=1 << 30))
    one = chosen[inner].only(chosen[inner].step == step)
    one = one.only(np.isin(one.thread, few.thread))
    for line in (LINE, LINE // 2, LINE // 4):
        drawn = side_of(
            movement, inner, one, shades(one)[0] if by_warp else dict.fromkeys(range(len(one)), step % 4), line
        )
        region = movement.side(inner)[0]
        phase = _phase(movement, inner, one) if region.buffer.space == "shared" else None
        outlined = np.zeros(0, int) if phase is None else phase[1]
        right = drawn.panel(
            f"2 instruction {step} by thread: {region.buffer.space} {region.buffer.name}", outlined, frames=False
        )
        if right.rows <= MOST_ROWS and right.width((page.width - 76) / 2):
            break
    else:
        raise _too_large(movement, touched)
    if not page.panels([left], [right] if phase is None else [right, phase[0]]):
        raise _too_large(movement, touched)
    page.legend({fill: text for fill, text in legend.items() if any(box.fill == fill for box in (*left.boxes, *right.boxes))},
                ({"frame": "one instruction"} if bands_of else {}) | {"followed": "what the next zoom shows"} | ({"absent": "not touched"} if left.gaps or right.gaps else {}))  # fmt: skip
    page.notes([f"Instructions: {instructions_text(movement)}."])


def _phase(movement: Movement, name: str, touched: Touched) -> tuple[Panel, Any] | None:
    """Bank, thread and element of each vector of one phase, by bank, and its elements; None of one with many threads."""
    phase = phases_of(touched)[:2][-1]
    if len(phase.threads) > 8:
        return None
    order = np.argsort(phase.banks[:, 0], kind="stable")
    rows = [np.flatnonzero(touched.thread == thread)[0] for thread in phase.threads[order].tolist()]
    _, _, elements = movement.side(name)
    boxes, within = [], []
    for column, row in enumerate(rows):
        banks = phase.banks[order[column]]
        offset, size = int(touched.offset[row]), int(touched.size[row])
        covered = np.flatnonzero((elements >= offset) & (elements < offset + size))
        first = coordinate(movement, name, int(covered[0])) if len(covered) else ()
        within += covered.tolist()
        texts = (
            f"{banks[0]}-{banks[-1]}" if len(banks) > 1 else str(banks[0]),
            f"t{touched.thread[row]}",
            ",".join(map(str, first)),
        )
        boxes += [Box((line, column, line + 1, column + 1), text) for line, text in enumerate(texts)]
    turns = f"{phase.wavefronts} wavefront{'s' if phase.wavefronts > 1 else ''}"
    title = f"3 one phase (t{phase.threads[0]} to t{phase.threads[-1]}): {turns}"
    labels = {0: "bank", 1: "thread", 2: "element"}
    return Panel(
        title,
        "element: the first of the vector",
        3,
        len(rows),
        boxes,
        row_labels=labels,
        followed=[(0, 0, 3, len(rows))],
    ), within
