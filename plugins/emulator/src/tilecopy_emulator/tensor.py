"""Tensor memory and tcgen05: alloc, cp, commit, fence, ld, dealloc (PTX ISA 9.7.16).

128 lanes by 512 columns of 32 bits a CTA. A copy lands when nobody can run without it; its commit then arrives on the
mbarrier. A load's registers are there after ``tcgen05.wait::ld``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from .accesses import address
from .arithmetic import value
from .machine import DONE, Machine, Step
from .program import Instruction, Memory, UnsupportedPtxError, Vector
from .synchronisation import check_proxy, mbarrier_at, note_arrival

LANES, COLUMNS = 128, 512
XOR_MASKS = {0: 0, 6: 0x10, 4: 0x30, 2: 0x70}
"""Swizzle code of a descriptor -> bits of the address that are XOR-ed with those three places above."""
ROW_BYTES = {0: 16, 6: 32, 4: 64, 2: 128}


@attrs.define(eq=False)
class TensorMemory:
    """Tensor memory of a batch of CTAs."""

    words: Any
    written: Any
    pending: Any
    landed: Any
    allocated: dict[int, tuple[int, int, int]]
    fenced: Any
    read_time: Any
    released: Any
    loads: list[tuple[Any, list[str], Any]]

    @classmethod
    def of(cls, machine: Machine) -> TensorMemory:
        """The machine's, made at the first use."""
        if machine.tensor is None:
            shape = (machine.ctas, LANES, COLUMNS)
            machine.need_clocks()
            machine.tensor = cls(
                np.zeros(shape, np.uint32),
                np.zeros(shape, bool),
                np.zeros(shape, bool),
                np.zeros(shape, np.int32),
                {},
                np.zeros(machine.count, np.int64),
                np.zeros(machine.count, np.int64),
                np.zeros(machine.count, np.int64),
                [],
            )
        found = machine.tensor
        assert isinstance(found, TensorMemory)
        return found


def _unknown(instruction: Instruction) -> UnsupportedPtxError:
    return UnsupportedPtxError(f"PTX line {instruction.line}: '{instruction.text}' is not known")


def _whole_warps(machine: Machine, lanes: Any) -> Any:
    """The warps of an aligned instruction; every living lane of each must take part."""
    ids = machine.lane_ids(lanes)
    warps = np.unique(machine.warp_ids[ids])
    for warp in warps:
        living = int((machine.status[machine.warp_ids == warp] != DONE).sum())
        if int((machine.warp_ids[ids] == warp).sum()) != living:
            machine.hazard("aligned", "an instruction with .aligned is executed by part of a warp", ids)
    return warps


def _alloc(instruction: Instruction) -> Step:
    holder, count = instruction.operands
    columns = int(str(count))

    def step(machine: Machine, lanes: Any) -> None:
        memory = TensorMemory.of(machine)
        if columns < 32 or columns > COLUMNS or columns & (columns - 1):
            machine.hazard("tensor", f"{columns} columns: 32 to 512, a power of two", lanes)
        for warp in _whole_warps(machine, lanes):
            lane = int(machine.ids[machine.warp_ids == warp][0])
            cta, one = lane // machine.threads, np.array([lane])
            if cta in memory.allocated:
                machine.hazard("tensor", "the CTA allocates tensor memory twice", one)
            place = machine.shared.place(machine, one, address(machine, holder, one, 32), 4)
            machine.shared.check_write(machine, one, place, 4)
            base = COLUMNS - columns  # nothing promises column 0
            machine.shared.write(place, np.array([[base]], np.uint32).view(np.uint8))
            memory.allocated[cta] = (base, columns, int(warp))

    return step


def _dealloc(instruction: Instruction) -> Step:
    taddr, count = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        memory = TensorMemory.of(machine)
        for warp in _whole_warps(machine, lanes):
            lane = int(machine.ids[machine.warp_ids == warp][0])
            cta, one = lane // machine.threads, np.array([lane])
            base = int(value(machine, taddr, one, "u32")[0])
            if memory.allocated.get(cta) != (base, int(str(count)), int(warp)):
                machine.hazard(
                    "tensor", f"dealloc of {count} columns at {base}; allocated: {memory.allocated.get(cta)}", one
                )
            if memory.pending[cta].any():
                machine.hazard("async", "tensor memory is freed while a copy to it is in flight", one)
            readers = machine.ids[(machine.cta_ids == cta) & (memory.read_time > 0) & (machine.warp_ids != warp)]
            if (memory.released[readers] < memory.read_time[readers]).any():
                machine.hazard(
                    "proxy",
                    "tensor memory is freed; another warp's tcgen05.ld has no tcgen05.fence::before_thread_sync behind it",
                    one,
                )
            if (memory.released[readers] > machine.floor[cta]).any():
                machine.hazard("race", "tensor memory is freed with no barrier since another warp read it", one)
            del memory.allocated[cta]

    return step


@attrs.define(eq=False)
class _TensorCopy:
    """``tcgen05.cp`` operations of one thread, and the commits behind them, in flight."""

    at: int
    lane: int
    cta: int
    source: Any
    lanes: Any
    column: int
    barrier: int | None = None

    def ctas(self) -> list[int]:
        """The CTA whose memory it uses."""
        return [self.cta]

    def land(self, machine: Machine) -> None:
        """Move the rows (or, for a commit, arrive)."""
        machine.at = self.at
        if self.barrier is not None:
            barrier = machine.mbarriers[self.barrier]
            note_arrival(machine, barrier, self.lane)
            barrier.arrivals[machine.cluster_threads] = machine.now
            barrier.pending -= 1
            machine.now += 1
            barrier.test(machine, self.barrier)
            return
        memory, shared = TensorMemory.of(machine), machine.shared
        rows = shared.read(self.source, 16).view(np.uint32)
        for part in range(4):
            lanes = self.lanes + 32 * part
            inside = np.ix_([self.cta], lanes, range(self.column, self.column + 4))
            memory.words[inside] = rows[None]
            memory.written[inside], memory.pending[inside], memory.landed[inside] = True, False, machine.now
        cells = shared.granules(self.source, 16)
        np.subtract.at(shared.shadow.busy, cells, 1)
        machine.now += 1


def _cp(instruction: Instruction) -> Step:
    if instruction.opcode[3:5] != ("32x128b", "warpx4"):
        raise _unknown(instruction)
    target, descriptor = instruction.operands
    group = int(instruction.opcode[2].rsplit("::")[-1])
    assert isinstance(target, Memory)

    def step(machine: Machine, lanes: Any) -> None:
        for lane in machine.lane_ids(lanes):
            one = np.array([lane])
            at = int(address(machine, target, one, 32)[0])
            word = int(value(machine, descriptor, one, "u64")[0])
            cta = int(lane) // machine.threads
            pair = [cta] if group == 1 else [cta & ~1, cta | 1]
            if group == 2 and machine.cluster_size < 2:
                machine.hazard("window", "cta_group::2 needs a cluster of CTA pairs", one)
            for each in pair:
                _issue(machine, int(lane), each, at, word)

    return step


def _issue(machine: Machine, lane: int, cta: int, taddr: int, descriptor: int) -> None:
    memory, shared, one = TensorMemory.of(machine), machine.shared, np.array([lane])
    start, group = (descriptor & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    code = descriptor >> 61
    if descriptor >> 46 & 7 != 1 or code not in XOR_MASKS or descriptor >> 49 & 7:
        machine.hazard("descriptor", f"0x{descriptor:016x} is not a matrix descriptor of this kind", one)
    row = np.arange(32)
    offsets = start + row % 8 * ROW_BYTES[code] + row // 8 * group
    offsets ^= (offsets >> 3) & XOR_MASKS[code]
    first_lane = cta * machine.threads
    rank = cta % machine.cluster_size
    addresses = (offsets + (rank << 24)).astype(np.uint32)
    places = shared.place(machine, np.full(32, first_lane), addresses, 16)
    issuers = np.full(32, lane)
    shared.check_read(machine, issuers, places, 16)
    check_proxy(machine, lane, places, 16, "read")
    column, first = taddr & 0xFFFF, taddr >> 16
    allocated = memory.allocated.get(cta)
    if allocated is None or not allocated[0] <= column <= allocated[0] + allocated[1] - 4 or first:
        machine.hazard("bounds", f"lane {first}, columns {column} to {column + 3} are not allocated: {allocated}", one)
    inside = np.ix_([cta], range(LANES), range(column, column + 4))
    if memory.pending[inside].any():
        machine.hazard("async", "two tcgen05.cp to the same columns are not ordered", one)
    memory.pending[inside] = True
    np.add.at(shared.shadow.busy, shared.granules(places, 16), 1)
    machine.engines.append(_TensorCopy(machine.at, lane, cta, places, row, column))


def _commit(instruction: Instruction) -> Step:
    target = instruction.operands[0]

    def step(machine: Machine, lanes: Any) -> None:
        for lane in machine.lane_ids(lanes):
            one = np.array([lane])
            place = int(machine.shared.place(machine, one, address(machine, target, one, 32), 8, remote=True)[0])
            mbarrier_at(machine, place, int(lane))
            empty = np.zeros(0, np.int64)
            machine.engines.append(
                _TensorCopy(machine.at, int(lane), int(lane) // machine.threads, empty, empty, 0, place)
            )

    return step


def _fence(instruction: Instruction) -> Step:
    after = instruction.opcode[1] == "fence::after_thread_sync"

    def step(machine: Machine, lanes: Any) -> None:
        memory = TensorMemory.of(machine)
        (memory.fenced if after else memory.released)[lanes] = machine.now
        machine.now += 1

    return step


def _ld(instruction: Instruction) -> Step:
    destination, source = instruction.operands
    if "32x32b" not in instruction.opcode or not isinstance(source, Memory):
        raise _unknown(instruction)
    names = list(destination.items) if isinstance(destination, Vector) else [str(destination)]

    def step(machine: Machine, lanes: Any) -> None:
        memory, ids = TensorMemory.of(machine), machine.lane_ids(lanes)
        _whole_warps(machine, lanes)
        at = address(machine, source, lanes, 32).astype(np.int64)
        slab = ids % machine.threads // 32 % 4
        first, column = at >> 16, at & 0xFFFF
        if (first != 32 * slab).any():
            bad = int(np.argmax(first != 32 * slab))
            machine.hazard(
                "window", f"warp {int(slab[bad])} reads lane {int(first[bad])}; it reaches its own 32", lanes, bad
            )
        cta, lane = ids // machine.threads, first + ids % 32
        cells = (cta[:, None], lane[:, None], column[:, None] + np.arange(len(names)))
        if (cells[2] >= COLUMNS).any():
            machine.hazard("bounds", f"columns past {COLUMNS}", lanes)
        for bad, kind, text in (
            (
                memory.pending[cells],
                "async",
                "tensor memory is read while a copy to it is in flight (a commit or wait is missing)",
            ),
            (~memory.written[cells], "poison", "tensor memory is read and was never written"),
            (
                memory.landed[cells] > memory.fenced[ids][:, None],
                "proxy",
                "tensor memory is read with no tcgen05.fence::after_thread_sync since the copy",
            ),
            (
                _unseen(machine, ids, memory.landed[cells]),
                "race",
                "tensor memory is read with no wait or barrier since the copy",
            ),
        ):
            if bad.any():
                position = np.unravel_index(int(np.argmax(bad)), bad.shape)
                where = f"lane {int(lane[position[0]])}, column {int(cells[2][position])}"
                machine.hazard(kind, f"{where}: {text}", lanes, int(position[0]))
        for name in names:  # poisoned until the wait
            machine.write(name, ids, np.zeros(len(ids), np.uint32))
            defined = machine.defined[name]
            machine.defined[name] = np.ones(machine.count, bool) if defined is None else defined
            machine.defined[name][ids] = False
        memory.read_time[ids] = machine.now
        memory.loads.append((ids.copy(), names, memory.words[cells]))

    return step


def _unseen(machine: Machine, ids: Any, landed: Any) -> Any:
    known = machine.need_clocks()[ids, machine.cluster_threads]
    seen = np.maximum(known, machine.floor_of(ids))
    return landed > seen[:, None]


def _wait(instruction: Instruction) -> Step:
    if instruction.opcode[1] != "wait::ld":
        raise _unknown(instruction)

    def step(machine: Machine, lanes: Any) -> None:
        memory = TensorMemory.of(machine)
        waiting = np.zeros(machine.count, bool)
        waiting[lanes] = True
        left = []
        for ids, names, words in memory.loads:
            here = waiting[ids]
            for position, name in enumerate(names):
                machine.write(name, ids[here], words[here, position])
            if not here.all():
                left.append((ids[~here], names, words[~here]))
        memory.loads = left

    return step


def _nothing(instruction: Instruction) -> Step:
    return lambda machine, lanes: None


_KINDS: dict[str, Callable[[Instruction], Step]] = {
    "alloc": _alloc,
    "commit": _commit,
    "cp": _cp,
    "dealloc": _dealloc,
    "fence::after_thread_sync": _fence,
    "fence::before_thread_sync": _fence,
    "ld": _ld,
    "relinquish_alloc_permit": _nothing,
    "wait::ld": _wait,
}


def _tcgen05(instruction: Instruction) -> Step:
    if instruction.opcode[1] not in _KINDS:
        raise _unknown(instruction)
    return _KINDS[instruction.opcode[1]](instruction)


HANDLERS: dict[str, Callable[[Instruction], Step]] = {"tcgen05": _tcgen05}
