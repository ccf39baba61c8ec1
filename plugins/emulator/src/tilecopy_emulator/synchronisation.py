"""Barriers, fences, ``cp.async``, mbarriers, clusters and bulk copies.

Asynchronous work lands as late as the memory model allows: ``cp.async`` at the wait that covers its group, a bulk
copy when no thread can run without it. Until then its destination may not be touched, nor its source written.
Source: PTX ISA 9.7.9.25 (data movement), 9.7.13 (synchronisation).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from .accesses import address
from .arithmetic import value
from .machine import AT_BARRIER, AT_CLUSTER, AT_MBARRIER, AT_WARP, DONE, FULL, RUN, Machine, Step
from .memory import ENGINE
from .program import Instruction, Memory, UnsupportedPtxError

TX_LIMIT = 2**20 - 1


def _is_number(operand: Any) -> bool:
    return str(operand).lstrip("-")[:1].isdigit()


def _unknown(instruction: Instruction) -> UnsupportedPtxError:
    return UnsupportedPtxError(f"PTX line {instruction.line}: '{instruction.text}' is not known")


# --------------------------------------------------------------------------------------------- barriers


def _bar(instruction: Instruction) -> Step:
    if instruction.opcode[:3] == ("bar", "warp", "sync"):
        return _bar_warp
    operands = instruction.operands
    if "sync" not in instruction.opcode or not all(_is_number(operand) for operand in operands):
        raise _unknown(instruction)
    barrier = int(str(operands[0]), 0)
    expected = int(str(operands[1]), 0) if len(operands) > 1 else None

    def step(machine: Machine, lanes: Any) -> None:
        needed = machine.threads if expected is None else expected
        if lanes is FULL and needed == machine.threads:
            machine.synchronise_ctas(np.arange(machine.ctas))
            return
        machine.park(lanes, AT_BARRIER)
        machine.barrier_of[lanes] = barrier
        for cta in np.unique(machine.cta_of(lanes)):
            members = machine.ids[cta * machine.threads : (cta + 1) * machine.threads]
            here = members[(machine.status[members] == AT_BARRIER) & (machine.barrier_of[members] == barrier)]
            if len(here) < needed:
                continue
            for warp in np.unique(machine.warp_ids[here]):
                inside = here[machine.warp_ids[here] == warp]
                if len(set(machine.pc[inside].tolist())) > 1:
                    machine.hazard(
                        "barrier", "the lanes of one warp reach this barrier at different instructions", inside
                    )
            machine.status[here] = RUN
            if needed == machine.threads:
                machine.synchronise_ctas(np.array([cta]))
            else:
                machine.synchronise_threads(here)

    return step


def _bar_warp(machine: Machine, lanes: Any) -> None:
    if lanes is FULL:
        machine.warp_floor[:] = machine.now
        machine.now += 1
        return
    machine.park(lanes, AT_WARP)
    for warp in np.unique(machine.warp_ids[lanes]):
        members = machine.ids[machine.warp_ids == warp]
        if (machine.status[members] == AT_WARP).all():
            machine.status[members] = RUN
            machine.warp_floor[warp] = machine.now
    machine.now += 1


def _barrier(instruction: Instruction) -> Step:
    if instruction.opcode[1] != "cluster":
        raise _unknown(instruction)
    if instruction.opcode[2] == "arrive":
        return _cluster_arrive
    return _cluster_wait


def _cluster_arrive(machine: Machine, lanes: Any) -> None:
    if machine.cluster_arrived[lanes].any():
        machine.hazard("barrier", "arrives twice on the cluster barrier with no wait between", lanes)
    machine.cluster_arrived[lanes] = True


def _cluster_wait(machine: Machine, lanes: Any) -> None:
    if not machine.cluster_arrived[lanes].all():
        machine.hazard("barrier", "waits on the cluster barrier and has not arrived", lanes)
    if lanes is FULL:
        machine.cluster_arrived[:] = False
        machine.synchronise_clusters(np.arange(machine.ctas // machine.cluster_size))
        return
    machine.park(lanes, AT_CLUSTER)
    for cluster in np.unique(machine.lane_ids(lanes) // machine.cluster_threads):
        members = machine.ids[cluster * machine.cluster_threads : (cluster + 1) * machine.cluster_threads]
        living = members[machine.status[members] != DONE]
        if (machine.status[living] == AT_CLUSTER).all():
            machine.status[living] = RUN
            machine.cluster_arrived[living] = False
            machine.synchronise_clusters(np.array([cluster]))


def _fence(instruction: Instruction) -> Step:
    kind = instruction.opcode[1]

    def step(machine: Machine, lanes: Any) -> None:
        if kind == "proxy":
            machine.fence_time[lanes] = machine.now
            machine.fence_floor[lanes] = machine.floor_of(lanes)
            machine.now += 1
        elif kind == "mbarrier_init":
            ids = set(machine.lane_ids(lanes).tolist())
            for barrier in machine.mbarriers.values():
                barrier.fenced |= barrier.initialiser in ids

    return step


# --------------------------------------------------------------------------------------------- cp.async


@attrs.define(eq=False)
class _AsyncCopy:
    """One ``cp.async`` of several lanes, in flight."""

    at: int
    lanes: Any
    places: Any
    sources: Any
    size: int
    keep: Any
    group: Any


def _cp(instruction: Instruction) -> Step:
    if instruction.opcode[1] != "async":
        raise _unknown(instruction)
    kind = instruction.opcode[2] if len(instruction.opcode) > 2 else ""
    if kind == "bulk":
        return _bulk(instruction)
    if kind == "commit_group":
        return _commit_group
    if kind in ("wait_group", "wait_all"):
        pending = int(str(instruction.operands[0])) if kind == "wait_group" else -1
        return lambda machine, lanes: _wait_group(machine, lanes, pending)
    if kind in ("ca", "cg"):
        return _cp_async(instruction)
    raise _unknown(instruction)


def _cp_async(instruction: Instruction) -> Step:
    destination, source, size_text, *rest = instruction.operands
    size = int(str(size_text))
    if size not in ((16,) if instruction.opcode[2] == "cg" else (4, 8, 16)):
        raise UnsupportedPtxError(
            f"PTX line {instruction.line}: cp.async.{instruction.opcode[2]} does not copy {size} bytes"
        )

    def step(machine: Machine, lanes: Any) -> None:
        ids = machine.lane_ids(lanes)
        keep = np.full(len(ids), size)
        if rest and str(rest[0]).startswith("%p"):  # the ignore-src predicate
            keep = np.where(machine.read(str(rest[0]), lanes), 0, size).astype(np.int64)
        elif rest:
            keep = np.broadcast_to(np.asarray(value(machine, rest[0], lanes, "u32")).astype(np.int64), (len(ids),))
        places = machine.shared.place(machine, lanes, address(machine, destination, lanes, 32), size)
        addresses = address(machine, source, lanes, 64)
        used = np.nonzero(keep > 0)[0]
        sources = np.full((len(ids), 2), -1, np.int64)
        if len(used):
            part = lanes if len(used) == len(ids) else ids[used]
            for array, chosen, offsets in machine.memory.locate(machine, part, addresses[used], size, write=False):
                rows = used[chosen]
                sources[rows, 0], sources[rows, 1] = array, offsets
        machine.shared.check_write(machine, lanes, places, size, pending=True)
        machine.copies.append(_AsyncCopy(machine.at, ids, places, sources, size, keep, machine.committed[ids].copy()))

    return step


def _commit_group(machine: Machine, lanes: Any) -> None:
    machine.committed[lanes] += 1


def _wait_group(machine: Machine, lanes: Any, pending: int) -> None:
    waiting = np.zeros(machine.count, bool)
    waiting[lanes] = True
    left = []
    for copy in machine.copies:
        ready = waiting[copy.lanes] & (copy.group < machine.committed[copy.lanes] - pending)
        if ready.all():
            _land_cp_async(machine, copy)
        elif ready.any():
            _land_cp_async(machine, _part_of(copy, ready))
            left.append(_part_of(copy, ~ready))
        else:
            left.append(copy)
    machine.copies = left


def _part_of(copy: _AsyncCopy, chosen: Any) -> _AsyncCopy:
    return _AsyncCopy(
        copy.at,
        copy.lanes[chosen],
        copy.places[chosen],
        copy.sources[chosen],
        copy.size,
        copy.keep[chosen],
        copy.group[chosen],
    )


def _land_cp_async(machine: Machine, copy: _AsyncCopy) -> None:
    values = np.zeros((len(copy.lanes), copy.size), np.uint8)
    for array in np.unique(copy.sources[:, 0]):
        if array >= 0:
            rows = copy.sources[:, 0] == array
            values[rows] = machine.memory.read(int(array), copy.sources[rows, 1], copy.size)
    values[np.arange(copy.size) >= copy.keep[:, None]] = 0
    machine.shared.write(copy.places, values)
    cells = machine.shared.granules(copy.places, copy.size)
    machine.shared.shadow.pending[cells] = False
    machine.shared.shadow.write_time[cells] = machine.now


# --------------------------------------------------------------------------------------------- mbarrier


@attrs.define(eq=False)
class Mbarrier:
    """The state of one mbarrier (PTX ISA 9.7.13.15)."""

    name: str
    expected: int
    initialiser: int
    init_time: int
    arrivals: Any
    seen: Any
    pending: int = 0
    phase: int = 0
    tx: int = 0
    fenced: bool = False

    def __str__(self) -> str:
        return f"{self.name}: phase {self.phase}, {self.pending} arrivals and {self.tx} bytes missing"

    def test(self, machine: Machine, place: int) -> None:
        """Complete the phase when nothing is missing."""
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected
            self.seen = np.maximum(self.seen, self.arrivals)
            waiting = (machine.status == AT_MBARRIER) & (machine.barrier_place == place)
            machine.status[waiting] = RUN

    def add_tx(self, machine: Machine, count: int, lanes: Any) -> None:
        """Count bytes, within the range of the hardware."""
        self.tx += count
        if abs(self.tx) > TX_LIMIT:
            machine.hazard("mbarrier", f"{self.name}: {self.tx} bytes pass the {TX_LIMIT} that one phase counts", lanes)


def mbarrier_at(machine: Machine, place: int, lane: int) -> Mbarrier:
    """The mbarrier at a byte of shared memory, as a lane may use it: initialised, fenced if remote, ordered after its init."""
    lanes = np.array([lane])
    barrier: Mbarrier | None = machine.mbarriers.get(place)
    if barrier is None:
        machine.hazard(
            "mbarrier", f"{machine.shared.where(place // machine.shared.granule)} is not an initialised mbarrier", lanes
        )
    home, cta = place // machine.shared.size, lane // machine.threads
    if home != cta and not barrier.fenced:
        machine.hazard(
            "mbarrier",
            f"{barrier.name} of another CTA is used and its init was not fenced (fence.mbarrier_init)",
            lanes,
        )
    seen = machine.floor[cta] if home == cta else machine.cluster_floor[cta]
    knows = (
        machine.known is not None
        and machine.known[lane, barrier.initialiser % machine.cluster_threads] >= barrier.init_time
    )
    if lane != barrier.initialiser and barrier.init_time > seen and not knows:
        machine.hazard("race", f"{barrier.name} is used with no barrier since its init", lanes)
    return barrier


def _mbarrier(instruction: Instruction) -> Step:
    opcode, operands = instruction.opcode, instruction.operands
    kind = opcode[1]
    remote = "shared::cluster" in opcode
    target = next((operand for operand in operands if isinstance(operand, Memory)), None)
    if kind not in ("init", "arrive", "expect_tx", "complete_tx", "try_wait", "test_wait", "inval") or target is None:
        raise _unknown(instruction)
    last = operands[-1]

    def places_of(machine: Machine, lanes: Any) -> Any:
        return machine.shared.place(machine, lanes, address(machine, target, lanes, 32), 8, remote=remote)

    def numbers(machine: Machine, lanes: Any) -> Any:
        count = len(machine.lane_ids(lanes))
        return np.broadcast_to(np.asarray(value(machine, last, lanes, "u32")).astype(np.int64), (count,))

    def init(machine: Machine, lanes: Any) -> None:
        machine.need_clocks()
        places = places_of(machine, lanes)
        machine.shared.check_write(machine, lanes, places, 8)
        for lane, place, count in zip(machine.lane_ids(lanes), places, numbers(machine, lanes), strict=True):
            if not 1 <= count < 2**20:
                machine.hazard("mbarrier", f"init with a count of {count}", np.array([lane]))
            clock = np.zeros(machine.cluster_threads + 1, np.int32)
            name = machine.shared.where(int(place) // machine.shared.granule)
            machine.mbarriers[int(place)] = Mbarrier(
                name, int(count), int(lane), machine.now, clock, clock.copy(), pending=int(count)
            )

    def arrive(machine: Machine, lanes: Any) -> None:
        expects, arrives = "expect_tx" in opcode, kind == "arrive"
        amounts = numbers(machine, lanes) if expects else None
        places = places_of(machine, lanes)
        if arrives and not remote and str(operands[0]) != "_":
            machine.write(str(operands[0]), lanes, np.zeros(len(places), np.uint64))
        for position, (lane, place) in enumerate(zip(machine.lane_ids(lanes), places, strict=True)):
            barrier = mbarrier_at(machine, int(place), int(lane))
            if amounts is not None:
                barrier.add_tx(machine, int(amounts[position]), np.array([lane]))
            if arrives:
                note_arrival(machine, barrier, int(lane))
                barrier.pending -= 1
                if barrier.pending < 0:
                    machine.hazard(
                        "mbarrier", f"{barrier.name}: more arrivals than the phase expects", np.array([lane])
                    )
                barrier.test(machine, int(place))
        machine.now += 1

    def wait(machine: Machine, lanes: Any) -> None:
        ids, places, parities = machine.lane_ids(lanes), places_of(machine, lanes), numbers(machine, lanes)
        done = np.zeros(len(ids), bool)
        for place in np.unique(places):
            at_place = np.nonzero(places == place)[0]
            for position in at_place:
                barrier = mbarrier_at(machine, int(place), int(ids[position]))
            done[at_place] = (barrier.phase & 1) != (parities[at_place] & 1)
            passed = ids[at_place[done[at_place]]]
            known = machine.need_clocks()
            known[passed] = np.maximum(known[passed], barrier.seen)
        if done.all():
            machine.write(str(operands[0]), lanes, done)
            return
        machine.write(str(operands[0]), ids[done], done[done])
        machine.barrier_place[ids[~done]] = places[~done]
        machine.park(ids[~done], AT_MBARRIER)

    if kind == "inval":
        return lambda machine, lanes: None
    return init if kind == "init" else wait if kind in ("try_wait", "test_wait") else arrive


def note_arrival(machine: Machine, barrier: Mbarrier, lane: int) -> None:
    """What the arriving thread has done and knows is passed on by the phase."""
    known = machine.need_clocks()
    cta = lane // machine.threads
    barrier.arrivals = np.maximum(barrier.arrivals, known[lane])
    first = cta * machine.threads % machine.cluster_threads
    inside = slice(first, first + machine.threads)
    barrier.arrivals[inside] = np.maximum(barrier.arrivals[inside], machine.floor[cta])
    barrier.arrivals[lane % machine.cluster_threads] = machine.now


# --------------------------------------------------------------------------------------------- clusters, bulk copies


def _mapa(instruction: Instruction) -> Step:
    if instruction.opcode[1] != "shared::cluster":
        raise _unknown(instruction)
    destination, source, rank = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        ranks = np.broadcast_to(np.asarray(value(machine, rank, lanes, "u32")), (len(machine.lane_ids(lanes)),))
        if (ranks >= machine.cluster_size).any():
            at = int(np.argmax(ranks >= machine.cluster_size))
            machine.hazard("window", f"CTA {int(ranks[at])} of a cluster of {machine.cluster_size}", lanes, at)
        mapped = (value(machine, source, lanes, "u32") & np.uint32(0xFFFFFF)) | (ranks << np.uint32(24))
        machine.write(str(destination), lanes, mapped)

    return step


@attrs.define(eq=False)
class _BulkCopy:
    """One bulk copy in flight between the shared memories of two CTAs."""

    at: int
    lane: int
    source: int
    destination: int
    size: int
    barrier: int
    shared_size: int

    def ctas(self) -> list[int]:
        """The CTAs whose memory it uses."""
        return [self.source // self.shared_size, self.destination // self.shared_size]

    def land(self, machine: Machine) -> None:
        """Move the bytes, then count them on the mbarrier."""
        shared, shadow = machine.shared, machine.shared.shadow
        machine.at = self.at
        shared.data[self.destination : self.destination + self.size] = shared.data[
            self.source : self.source + self.size
        ]
        cells = shared.granules(np.array([self.destination]), self.size)
        shadow.pending[cells], shadow.written[cells] = False, True
        shadow.writer[cells], shadow.write_time[cells] = ENGINE, machine.now
        shadow.busy[shared.granules(np.array([self.source]), self.size)] -= 1
        barrier = machine.mbarriers[self.barrier]
        barrier.arrivals[machine.cluster_threads] = machine.now
        barrier.add_tx(machine, -self.size, np.array([self.lane]))
        machine.now += 1
        barrier.test(machine, self.barrier)


def _bulk(instruction: Instruction) -> Step:
    opcode, operands = instruction.opcode, instruction.operands
    if opcode[3:5] != ("shared::cluster", "shared::cta") or len(operands) != 4:
        raise _unknown(instruction)
    destination, source, size_operand, barrier = operands

    def step(machine: Machine, lanes: Any) -> None:
        ids = machine.lane_ids(lanes)
        sizes = np.broadcast_to(np.asarray(value(machine, size_operand, lanes, "u32")), (len(ids),))
        addresses = [address(machine, x, lanes, 32) for x in (destination, source, barrier)]
        for position, lane in enumerate(ids):
            _issue_bulk(machine, int(lane), int(sizes[position]), *(a[position : position + 1] for a in addresses))

    return step


def _issue_bulk(machine: Machine, lane: int, size: int, to: Any, source: Any, barrier: Any) -> None:
    one, shared = np.array([lane]), machine.shared
    if size % 16 or size == 0:
        machine.hazard("alignment", f"a bulk copy of {size} bytes; the size is a multiple of 16", one)
    source_place = shared.place(machine, one, source, size)
    place = shared.place(machine, one, to, size, remote=True)
    barrier_place = int(shared.place(machine, one, barrier, 8, remote=True)[0])
    if int(place[0]) // shared.size == lane // machine.threads:
        machine.hazard(
            "window", "the destination of a bulk copy is the CTA itself; it must be another of the cluster", one
        )
    if barrier_place // shared.size != int(place[0]) // shared.size:
        machine.hazard("window", "the mbarrier of a bulk copy is not in the CTA of its destination", one)
    mbarrier_at(machine, barrier_place, lane)
    shared.check_read(machine, one, source_place, size)
    check_proxy(machine, lane, source_place, size, "read")
    check_proxy(machine, lane, place, size, "written")
    shared.check_write(machine, one, place, size, pending=True)
    shared.shadow.busy[shared.granules(source_place, size)] += 1
    machine.engines.append(
        _BulkCopy(machine.at, lane, int(source_place[0]), int(place[0]), size, barrier_place, shared.size)
    )


def check_proxy(machine: Machine, lane: int, places: Any, size: int, action: str) -> None:
    """Bytes that the async proxy touches: an ordinary write to them needs ``fence.proxy.async`` behind it."""
    shared = machine.shared
    cells = shared.granules(places, size)
    writer, time = shared.shadow.writer[cells], shared.shadow.write_time[cells]
    fenced = (machine.fence_time[np.where(writer >= 0, writer, 0)] >= time) | (time <= machine.fence_floor[lane])
    bare = (writer >= 0) & ~fenced & shared.shadow.written[cells]
    if bare.any():
        cell = int(cells[np.unravel_index(int(np.argmax(bare)), bare.shape)])
        machine.hazard(
            "proxy",
            f"{shared.where(cell)} is {action} by the async proxy; {machine.name_of(int(shared.shadow.writer[cell]))} wrote "
            "it with no fence.proxy.async since",
            np.array([lane]),
        )


def _elect(instruction: Instruction) -> Step:
    lane_name, predicate = str(instruction.operands[0]).split("|")

    def step(machine: Machine, lanes: Any) -> None:
        ids = machine.lane_ids(lanes)
        warps = machine.warp_ids[ids]
        last = np.zeros(int(warps.max()) + 1, np.int64)
        np.maximum.at(last, warps, ids)  # which lane is the implementation's choice; never lane 0 of a full warp here
        machine.write(predicate, lanes, last[warps] == ids)
        machine.write(lane_name, lanes, (last[warps] % machine.threads % 32).astype(np.uint32))

    return step


HANDLERS: dict[str, Callable[[Instruction], Step]] = {
    "bar": _bar,
    "barrier": _barrier,
    "cp": _cp,
    "elect": _elect,
    "fence": _fence,
    "mapa": _mapa,
    "mbarrier": _mbarrier,
}
