"""One copy run on the emulator: who touched which bytes, and where each byte came from.

The copy stands in the smallest kernel that it needs: both memories are filled, what completes it follows, and the destination is
shown. The source holds *marks*, digits of the number of each byte; what arrives is read back as that number. Nothing is taken
from the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy_emulator import Access, EmulatorExecutor, Transfer

from tilecopy_core.plugin import Iter, evaluate, shown, substitute, symbols_of

MOST_BYTES = 1 << 28
"""Of a memory that is run."""
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
    """

    name: str
    region: tc.Region
    start: tuple[int, ...]
    elements: Any
    touched: Touched

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
    def size(self) -> int:
        """Bytes of an element."""
        return self.request.dst.buffer.dtype.bits // 8

    def __str__(self) -> str:
        return f"{self.source} ({self.source.space}) to {self.destination} ({self.destination.space}), {self.request.dst.buffer.dtype}"


def places(layout: Any, shape: Sequence[int], coordinates: Sequence[Any], values: dict[Any, int]) -> dict[str, Any]:
    """Where coordinates (arrays, one a dimension) lie, in elements along each axis; of replica 0.

    Args:
        layout: of a buffer.
        shape: the buffer's.
        coordinates: may lie outside the shape where the layout has one stride a dimension.
        values: of its symbols.
    """
    if not isinstance(layout, tc.TileLayout):
        return {"m": sum(c * int(evaluate(s, values)) for c, s in zip(coordinates, layout.strides, strict=True))}
    flat: Any = 0
    for index, extent in zip(coordinates, shape, strict=True):
        flat = flat * extent + index
    found = {axis.name: np.zeros_like(flat) + int(evaluate(layout.offset_on(axis), values)) for axis in layout.axes}
    for each in reversed(layout.shard):
        found[each.axis.name] = found[each.axis.name] + flat % each.extent * int(evaluate(each.stride, values))
        flat = flat // each.extent
    if layout.swizzle is not None:
        found["m"] = layout.swizzle.apply(found["m"])
    return found


def grid_of(starts: Sequence[int], extents: Sequence[int]) -> list[Any]:
    """The coordinates of a box, flat and row-major."""
    return [start + each.ravel() for start, each in zip(starts, np.indices(tuple(extents)), strict=True)]


def elements_of(region: tc.Region, values: dict[Any, int]) -> Any:
    """First byte of each element of a region in its memory, -1 outside the array; in tensor memory ``2048 * lane + 4 * column``."""
    buffer, size = region.buffer, region.buffer.dtype.bits // 8
    shape = [int(evaluate(extent, values)) for extent in buffer.shape]
    coordinates = grid_of([int(evaluate(start, values)) for start in region.starts], region.extents)
    inside = np.ones(region.size, bool)
    for index, extent in zip(coordinates, shape, strict=True):
        inside &= (index >= 0) & (index < extent)
    found = places(buffer.layout, shape, [np.where(inside, index, 0) for index in coordinates], values)
    if buffer.space == "tmem":
        offsets = LANE_BYTES * found["TLane"] + found["TCol"] * size
    else:
        offsets = (found.get("m", np.zeros(region.size, int)) + int(evaluate(buffer.elem_offset, values))) * size
    return np.where(inside, offsets, NO_PLACE)


# ------------------------------------------------------------------------------------------------ the kernel


@attrs.define
class _Operand:
    """One side of the copy in the kernel: the array that the caller passes, the memory, and the buffer over it."""

    given: tc.Buffer
    pool: tc.Buffer | None
    region: tc.Region
    words: int


class _Kernel:
    """The kernel around a copy."""

    def __init__(self, request: tc.CopyRequest, variant: str) -> None:
        self.request, self.variant, self.record = request, variant, _record_of(variant)
        self.options = dict(request.options)
        spaces = set(request.spaces)
        if request.src.buffer.space == "tmem" or request.src.buffer.dtype.bits % 8:
            raise tc.RequestError(f"draw: {request}: copies out of tensor memory and elements of 4 bits are not run")
        self.mask = self.options.get("multicast")
        names = {option.name for option in self.record.options}
        self.far = "remote_cta_id" in names
        if self.options.get("cta_group", 1) != 1 or not isinstance(self.mask, (int, type(None))):
            raise tc.RequestError("draw: a pair of CTAs (cta_group=2) and a mask known at run time only are not run")
        self.ctas = (
            2 if self.far else 1 if self.mask is None else max(2, 1 << (self.mask.bit_length() - 1).bit_length())
        )
        self.threads = max(
            [128 if "tmem" in spaces else 32 if self.record.threads == "one" else 1, *self._thread_counts()]
        )
        self.k = k = tc.KernelBuilder("draw", threads=self.threads)
        self.values: dict[Any, int] = {}
        self.swap: dict[Any, Any] = {}
        self.numbers: list[int] = []
        self._declare()
        self.rank: Any = k.cluster_rank() if self.ctas > 1 else 0
        self.src, self.dst = self._operand("src", request.src), self._operand("dst", request.dst)
        self.mbarrier = k.mbarrier() if "mbar" in names or self.record.completion == "tcgen05_commit" else None

    def _thread_counts(self) -> Iterator[int]:
        """The scope's, and what the bounds of a thread's index say of the CTA."""
        yield self.request.scope.threads
        yield from (1 + (each.upper or 0) for each in self._symbols() if each.register == "%tid.x")

    def _symbols(self) -> list[Any]:
        """The integers that are known at run time, in order of first appearance."""
        found: dict[Any, None] = {}
        for region in (self.request.dst, self.request.src):
            for value in (*region.starts, *region.buffer.shape, *region.buffer.placed_by()):
                found.update(dict.fromkeys(sorted(symbols_of(value), key=str)))
        return list(found)

    def _declare(self) -> None:
        """Each symbol as a scalar with what is known of it; its value is the least that there is, of a size one that holds the box."""
        for number, each in enumerate(self._symbols()):
            step, low = each.multiple_of, each.lower if each.lower is not None else 0
            self.values[each] = -(-low // step) * step
            if not each.register:
                upper = 2**31 - 1 if each.upper is None else each.upper
                dtype = "int32" if low >= -(2**31) and upper < 2**31 else "int64"
                self.swap[each] = self.k.scalar(f"n{number}", dtype, multiple_of=step, lower=low, upper=upper)
        for region in (self.request.dst, self.request.src):
            for start, extent, size in zip(region.starts, region.extents, region.buffer.shape, strict=True):
                for each in symbols_of(size):
                    while evaluate(size, self.values) < evaluate(start, self.values) + extent:
                        self.values[each] += max(
                            each.multiple_of, self.values[each] // each.multiple_of * each.multiple_of
                        )
        self.numbers = [self.values[each] for each in self.swap]

    def _now(self, value: Any) -> Any:
        return substitute(value, self.swap)

    def _layout(self, layout: Any) -> Any:
        if not isinstance(layout, tc.TileLayout):
            return type(layout)(tuple(map(self._now, layout.shape)), tuple(map(self._now, layout.strides)))
        if not any(map(symbols_of, layout.strides)):
            return layout
        return layout.with_iters([Iter(each.extent, self._now(each.stride), each.axis) for each in layout.shard])

    def _operand(self, name: str, region: tc.Region) -> _Operand:
        k, old, size = self.k, region.buffer, region.buffer.dtype.bits // 8
        word, words = (f"uint{8 * size}", 1) if size <= 8 else ("uint64", size // 8)
        if old.space == "tmem":
            assert isinstance(old.layout, tc.TileLayout)
            columns = -(-old.layout.span(tc.TCol) * size // 4)
            made = k.tmem(old.shape, old.dtype, layout=old.layout, name=name)
            box = tc.Region(made, region.starts, region.extents)
            return _Operand(k.param(f"{name}_given", (128, columns), "uint32"), None, box, columns)
        last = evaluate(old.elem_offset, self.values)
        if isinstance(old.layout, tc.TileLayout):
            last += evaluate(old.layout.reach(), self.values)
        else:
            sides = zip(old.shape, old.layout.strides, strict=True)
            last += 1 + sum((evaluate(e, self.values) - 1) * evaluate(s, self.values) for e, s in sides)
        count = int(last) * words
        if count * size > MOST_BYTES:
            raise tc.RequestError(
                f"draw: {old} takes {count * size} bytes; at most {MOST_BYTES} are run. Draw the copy with a smaller array"
            )
        if old.space == "global":
            given = pool = k.param(name, (count,), word, align_bytes=old.align_bytes)
        elif old.space == "shared":
            given = k.param(f"{name}_given", (self.ctas, count), word)
            pool = k.shared(count, word, name=name, align_bytes=max(size, old.align_bytes))
        else:
            given = k.param(f"{name}_given", (self.threads, count), word)
            pool = k.local(count, word, name=name)
        made = tc.Buffer(
            tuple(map(self._now, old.shape)), old.dtype, space=old.space, name=pool.name, layout=self._layout(old.layout),
            memory=pool.memory, align_bytes=pool.align_bytes, elem_offset=self._now(old.elem_offset),
        )  # fmt: skip
        box = tc.Region(made, tuple(map(self._now, region.starts)), region.extents)
        return _Operand(given, pool, box, count)

    # ------------------------------------------------------------------------------------------- its statements

    def build(self) -> tc.BuiltKernel:
        """The whole kernel."""
        k, tensor = self.k, self.dst.pool is None
        if self.mbarrier is not None:
            with k.if_(k.thread_id() == 0):
                self.mbarrier.init(1)
                k.fence_mbarrier_init()
        columns = max(32, 1 << (self.dst.words - 1).bit_length())
        if tensor:
            with k.if_(k.warp_id() == 0):
                k.tcgen05_alloc(self.dst.region.buffer, columns=columns)
        self._move(self.src, fills=True)
        self._move(self.dst, fills=True)
        self._copy()
        if tensor:
            k.tcgen05_fence_after()
            for column in range(self.dst.words):
                word = k.local(1, "uint32")
                k.tcgen05_ld(word, self.dst.region.buffer, column=column)
                k.tcgen05_wait_ld()
                k.store(self.dst.given[k.thread_id(), column], k.load(word[0]))
            k.tcgen05_fence_before()
            k.cta_sync()
            with k.if_(k.warp_id() == 0):
                k.tcgen05_dealloc(self.dst.region.buffer, columns=columns)
        self._move(self.dst, fills=False)
        if self.ctas > 1:
            k.cluster_sync()
        return k.build(target=self.request.target, grid=self.ctas, cluster=self.ctas if self.ctas > 1 else None)

    def _move(self, side: _Operand, *, fills: bool) -> None:
        """Fill a memory of the SM with what is given, or give back what it holds."""
        k, pool = self.k, side.pool
        if pool is None or pool.space == "global":
            return
        if pool.space == "local":
            row = side.given[k.thread_id(), 0].buffer
            for at in range(side.words):
                there, here = row[k.thread_id(), at], pool[at]
                k.store(here, k.load(there)) if fills else k.store(there, k.load(here))
            return
        turns = -(-side.words // self.threads)
        with k.range(turns) as turn, k.if_(turn * self.threads + k.thread_id() < side.words):
            at = turn * self.threads + k.thread_id()
            there, here = side.given[self.rank, at], pool[at]
            k.store(here, k.load(there)) if fills else k.store(there, k.load(here))

    def _synchronize(self) -> None:
        self.k.cluster_sync() if self.ctas > 1 else self.k.cta_sync()

    def _copy(self) -> None:
        k, how, receivers = self.k, self.record.completion, [r for r in range(16) if (self.mask or 0) >> r & 1]
        known = ("barrier", "cp_async_group", "mbarrier", "bulk_group", "tcgen05_commit")
        if how not in known:
            raise tc.RequestError(
                f"draw: {self.variant} completes by {how!r}; copies are run that complete by {', '.join(known)}"
            )
        if how in ("mbarrier", "bulk_group", "tcgen05_commit"):
            k.fence_proxy_async()
        self._synchronize()
        if how == "mbarrier":
            assert self.mbarrier is not None
            with self._if(k.thread_id() == 0), self._receiving(receivers):
                self.mbarrier.arrive_expect_tx(self.request.dst.nbytes)
            self._synchronize()
        by_one = self.record.threads == "one"
        with (
            self._if(k.thread_id() == 0 if by_one or self._alone() else None),
            self._if(self.rank == 0 if receivers else None),
        ):
            self._issue()
            if how == "tcgen05_commit":
                assert self.mbarrier is not None
                k.tcgen05_commit(self.mbarrier)
            if how == "bulk_group":
                k.bulk_commit()
                k.bulk_wait(0)
        if how == "cp_async_group":
            k.cp_async_commit()
            k.cp_async_wait(0)
        if self.mbarrier is not None:
            with self._receiving(receivers):
                self.mbarrier.wait(0, cluster=self.ctas > 1)
        self._synchronize()

    def _alone(self) -> bool:
        """Whether the copy is one thread's: nothing of it says which."""
        return self.request.scope.kind == "thread" and not any(each.register == "%tid.x" for each in self._symbols())

    @contextmanager
    def _if(self, condition: Any) -> Iterator[None]:
        if condition is None or condition is True:
            yield
            return
        with self.k.if_(condition):
            yield

    def _receiving(self, ranks: Sequence[int]) -> Any:
        return self._if(reduce(or_, [self.rank == rank for rank in ranks]) if ranks else None)

    def _issue(self) -> None:
        request, options = self.request, dict(self.options)
        if self.mbarrier is not None and self.record.completion == "mbarrier":
            options["mbar"] = self.mbarrier
        if self.far:
            options["remote_cta_id"] = self.rank ^ 1
        copy = getattr(getattr(self.k, request.scope.kind), request.op)
        copy(self.dst.region, self.src.region, variant=self.variant, outside=request.outside, **options)


def _record_of(variant: str) -> tc.Variant:
    for plugin in tc.default_registry().plugins():
        if plugin.name == variant and plugin.variant is not None:
            return plugin.variant
    raise tc.PluginError(f"draw: variant {shown(variant)} is not to be had here")


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
    around = _Kernel(request, variant)
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
    sides = []
    for name, region, each in zip(("source", "destination"), (request.src, request.dst), touched, strict=True):
        start = tuple(int(evaluate(start, around.values)) for start in region.starts)
        ranked = attrs.evolve(each, step=np.unique(each.step, return_inverse=True)[1])
        sides.append(CopySide(name, region, start, elements_of(region, around.values), ranked))
    values = {str(each): value for each, value in around.values.items()}
    by_engine = around.record.threads == "one"
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


def _marks(around: _Kernel) -> Any:
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


def _touched(told: Sequence[Any], kernel: tc.BuiltKernel, around: _Kernel) -> tuple[tuple[Step, ...], list[Touched]]:
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
