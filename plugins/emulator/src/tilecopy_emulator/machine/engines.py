"""Asynchronous operations: a thread issues them, and an engine completes them.

Until an operation completes, it is a hazard to access bytes that it writes, or to write bytes that it reads. It completes
as late as the memory model lets it: at the wait that covers it, or when no thread can run without it. Its accesses are then
ordered by the clock of its completion: the mbarrier's column, or the thread that waited for the group. So the order in
which operations complete does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from ..memory.memories import Memories
from ..memory_model.access import TENSOR_CELLS
from ..memory_model.clocks import ASYNC_SHARED, BARRIER_COLUMNS, Clock, join
from ..memory_model.shadow import (
    BARRIER_ACTOR,
    ENGINE,
    REDUCED,
    WEAK,
    actor_of,
    barrier_of,
    in_flight_stamp,
    stamp,
    time_of,
)
from ..threads.async_operations import Operation, Pending, completes_late, in_group
from ..threads.global_arrays import GlobalArray
from ..threads.threads import Lanes
from .mbarrier import Mbarrier, Mbarriers


@attrs.define(eq=False)
class _Copies:
    """The ``cp.async`` of several lanes by one instruction, in flight."""

    operation: Operation
    lanes: Any
    places: Any
    group: Any
    fetch: Callable[[Any], Any]
    cells_each: int
    tracked: Any = None


class Engines:
    """The asynchronous operations in flight in one batch of clusters."""

    def __init__(self, machine: Memories, mbarriers: Mbarriers) -> None:
        self.machine, self.mbarriers = machine, mbarriers
        self.pending: list[Operation] = []
        self.copies: list[_Copies] = []
        self.arrivals: list[tuple[int, int, Any, Clock, int]] = []
        self.used: dict[tuple[int, int], tuple[Operation, int]] = {}
        """CTA of the shared memory, and the mbarrier's actor -> the last operation, and the time when it completed."""
        self.refused = np.zeros(machine.unit_ctas, bool)
        """CTAs that saw a failed request to cancel a cluster."""
        self.committed = np.zeros(machine.units, np.int64)
        self.bulk_committed = np.zeros(machine.units, np.int64)

    def expand(self, copies: int, unit: int, shift: int) -> dict[tuple[int, int], Operation]:
        """Copy the operations to every cluster. Return a dictionary from (old number, cluster) to the new operation."""
        machine = self.machine
        size = machine.shared.size
        ctas = machine.unit_ctas // copies
        place_shift, cell_shift = ctas * size, ctas * size // machine.shared.cell
        self.committed, self.bulk_committed = np.tile(self.committed, copies), np.tile(self.bulk_committed, copies)
        pending, in_flight, lists = self.pending, machine.in_flight, self.copies
        arrivals = self.arrivals
        self.pending, machine.in_flight, self.copies, self.arrivals = [], {}, [], []
        self.refused = np.tile(self.refused, copies)
        self.used = {
            (cta + copy * ctas, actor + copy * ctas * BARRIER_COLUMNS): (
                attrs.evolve(old, lane=old.lane + copy * unit),
                time,
            )
            for (cta, actor), (old, time) in self.used.items()
            for copy in range(copies)
        }
        clones: dict[tuple[int, int], Operation] = {}
        for copy in range(copies):
            for old in in_flight.values():
                data = {k: _data_of(k, v, copy, place_shift, ctas) for k, v in old.data.items()}
                if "tracked" in data:  # created before it
                    data["tracked"] = [clones[x.number, copy] for x in data["tracked"] if (x.number, copy) in clones]
                new = attrs.evolve(
                    old,
                    number=old.number + copy * shift,
                    lane=old.lane + copy * unit,
                    reads=None if old.reads is None else old.reads + copy * cell_shift,
                    writes=None if old.writes is None else old.writes + copy * cell_shift,
                    barrier=old.barrier + copy * place_shift if old.barrier >= 0 else -1,
                    ctas=tuple(cta + copy * ctas for cta in old.ctas),
                    clock=None if old.clock is None else machine.order.renumber(old.clock, machine.first + copy * ctas),
                    data=data,
                    array_write=_array_of(old.array_write, copy),
                )
                if new.array_write is not None:
                    machine.launch.writing[new.number] = new
                    array, cells, _ = new.array_write
                    strength = REDUCED if new.reduces else ENGINE
                    array.shadow.complete(old.actor, cells, in_flight_stamp(new.actor, strength))
                clones[old.number, copy] = new
                machine.in_flight[new.number] = new
            self.pending += [clones[old.number, copy] for old in pending]
            for part in lists:
                tracked = part.tracked
                if tracked is not None:
                    tracked = np.where(tracked < 0, -1, tracked + copy * place_shift)
                self.copies.append(attrs.evolve(
                    part, operation=clones[part.operation.number, copy], lanes=part.lanes + copy * unit, tracked=tracked,
                    places=part.places + copy * place_shift, fetch=_fetch_of(part.fetch, copy), group=part.group.copy(),
                ))  # fmt: skip
            for at, lane, place, clock, noinc in arrivals:
                moved = machine.order.renumber(clock, machine.first + copy * ctas)
                self.arrivals.append((at, lane + copy * unit, place + copy * place_shift, moved, noinc))
        for array in machine.launch.memory.arrays:
            for number, reads in [entry for entry in array.in_flight.items() if entry[1][0].owner is in_flight]:
                del array.in_flight[number]
                for copy in range(copies if number in in_flight else 0):
                    of_copy = [read.of_copy(copy, machine.in_flight) for read in reads]
                    array.in_flight[clones[number, copy].number] = of_copy
        return clones

    def start(self, kind: str, lane: int, complete: Callable[[Operation], None], lack: str, **rest: Any) -> Operation:
        """Create an operation that one lane issues. Check the accesses first, and call :meth:`begin` afterwards."""
        launch = self.machine.launch
        launch.operations += 1
        launch.version += 1
        operation = Operation(kind, self.machine, launch.operations, self.machine.at, lane, complete, lack, **rest)
        self.machine.in_flight[operation.number] = operation
        return operation

    def begin(self, operation: Operation) -> None:
        """Mark the bytes of an operation as in use in shadow memory."""
        strength = REDUCED if operation.reduces else WEAK
        self.machine.shared.shadow.begin(operation.actor, operation.reads, operation.writes, strength)
        if operation.array_write is not None:
            self.machine.launch.writing[operation.number] = operation
            array, cells, _ = operation.array_write
            array.shadow.begin(operation.actor, None, cells, strength or ENGINE)

    def done(self, operation: Operation, actor: int) -> None:
        """Complete an operation in shadow memory: its accesses count as those of the lane or mbarrier ``actor``."""
        machine, now = self.machine, self.machine.launch.time.now
        stamps = stamp(now, REDUCED if operation.reduces else WEAK, actor)
        machine.shared.shadow.complete(operation.actor, operation.writes, stamps)
        if operation.writes is not None:
            machine.shared.seek(machine.shared.shadow, operation.writes, stamps, writes=True, copy=operation.at)
        if array := operation.data.get("array_from"):
            for read in array.in_flight.pop(operation.number, ()):
                machine.globals.remember(array, read, self._in_grid(np.array([actor])))
        self.used |= {(cta, actor): (operation, now) for cta in operation.ctas}
        self.machine.in_flight.pop(operation.number, None)

    def _in_grid(self, actors: Any) -> Any:
        """Return actors of the unit as in the stamps of global memory, with a row per actor and a column per copy."""
        machine = self.machine
        if np.array_equal(actors, machine.ids):  # the entries of a log should share memory
            return machine.grid_thread
        first = machine.first + np.arange(machine.copies) * machine.unit_ctas
        return actors[:, None] + first * np.where(actors < BARRIER_ACTOR, machine.threads, BARRIER_COLUMNS)[:, None]

    def complete_on_mbarrier(self, operation: Operation) -> Mbarrier:
        """Complete an operation that counts bytes on an mbarrier, and return the mbarrier."""
        machine = self.machine
        barrier = self.mbarriers.objects.get(operation.barrier)
        if barrier is None:
            what = "the mbarrier was invalidated before the copy completed"
            machine.hazard("mbarrier", what, np.array([operation.lane]), at=operation.at)
        self.done(operation, self.mbarriers.actor(barrier))
        if operation.clock is not None:
            barrier.near = join([barrier.near, operation.clock])
        self.mbarriers.complete_tx(barrier, operation.size, operation.lane)
        return barrier

    def complete_oldest(self) -> bool:
        """Complete the oldest operation. Return False if no operation is in flight."""
        if self.pending:
            operation = self.pending.pop(0)
            at, self.machine.at = self.machine.at, operation.at
            operation.complete(operation)
            self.machine.at = at
            return True
        if self.arrivals:
            self._arrive(self.arrivals.pop(0))
            return True
        return False

    def leaving(self, ending: Any) -> set[int]:
        """Check that exiting lanes waited for their copies, and that no copy uses an exiting CTA. Return the exiting CTAs."""
        machine = self.machine
        gone = np.isin(np.arange(machine.units), ending)
        for batch in self.copies:
            late = gone[batch.lanes] & (batch.tracked is None or batch.tracked[:] < 0)
            if np.any(late) and not batch.operation.was_reported:
                pending = self._lack(batch, int(np.argmax(late)))
                machine.hazard(
                    "lifetime", f"the thread exits while this cp.async is in flight: {pending}",
                    np.array([pending.lane]), at=batch.operation.at,
                )  # fmt: skip
        gone_set = set(ending.tolist()) if self.pending or self.machine.in_flight else set()
        for operation in self.machine.in_flight.values():
            unread = operation.group >= 0 and not operation.read and operation.lane in gone_set
            if unread and not operation.was_reported:
                machine.hazard(
                    "lifetime", f"the thread exits while this copy is in flight: {operation.pending()}",
                    np.array([operation.lane]), at=operation.at,
                )  # fmt: skip
        ctas = {cta for cta in set(machine.cta_of[ending].tolist()) if not len(machine.living(cta))}
        for operation in self.pending:
            if ctas & set(operation.ctas):
                self._lifetime(operation)
        for batch in self.copies:
            if ctas.intersection((batch.places // machine.shared.size).tolist()):
                self._lifetime(batch.operation)
        for (cta, actor), (operation, time) in self.used.items():
            if cta in ctas and not self._is_known(cta, actor, time):
                self._lifetime(operation)
        for cta in ctas:
            machine.shared.end_cta(cta, ending)
        return ctas

    def _is_known(self, cta: int, actor: int, time: int) -> bool:
        """Return True if a thread of a CTA waited for a completion on an mbarrier, or acquired from one that did."""
        machine, order = self.machine, self.machine.order
        members = machine.ids[cta * machine.threads : (cta + 1) * machine.threads]
        home, number = barrier_of(actor)
        key, column = home + order.first, order.barriers_at + number
        if (order.known_times(members, np.full(len(members), key), np.full(len(members), column)) >= time).any():
            return True
        heard = [location.clock.rows for lane in members.tolist() for location in machine.flags.heard.get(lane, ())]
        return any(key in rows and rows[key][column] >= time for rows in heard)

    def _lifetime(self, operation: Operation) -> None:
        if operation.was_reported:
            return
        what = "the CTA exits while this copy uses that CTA's shared memory (a wait or a cluster barrier is missing)"
        self.machine.hazard("lifetime", what, np.array([operation.lane]), at=operation.at)

    def finish(self) -> None:
        """Check that no operation is in flight when all threads have exited."""
        for operation in self.pending:
            self._lifetime(operation)

    def check_init(self, lane: int, place: int) -> None:
        """Check that ``fence.mbarrier_init`` or ``fence.proxy.async`` follows the init of an mbarrier that a bulk copy uses."""
        if not self.machine.launch.allows_unfenced_init:
            cells, _ = self.machine.shared.cells_from(np.array([place]), 8)
            other, more = "fence.mbarrier_init or ", ' (run_ptx(..., allow=("unfenced-init",)) allows this)'
            self.check_proxy(lane, cells, "used as the mbarrier of a bulk copy", other=other, more=more)

    def check_proxy(
        self, lane: int, cells: Any, action: str, *, stamps: Any = None, other: str = "", more: str = ""
    ) -> None:
        """Check that ``fence.proxy.async`` separates ordinary writes from later accesses by the async proxy.

        ``lane``: issues the operation; ``cells``: of shared memory; ``action``: the verb of the access, such as "read";
        ``stamps``: of their last writers, if they were overwritten since; ``other``: the name of another fence that
        is enough; ``more``: the end of the message.
        """
        machine = self.machine
        order = machine.order
        if stamps is None:
            stamps = machine.shared.shadow.writer[cells]
        actor = actor_of(stamps)
        plain = (stamps != 0) & (actor < BARRIER_ACTOR)
        if not plain.any():
            return
        actor, times, cells = actor[plain], time_of(stamps[plain]), cells[plain]
        columns = actor % machine.threads + order.section_at[ASYNC_SHARED]
        keys = actor // machine.threads + order.first
        fenced = order.covers(np.full(len(actor), lane), keys, columns, times)
        if not fenced.all():
            at = int(np.argmin(fenced))
            who = machine.name_of(int(actor[at]))
            machine.hazard(
                "proxy",
                f"{machine.shared.where(int(cells[at]) * machine.shared.cell)} is {action} by the async proxy with no "
                f"{other}fence.proxy.async of shared memory since it was written by {who}{more}", np.array([lane]), threads=(who,),
            )  # fmt: skip

    def copy(self, lanes: Lanes, places: Any, size: int, fetch: Callable[[Any], Any]) -> None:
        """Execute ``cp.async``. On completion, ``fetch(rows)`` returns bytes with shape (rows, clusters, size)."""
        machine = self.machine
        shared = machine.shared
        index = machine.index(lanes)
        shared.check_write(lanes, places, size)
        cells, count = shared.cells_from(places, size)
        operation = self.start("cp.async", int(index[0]), completes_late, "", writes=cells, explain=self._why_in_flight)
        self.begin(operation)
        self.copies.append(_Copies(operation, index, places, self.committed[index].copy(), fetch, count))

    def commit(self, lanes: Lanes) -> None:
        """Execute ``cp.async.commit_group``."""
        self.committed[lanes] += 1

    def wait(self, lanes: Lanes, newest: int) -> None:
        """Execute ``cp.async.wait_group``, or ``wait_all`` if ``newest`` is -1. ``newest`` groups may stay pending."""
        machine = self.machine
        if not self.copies:
            return
        waiting = np.zeros(machine.units, bool)
        waiting[lanes] = True
        pending = []
        for batch in self.copies:
            mine, later = waiting[batch.lanes], self.committed[batch.lanes] - batch.group
            rows = np.nonzero(mine & (later > newest) if newest >= 0 else mine)[0]
            if not len(rows) and mine.any():
                batch.operation.waited, batch.operation.newer_at_wait = machine.at, int(later[mine].min()) - 1
            pending += self._complete_copies(batch, rows, self._owners(batch, rows))
        self.copies = pending

    def _why_in_flight(self, operation: Operation, cell: int) -> Pending:
        """Return what is missing to complete a ``cp.async``, see :class:`Operation`."""
        first, row = next((x for x in self.copies if x.operation is operation), None), 0
        for batch in self.copies if cell >= 0 else ():
            cells = batch.places // self.machine.shared.cell
            here = np.nonzero((cells <= cell) & (cell < cells + batch.cells_each))[0]
            if batch.operation is operation and len(here):
                first, row = batch, int(here[0])
        assert first is not None
        return self._lack(first, row)

    def _lack(self, copies: _Copies, row: int) -> Pending:
        lane = int(copies.lanes[row])
        if copies.tracked is not None and copies.tracked[row] >= 0:
            return Pending(lane, "the wait on the mbarrier of cp.async.mbarrier.arrive is missing")
        newer = int(self.committed[lane]) - int(copies.group[row]) - 1
        return in_group(lane, "cp.async", newer, copies.operation)

    def bulk_lack(self, operation: Operation, _: int) -> Pending:
        """Return the reason why an operation of a bulk group is still in flight."""
        newer = int(self.bulk_committed[operation.lane]) - operation.group - 1
        return in_group(operation.lane, "cp.async.bulk", newer, operation)

    def _owners(self, batch: _Copies, rows: Any) -> Any:
        """Return the actors of the bytes after a lane waited: the lane, or the mbarrier that tracks them."""
        owners = batch.lanes[rows].astype(np.int64)
        if batch.tracked is None:
            return owners
        machine = self.machine
        for place in np.unique(batch.tracked[rows]).tolist():
            barrier = self.mbarriers.objects.get(place)
            if barrier is not None:
                here = batch.tracked[rows] == place
                owners[here] = self.mbarriers.actor(barrier)
                row = machine.order.completion(barrier.column, machine.launch.time.now)
                home = place // machine.shared.size
                machine.order.learn(home, batch.lanes[rows][here] - home * machine.threads, row)
        return owners

    def _part(self, batch: _Copies, rows: Any) -> _Copies:
        for array in self.machine.launch.memory.arrays:
            if reads := array.in_flight.get(batch.operation.number):
                array.in_flight[batch.operation.number] = [part.of_rows(rows) for part in reads]
        return attrs.evolve(
            batch, lanes=batch.lanes[rows], places=batch.places[rows], fetch=lambda inner: batch.fetch(rows[inner]),
            group=batch.group[rows], tracked=None if batch.tracked is None else batch.tracked[rows],
        )  # fmt: skip

    def _complete_copies(self, batch: _Copies, rows: Any, actors: Any) -> list[_Copies]:
        """Complete the copies of some lanes, whose bytes then belong to ``actors``. Return those that stay in flight."""
        machine, shared = self.machine, self.machine.shared
        if not len(rows):
            return [batch]
        raw = batch.fetch(rows)
        places = batch.places[rows]
        shared.put(places, np.broadcast_to(raw, (len(rows), machine.copies, raw.shape[2])))
        cells, count = shared.cells_from(places, raw.shape[2])
        stamps = np.repeat(stamp(machine.launch.time.now, WEAK, actors), count)
        shared.shadow.complete(batch.operation.actor, cells, stamps)
        shared.seek(shared.shadow, cells, stamps, writes=True, copy=batch.operation.at)
        for array in machine.launch.memory.arrays:
            for part in array.in_flight.get(batch.operation.number, ()):
                machine.globals.remember(array, part.of_rows(rows), self._in_grid(actors))
        machine.launch.version += 1
        if len(rows) < len(batch.lanes):
            return [self._part(batch, np.delete(np.arange(len(batch.lanes)), rows))]
        machine.in_flight.pop(batch.operation.number, None)
        for array in machine.launch.memory.arrays:
            array.in_flight.pop(batch.operation.number, None)
        return []

    def track(self, lanes: Lanes, places: Any, *, noinc: bool) -> None:
        """Execute ``cp.async.mbarrier.arrive``: arrive on the mbarrier when the lane's earlier copies are complete."""
        machine = self.machine
        index = machine.index(lanes)
        for position, (lane, place) in enumerate(zip(index.tolist(), places.tolist(), strict=True)):
            barrier = self.mbarriers.use(lanes, np.array([position]), place)
            if not noinc:
                barrier.pending += 1
            clock = machine.order.snapshot(np.array([lane]))
            self.arrivals.append((machine.at, lane, place, clock, int(noinc)))
        for batch in self.copies:
            if batch.tracked is None:
                batch.tracked = np.full(len(batch.lanes), -1, np.int64)
            spots = np.full(machine.units, -1, np.int64)
            spots[index] = places
            fresh = (batch.tracked < 0) & (spots[batch.lanes] >= 0)
            batch.tracked[fresh] = spots[batch.lanes][fresh]
        machine.launch.time.now += 1

    def _arrive(self, arrival: tuple[int, int, Any, Clock, int]) -> None:
        at, lane, place, clock, _ = arrival
        machine = self.machine
        barrier = self.mbarriers.objects.get(place)
        before, machine.at = machine.at, at
        if barrier is None:
            machine.hazard("mbarrier", "the mbarrier was invalidated before this arrival on it", np.array([lane]))
        pending, actor = [], self.mbarriers.actor(barrier)
        for batch in self.copies:
            mine = (batch.lanes == lane) & (batch.tracked == place if batch.tracked is not None else False)
            rows = np.nonzero(mine)[0]
            if len(rows):
                self.used[int(machine.cta_of[lane]), actor] = batch.operation, machine.launch.time.now
            pending += self._complete_copies(batch, rows, np.full(len(rows), actor))
        self.copies = pending
        self.mbarriers.arrive_for(barrier, lane, clock)
        machine.at = before

    def bulk_commit(self, lanes: Lanes) -> None:
        """Execute ``cp.async.bulk.commit_group``."""
        self.bulk_committed[lanes] += 1

    def bulk_wait(self, lanes: Lanes, newest: int, *, read: bool) -> None:
        """Execute ``cp.async.bulk.wait_group`` or its ``.read`` form. The last ``newest`` groups may stay pending."""
        machine = self.machine
        members = set(machine.index(lanes).tolist())
        for operation in list(self.machine.in_flight.values()):
            if operation.group < 0 or operation.lane not in members:
                continue
            later = int(self.bulk_committed[operation.lane]) - operation.group
            if later <= newest:
                operation.waited, operation.newer_at_wait = machine.at, later - 1
                continue
            if not operation.read:
                operation.read = True
                operation.complete(operation)
                stamps = stamp(machine.launch.time.now, WEAK, operation.lane)
                machine.shared.shadow.complete(operation.actor, None, stamps)
            if not read:
                array, cells, threads = operation.array_write
                strength = REDUCED if operation.reduces else ENGINE
                stamps = stamp(machine.launch.time.now, strength, threads)
                array.shadow.complete(operation.actor, cells, stamps)
                machine.globals.seek(array.shadow, cells, stamps, array.base, writes=True, copy=operation.at)
                self.machine.launch.writing.pop(operation.number)
                self.machine.in_flight.pop(operation.number)
        machine.launch.version += 1


def _data_of(name: str, value: Any, copy: int, shift: int, ctas: int) -> Any:
    if name.startswith("place"):
        return value + copy * shift
    if name.startswith("cells"):
        return value + copy * ctas * TENSOR_CELLS
    if value is not None and (name in ("row", "kept") or name.startswith("offsets")):
        return value[:, copy : copy + 1] if value.shape[1] > 1 else value
    return value


def _array_of(value: tuple[GlobalArray, Any, Any] | None, copy: int) -> Any:
    if value is None:
        return None
    array, cells, threads = value
    return array, cells[:, copy : copy + 1], threads[copy : copy + 1]


def _fetch_of(fetch: Callable[[Any], Any], copy: int) -> Callable[[Any], Any]:
    def one(rows: Any) -> Any:
        raw = fetch(rows)
        return raw[:, copy : copy + 1] if raw.shape[1] > 1 else raw

    return one
