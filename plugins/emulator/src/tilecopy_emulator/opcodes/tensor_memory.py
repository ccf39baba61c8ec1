"""Tensor memory and tcgen05 (PTX ISA 9.7.16). The tensor memory of a CTA has 128 lanes and 512 columns of 32 bits.

An access by a warp counts for its first lane. A copy belongs to its thread; its writes are complete with the phase of
the mbarrier of its commit. Between threads, ``tcgen05.fence::before_thread_sync`` and ``::after_thread_sync`` must
surround the synchronisation: tcgen05 is a separate proxy (section ``tensor`` of the clocks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any

import attrs
import numpy as np

from ..machine.machine import Machine
from ..memory import observed
from ..memory.race_check import raise_in_flight
from ..memory_model.access import TENSOR_CELLS, at_rank
from ..memory_model.clocks import BARRIER_COLUMNS, NOTHING, TENSOR, Clock, join
from ..memory_model.shadow import (
    BARRIER_ACTOR,
    FLIGHT_ACTOR,
    WEAK,
    Conflict,
    ShadowMemory,
    actor_of,
    barrier_of,
    stamp,
    time_of,
)
from ..program import Braces, Instruction, Program
from ..threads.async_operations import Operation, completes_late
from .copies import check_sent
from .loads import address_reader, immediate, shared_address, with_operands
from .matrices import PACKED_BITS
from .matrix_descriptors import TCGEN05, Descriptor, places_of, widen
from .operands import Handler, Lanes, Reader, Step, agree, demand_count, reader, refuse, writer

LANES, COLUMNS = 128, 512
CELLS = TENSOR_CELLS
COPY_SHAPES: dict[tuple[str, ...], tuple[int, int, Callable[[Any], list[Any]]]] = {
    ("128x256b",): (128, 2, lambda row: [row]),
    ("128x128b",): (128, 1, lambda row: [row]),
    ("64x128b", "warpx2::02_13"): (64, 1, lambda row: [row, row + 64]),
    ("64x128b", "warpx2::01_23"): (64, 1, lambda row: [row % 32 + 64 * (row // 32), row % 32 + 64 * (row // 32) + 32]),
    ("32x128b", "warpx4"): (32, 1, lambda row: [row, row + 32, row + 64, row + 96]),
    ("4x256b",): (4, 2, lambda row: [32 * row]),
}
"""Shape of ``tcgen05.cp`` -> rows, units of 16 bytes per row, and the destination lanes of each row."""


TRANSFER_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Shape of ``tcgen05.ld`` and ``st`` -> number of registers for ``.x1``."""
MOST_REGISTERS = 128
HALVES = {"ld": "pack::16b", "st": "unpack::16b"}
"""The modifiers by which one register has the low halves of two columns."""


def _distinct(values: Any) -> list[int]:
    """Return the distinct values; usually there is one."""
    distinct: list[int] = (values[:1] if (values == values[:1]).all() else np.unique(values)).tolist()
    return distinct


def load_places(shape: str, count: int, split: int = 0) -> tuple[Any, Any]:
    """Return the tensor-memory lane and column of each register: two arrays of shape ``(32 threads, registers)``."""
    t = np.arange(32)[:, None]
    i = np.arange(count * TRANSFER_REGISTERS[shape])[None, :]
    if shape == "32x32b":
        return t + 0 * i, i + 0 * t
    if shape == "16x64b":
        return t // 4 + 8 * (t & 1) + 0 * i, ((t >> 1) & 1) + 2 * i
    if shape == "16x128b":
        return t // 4 + 8 * (i & 1), t % 4 + 4 * (i >> 1)
    if shape == "16x256b":
        return t // 4 + 8 * ((i >> 1) & 1), 2 * (t % 4) + (i & 1) + 8 * (i >> 2)
    return t % 16 + 0 * i, i + np.where(t >= 16, split, 0)


@attrs.define(eq=False)
class _InFlight:
    """A ``tcgen05.ld`` or ``st`` of one warp in flight."""

    lanes: Any
    cells: Any
    writers: list[Any]
    values: Any
    at: int
    leader: int


@attrs.define(eq=False)
class _Allocation:
    base: int
    columns: int
    warp: int
    at: int


class TensorMemory:
    """The tensor memory of all CTAs of a batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.words = np.zeros((machine.unit_ctas * CELLS, machine.copies), np.uint32)
        self.low_alone = np.zeros(machine.unit_ctas * CELLS, bool)
        """Cells whose upper half is undefined, after ``.unpack::16b`` or as D of 16 bits."""
        self.shadow = ShadowMemory(machine.unit_ctas * CELLS)
        self.allocated: dict[int, list[_Allocation]] = {}
        self.last_size: dict[int, int] = {}
        self.relinquished: set[int] = set()
        self.after: dict[int, dict[int, Any]] = {}
        self.loads: list[_InFlight] = []
        self.stores: list[_InFlight] = []
        self.copies: dict[tuple[int, int], list[Operation]] = {}
        self.completed: dict[tuple[int, int], Clock] = {}
        self.completed_stamps: dict[tuple[int, tuple[int, ...]], set[int]] = {}
        """Lane, and D of its products or () for its copies -> their stamps."""

    @classmethod
    def of(cls, machine: Machine) -> TensorMemory:
        """Return the :class:`TensorMemory` of a batch. The first call creates the object."""
        if machine.tensor is None:
            machine.tensor = cls(machine)
        memory: TensorMemory = machine.tensor
        return memory

    def expand(self, copies: int, shift: int, made: dict[tuple[int, int], Operation]) -> None:
        """Replicate the tensor memory for every cluster of the batch."""
        machine = self.machine
        ctas, lanes = machine.unit_ctas // copies, machine.units // copies
        self.words = np.ascontiguousarray(self.words.T).reshape(-1, 1)
        self.low_alone = np.tile(self.low_alone, copies)
        self.shadow = self.shadow.replicate(copies, (lanes, ctas * BARRIER_COLUMNS, shift))
        allocated, after = self.allocated, self.after
        completed, completed_stamps = self.completed, self.completed_stamps
        self.allocated, self.after, self.completed, self.completed_stamps = {}, {}, {}, {}
        for copy in range(copies):
            for cta, allocations in allocated.items():
                self.allocated[cta + copy * ctas] = [
                    attrs.evolve(x, warp=x.warp + copy * ctas * machine.warps_per_cta) for x in allocations
                ]
            for (lane, group), clock in completed.items():
                self.completed[lane + copy * lanes, group] = machine.order.renumber(clock, machine.first + copy * ctas)
            for (lane, result), stamps in completed_stamps.items():
                moved_result = (result[0] + copy * ctas * CELLS, *result[1:]) if result else ()
                self.completed_stamps[lane + copy * lanes, moved_result] = {
                    x + copy * ctas * BARRIER_COLUMNS for x in stamps
                }
            for lane, rows in after.items():
                moved = machine.first + copy * ctas
                self.after[lane + copy * lanes] = {key + moved: row for key, row in rows.items()}
        self.last_size = {cta + c * ctas: n for cta, n in self.last_size.items() for c in range(copies)}
        self.relinquished = {cta + c * ctas for cta in self.relinquished for c in range(copies)}
        if self.loads or self.stores or self.copies:
            self.loads = [self._copy_of(x, c, ctas, lanes) for x in self.loads for c in range(copies)]
            self.stores = [self._copy_of(x, c, ctas, lanes) for x in self.stores for c in range(copies)]
            self.copies = {
                (lane + c * lanes, group): [
                    made[old.number, c] for old in operations if (old.number, c) in made
                ]
                for (lane, group), operations in self.copies.items()
                for c in range(copies)
            }  # fmt: skip

    def _copy_of(self, old: _InFlight, copy: int, ctas: int, lanes: int) -> _InFlight:
        values = None if old.values is None else old.values[..., copy : copy + 1]
        cells, leader = old.cells + copy * ctas * CELLS, old.leader + copy * lanes
        return attrs.evolve(old, lanes=old.lanes + copy * lanes, cells=cells, values=values, leader=leader)

    def where(self, cell: int) -> str:
        """Return the name that messages use for a cell: its lane and column."""
        return f"lane {cell % CELLS // COLUMNS}, column {cell % COLUMNS}"

    def inside(self, lanes: Any, cta: int, first: int, last: int, rows: tuple[int, int], position: int = 0) -> None:
        """Check that the lanes and columns of an access are in one allocation of tensor memory."""
        for span in self.allocated.get(cta, []):
            if span.base <= first and last < span.base + span.columns and rows[0] >= 0 and rows[1] < LANES:
                return
        have = ", ".join(f"[{a.base}, {a.base + a.columns})" for a in self.allocated.get(cta, [])) or "none"
        self.machine.hazard(
            "bounds", f"tensor memory in lanes {rows[0]} to {rows[1]}, columns {first} to {last} must be "
            f"allocated, but the allocated columns are {have}", lanes, position,
        )  # fmt: skip

    def demand_upper(self, cells: Any, lanes: Any, position: int, at: int) -> None:
        """Raise a hazard if the upper 16 bits of a cell are undefined."""
        alone = self.low_alone[cells]
        if alone.any():
            self.machine.hazard(
                "poison", f"{self.where(int(cells.flat[np.argmax(alone)]))}: the upper 16 bits are read, but only the lower 16 "
                "were written, by .unpack::16b or as D of type f16", lanes, position, at=at,
            )  # fmt: skip

    def judge(self, lanes: Any, *, fenced: bool = True, after: Set[int] | None = None) -> Any:
        """Return a function that tells which earlier accesses are ordered. Stamps in ``after`` count as ordered."""
        machine = self.machine

        def judge(positions: Any, before: Any) -> tuple[Any, Any]:
            ordered = np.isin(before, list(after)) if after else np.zeros(len(before), bool)
            actors, times = actor_of(before), time_of(before)
            for lane in _distinct(lanes[positions]):
                mine = ~ordered & (lanes[positions] == lane)
                known = self.after.get(lane, {}) if fenced else machine.order.snapshot(np.array([lane])).rows
                for actor in _distinct(actors[mine]):
                    here = mine & (actors == actor)
                    ordered[here] = self._knows(known, lane, actor) >= times[here]
            return ordered, np.zeros(len(before), bool)

        return judge

    def _knows(self, known: Mapping[int, Any], lane: int, actor: int) -> int:
        machine, order = self.machine, self.machine.order
        if actor >= FLIGHT_ACTOR:
            return 0
        if actor >= BARRIER_ACTOR:
            home, column = barrier_of(actor)
            row = known.get(home + order.first)
            return 0 if row is None else int(row[order.barriers_at + column])
        if actor == lane:
            return 1 << 40
        row = known.get(actor // machine.threads + order.first)
        return 0 if row is None else int(row[order.section_at[TENSOR] + actor % machine.threads])

    def touch(
        self, lanes: Any, position: int, leader: int, cells: Any, action: str, *, fenced: bool = True,
        after: Set[int] | None = None,
    ) -> None:  # fmt: skip
        """Check and record an access to tensor memory. Earlier accesses with stamps in ``after`` count as ordered."""
        machine = self.machine
        flat = cells.ravel()
        stamps = np.full(len(flat), stamp(machine.launch.time.now, WEAK, leader))
        who = np.full(len(flat), leader)
        if action == "read":
            written = self.shadow.writer[flat] != 0
            if not written.all():
                machine.hazard(
                    "poison", f"tensor memory at {self.where(int(flat[np.argmin(written)]))} is read and was never written",
                    lanes, position,
                )  # fmt: skip
        read = partial(self.shadow.read, remember=after is None)
        act = read if action == "read" else self.shadow.write
        try:
            act(flat, stamps, self.judge(who, fenced=fenced, after=after))
        except Conflict as conflict:
            self._raise_race(conflict, lanes, position, leader, action)
        in_flight = self.stores if action == "read" else [*self.stores, *self.loads]
        if not in_flight or not np.isin(flat, np.concatenate([transfer.cells.ravel() for transfer in in_flight])).any():
            return
        for transfer in in_flight:
            hit = np.isin(flat, transfer.cells)
            if hit.any():
                kind = "st" if transfer in self.stores else "ld"
                machine.hazard(
                    "async", f"tensor memory at {self.where(int(flat[np.argmax(hit)]))} is {action} while a tcgen05.{kind} of "
                    f"{machine.name_of(transfer.leader)} is in flight (tcgen05.wait::{kind} is missing)", lanes, position,
                )  # fmt: skip

    def _raise_race(self, conflict: Conflict, lanes: Any, position: int, leader: int, action: str) -> None:
        machine, order = self.machine, self.machine.order
        where = f"tensor memory at {self.where(conflict.cell)}"
        before = "written" if conflict.wrote else "read"
        actor, time = int(actor_of(conflict.stamp)), int(time_of(conflict.stamp))
        if actor >= FLIGHT_ACTOR:
            operation = machine.in_flight[int(actor_of(conflict.stamp)) - FLIGHT_ACTOR]
            raise_in_flight(machine, operation, -1, where, action, lanes, position, 0, None, wrote=conflict.wrote)
        rows = order.snapshot(np.array([leader])).rows
        if actor >= BARRIER_ACTOR:
            home, column = barrier_of(actor)
            row = rows.get(home + order.first)
            plain = row is not None and int(row[order.barriers_at + column]) >= time
        else:
            row = rows.get(actor // machine.threads + order.first)
            plain = row is not None and int(row[actor % machine.threads]) >= time
        who = machine.actor_name(actor)
        if plain:
            machine.hazard(
                "proxy", f"{where} is {action} with no tcgen05.fence since it was {before} by {who}: use tcgen05.fence"
                "::before_thread_sync in that thread and tcgen05.fence::after_thread_sync in this one", lanes, position, threads=(who,),
            )  # fmt: skip
        machine.hazard(
            "race", f"{where} is {action} with no wait or barrier since it was {before} by {who}", lanes, position,
            threads=(who,),
        )  # fmt: skip

    def end_cta(self, cta: int) -> None:
        """Check that an exiting CTA has deallocated its tensor memory."""
        if self.allocated.get(cta):
            machine = self.machine
            allocation = self.allocated[cta][0]
            what = f"the CTA exits before it deallocates {allocation.columns} columns at column {allocation.base}"
            machine.hazard("tensor", what, np.array([cta * machine.threads]), at=allocation.at)

    def finish(self) -> None:
        """Check at the end of the run that all tensor memory was deallocated."""
        for cta in self.allocated:
            self.end_cta(cta)


def _group(instruction: Instruction) -> int:
    groups = [part for part in instruction.opcode if part in ("cta_group::1", "cta_group::2")]
    if len(groups) != 1:
        raise refuse(instruction, "expected one .cta_group")
    return int(groups[0][-1])


def _warps(machine: Machine, lanes: Lanes) -> list[tuple[int, int, int]]:
    """Return ``(first lane, CTA, warp)`` of each whole warp that executes an aligned instruction."""
    firsts = machine.demand_whole_warps(lanes)
    return [(int(lane), int(machine.cta_of[lane]), int(machine.warp_of[lane])) for lane in firsts]


def _demand_pairs(machine: Machine, group: int, lanes: Lanes) -> None:
    if group == 2 and machine.cluster_size % 2:
        machine.hazard("window", f"cta_group::2 needs an even cluster size, got {machine.cluster_size}", lanes)


def _columns(cta: int, base: int, size: int) -> Any:
    """Return the cells of some columns in every lane."""
    return (cta * CELLS + np.arange(LANES)[:, None] * COLUMNS + np.arange(base, base + size)).ravel()


def _alloc(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2)
    group = _group(instruction)
    holder = shared_address(instruction.operands[0], instruction, program)
    count = reader(instruction.operands[1], "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        memory = TensorMemory.of(machine)
        _demand_pairs(machine, group, lanes)
        agree(machine, lanes, holder, count)
        lanes = machine.whole_warps(lanes)
        index = machine.index(lanes)
        if not len(index):
            return
        addresses = machine.rows(holder(machine, lanes), lanes)
        columns = machine.uniform(count(machine, lanes), lanes)
        for lane, cta, warp in _warps(machine, lanes):
            one, at = np.array([lane]), int(np.searchsorted(index, lane))
            size = int(columns[at])
            if size < 32 or size > COLUMNS or size & (size - 1):
                machine.hazard("tensor", f"the number of columns must be a power of 2 from 32 to 512, got {size}", one)
            if cta in memory.relinquished:
                machine.hazard("tensor", "the CTA allocates after relinquish_alloc_permit", one)
            if size > memory.last_size.get(cta, COLUMNS):
                what = f"the sizes of allocations must not increase, got {size} columns after {memory.last_size[cta]}"
                machine.hazard("tensor", what, one)
            mine = memory.allocated.setdefault(cta, [])
            starts = range(COLUMNS - size, -1, -32)
            free = [b for b in starts if all(b + size <= a.base or a.base + a.columns <= b for a in mine)]
            if not free:
                what = f"no {size} adjacent columns are free: {sum(a.columns for a in mine)} of {COLUMNS} are allocated"
                machine.hazard("tensor", what, one)
            base = free[0]
            place = machine.shared.place(one, addresses[at : at + 1], 4)
            machine.shared.check_write(one, place, 4)
            machine.shared.put(place, np.full((1, machine.copies, 1), base, np.uint32).view(np.uint8))
            mine.append(_Allocation(base, size, warp, machine.at))
            memory.last_size[cta] = size
            memory.shadow.writer[_columns(cta, base, size)] = 0
        machine.launch.version += 1

    return step


@with_operands("u32", "u32")
def _dealloc(machine: Machine, lanes: Lanes, opcode: Any, taddr: Reader, count: Reader) -> None:
    memory = TensorMemory.of(machine)
    agree(machine, lanes, taddr, count)
    lanes = machine.whole_warps(lanes)
    index = machine.index(lanes)
    if not len(index):
        return
    bases, columns = (machine.uniform(read(machine, lanes), lanes) for read in (taddr, count))
    for lane, cta, warp in _warps(machine, lanes):
        one, at = np.array([lane]), int(np.searchsorted(index, lane))
        base, size = int(bases[at]), int(columns[at])
        mine = memory.allocated.get(cta, [])
        matches = [a for a in mine if (a.base, a.columns) == (base, size)]
        if not matches:
            have = ", ".join(f"{a.columns} columns at {a.base}" for a in mine) or "none"
            machine.hazard("tensor", f"dealloc must free an allocation ({have}), got {size} columns at {base}", one)
        if matches[0].warp != warp:
            machine.hazard("tensor", "a warp must deallocate only its own columns, got columns of another warp", one)
        cells = _columns(cta, base, size)
        touched = cells[(memory.shadow.writer[cells] != 0) | (memory.shadow.reader[cells] != 0)]
        memory.touch(one, 0, lane, touched, "freed", fenced=False)
        memory.shadow.forget(cells)
        mine.remove(matches[0])
    machine.launch.version += 1


def _relinquish(instruction: Instruction, program: Program) -> Step:
    _group(instruction)

    def step(machine: Machine, lanes: Lanes) -> None:
        memory = TensorMemory.of(machine)
        lanes = machine.whole_warps(lanes)
        if not machine.size(lanes):
            return
        for _, cta, _warp in _warps(machine, lanes):
            memory.relinquished.add(cta)

    return step


def _cp(instruction: Instruction, program: Program) -> Step:
    group = _group(instruction)
    formats = ("b8x16", *PACKED_BITS)
    shape = tuple(part for part in instruction.opcode[2:] if not part.startswith("cta_group") and part not in formats)
    packed = next((bits for name, bits in PACKED_BITS.items() if name in instruction.opcode), 0)
    if shape not in COPY_SHAPES or len(instruction.operands) != 2:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    target = address_reader(instruction.operands[0], instruction, program)
    descriptor = reader(instruction.operands[1], "b64", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        _demand_pairs(machine, group, lanes)
        places = machine.uniform(target(machine, lanes), lanes)
        words = machine.uniform(descriptor(machine, lanes), lanes)
        for position, lane in enumerate(machine.index(lanes).tolist()):
            cta = int(machine.cta_of[lane])
            for receiver in [cta] if group == 1 else [cta & ~1, cta | 1]:
                _issue(machine, lane, receiver, int(places[position]), int(words[position]), shape, group, packed)

    return step


def _issue(
    machine: Machine, lane: int, cta: int, taddr: int, word: int, shape: tuple[str, ...], group: int, packed: int
) -> None:
    """Start a tcgen05.cp; ``packed``: bits of an element if 16 elements at the beginning of 16 bytes become bytes, else 0."""
    memory, one = TensorMemory.of(machine), np.array([lane])
    rows, units, spread = COPY_SHAPES[shape]
    places = places_of(machine, lane, cta, Descriptor.read(machine, one, word, TCGEN05).k_major(rows, units))
    cells = check_sent(machine, one, places, 16)
    column, base_lane = taddr & 0xFFFF, taddr >> 16
    targets = np.stack([base_lane + part for part in spread(np.arange(rows))])  # (parts, rows)
    if column % 4:
        machine.hazard("alignment", f"the first column of a tcgen05.cp must be a multiple of 4, got {column}", one)
    memory.inside(one, cta, column, column + 4 * units - 1, (int(targets.min()), int(targets.max())))
    spots = cta * CELLS + targets[:, :, None] * COLUMNS + column + np.arange(4 * units)
    memory.touch(one, 0, lane, spots, "written")
    operation = machine.engines.start(
        "tcgen05.cp", lane, completes_late, "a tcgen05.commit of the issuing thread and a wait for the commit are missing", reads=np.unique(cells),
        ctas=(cta,), data={"place_rows": places, "cells": spots, "units": units, "packed": packed},
    )  # fmt: skip
    machine.engines.begin(operation)
    memory.shadow.begin(operation.actor, None, np.unique(spots.ravel()))
    memory.copies.setdefault((lane, group), []).append(operation)
    if machine.launch.observer is not None:  # each unit of 16 bytes goes to four words of each of its lanes
        lands = spots.reshape(len(spots), -1, 4)[:, :, 0]
        pieces = np.tile(places, len(lands))
        observed.tell_transfer(machine, np.full(len(pieces), lane), ("shared", pieces), ("tensor", lands.ravel()), 16)


def _commit(instruction: Instruction, program: Program) -> Step:
    group = _group(instruction)
    multicast = "multicast::cluster" in instruction.opcode
    demand_count(instruction, 1 + multicast)
    target = shared_address(instruction.operands[0], instruction, program)
    mask = reader(instruction.operands[1], "b16", instruction, program) if multicast else None

    def step(machine: Machine, lanes: Lanes) -> None:
        memory = TensorMemory.of(machine)
        addresses = machine.rows(target(machine, lanes), lanes)
        masks = machine.uniform(mask(machine, lanes), lanes) if mask is not None else None
        machine.uniform(addresses, lanes)
        for position, lane in enumerate(machine.index(lanes).tolist()):
            one = np.array([lane])
            ranks = [-1] if masks is None else [r for r in range(16) if int(masks[position]) >> r & 1]
            tracked = list(memory.copies.get((lane, group), []))
            for rank in ranks:
                address = addresses[position : position + 1]
                place = int(machine.shared.place(one, at_rank(address, rank), 8, remote=True)[0])
                machine.mbarriers.use(one, np.array([0]), place)
                operation = machine.engines.start(
                    "tcgen05.commit", lane, partial(_complete_commit, machine), "a wait on the commit's mbarrier is missing", barrier=place,
                    ctas=(int(machine.cta_of[lane]), place // machine.shared.size), clock=machine.order.causes(lane), data={"tracked": tracked, "group": group},
                )  # fmt: skip
                machine.engines.pending.append(operation)
            memory.copies.pop((lane, group), None)

    return step


def result_of(data: dict[str, Any]) -> tuple[int, ...]:
    """Return a key for the matrix D that an operation writes: the first cell, and D's extents. Return () for a copy."""
    return (int(data["cells"][0, 0]), *data["cells"].shape) if "product" in data else ()


def _complete_commit(machine: Machine, operation: Operation) -> None:
    """Complete the thread's operations before a commit, and arrive on its mbarrier."""
    memory = TensorMemory.of(machine)
    barrier = machine.mbarriers.objects.get(operation.barrier)
    if barrier is None:
        what = "the mbarrier of a tcgen05.commit must not be invalidated before the commit completes: wait for it first"
        machine.hazard("mbarrier", what, np.array([operation.lane]))
    actor = machine.mbarriers.actor(barrier)
    stamps = stamp(machine.launch.time.now, WEAK, actor)
    for old in operation.data["tracked"]:
        copy = machine.in_flight.get(old.number)
        if copy is None:
            continue
        data, spots = copy.data, copy.data["cells"]
        memory.completed_stamps.setdefault((copy.lane, result_of(data)), set()).add(int(stamps))
        if "product" in data:
            data["product"].complete(machine, copy)
        else:
            raw = machine.shared.fetch(data["place_rows"], 16)  # (rows * units, C, 16)
            raw = widen(raw, data["packed"]) if data["packed"] else raw
            words = np.ascontiguousarray(raw).view(np.uint32).transpose(0, 2, 1)  # (rows * units, 4, C)
            memory.words[spots] = words.reshape(spots.shape[1], spots.shape[2], -1)
            memory.low_alone[spots] = False
        memory.shadow.complete(copy.actor, spots.ravel(), stamps)
        machine.engines.done(copy, actor)
    machine.in_flight.pop(operation.number, None)
    # a commit covers all earlier operations of its thread, including those that completed on another mbarrier
    row = machine.order.completion(barrier.column, machine.launch.time.now)
    commit_clock = Clock({barrier.place // machine.shared.size + machine.order.first: row})
    who = operation.lane, operation.data["group"]
    memory.completed[who] = join([memory.completed.get(who, NOTHING), commit_clock])
    clock = join([operation.clock or NOTHING, memory.completed[who]])
    machine.mbarriers.arrive_for(barrier, operation.lane, clock)


@with_operands()
def _fence(machine: Machine, lanes: Lanes, opcode: Any) -> None:
    index = machine.index(lanes)
    if opcode[1] == "fence::before_thread_sync":
        machine.order.fence(index, (TENSOR,))
        return
    memory = TensorMemory.of(machine)
    for lane in index.tolist():
        memory.after[lane] = dict(machine.order.snapshot(np.array([lane])).rows)


def _form(instruction: Instruction) -> tuple[str, int, bool]:
    """Return the shape and repeats of ``tcgen05.ld`` or ``st``, and whether registers are halves."""
    kind = instruction.opcode[1]
    parts = [part for part in instruction.opcode[2:] if part not in ("sync", "aligned", "b32")]
    halves = parts[2:] == [HALVES[kind]]
    repeats = [f"x{1 << power}" for power in range(8)]
    fits = len(parts) == 2 + halves and parts[0] in TRANSFER_REGISTERS and parts[1] in repeats
    if not fits or int(parts[1][1:]) * TRANSFER_REGISTERS[parts[0]] > MOST_REGISTERS:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    return parts[0], int(parts[1][1:]), halves


def _transfer(instruction: Instruction, program: Program) -> Step:  # noqa: C901, PLR0915 (the shapes of tensor-memory loads and stores)
    kind = instruction.opcode[1]
    shape, count, halves = _form(instruction)
    operands = list(instruction.operands)
    registers = operands.pop(0) if kind == "ld" else operands.pop()
    if not isinstance(registers, Braces):
        raise refuse(instruction, f"expected registers in braces, got '{registers}'")
    split = 0
    if shape == "16x32bx2":
        split = immediate(operands.pop(), instruction, "the offset of the second half")
    if len(operands) != 1:
        raise refuse(instruction, "expected one address")
    rows, columns = load_places(shape, count, split)
    if len(registers.items) != rows.shape[1]:
        raise refuse(instruction, f"expected {rows.shape[1]} registers, got {len(registers.items)}")
    if halves:
        columns = columns + load_places(shape, count)[1]  # a register is two columns; the offset of the halves stays
    address = address_reader(operands[0], instruction, program)
    writers = [writer(name, "b32", instruction, program) for name in registers.items] if kind == "ld" else []
    readers = [reader(name, "b32", instruction, program) for name in registers.items] if kind == "st" else []
    half = shape != "32x32b"

    def step(machine: Machine, lanes: Lanes) -> None:  # noqa: PLR0912 (the shapes of tensor-memory loads and stores)
        agree(machine, lanes, address)
        lanes = machine.whole_warps(lanes)
        memory, index = TensorMemory.of(machine), machine.index(lanes)
        if not len(index):
            return
        addresses = machine.uniform(address(machine, lanes), lanes).astype(np.int64)
        for first, cta, warp in _warps(machine, lanes):
            members = np.nonzero(machine.warp_of[index] == warp)[0]
            mine = addresses[members]
            if (mine != mine[0]).any():
                machine.hazard("aligned", "all lanes of a warp must have the same address", lanes, int(members[0]))
            slab = int(machine.warp[first, 0]) % 4
            row, column = int(mine[0]) >> 16, int(mine[0]) & 0xFFFF
            if row not in (firsts := (32 * slab, 32 * slab + 16) if half else (32 * slab,)):
                machine.hazard(
                    "window", f"an access by warp {slab} must begin in lane {' or '.join(map(str, firsts))}, got lane {row}",
                    lanes, int(members[0]),
                )  # fmt: skip
            inside = machine.lane[index[members], 0]
            spots = cta * CELLS + (row + rows[inside]) * COLUMNS + column + columns[inside]
            cells = np.unique([spots, spots + 1]) if halves else np.unique(spots)
            last = column + int(columns.max()) + halves
            memory.inside(lanes, cta, column, last, (row, row + int(rows.max())), int(members[0]))
            memory.touch(lanes, int(members[0]), first, cells, "read" if kind == "ld" else "written")
            lanes_here = index[members]
            if kind == "ld":
                values = memory.words[spots]  # (lanes, registers, C)
                if halves:
                    values = values & 0xFFFF | memory.words[spots + 1] << 16
                else:
                    memory.demand_upper(cells, lanes, int(members[0]), machine.at)
                for name in registers.items:
                    if name != "_":
                        machine.undefine(name, lanes_here)
                        machine.loading.add(name)
                memory.loads.append(_InFlight(lanes_here, cells, writers, values, machine.at, first))
            else:
                memory.low_alone[cells] = halves
                for number, read in enumerate(readers):
                    register_words = np.broadcast_to(read(machine, lanes_here), (len(lanes_here), machine.copies))
                    memory.words[spots[:, number]] = register_words & 0xFFFF if halves else register_words
                    if halves:
                        memory.words[spots[:, number] + 1] = register_words >> 16
                memory.stores.append(_InFlight(lanes_here, cells, [], None, machine.at, first))
            if machine.launch.observer is not None:
                words = np.ascontiguousarray(memory.words[spots.ravel()])[..., None].view(np.uint8)
                who = np.repeat(lanes_here, spots.shape[1])
                observed.tell_access(
                    machine, "load" if kind == "ld" else "store", who, ("tensor", spots.ravel()), words
                )
        machine.launch.version += 1

    return step


@with_operands()
def _wait(machine: Machine, lanes: Lanes, opcode: Any) -> None:
    memory, loads = TensorMemory.of(machine), "wait::ld" in opcode
    lanes = machine.whole_warps(lanes)
    if not machine.size(lanes):
        return
    waiting = np.zeros(machine.units, bool)
    waiting[lanes] = True
    transfers = memory.loads if loads else memory.stores
    for transfer in transfers:
        for number, write in enumerate(transfer.writers if waiting[transfer.leader] else ()):
            write(machine, transfer.lanes, transfer.values[:, number])
    transfers[:] = [transfer for transfer in transfers if not waiting[transfer.leader]]


INSTRUCTIONS: dict[str, Handler] = {
    "tcgen05.alloc": _alloc,
    "tcgen05.dealloc": _dealloc,
    "tcgen05.relinquish_alloc_permit": _relinquish,
    "tcgen05.cp": _cp,
    "tcgen05.commit": _commit,
    **dict.fromkeys(("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"), _fence),
    **dict.fromkeys(("tcgen05.ld", "tcgen05.st"), _transfer),
    **dict.fromkeys(("tcgen05.wait::ld", "tcgen05.wait::st"), _wait),
}
