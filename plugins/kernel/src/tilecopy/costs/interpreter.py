"""An abstract interpreter of a copy's PTX. It counts instructions and memory traffic of all threads of the scope.

It computes addresses and the conditions on them. Unlike the emulator, it does not load, store or wait. A value from memory is
unknown, and so is a value computed from it. A line that an unknown condition guards counts in full. The core's table of
instructions says what an instruction reads, writes and moves. One that is not in it may do anything.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import attrs
import numpy as np

from tilecopy_core.description import WARP_THREADS
from tilecopy_core.integers import evaluate
from tilecopy_core.ptx import Label, Line, LineAccess, Register, TensorPlace, names_in

from .traffic import LINE_BYTES, SECTOR_BYTES, distinct_sectors, distinct_wavefronts

AHEAD = 4
"""The loads of a thread in flight while each is packed into a word with the one before it."""
WIDEST_BYTES = 16
"""The widest access of a thread."""
MERGED_BYTES = {"shared": 2, "global": 4}
"""The fewest bytes of an access that machine code merges with its neighbours, up to four accesses."""
GLOBAL_STEP_BYTES, SHARED_STEP_BYTES = 1 << 40, 1 << 20
"""Buffers begin at multiples of these in global and in shared memory, so that a generic address shows its state space."""
TRAFFIC = ("global", "shared")
"""The state spaces whose traffic is counted."""
ASYNC = ("cp.async.ca.", "cp.async.cg.")
"""The beginnings of the opcodes with which each thread copies asynchronously."""
WIDEST_REQUEST_BYTES = 32
"""The most bytes that a thread moves in one request."""
_COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "mov": lambda a: a,
    "cvt": lambda a: a,
    "cvta": lambda a: a,
    "mapa": lambda a, rank: a,
    "neg": operator.neg,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "mad": lambda a, b, c: a * b + c,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "div": operator.floordiv,
    "rem": operator.mod,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.invert,
    "min": np.minimum,
    "max": np.maximum,
    "selp": lambda a, b, chosen: np.where(chosen, a, b),
    "bfe": lambda a, at, count: (a >> at) & ((1 << count) - 1),
}
"""The instructions that the builder writes for addresses and conditions. The result of others, such as ``mul.hi``, is unknown."""


@attrs.define
class Counters:
    """The counts that an interpreter adds up line by line. :class:`~.counts.CopyCounts` are computed from these counts.

    Attributes:
        accesses: bytes of an access -> number of such accesses by threads.
        shared_requests: the number of requests to shared memory.
        data_paths: the paths that move bytes: ``registers``, ``cp.async``, ``bulk``, ``tensor``.
        touched: arrays of the numbers of touched sectors.
        batch_bytes: the most bytes that loads request before the first of them is needed.
        unknown: state space, ``global`` or ``shared`` -> the opcodes whose traffic there is not counted, because their addresses, bytes or
            number of executions are unknown.
    """

    instructions: int = 0
    max_instructions_per_thread: int = 0
    requests: int = 0
    accesses: dict[int, int] = attrs.field(factory=dict)
    sectors: int = 0
    lines: int = 0
    wavefronts: int = 0
    merged_sectors: int = 0
    merged_wavefronts: int = 0
    shared_requests: int = 0
    bulk_copies: int = 0
    bulk_rows: int = 0
    split_sectors: int = 0
    data_paths: set[str] = attrs.field(factory=set)
    touched: list[Any] = attrs.field(factory=list)
    batch_bytes: int = 0
    upper_bound: bool = False
    unknown: dict[str, set[str]] = attrs.field(factory=lambda: {space: set() for space in TRAFFIC})


class CopyInterpreter:
    """An interpreter of a copy's PTX lines. The constructor interprets all lines. ``counters`` has the result.

    Args:
        lines: instructions and labels, in order.
        known: register or special register -> its value before the copy: an integer for each thread, or the tensor map at
            this address.
        symbols: values of the symbols in tensor maps.
        tids: index in the CTA of each thread of the scope.
        aside: base addresses of shared memory that holds no operand, such as a barrier. Accesses to it count only as instructions.
    """

    def __init__(
        self,
        lines: Sequence[Line | Label | str],
        known: Mapping[str, Any],
        symbols: Mapping[Any, int],
        tids: Any,
        aside: Collection[int] = (),
    ) -> None:
        self.counters = Counters()
        self._aside = aside
        self._lines, self._symbols, self._given = lines, symbols, known
        self._values = dict(known)
        self._warps, self._lanes = tids // WARP_THREADS, tids % WARP_THREADS
        self._active: Any = np.ones(tids.shape, bool)
        self._left: dict[str, Any] = {}
        self._executed = np.zeros(tids.shape, np.int64)
        self._batch = self._latest_bytes = 0
        self._arriving: set[str] = set()
        self._words: dict[tuple[Any, ...], list[tuple[Any, Any, Any]]] = {}
        self._backward = _loops(lines)
        self._repeats = 0  # loops around a line whose iteration count is unknown
        self._go(0, len(lines))
        self._merge()
        self.counters.max_instructions_per_thread = int(self._executed.max(initial=0))
        self._close_batch()

    # ------------------------------------------------------------------------------------------- control

    def _go(self, first: int, end: int) -> None:
        number = first
        while number < end:
            line = self._lines[number]
            if isinstance(line, Label):
                self._merge()
                if line.name in self._left:
                    self._active = self._active | self._left.pop(line.name)
                if number in self._backward:
                    if self._active.any():
                        self._turns(number, self._backward[number])
                    number = self._backward[number]
            elif isinstance(line, Line) and not line.opcode.startswith("."):
                self._line(line)
            number += 1

    def _turns(self, head: int, branch: int) -> None:
        """Run all iterations of a loop at once: its counter gets one more dimension, and loop-carried values are unknown."""
        counter, turns = self._counter(branch)
        body = [line for line in self._lines[head + 1 : branch] if isinstance(line, Line)]
        self._forget(_loop_carried(body) - ({counter} if turns else set()))
        if not turns:
            self.counters.upper_bound = True
            self._repeats += 1
        around = self._active
        self._active = np.broadcast_to(around, (max(1, turns), *around.shape))
        self._go(head + 1, branch + 1)
        self._active = around
        self._repeats -= not turns
        for name, value in self._values.items():
            if isinstance(value, np.ndarray) and value.ndim > around.ndim:
                self._values[name] = value[-1]

    def _counter(self, branch: int) -> tuple[str, int]:
        """Return the counter of a loop that ends in ``add``, ``setp.lt`` and ``bra``, and its iteration count, 0 if unknown.

        Afterwards the counter has its values in all iterations.
        """
        last = [line for line in self._lines[max(0, branch - 2) : branch + 1] if isinstance(line, Line)]
        if len(last) < 3:
            return "", 0
        step, compare, back = last
        counts = step.opcode.startswith("add.") and compare.opcode.startswith("setp.lt.") and step.guard is None
        if not counts or back.unless or str(back.guard) != str(compare.operands[0]):
            return "", 0
        counter = str(step.operands[0])
        start, stop, by = self._of(counter), self._of(compare.operands[2]), self._of(step.operands[2])
        is_known = start is not None and stop is not None and isinstance(by, int) and by > 0
        if not is_known or {str(step.operands[1]), str(compare.operands[1])} != {counter}:
            return "", 0
        numbers = np.unique(-(-(stop - start) // by))
        if len(numbers) != 1:
            return "", 0
        turns = max(1, int(numbers[0]))
        self._values[counter] = start + by * np.arange(turns).reshape(turns, *[1] * self._active.ndim)
        return counter, turns

    def _line(self, line: Line) -> None:
        if not self._active.any():
            return
        guard = True if line.guard is None else self._of(line.guard)
        if guard is None:
            self.counters.upper_bound |= not line.is_branch or line.operands[0] in self._labels_ahead(line)
            guard = True
        elif line.unless:
            guard = ~np.asarray(guard)
        mask = self._active & guard
        if not mask.any():
            return
        self.counters.instructions += int(mask.sum())
        by_turn = mask.reshape(-1, len(self._warps))
        self._executed += by_turn.sum(axis=0)
        turn, thread = np.nonzero(by_turn)
        self.counters.requests += len(np.unique((turn << 32) + self._warps[thread]))
        if line.is_branch:
            self._branch(line, mask)
        elif self._moves(line, mask):
            self._forget(_written_by(line))
        else:
            self._compute(line)

    def _labels_ahead(self, line: Line) -> set[str]:
        return {label.name for label in self._lines[self._lines.index(line) :] if isinstance(label, Label)}

    def _branch(self, line: Line, mask: Any) -> None:
        target = str(line.operands[0])
        if target not in self._labels_ahead(line):
            return  # the backward branch of a loop
        known = line.guard is None or self._of(line.guard) is not None
        self._left[target] = self._left.get(target, np.zeros_like(mask)) | mask
        if known:
            self._active = self._active & ~mask

    # ------------------------------------------------------------------------------------------- values

    def _of(self, operand: Any) -> Any:
        """Return the value of an operand in each thread, or None if it is unknown."""
        if isinstance(operand, int):
            return operand
        if isinstance(operand, Register):
            return self._values.get(operand.name)
        text = str(operand).strip()
        try:
            return int(text, 0)
        except ValueError:
            return self._values.get(text)

    def _compute(self, line: Line) -> None:
        if not self._arriving.isdisjoint(line.names):
            self._batch = min(self._batch, AHEAD * self._latest_bytes)
        results = _written_by(line)
        value = self._value(line) if len(results) == 1 else None
        self._forget(results)
        if value is not None:
            self._values |= {name: value for name in results if name not in self._given}

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._given:  # a parameter or a variable
                self._values.pop(name, None)

    def _value(self, line: Line) -> Any:
        name = line.name
        operands = [self._of(operand) for operand in line.operands[1:]]
        if any(operand is None for operand in operands) or line.guard is not None:
            return None
        if name == "setp":
            _, comparison, type = line.opcode.split(".")[:3]
            if type not in ("s32", "u32", "s64", "u64") or len(operands) != 2:
                return None
            left, right = (operand & 0xFFFFFFFF if type == "u32" else operand for operand in operands)
            return _COMPARISONS[comparison](left, right)
        operation = _OPERATIONS.get(name)
        are_numbers = all(isinstance(operand, (int, np.generic, np.ndarray)) for operand in operands)
        if operation is None or ".hi." in line.opcode or not are_numbers:
            return operands[0] if name in ("mov", "cvta") and len(operands) == 1 else None
        try:
            return operation(*operands)
        except TypeError:  # another form of the instruction, with more operands
            return None

    # ------------------------------------------------------------------------------------------- memory

    def _moves(self, line: Line, mask: Any) -> bool:
        """Count a line if it accesses memory, and return True if it does."""
        if line.name == "call" or not line.roles:
            if line.name == "call" or any(str(operand).startswith("[") for operand in line.operands):
                self._unknown(line.opcode)
            return False
        sides = [(access, self._space(access)) for access in line.accesses]
        sides = [(access, space) for access, space in sides if space in ("", *TRAFFIC)]
        if not sides:
            return False
        first = sides[0][0]
        if not (first.loads or first.stores):
            self._prefetch(line.opcode, first.address, mask)
            return False
        if self._repeats:
            self._unknown(line.opcode, *(space for _, space in sides))
        size = self._of(line.size)
        if line.opcode.startswith(ASYNC):
            self._copy(line, int(size or 0), mask)
        elif ".bulk.tensor." in line.opcode:
            place = next((operand for operand in line.operands if isinstance(operand, TensorPlace)), None)
            self._boxes(line.opcode, place, mask)
        elif line.opcode.startswith(("cp.async.bulk.", "cp.reduce.async.bulk.")):
            self._bulk(line.opcode, [(access.address, space) for access, space in sides], size, mask)
        elif line.name in ("ldmatrix", "stmatrix"):
            parts = line.opcode.split(".")
            count = 4 if "x4" in parts else 2 if "x2" in parts else 1
            # each of these lanes has the address of a row
            rows = mask & (self._lanes < count * (16 if "m16n16" in parts else 8))
            self._plain(line, "shared", first.address, 16, rows, loads=False)
        else:
            results = _written_by(line)
            for access, space in sides:
                # Shared memory of .async instructions, and accesses with a size operand, do not use the threads' load and store path.
                by_engine = line.size is not None or (".async" in line.opcode and space == "shared")
                size = 0 if by_engine or access.bytes is None else access.bytes
                loads = access.loads and bool(results)
                merges = access.loads != access.stores
                self._plain(line, space, access.address, size, mask, loads=loads, merges=merges)
                if loads and space == "global":
                    self._arriving |= results
            self.counters.data_paths.add("registers")
        return True

    def _copy(self, line: Line, size: int, mask: Any) -> None:
        """Count a ``cp.async`` of each thread."""
        count = 3 + line.opcode.endswith("cache_hint")  # the policy is the last operand
        last = self._of(line.operands[3]) if len(line.operands) > count else False
        self.counters.upper_bound |= last is None
        # the last operand is a predicate (the source is ignored), or the number of bytes that are read
        part = np.asarray(False if last is None else last)
        read = mask & (~part if part.dtype == bool else part > 0)
        self._plain(line, "global", line.operands[1], size, read, loads=True)
        self._plain(line, "shared", line.operands[0], size, mask, loads=False)
        self.counters.data_paths.add("cp.async")
        places = [self._place(operand) for operand in line.operands[:2]]
        if not any(place is None for place in places):
            self._split(*(np.broadcast_to(place, read.shape)[read] for place in places))

    def _unknown(self, opcode: str, *spaces: str) -> None:
        """Record that the traffic of an instruction in these state spaces ("" for any) is not counted."""
        for space in spaces if spaces and "" not in spaces else TRAFFIC:
            self.counters.unknown[space].add(opcode)

    def _space(self, access: LineAccess) -> str:
        """Return the state space of an access, or "" if it is generic and its address is unknown."""
        if access.space:
            return access.space.partition("::")[0]
        place = self._place(access.address)
        least = 0 if place is None else int(np.min(place))
        return "global" if least >= GLOBAL_STEP_BYTES else "shared" if least >= SHARED_STEP_BYTES else ""

    def _place(self, operand: Any) -> Any:
        """Return the address of an operand in each thread, or None if it is unknown."""
        base, _, offset = str(operand).strip("[] ").partition("+")
        start, step = self._of(base), self._of(offset or 0)
        is_known = start is not None and step is not None and not isinstance(start, tuple)  # a tuple is a tensor map
        return start + step if is_known else None

    def _plain(
        self, line: Line, space: str, where: Any, size: int, mask: Any, *, loads: bool, merges: bool = True
    ) -> None:
        """Count an access by every thread of a mask. An unknown state space is "", and an unknown number of bytes is 0.

        ``loads`` says that it reads bytes that a later store needs, and ``merges`` that machine code may merge it with its neighbours.
        """
        is_async = line.opcode.startswith(ASYNC)  # stores do not wait for these loads
        counts = space == "global" or not is_async  # the two sides of a cp.async are one access
        place = self._place(where)
        if space == "shared" and place is not None and int(np.max(place)) >> 20 << 20 in self._aside:
            return
        is_known = place is not None and space != "" and 0 < size <= WIDEST_REQUEST_BYTES
        if not is_known:
            self._unknown(line.opcode, space)
        number, turns = int(mask.sum()), max(1, mask.size // len(self._warps))
        if counts and size:
            self.counters.accesses[size] = self.counters.accesses.get(size, 0) + number
        if loads and space == "global":
            self._latest_bytes = size * number if is_async else size * number // turns
            self._batch += self._latest_bytes
        elif not loads and counts:
            self._close_batch()
        if not is_known:
            return
        places = np.broadcast_to(place, mask.shape).reshape(turns, -1)
        turn, thread = np.nonzero(mask.reshape(turns, -1))
        addresses = places[turn, thread].astype(np.int64)
        requests = turn * (int(self._warps.max(initial=0)) + 1) + self._warps[thread]
        lanes = self._lanes[thread]
        key = space, loads, merges and not is_async, size, addresses.size
        self._words.setdefault(key, []).append((addresses, requests, lanes))
        count = len(np.unique(requests))
        if space == "shared":
            self.counters.shared_requests += count
            self.counters.wavefronts += distinct_wavefronts(requests, lanes, addresses, size)
            return
        self.counters.sectors += distinct_sectors(requests, addresses, size)
        self.counters.lines += distinct_sectors(requests, addresses, size, LINE_BYTES)
        self.counters.touched += [addresses // SECTOR_BYTES, (addresses + size - 1) // SECTOR_BYTES]

    def _merge(self) -> None:
        """Count the accesses since the last label with neighbouring words of a thread merged, as in machine code."""
        for (space, loads, merges, size, _), accesses in self._words.items():
            if loads:  # stores merge only in their order: another store between two of them prevents it
                accesses.sort(key=lambda access: int(access[0][0]) if access[0].size else 0)
            while accesses:
                addresses, requests, lanes = accesses[0]
                count = next(
                    (
                        count
                        for count in (4, 2)
                        if merges
                        and size >= MERGED_BYTES[space]
                        and len(accesses) >= count
                        and count * size <= WIDEST_BYTES
                        and not (addresses % (count * size)).any()
                        and all(np.array_equal(accesses[n][0], addresses + n * size) for n in range(1, count))
                    ),
                    1,
                )
                del accesses[:count]
                if space == "shared":
                    self.counters.merged_wavefronts += distinct_wavefronts(requests, lanes, addresses, count * size)
                else:
                    self.counters.merged_sectors += distinct_sectors(requests, addresses, count * size)
        self._words.clear()

    def _close_batch(self) -> None:
        self.counters.batch_bytes = max(self.counters.batch_bytes, self._batch)
        self._batch = 0
        self._arriving.clear()

    def _prefetch(self, opcode: str, where: Any, mask: Any) -> None:
        """Count a prefetch. Its sectors are counted with the copies that read the bytes."""
        number = int(mask.sum())
        if ".bulk." in opcode:
            self.counters.bulk_rows += number
            return
        place = self._place(where)
        places = np.arange(number) * LINE_BYTES if place is None else np.broadcast_to(place, mask.shape)[mask]
        self.counters.lines += len(np.unique(places // LINE_BYTES))

    def _bulk(self, opcode: str, sides: Sequence[tuple[Any, str]], size: Any, mask: Any) -> None:
        """Count bulk copies, one per thread of a mask, each of one piece of ``size`` bytes (None if unknown) between these addresses."""
        number = int(mask.sum())
        self.counters.bulk_copies += number
        self.counters.bulk_rows += number
        self.counters.data_paths.add("bulk")
        far = next((operand for operand, space in sides if space == "global"), None)
        place = None if far is None else self._place(far)
        if not isinstance(size, int) or (far is not None and place is None):
            self._unknown(opcode, "shared" if far is None else "global")
        if not isinstance(size, int):
            return
        self.counters.accesses[size] = self.counters.accesses.get(size, 0) + number
        self._batch += size * number if far is not None else 0
        if place is None:
            return  # from shared memory to shared memory, or from an unknown address
        starts = np.broadcast_to(place, mask.shape)[mask].astype(np.int64)
        units = starts[:, None] + np.arange(0, size, 16)
        self._engine(np.broadcast_to(np.arange(number)[:, None], units.shape).reshape(-1), units.reshape(-1))
        near = next((self._place(operand) for operand, space in sides if space != "global"), None)
        if near is not None:
            apart = np.broadcast_to(near, mask.shape)[mask] - starts
            self._split(units + apart[:, None], units)

    def _engine(self, copies: Any, units: Any) -> None:
        """Count the sectors of global memory that bulk or tensor copies move, given 16-byte units and the copy of each."""
        sectors = distinct_sectors(copies, units, 16)
        self.counters.sectors += sectors
        self.counters.merged_sectors += sectors
        self.counters.touched.append(units // SECTOR_BYTES)

    def _split(self, shared: Any, places: Any) -> None:
        """Count the sectors of global memory that are spread over several sectors of shared memory."""
        sectors, parts = places.reshape(-1) // SECTOR_BYTES, shared.reshape(-1) // SECTOR_BYTES
        order = np.lexsort((parts, sectors))
        sectors, parts = sectors[order], parts[order]
        apart = (sectors[1:] == sectors[:-1]) & (parts[1:] != parts[:-1])
        self.counters.split_sectors += len(np.unique(sectors[1:][apart]))

    def _boxes(self, opcode: str, place: TensorPlace | None, mask: Any) -> None:
        """Count tensor copies, with the rows of each box that are inside the array."""
        number = int(mask.sum())
        self.counters.bulk_copies += number
        self.counters.data_paths.add("tensor")
        map = None if place is None else self._of(place.map)
        starts = [] if place is None else [self._of(start) for start in place.coordinates]
        is_tiled = ".im2col" not in opcode and "::gather4" not in opcode and "::scatter4" not in opcode
        if not isinstance(map, tuple) or any(value is None for value in starts) or not is_tiled:
            self._unknown(opcode, "global")
            return
        base, recipe = map
        elem = recipe.array.dtype.bytes
        box_bytes = prod(recipe.box) * elem
        self.counters.accesses[box_bytes] = self.counters.accesses.get(box_bytes, 0) + number
        self._batch += box_bytes * number
        sizes = [int(evaluate(size, self._symbols)) for size in recipe.sizes]
        strides = [elem, *(int(evaluate(stride, self._symbols)) for stride in recipe.strides_bytes)]
        corners = np.stack([np.broadcast_to(start, mask.shape)[mask] for start in starts], axis=1).tolist()
        self.counters.bulk_rows += number * prod(recipe.box[1:])
        for corner in corners:
            low, high = max(0, corner[0]), min(sizes[0], corner[0] + recipe.box[0])
            rows = np.array([base], np.int64)
            for at, count, size, stride in zip(corner[1:], recipe.box[1:], sizes[1:], strides[1:], strict=True):
                inside = np.arange(max(0, at), min(size, at + count))
                rows = (rows[:, None] + inside * stride).reshape(-1)
            if high > low and len(rows):
                units = rows[:, None] + np.arange(low * elem, high * elem, 16)
                self._engine(0, units.reshape(-1))
                self._split(np.arange(units.size) * 16, units)


def _written_by(line: Line) -> set[str]:
    """Return the registers that a line writes, or may write."""
    return {name for operand in line.results for name in names_in(operand)}


def _loop_carried(lines: Iterable[Line]) -> set[str]:
    """Return the loop-carried registers: those that the body reads before it writes them."""
    read: set[str] = set()
    written: set[str] = set()
    for line in lines:
        roles = line.roles
        reads = [operand for operand, role in roles if role.reads or role.is_address] if roles else line.operands
        read |= {name for operand in (line.guard, *reads) for name in names_in(operand)} - written
        written |= _written_by(line)
    return read & written


def _loops(lines: Sequence[Line | Label | str]) -> dict[int, int]:
    """Return a dict from the line of each label to the line of the last branch back to it."""
    labels = {line.name: number for number, line in enumerate(lines) if isinstance(line, Label)}
    last_branches = {}
    for number, line in enumerate(lines):
        if isinstance(line, Line) and line.is_branch and labels.get(str(line.operands[0]), number) < number:
            last_branches[labels[str(line.operands[0])]] = number
    return last_branches


def live_registers(
    lines: Sequence[Line | Label | str], before: set[str], after: set[str], bits: Mapping[str, int]
) -> int:
    """Return the largest number of 32-bit registers that are live at the same time.

    ``before`` hold values before the first line, those of ``after`` are used after the last; ``bits`` has the registers that count.
    """
    first: dict[str, int] = dict.fromkeys(before, 0)
    last: dict[str, int] = dict.fromkeys(before, 0)
    for number, line in enumerate(lines):
        for name in line.names if isinstance(line, Line) else ():
            if name in bits:
                first.setdefault(name, number)
                last[name] = number
    last |= dict.fromkeys(after & first.keys(), len(lines))
    for head, branch in _loops(lines).items():
        for name, number in first.items():
            if number < head <= last[name] < branch:
                last[name] = branch
    change = np.zeros(len(lines) + 2, np.int64)
    for name, number in first.items():
        words = max(1, bits.get(name, 32) // 32)
        change[number] += words
        change[last[name] + 1] -= words
    return int(np.cumsum(change).max(initial=0))
