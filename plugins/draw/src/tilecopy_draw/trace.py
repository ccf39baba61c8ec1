"""The trace of one copy on the emulator: which thread accessed which bytes, and where each byte came from.

A small kernel fills both memories, runs the copy, waits for its completion and stores the destination. Each byte of the source
holds a *mark*, one digit of the byte's number per run, so that each byte of the destination tells where it came from. The trace
does not use the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy.costs import BANK_BYTES
from tilecopy_emulator import AccessEvent, EmulatorExecutor, Transfer

from tilecopy_core.plugin import evaluate, symbols_of
from tilecopy_core.ptx.lines import instructions_in

from .harness import DrawHarness

NO_PLACE = -1
COLUMN_BYTES, LANE_BYTES = 4, 2048
"""Bytes of a column and of a lane of tensor memory, as the emulator's observer counts them."""
WARPS = 64
"""More warps than a CTA has."""
TOLD = ("instruction", "line", "thread", "cta", "byte", "bytes", "read")
_TOUCHED = np.dtype([(name, np.int64) for name in (*TOLD, "warp", "phase")])
"""The accesses of the copy to one memory, one row per access of a thread (or of an engine for it).

``instruction`` is the number of the instruction among those of the copy that access this memory; one that is executed twice counts
twice. ``line`` is its line in the PTX, ``thread`` the thread in the CTA, ``cta`` the CTA that has the memory, ``byte`` the first byte
from the start of the buffer's memory, and ``bytes`` their number. ``read`` of them come from the source, the others are filled. A
request of a warp is served in phases of 128 bytes.
"""
AXES = {
    "laneid": (1, 32),
    "warpid": (32, 32),
    "wid_in_wg": (32, 4),
    "tid_in_wg": (1, 128),
    "wgid": (128, 8),
    "tx": (1, 1024),
}
"""A thread axis -> ``(step, size)``: thread ``t`` is at ``t // step % size`` along it."""


def holders(offsets: Any, starts: Any, sizes: Any) -> Any:
    """Return the index of the byte range that covers each offset, or -1. Of ranges with equal starts, use the first."""
    if not len(starts):
        return np.full(len(offsets), NO_PLACE)
    begins, first = np.unique(starts, return_index=True)
    at = np.searchsorted(begins, offsets, "right") - 1
    rows = first[np.maximum(at, 0)]
    return np.where((at >= 0) & (offsets >= 0) & (offsets < begins[at] + sizes[rows]), rows, NO_PLACE)


def requests_of(touched: Any) -> Any:
    """Return the request number of each access. The accesses of one warp by one instruction are one request."""
    return touched.instruction * WARPS + touched.warp


@attrs.frozen
class ExecutedInstruction:
    """A frozen record of one executed instruction of the copy: its line in the PTX and its opcode."""

    line: int
    opcode: str


@attrs.frozen(eq=False)
class CopySide:
    """A frozen record of the source or the destination of a copy that was run.

    Attributes:
        name: ``source`` or ``destination``.
        region: the region of the request.
        start: the start of its box, with the values of the run.
        elements: first byte of each element of the box in its memory, row-major; -1 outside the array. Registers are numbered
            thread after thread; the offset in tensor memory is ``2048 * lane + 4 * column``.
        element_starts: each byte where an element begins, and that element. Several threads may hold an element in registers.
        accesses: the accesses of the copy to this side; empty for registers.
        by_threads: True if the side is global or shared memory that threads access.
    """

    name: str
    region: tc.Region
    start: tuple[int, ...]
    elements: Any
    element_starts: tuple[Any, Any]
    accesses: Any
    by_threads: bool

    @property
    def space(self) -> str:
        """The state space of the source or destination."""
        return self.region.buffer.space

    @property
    def label(self) -> str:
        """The name of the source or destination buffer."""
        return self.region.buffer.name

    def __str__(self) -> str:
        parts = [f"{s}:{s + e}" if e > 1 else str(s) for s, e in zip(self.start, self.region.extents, strict=True)]
        return f"{self.label}[{', '.join(parts)}]"

    def coordinate(self, element: int) -> tuple[int, ...]:
        """Return the buffer coordinate of an element of the box."""
        index = np.unravel_index(element, self.region.extents)
        return tuple(int(i) + s for i, s in zip(index, self.start, strict=True))

    def elements_in(self, offset: int, size: int) -> Any:
        """Return the box's elements whose first byte is in the ``size`` bytes from ``offset``."""
        return np.flatnonzero((self.elements >= offset) & (self.elements < offset + size))

    def element_at(self, places: Any) -> Any:
        """Return the first element that begins at each byte, or -1 if none begins there."""
        rows = holders(places, self.element_starts[0], np.ones(len(self.element_starts[0]), np.int64))
        return np.append(self.element_starts[1], NO_PLACE)[rows]


@attrs.frozen(eq=False)
class CopyTrace:
    """A frozen record of what a copy did on the emulator.

    Attributes:
        request: the copy.
        variant: the variant that lowered it.
        partition: the variant's partition, used only for captions.
        values: the value of each integer that is known only at run time, by its name.
        ptx: the PTX of the kernel.
        steps: the instructions of the copy that access memory, in the order of execution; for a copy between registers, all its
            instructions, in the order of the text.
        source, destination: its sides.
        arrival_map: for each byte of the destination's memory (of the first CTA that receives), the byte of the source's memory that
            arrived there, or -1.
        threads: the number of threads of the CTA.
        by_engine: True if one thread issues the copy and a copy engine moves the bytes.
    """

    request: tc.CopyRequest
    variant: str
    partition: Any
    values: dict[str, int]
    ptx: str
    steps: tuple[ExecutedInstruction, ...]
    source: CopySide
    destination: CopySide
    arrival_map: Any
    threads: int
    by_engine: bool

    @property
    def sides(self) -> tuple[CopySide, CopySide]:
        """A tuple of the source and the destination of the copy."""
        return self.source, self.destination

    @property
    def size(self) -> int:
        """The number of bytes of an element."""
        return self.request.dst.buffer.dtype.bits // 8

    @property
    def source_of(self) -> Any:
        """For each element of the destination's box, the source element that arrived there, or -1 if none did."""
        offsets = self.destination.elements
        return np.where(offsets >= 0, self.source.element_at(self.arrival_map[np.maximum(offsets, 0)]), NO_PLACE)

    def __str__(self) -> str:
        return f"{self.source} ({self.source.space}) to {self.destination} ({self.destination.space}), {self.request.dst.buffer.dtype}"


def elements_of(region: tc.Region, values: dict[Any, int], threads: int = 0) -> tuple[Any, tuple[Any, Any]]:
    """Return ``elements`` and ``element_starts`` of a :class:`CopySide`. A fragment belongs to ``threads`` threads."""
    buffer, size = region.buffer, region.buffer.dtype.bits // 8
    inside, index = np.ones(region.size, bool), []
    for start, extent, along in zip(region.starts, buffer.shape, np.indices(region.extents), strict=True):
        index.append(int(evaluate(start, values)) + along.ravel())
        inside &= (index[-1] >= 0) & (index[-1] < int(evaluate(extent, values)))
    names = [tc.symbol(f"index_{dim}", lower=0) for dim in range(len(index))]
    known: dict[Any, Any] = dict(values)
    for name, along in zip(names, index, strict=True):
        known |= dict.fromkeys(symbols_of(name), np.where(inside, along, 0))
    places_by_axis = buffer.layout.apply(*names, shape=buffer.shape)
    axis_places = {axis: evaluate(place, known) for axis, place in places_by_axis.items()}
    if buffer.space == "local":
        axis_places = {axis: np.broadcast_to(at, region.size) for axis, at in axis_places.items()}
        return _fragment_places(buffer, axis_places, inside, threads)
    if buffer.space == "tmem":
        offsets = LANE_BYTES * axis_places.get("TLane", 0) + axis_places.get("TCol", 0) * size
    else:
        offsets = (axis_places.get("m", 0) + evaluate(buffer.storage_offset, values)) * size
    elements = np.where(inside, offsets, NO_PLACE)
    return elements, (elements[inside], np.flatnonzero(inside))


def _fragment_places(
    buffer: tc.Buffer, axis_places: dict[str, Any], inside: Any, threads: int
) -> tuple[Any, tuple[Any, Any]]:
    """Return :func:`elements_of` for registers. If the layout has no lane axis or no warp axis, each lane or warp has a copy."""
    layout: Any = buffer.layout
    axis_places = (
        dict.fromkeys(("m", *(it.axis.name for it in layout.replica)), np.zeros(len(inside), np.int64)) | axis_places
    )
    for replica_iter in layout.replica:
        along = replica_iter.stride * np.arange(replica_iter.extent)[:, None, None]
        axis_places = {
            name: (at + along * (name == replica_iter.axis.name)).reshape(-1, len(inside))
            for name, at in axis_places.items()
        }
    registers = np.atleast_2d(axis_places.pop("m"))
    holds = np.ones((*registers.shape, threads), bool) & inside[:, None]
    for name, at in axis_places.items():
        step, most = AXES[name]
        holds &= np.arange(threads) // step % most == at[..., None]
    replica, element, thread = np.nonzero(holds)
    places = (thread * buffer.span_elems + registers[replica, element]) * (buffer.dtype.bits // 8)
    elements = np.full(len(inside), NO_PLACE)
    elements[element[::-1]] = places[::-1]
    return elements, (places, element)


# ------------------------------------------------------------------------------------------------ the run


def run_copy(plan: tc.Plan) -> CopyTrace:
    """Run a copy with marked bytes on the emulator, and return the trace."""
    request, variant = plan.request, plan.variant
    harness = DrawHarness(request, variant)
    kernel = harness.build()
    size, threads = request.src.buffer.dtype.bits // 8, harness.kernel.threads
    regions, thread_count = (request.src, request.dst), min(threads, request.scope.threads)
    placed = [elements_of(region, harness.values, thread_count) for region in regions]
    marked = np.unique(placed[0][1][0][:, None] + np.arange(size))
    numbers = np.arange(1, len(marked) + 1)
    events: list[Any] = []
    answers: list[Any] = []
    digits = max(1, -(-len(marked).bit_length() // 8))
    # the last run has the complement of the first digit: a byte that does not change is not a mark
    for turn in range(digits + 1):
        digit = numbers >> 8 * (turn % digits) & 255
        source, answer = (_array(harness.memories[side].array) for side in ("src", "dst"))
        _rows(source, request.src)[:, marked] = digit if turn < digits else 255 - digit
        EmulatorExecutor(observer=None if turn else events.append).launch(kernel, [*harness.numbers, source, answer])
        answers.append(_rows(answer, request.dst).astype(np.int64))
    number = sum(answer << 8 * turn for turn, answer in enumerate(answers[:-1]))
    came = (answers[-1] == 255 - answers[0]) & (number > 0) & (number <= len(marked))
    arrived = np.append(NO_PLACE, marked)[np.where(came, number, 0)]
    steps, touched = _copy_accesses(events, kernel, harness)
    if request.spaces == ("local", "local"):
        steps = _register_steps(kernel, harness)
    receiver = int(touched[1].cta.min(initial=harness.copy.cluster - 1)) if request.dst.buffer.space == "shared" else 0
    by_engine = harness.record.threads == "one"
    sides: list[CopySide] = []
    names = ("source", "destination")
    for name, region, (elements, element_starts), accesses in zip(names, regions, placed, touched, strict=True):
        start = tuple(int(evaluate(start, harness.values)) for start in region.starts)
        by_threads = region.buffer.space in ("global", "shared") and len(accesses) > 0 and not by_engine
        sides.append(CopySide(name, region, start, elements, element_starts, accesses, by_threads))
    values = {str(symbol): value for symbol, value in harness.values.items()}
    trace = CopyTrace(
        request, variant, plan.partition, values, kernel.ptx, steps, sides[0], sides[1], arrived[receiver], threads, by_engine
    )  # fmt: skip
    _check(trace)
    return trace


def _array(given: tc.Buffer) -> Any:
    """Return a zeroed array for a parameter, aligned to 256 bytes."""
    dtype = np.dtype(str(given.dtype))
    size = int(np.prod(given.shape)) * dtype.itemsize
    raw = np.zeros(size + 256, np.uint8)
    first = -raw.ctypes.data % 256
    return raw[first : first + size].view(dtype).reshape(given.shape)


def _rows(array: Any, region: tc.Region) -> Any:
    """Return the bytes of an array, one row per memory; only global memory is not one per CTA."""
    raw = array.reshape(-1).view(np.uint8)
    return raw.reshape(1 if region.buffer.space == "global" else len(array), -1)


def _is_of_copy(kernel: tc.BuiltKernel, harness: DrawHarness, line: int) -> bool:
    """Return True if a line of the PTX belongs to the copy."""
    return kernel.source_location(line).startswith(f"{harness.record.name}: {harness.request.op} ")


def _register_steps(kernel: tc.BuiltKernel, harness: DrawHarness) -> tuple[ExecutedInstruction, ...]:
    """Return the copy's instructions in the order of the text, because the emulator's observer sees only memory accesses."""
    return tuple(
        ExecutedInstruction(number, line.opcode)
        for number, line in instructions_in(kernel.ptx)
        if _is_of_copy(kernel, harness, number)
    )


def _copy_accesses(
    told: Sequence[Any], kernel: tc.BuiltKernel, harness: DrawHarness
) -> tuple[tuple[ExecutedInstruction, ...], list[Any]]:
    """Return the copy's instructions, and the accesses of each side by CTA 0 and one instance of its scope."""
    request, threads = harness.request, harness.kernel.threads
    taking_part = threads if request.scope.kind == "thread" else min(threads, request.scope.threads)
    named = [harness.memories[side].buffer.name for side in ("src", "dst")]
    tensor = [event.offsets.min() for event in told if isinstance(event, AccessEvent) and event.space == "tensor"]
    # the column that was allocated: all of them are filled
    first = int(min(tensor, default=0)) // COLUMN_BYTES * COLUMN_BYTES
    steps: dict[tuple[int, int], ExecutedInstruction] = {}
    executed: dict[int, Any] = {}
    rows: tuple[list[Any], list[Any]] = ([], [])
    for event in told:
        parts = _sides(event, named)
        chosen = event.threads < taking_part  # of CTA 0
        if not (parts and chosen.any() and _is_of_copy(kernel, harness, event.line)):
            continue
        mine = event.threads[chosen]
        # one instruction that writes several CTAs has one event per CTA
        slots = parts[-1][1].ctas[chosen] * threads + mine
        counted = executed.setdefault(event.line, np.zeros(harness.copy.cluster * threads, np.int64))
        turns = counted[slots]
        counted[np.unique(slots)] += 1
        for turn in np.unique(turns).tolist():
            steps.setdefault((event.line, turn), ExecutedInstruction(event.line, event.opcode))
        order = {key: number for number, key in enumerate(steps)}
        number = np.array([order[event.line, turn] for turn in turns.tolist()])
        for which, side in parts:
            rows_of_side = np.recarray(len(mine), _TOUCHED)
            rows_of_side.instruction, rows_of_side.line = number, event.line
            rows_of_side.thread, rows_of_side.cta = mine, side.ctas[chosen]
            rows_of_side.byte = side.offsets[chosen] - (first if side.space == "tensor" else 0)
            rows_of_side.bytes = event.bytes
            rows_of_side.read = event.read[chosen] if isinstance(event, Transfer) else event.bytes
            rows_of_side.warp, rows_of_side.phase = mine // 32, mine % 32 * max(1, event.bytes // BANK_BYTES) // 32
            rows[which].append(rows_of_side)
    touched = [np.concatenate(side).view(np.recarray) if side else np.recarray(0, _TOUCHED) for side in rows]
    for side in touched:  # instructions count on each side by itself
        side.instruction = np.unique(side.instruction, return_inverse=True)[1]
    return tuple(steps.values()), touched


def _sides(event: AccessEvent | Transfer, named: Sequence[str]) -> list[tuple[int, Any]]:
    """Return the sides of the copy (0 is the source) that an event accesses, each with its offsets."""
    if isinstance(event, Transfer):
        return [(0, event.source), (1, event.destination)]
    which = 0 if event.kind == "load" else 1
    return [(which, event)] if event.array.removeprefix("smem_") == named[which] or event.space == "tensor" else []


def _check(trace: CopyTrace) -> None:
    """Raise TilecopyError if an element that has a place on both sides did not arrive, because the PTX is then wrong."""
    source, (places, elements), size = trace.source, trace.destination.element_starts, trace.size
    inside = source.elements[elements] >= 0
    places, elements = places[inside], elements[inside]
    arrived = trace.arrival_map[places[:, None] + np.arange(size)]
    first = arrived[:, 0]  # elements at the same place count as the first of them
    whole = (arrived == first[:, None] + np.arange(size)).all(axis=1) & (first >= 0)
    wrong = np.unique(elements[(source.element_at(first) != source.element_at(source.elements[elements])) | ~whole])
    if len(wrong):
        raise tc.TilecopyError(
            f"draw: {trace.variant} moves {len(wrong)} of {len(np.unique(elements))} elements to a wrong location in "
            f"{trace.request}; the first is element {wrong[0]} of the box"
        )
