"""The picture "banks": the banks that each phase of a copy accesses, or the bank of each element of a layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy.costs import BANK_BYTES, BANKS, LINE_BYTES

from .counts import Phase, phases_of
from .grids import instructions_text, table_shape, within
from .selection import Selection, TooLargeError
from .svg import MOST_HEIGHT, Figure, Grid, Panel, Rectangle, rectangles
from .trace import CopySide, CopyTrace, elements_of, run_copy

MOST_PATTERNS = 4
CHUNK = 16
"""The most bytes of one box in the picture of a layout."""


def shared_side(trace: CopyTrace) -> CopySide:
    """Return the source or destination that threads access in shared memory. Raise RequestError if there is none."""
    for side in trace.sides:
        if side.space == "shared" and side.by_threads:
            return side
    raise tc.RequestError(
        f"draw: kind 'banks' needs threads that load or store shared memory, but variant {trace.variant} has no "
        "such threads: omit kind"
    )


def _with_layout(region: tc.Region, layout: tc.TileLayout) -> tc.Region:
    """Return a region with another layout of its buffer, or raise LayoutError if the layout does not fit the buffer's shape."""
    old = region.buffer
    try:
        buffer = tc.Buffer(
            old.shape, old.dtype, space=old.space, layout=layout, name=old.name, align_bytes=old.align_bytes, storage_offset=old.storage_offset
        )  # fmt: skip
    except tc.LayoutError as error:
        raise tc.LayoutError(f"draw: compare_with must fit {region}: {error}") from None
    return tc.Region(buffer, region.starts, region.extents)


def _other_layout(region: tc.Region, compare_with: tc.TileLayout | None) -> tc.TileLayout | None:
    """Return the layout to compare with, by default the one without the swizzle; None if it is the region's layout."""
    other = region.buffer.layout.unswizzled if compare_with is None else compare_with
    return other if isinstance(other, tc.TileLayout) and other != region.buffer.layout else None


def _before(trace: CopyTrace, layout: tc.TileLayout) -> CopyTrace:
    """Return the trace of the copy with another layout of the shared buffer."""
    request, side = trace.request, shared_side(trace)
    other = _with_layout(side.region, layout)
    dst, src = (request.dst, other) if side is trace.source else (other, request.src)
    return run_copy(
        tc.plan(
            dst, src, op=request.op, scope=request.scope, target=request.target, outside=request.outside, variant=trace.variant,
            **dict(request.options),
        )
    )  # fmt: skip


def draw_banks(trace: CopyTrace, selection: Selection, compare_with: tc.TileLayout | None) -> Iterator[Figure]:
    """Yield a picture of the banks that a copy accesses. The picture may compare two layouts of the shared buffer."""
    side = shared_side(trace)
    layout = _other_layout(side.region, compare_with)
    states = {"": trace} if layout is None else {"Before: ": _before(trace, layout), "After: ": trace}
    subtitle = (
        "Shared memory serves a warp in phases of 128 bytes. Different words of one bank take one wavefront each: a bank "
        "conflict. One row = a thread. One column = one of the 32 banks of 4 bytes."
    )
    notes = [
        instructions_text(trace),
        "Phases that differ only in their threads and first bank are drawn once. Addresses are those of the PTX on the emulator.",
    ]
    stacks, data = [], []
    for heading, state in states.items():
        side_state = shared_side(state)
        touched = side_state.accesses[selection.mask(side_state.accesses)]
        words = heading + _in_words(side_state.region.buffer.layout, state.size)
        phases = phases_of(touched[within(side_state, touched, selection)])
        if not phases:
            raise tc.RequestError("draw: no access matches all parts of select: pass fewer parts")
        stacks.append(_panels(words, phases))
        data.append({"title": words, "phases": [_phase_data(phase) for phase in phases]})
    verb = "read" if side is trace.source else "written"
    title = f"Which bank: {side} {verb}, {side.region.buffer.dtype}, {trace.variant}"
    yield Figure(title, subtitle, stacks, notes=notes, data={"phases": data})
    raise TooLargeError(
        f"{len(side.accesses)} accesses", (("instruction 0, warp 0", "instruction 0, warp 0, phase 0"),)
    )


def _in_words(layout: Any, size: int) -> str:
    """Return a layout's name; a swizzle of the hardware is named by the bytes that it spans."""
    swizzle, plain = layout.swizzle, str(layout.unswizzled).removeprefix("TileLayout(").removesuffix(")")
    if swizzle is None:
        return f"no swizzle, {plain}"
    known = swizzle.atom_len == 3 and swizzle.chunk_elems * size == CHUNK
    return f"{CHUNK << swizzle.swizzle_len}-byte swizzle of {plain}" if known else f"{swizzle} of {plain}"


def _panels(heading: str, phases: Sequence[Phase]) -> list[Panel]:
    """Return one panel for each group of equal phases, the one with the most wavefronts first."""
    kinds: dict[Any, list[Phase]] = {}
    for phase in phases:
        kinds.setdefault(phase.pattern, []).append(phase)
    alike = sorted(kinds.values(), key=lambda group: -group[0].wavefronts)
    total, least = sum(phase.wavefronts for phase in phases), len(phases)
    times = "the minimum" if total == least else f"{total / least:.3g} x the minimum: bank conflicts"
    hidden = Counter(phase.wavefronts for group in alike[MOST_PATTERNS:] for phase in group)
    rest = "".join(
        f"; not drawn: {count} phases of {wavefronts} wavefronts" for wavefronts, count in sorted(hidden.items())
    )
    panels = [_phase_panel(group[0], len(group)) for group in alike[:MOST_PATTERNS]]
    panels[0] = attrs.evolve(panels[0], title=heading)
    below = f"total: {total} wavefronts for {least} phases ({times}){rest}"
    return [*panels[:-1], attrs.evolve(panels[-1], below=below)]


def _wavefronts(count: int) -> str:
    """Return the text for the wavefronts of one phase; more than one is a bank conflict."""
    return "1 wavefront" if count == 1 else f"{count} wavefronts ({count}-way bank conflict)"


def _phase_panel(phase: Phase, count: int) -> Panel:
    """Return the panel of the banks of a phase, which represents ``count`` equal ones."""
    turns, ids = np.zeros((len(phase.threads), BANKS), int), np.full((len(phase.threads), BANKS), -1)
    rows = np.arange(len(ids))[:, None]
    turns[rows, phase.banks] = phase.turns
    crowded = turns.max(axis=0) > 1
    ids[rows, phase.banks] = (BANKS + 1) * rows + np.where(crowded, np.arange(1, BANKS + 1), 0)[phase.banks]
    boxes = []
    for _, place in rectangles(ids):
        row, bank = place[:2]
        who, banks = f"t{phase.threads[row]}", phase.banks[row]
        if crowded[bank]:
            tip = f"{who}: bank {bank}, wavefront {turns[row, bank]}"
            boxes.append(Rectangle(place, str(turns[row, bank]), 3, tip))
        else:
            boxes.append(Rectangle(place, "", 2, f"{who}: banks {banks[0]} to {banks[-1]}"))
    heading = _wavefronts(phase.wavefronts) + f"; {count} phases" * (count > 1)
    names = [f"t{thread}" for thread in phase.threads.tolist()], [str(bank) * (bank % 4 == 0) for bank in range(BANKS)]
    grid = Grid.empty(*names, f"instruction {phase.step}, warp {phase.warp}, phase {phase.number}: {heading}")
    fills = {
        2: "words of one thread without a bank conflict",
        3: "bank conflict: threads access different words of the bank; the number is the wavefront of each",
    }
    return Panel("", grid, boxes, fills, cell=(12.9, 13.3, 13), padding=0, blank=True)


def _phase_data(phase: Phase) -> dict[str, Any]:
    return {
        "instruction": phase.step, "warp": phase.warp, "phase": phase.number, "wavefronts": phase.wavefronts,
        "threads": phase.threads.tolist(), "banks": phase.banks.tolist(), "turns": phase.turns.tolist(),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ layouts


def draw_layout(region: tc.Region, selection: Selection, compare_with: tc.TileLayout | None) -> Iterator[Figure]:
    """Yield a picture of the bank of each element of a box. The picture may compare two layouts of the buffer."""
    size, table = region.buffer.dtype.bits // 8, table_shape(region.extents)
    selection.of()
    rows, columns = selection.window(table)
    subtitle = (
        "One box = elements of a row whose bytes are contiguous, at most 16 bytes. Label: its banks (4 bytes each). "
        "Shade: its banks modulo 16."
    )
    other = _other_layout(region, compare_with)
    states = {"layout": region} if other is None else {"before": _with_layout(region, other), "after": region}
    panels, data = [], {}
    for name, state in states.items():
        offsets = elements_of(state, {})[0].reshape(table)[slice(*rows), slice(*columns)]
        heading = f"{name.capitalize()}: " * (other is not None) + _in_words(state.buffer.layout, size)
        panels.append(_layout_panel(heading, offsets, size, rows[0], columns[0]))
        data[name] = offsets.tolist()
    title = f"Which bank: {region.buffer.name}, elements of {size} bytes"
    yield Figure(title, subtitle, [[panel] for panel in panels], data=data)
    raise TooLargeError.of(f"{table[0]} rows of {table[1]} elements", table)


def _layout_panel(title: str, offsets: Any, size: int, row: int, column: int) -> Panel:
    """Return the panel of a layout; one box has contiguous bytes of a row within one aligned unit of 16 bytes."""
    step = np.diff(offsets, axis=1, prepend=offsets[:, :1] - 2 * size)
    begins = (step != size) | (offsets % CHUNK == 0)
    ids = np.cumsum(begins.ravel()).reshape(offsets.shape)
    boxes = []
    for _, place in rectangles(ids):
        first, last = int(offsets[place[0], place[1]]), int(offsets[place[0], place[3] - 1]) + size - 1
        banks = [first // BANK_BYTES % BANKS, last // BANK_BYTES % BANKS]
        label = str(banks[0]) if banks[0] == banks[1] else f"{banks[0]}-{banks[1]}"
        tip = f"row {place[0] + row}, column {place[1] + column}: bytes {first} to {last}"
        boxes.append(Rectangle(place, label, banks[0] // 4 % 4, tip))
    wide = (boxes[0].place[3] - boxes[0].place[1]) * size
    while wide > size and (offsets[:, 0] % wide).any():
        wide //= 2
    down = offsets[: max(1, LINE_BYTES // max(wide, BANK_BYTES)), 0]
    words = np.unique((down[:, None] // BANK_BYTES + np.arange(max(1, wide // BANK_BYTES))).ravel())
    turns = int(np.bincount(words % BANKS).max())
    below = f"{len(down)} threads down a column, {wide} bytes each: {_wavefronts(turns)}"
    fills = {f: f"banks {4 * f} to {4 * f + 3} and {4 * f + 16} to {4 * f + 19}" for f in range(4)}
    high, along = offsets.shape
    names = [str(row + at) for at in range(high)], [str(column + at) for at in range(along)]
    cell = (0, 64, max(12, min(18, MOST_HEIGHT / high)))
    return Panel(title, Grid(ids, ids, *names, "column"), boxes, fills, below=below, cell=cell)
