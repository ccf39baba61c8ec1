"""One copy run on the emulator: who touched which bytes, and where each byte came from.

The copy stands in the smallest kernel that it needs: both memories are filled, what completes it follows, and the destination is
shown. The source holds *marks*, digits of the number of each byte; what arrives is read back as that number. Nothing is taken
from the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy_emulator import Access, EmulatorExecutor, Transfer

from tilecopy_core.plugin import evaluate, symbols_of

from .around import Around

NO_PLACE = -1
COLUMN_BYTES, LANE_BYTES = 4, 2048
"""Of tensor memory, as the emulator's observer counts its bytes."""


@attrs.frozen(eq=False)
class Touched:
    """What the copy's instructions did to one memory, a row each time that a thread (or an engine for it) touched bytes.

    Attributes:
        step: number of the instruction among those of the copy that touch this memory; one that is executed twice counts twice.
        line: of the PTX text.
        thread: in the CTA.
        cta: whose memory it is.
        offset: first byte, from the start of the buffer's memory.
        size: bytes.
        read: bytes of the source that these are; less than ``size`` where a fill stands for the others.
    """

    step: Any
    line: Any
    thread: Any
    cta: Any
    offset: Any
    size: Any
    read: Any

    def __len__(self) -> int:
        return len(self.step)

    @property
    def warp(self) -> Any:
        """Of each row's thread."""
        return self.thread // 32

    @property
    def request(self) -> Any:
        """A number for each instruction of a warp: 64 times the step, and the warp."""
        return self.step * 64 + self.warp

    def row(self, number: int) -> tuple[int, ...]:
        """One row, its values in the order of the attributes."""
        return tuple(int(value[number]) for value in attrs.astuple(self, recurse=False))

    def only(self, chosen: Any) -> Touched:
        """Some of the rows."""
        return Touched(*(value[chosen] for value in attrs.astuple(self, recurse=False)))


@attrs.frozen
class Step:
    """One executed instruction of the copy: its line of the PTX text, and its opcode."""

    line: int
    opcode: str


@attrs.frozen(eq=False)
class CopySide:
    """One side of a copy that was run.

    Attributes:
        name: ``source`` or ``destination``.
        region: of the request.
        start: where its box begins, with the values of the run.
        elements: first byte of each element of the box in its memory, row-major; -1 outside the array.
        touched: what the copy did to it; nothing of registers.
        by_threads: it is global or shared memory, and threads access it.
    """

    name: str
    region: tc.Region
    start: tuple[int, ...]
    elements: Any
    touched: Touched
    by_threads: bool

    @property
    def space(self) -> str:
        """Of its memory."""
        return self.region.buffer.space

    @property
    def label(self) -> str:
        """The buffer's name."""
        return self.region.buffer.name

    def __str__(self) -> str:
        parts = [f"{s}:{s + e}" if e > 1 else str(s) for s, e in zip(self.start, self.region.extents, strict=True)]
        return f"{self.label}[{', '.join(parts)}]"

    def coordinate(self, element: int) -> tuple[int, ...]:
        """The coordinate of an element of the box in its buffer."""
        index = np.unravel_index(element, self.region.extents)
        return tuple(int(i) + s for i, s in zip(index, self.start, strict=True))

    def elements_in(self, offset: int, size: int) -> Any:
        """The elements of the box that begin in some bytes."""
        return np.flatnonzero((self.elements >= offset) & (self.elements < offset + size))


@attrs.frozen(eq=False)
class Movement:
    """What a copy did.

    Attributes:
        request: the copy.
        variant: who lowered it.
        partition: the variant's, for what a caption tells.
        values: of each integer that is known at run time only, by its name.
        ptx: the kernel's text; steps name its lines.
        steps: the copy's instructions in the order of their execution.
        source, destination: its sides.
        arrived: for each byte of the destination (of the first CTA that receives) the byte of the source's box that lies there, or -1; of
            registers the bytes follow each other by thread and register, and from registers it is the byte counted so.
        threads: of the CTA.
        by_engine: one thread issues the copy, and an engine moves the bytes.
    """

    request: tc.CopyRequest
    variant: str
    partition: Any
    values: dict[str, int]
    ptx: str
    steps: tuple[Step, ...]
    source: CopySide
    destination: CopySide
    arrived: Any
    threads: int
    by_engine: bool

    @property
    def sides(self) -> tuple[CopySide, CopySide]:
        """Source and destination."""
        return self.source, self.destination

    @property
    def fragment(self) -> CopySide:
        """The side in registers."""
        return self.source if self.source.space == "local" else self.destination

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.request.dst.buffer.dtype.bits // 8

    def __str__(self) -> str:
        return f"{self.source} ({self.source.space}) to {self.destination} ({self.destination.space}), {self.request.dst.buffer.dtype}"


def elements_of(region: tc.Region, values: dict[Any, int]) -> Any:
    """First byte of each element of a region in its memory, -1 outside the array; in tensor memory ``2048 * lane + 4 * column``."""
    buffer, size = region.buffer, region.buffer.dtype.bits // 8
    inside, index = np.ones(region.size, bool), []
    for start, extent, along in zip(region.starts, buffer.shape, np.indices(region.extents), strict=True):
        index.append(int(evaluate(start, values)) + along.ravel())
        inside &= (index[-1] >= 0) & (index[-1] < int(evaluate(extent, values)))
    names = [tc.symbol(f"index_{dim}", lower=0) for dim in range(len(index))]
    known = values | {
        symbol: np.where(inside, each, 0)
        for name, each in zip(names, index, strict=True)
        for symbol in symbols_of(name)
    }
    found = {axis: evaluate(place, known) for axis, place in buffer.layout.apply(*names, shape=buffer.shape).items()}
    if buffer.space == "tmem":
        offsets = LANE_BYTES * found["TLane"] + found["TCol"] * size
    else:
        offsets = (found.get("m", 0) + evaluate(buffer.elem_offset, values)) * size
    return np.where(inside, offsets, NO_PLACE)


# ------------------------------------------------------------------------------------------------ the run


def run_copy(request: tc.CopyRequest, variant: str, partition: Any = None) -> Movement:
    """Run a copy with marks on the emulator.

    Args:
        request: of a plan.
        variant: who lowers it.
        partition: of the plan, kept for captions; the run does not look at it.

    Raises:
        RequestError: the copy needs what the kernel around it has not, or its arrays are too large.
        TilecopyError: what the emulator finds wrong; or bytes arrive elsewhere than the copy says.
    """
    around = Around(request, variant)
    kernel = around.build()
    marks = _marks(around)
    told: list[Any] = []
    answers: list[Any] = []
    digits = max(1, -(-int(marks.max(initial=1)).bit_length() // 8))
    for turn in range(digits + 1):  # the last has the complement of the first digit: what does not change is no mark
        digit = marks >> 8 * (turn % digits) & 255
        source, answer = _array(around.src.given), _array(around.dst.given)
        _bytes(source)[:] = np.where(marks > 0, digit if turn < digits else 255 - digit, 0)
        EmulatorExecutor(observer=None if turn else told.append).launch(kernel, [*around.numbers, source, answer])
        answers.append(_bytes(answer).astype(np.int64))
    number = sum(answer << 8 * turn for turn, answer in enumerate(answers[:-1]))
    arrived = np.where(answers[-1] == 255 - answers[0], number - 1, NO_PLACE)
    if request.dst.buffer.space == "tmem":
        whole = np.full((128, LANE_BYTES), NO_PLACE)
        whole[:, : COLUMN_BYTES * around.dst.words] = arrived.reshape(128, -1)
        arrived = whole.ravel()
    steps, touched = _touched(told, kernel, around)
    if request.dst.buffer.space == "shared":
        arrived = arrived.reshape(around.ctas, -1)[int(touched[1].cta.min(initial=around.ctas - 1))]
    by_engine = around.record.threads == "one"
    sides = []
    for name, region, each in zip(("source", "destination"), (request.src, request.dst), touched, strict=True):
        start = tuple(int(evaluate(start, around.values)) for start in region.starts)
        ranked = attrs.evolve(each, step=np.unique(each.step, return_inverse=True)[1])
        by_threads = region.buffer.space in ("global", "shared") and len(each) > 0 and not by_engine
        sides.append(CopySide(name, region, start, elements_of(region, around.values), ranked, by_threads))
    values = {str(each): value for each, value in around.values.items()}
    found = Movement(
        request, variant, partition, values, kernel.ptx, steps, sides[0], sides[1], arrived, around.threads, by_engine
    )
    _check(found)
    return found


def _array(given: tc.Buffer) -> Any:
    """A zeroed array for a parameter, at a multiple of 256 bytes."""
    dtype = np.dtype(str(given.dtype))
    size = int(np.prod(given.shape)) * dtype.itemsize
    raw = np.zeros(size + 256, np.uint8)
    first = -raw.ctypes.data % 256
    return raw[first : first + size].view(dtype).reshape(given.shape)


def _bytes(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)


def _marks(around: Around) -> Any:
    """For each byte of the source's array the number of its mark, from 1; 0 outside the box."""
    request, given = around.request, around.src.given
    size = request.src.buffer.dtype.bits // 8
    total = int(np.prod(given.shape)) * given.dtype.bits // 8
    if request.src.buffer.space == "local":
        return np.arange(1, total + 1)
    ctas = around.ctas if request.src.buffer.space == "shared" else 1
    marks = np.zeros((ctas, total // ctas), np.int64)
    first = elements_of(request.src, around.values)
    inside = first >= 0
    numbers = np.arange(1, len(first) * size + 1).reshape(-1, size)
    marks[:, first[inside][:, None] + np.arange(size)] = numbers[inside]
    return marks.ravel()


def _touched(told: Sequence[Any], kernel: tc.BuiltKernel, around: Around) -> tuple[tuple[Step, ...], list[Touched]]:
    """The copy's own accesses and transfers of CTA 0, and of one instance of its scope."""
    request, threads = around.request, around.threads
    taking_part = threads if request.scope.kind == "thread" else min(threads, request.scope.threads)
    named = [side.pool.name if side.pool is not None else "" for side in (around.src, around.dst)]
    steps: dict[tuple[int, int], int] = {}
    opcodes: list[Step] = []
    counts: dict[int, Any] = {}
    rows: tuple[list[Any], list[Any]] = ([], [])
    column, last = 0, None
    for each in told:
        if isinstance(each, Access) and each.array.endswith("dst_address") and each.kind == "load":
            column = int(each.raw.view(np.uint32)[0, 0]) & 0xFFFF
        if not kernel.origin_of(each.line).startswith(f"{around.variant}: {request.op} "):
            continue
        parts = _sides(each, named)
        chosen = each.threads < taking_part  # of CTA 0
        if not parts or not chosen.any():
            continue
        mine = each.threads[chosen]
        counted = counts.setdefault(each.line, np.zeros(threads, np.int64))
        again = _same_instruction(last, each)  # one that arrives at several CTAs is told once for each
        turns = counted[mine] - again
        counted[np.unique(mine)] += 1 - again
        last = each
        number = np.zeros(len(mine), np.int64)
        for turn in np.unique(turns).tolist():
            if (each.line, turn) not in steps:
                steps[each.line, turn] = len(opcodes)
                opcodes.append(Step(each.line, each.opcode))
            number[turns == turn] = steps[each.line, turn]
        read = each.read[chosen] if isinstance(each, Transfer) else np.full(len(mine), each.bytes)
        for which, side in parts:
            offsets = side.offsets[chosen] - (COLUMN_BYTES * column if side.space == "tensor" else 0)
            size = np.full(len(mine), each.bytes)
            rows[which].append((number, np.full(len(mine), each.line), mine, side.ctas[chosen], offsets, size, read))
    none = [np.zeros(0, np.int64)] * 7
    columns = [[np.concatenate(part) for part in zip(*side, strict=True)] if side else none for side in rows]
    return tuple(opcodes), [Touched(*each) for each in columns]


def _sides(each: Access | Transfer, named: Sequence[str]) -> list[tuple[int, Any]]:
    """Which sides of the copy (0 the source) an event touches, and where."""
    if isinstance(each, Transfer):
        return [(0, each.source), (1, each.destination)]
    which = 1 if each.kind == "store" else 0
    return [(which, each)] if each.array.removeprefix("smem_") == named[which] or each.space == "tensor" else []


def _same_instruction(before: Any, each: Any) -> bool:
    if not (isinstance(before, Transfer) and isinstance(each, Transfer) and before.line == each.line):
        return False
    return bool(
        np.array_equal(before.threads, each.threads)
        and np.array_equal(before.source.offsets, each.source.offsets)
        and not np.array_equal(before.destination.ctas, each.destination.ctas)
    )


def _check(movement: Movement) -> None:
    """Raise TilecopyError unless each element that has a place on both sides has arrived: what is emitted would be wrong."""
    if "local" in movement.request.spaces:  # which register holds which element is what the picture asks
        return
    source, destination, size = movement.source.elements, movement.destination.elements, movement.size
    number = np.flatnonzero((source >= 0) & (destination >= 0))
    last = {
        place: element for element, place in enumerate(source.tolist())
    }  # its mark is what elements on one address have
    first = size * np.array([last[place] for place in source[number].tolist()], np.int64)
    bytes_ = np.arange(size)
    wrong = (movement.arrived[destination[number][:, None] + bytes_] != first[:, None] + bytes_).any(axis=1)
    if wrong.any():
        raise tc.TilecopyError(
            f"draw: {movement.variant} moves {int(wrong.sum())} of {len(number)} elements elsewhere than {movement.request} says; the "
            f"first is element {int(number[np.argmax(wrong)])} of the box"
        )
