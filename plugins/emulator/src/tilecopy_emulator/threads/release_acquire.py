"""Release and acquire patterns, and fences: how a strong read of a released value orders two threads (PTX ISA 8.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..memory_model.access import AccessKind
from ..memory_model.clocks import Clock, join
from ..memory_model.shadow import CLUSTER, CTA, GPU
from .launch import HistoryEntry, Location, Lock, Section
from .threads import Lanes, Threads

MOST_HISTORIES = 1 << 16
"""The largest number of places with a history of values."""


class ReleaseAcquire:
    """The fences of a batch's threads, and the clocks that strong writes to shared memory release."""

    def __init__(self, machine: Threads) -> None:
        self.machine = machine
        self.shared: dict[int, Location] = {}
        self.fenced = np.zeros(machine.units, np.int64)
        self.strength = np.zeros(machine.units, np.int64)
        self.any_fenced = False
        self.heard: dict[int, list[Location]] = {}
        self.narrow: dict[int, str] = {}
        self.locks: dict[int, Lock] = {}
        self.locked = False
        self.taken: dict[int, list[tuple[Lock, int]]] = {}
        self.histories: dict[int, list[HistoryEntry]] = {}
        self.looked: dict[tuple[int, int, bool], HistoryEntry] = {}
        self.learned: dict[tuple[int, int, bool], Location] = {}
        self.candidates: dict[int, list[tuple[Lock, Any, Clock]]] = {}

    def expand(self, copies: int, unit: int, unit_bytes: int) -> None:
        """Replicate the fences and clocks for every cluster of the batch."""
        self.fenced, self.strength = np.tile(self.fenced, copies), np.tile(self.strength, copies)
        first, ctas = self.machine.first, self.machine.unit_ctas // copies
        shared, heard = self.shared, self.heard
        self.shared, self.heard, self.locks, self.histories, self.looked, self.taken = {}, {}, {}, {}, {}, {}
        self.learned = {}
        for copy in range(copies):
            for place, location in shared.items():
                self.shared[place + copy * unit_bytes] = _renumber(location, first + copy * ctas, copy * unit)
            for lane, locations in heard.items():
                self.heard[lane + copy * unit] = [_renumber(x, first + copy * ctas, copy * unit) for x in locations]

    def prepare(self, access: AccessKind) -> None:
        """Call :meth:`demand_single` if a strong access to global memory may order threads of several clusters.

        Raises:
            CopiesDiverged: so each thread must be a lane.
        """
        if access.acquires or access.releases or self.any_fenced or self.machine.launch.locations:
            self.machine.demand_single()

    def fence(self, lanes: Lanes, strength: int, *, acquires: bool = True, releases: bool = True) -> None:
        """Execute a fence. Strong reads before the fence acquire. Strong writes after the fence release."""
        machine = self.machine
        index = machine.index(lanes)
        if acquires and self.heard:
            for lane in index.tolist():
                locations = self.heard.pop(lane, [])
                clocks = [x.clock for x in locations if self._reaches(x, strength, lane, machine.grid_thread[lane, 0])]
                if clocks:
                    machine.order.acquire(np.array([lane]), join(clocks))
        if acquires and self.taken:
            for lane in index.tolist():
                for lock, reach in self.taken.pop(lane, []):
                    lock.reach = min(reach, strength)
        if releases:
            self.fenced[index] = machine.launch.time.now
            self.strength[index] = strength
            self.any_fenced = True
        machine.launch.time.now += 1

    def quiet(self, access: AccessKind, *, shared: bool = False) -> bool:
        """Return True if an atomic operation cannot order threads. A release or an exchange, for example, can."""
        launch = self.machine.launch
        sync_state = (self.shared or self.locks) if shared else (launch.locations or launch.locks)
        return not (launch.polls or sync_state or access.releases or access.exchange or self.any_fenced)

    def _reaches(self, location: Location, strength: int, lane: int, thread: int) -> bool:
        threads, cluster = self.machine.threads, self.machine.cluster_size
        if location.shared:
            thread = lane
        mine, other = int(thread) // threads, location.writer // threads
        least = min(strength, location.strength)
        if least >= GPU or mine == other or (least == CLUSTER and mine // cluster == other // cluster):
            return True
        name = "cta" if least == CTA else "cluster"
        who = self.machine.name_of(location.writer) if location.shared else self.machine.launch.name_of(location.writer)
        self.narrow[lane] = f"scope .{name} of the release by {who} does not include both threads"
        return False

    def acquire(
        self, lanes: Lanes, access: AccessKind, places: Any, *, shared: bool = False,
        older: Mapping[int, Any] | None = None,
    ) -> None:  # fmt: skip
        """Merge the clocks of strong writes into the clocks of lanes that read them. ``older``: see :meth:`delay`."""
        table: Any = self.shared if shared else self.machine.launch.locations
        older = older or {}
        if not table and not older:
            return
        machine = self.machine
        index = machine.index(lanes)
        keys = places if places.ndim == 1 else places[:, 0]
        taken: dict[int, tuple[Location, list[int]]] = {}
        for position, (lane, key) in enumerate(zip(index.tolist(), keys.tolist(), strict=True)):
            location = older[position] if position in older else table.get(key)
            if location is None or self.learned.get((lane, key, shared)) is location:
                continue
            if not self._reaches(location, access.reach, lane, machine.grid_thread[lane, 0]):
                continue
            if access.acquires:
                taken.setdefault(id(location), (location, []))[1].append(lane)
                self.learned[lane, key, shared] = location
            else:
                known = self.heard.setdefault(lane, [])
                if not known or known[-1] is not location:
                    known.append(location)
        for location, members in taken.values():
            machine.order.acquire(np.array(members), location.clock)

    def release(
        self, lanes: Lanes, access: AccessKind, places: Any, *, shared: bool = False, modify: bool = False,
        old: Any = None, new: Any = None,
    ) -> None:  # fmt: skip
        """Store the vector clocks that strong writes release, for threads that acquire the written bytes later.

        ``lanes``: that write; ``access``: its kind; ``places``: of the bytes; ``shared``: in shared memory; ``modify``: by
        an atomic operation, which continues the release sequence; ``old``: the bytes before (of an atomic), a row per
        lane; ``new``: the bytes after.
        """
        machine = self.machine
        table: Any = self.shared if shared else machine.launch.locations
        locks: Any = self.locks if shared else machine.launch.locks
        plain = not access.releases and not self.any_fenced
        if plain and not access.exchange and not locks and (modify or not table):
            return
        if plain and modify and np.array_equal(old, new):  # no lock is acquired or released either
            return
        index = machine.index(lanes)
        keys = places if places.ndim == 1 else places[:, 0]
        released = False
        for position, (lane, key) in enumerate(zip(index.tolist(), keys.tolist(), strict=True)):
            clock = None
            if access.releases:
                clock = machine.order.snapshot(np.array([lane]))
            elif self.fenced[lane]:
                clock = self._as_of_fence(lane)
            reach = access.reach if access.releases else min(access.reach, int(self.strength[lane]))
            if machine.copies == 1 or shared:
                unlocks = self._lock(locks, key, lane, access, old, new, position, clock, reach)
                if unlocks:
                    table.pop(key, None)
                    self._carries(key, None, shared=shared)
                    released = True
                    continue
            writer = lane if shared else int(machine.grid_thread[lane, 0])
            before = table.get(key)
            if clock is None:
                if before is not None and not modify and before.writer != writer:
                    del table[key]
                continue
            released = True
            if modify and before is not None:
                clock = join([before.clock, clock])
                reach = min(reach, before.strength) if before.writer != writer else reach
            table[key] = Location(clock, reach, writer, shared)
            self._carries(key, table[key], shared=shared)
        if released:
            machine.launch.time.now += 1

    def _lock(
        self, locks: Any, key: Any, lane: int, access: AccessKind, old: Any, new: Any, position: int, clock: Any,
        reach: int,
    ) -> bool:  # fmt: skip
        """Track a lock that is acquired or released; return True if it is released."""
        machine = self.machine
        current: Lock | None = locks.get(key)
        if new is None or (current is None and not access.exchange):
            return False
        after = new[position if len(new) > 1 else 0].tobytes()
        who = (lane // machine.threads + machine.order.first, lane % machine.threads)
        if current is not None and current.holder == who and after == current.free:
            current.holder = None
            for reader, candidates in list(self.candidates.items()):
                for lock, _, learned in candidates:
                    if lock is current:
                        machine.order.acquire(np.array([reader]), learned)
                self.candidates[reader] = [x for x in candidates if x[0] is not current]
            if clock is not None:
                current.sections = [*current.sections[-255:], Section(current.start, clock, reach, who[0])]
            return True
        before = None if old is None else old[position].tobytes()
        if before is None or before == after:
            return False
        if not access.exchange or (current is not None and (current.holder is not None or current.free != before)):
            locks.pop(key, None)  # the bytes are not a lock
            return False
        machine.launch.time.now += 1
        now = machine.launch.time.now
        if current is None:
            current = locks[key] = Lock(before, None, now, 0)
        current.holder, current.start = who, now
        current.reach = access.reach if access.acquires else 0
        self.locked = True
        if not access.acquires:
            self.taken.setdefault(lane, []).append((current, access.reach))
        return False

    def locks_order(
        self, ordered: Any, where: Any, lanes: Any, keys: Any, columns: Any, times: Any, touched: tuple[int, Any, bool]
    ) -> None:
        """Mark earlier accesses as ordered if one lock protected both the earlier access and the current access."""
        bad = np.nonzero(~ordered & where)[0]
        if not len(bad):
            return
        machine, order = self.machine, self.machine.order
        locks = [*self.locks.values(), *machine.launch.locks.values()]
        active_locks = [lock for lock in locks if lock.holder and lock.reach]
        for lane in np.unique(lanes[bad]).tolist():
            mine = bad[lanes[bad] == lane]
            for lock in active_locks:
                assert lock.holder is not None
                key, column = lock.holder
                if order.known_times(np.array([lane]), np.array([key]), np.array([column]))[0] >= lock.start:
                    self._under(lock, lane, mine, ordered, keys, columns, times, touched)
            rest = mine[~ordered[mine]]
            if len(rest) and self.candidates.get(lane):
                for _, _, clock in self.candidates.pop(lane):
                    order.acquire(np.array([lane]), clock)
                ordered[rest] = order.covers(lanes[rest], keys[rest], columns[rest], times[rest])

    def _under(
        self, lock: Lock, lane: int, positions: Any, ordered: Any, keys: Any, columns: Any, times: Any, touched: Any
    ) -> None:
        """Mark earlier accesses as ordered if they were made in critical sections of a lock that a lane holds."""
        machine, cluster = self.machine, self.machine.cluster_size
        mine = lane // machine.threads + machine.order.first
        rest = positions[~ordered[positions]]
        for section in reversed(lock.sections):
            if not len(rest):
                return
            inside = rest[times[rest] >= section.start]
            for key in np.unique(keys[inside]).tolist() if len(inside) else ():
                row = section.clock.rows.get(key)
                here = inside[keys[inside] == key]
                here = here[row[columns[here]] >= times[here]] if row is not None else here[:0]
                if not len(here):
                    continue
                least = min(section.reach, lock.reach)
                if (
                    least >= GPU
                    or section.key == mine
                    or (least == CLUSTER and section.key // cluster == mine // cluster)
                ):
                    ordered[here] = True
                    for position in here.tolist():
                        self._touch(lane, lock, section, position, touched)
                else:
                    name = "cta" if least == CTA else "cluster"
                    self.narrow[lane] = f"the two threads use a lock, but release or acquire it with scope .{name}"
            rest = rest[~ordered[rest]]

    def _touch(self, lane: int, lock: Lock, section: Section, position: int, touched: tuple[int, Any, bool]) -> None:
        """Order a lane that holds a lock after the earlier accesses of a section to the same bytes.

        A read without a later write may order it after everything before that section; its own update does not.
        """
        memory, cells, writes = touched
        cell = (memory, int(cells[position]))
        candidates = self.candidates.setdefault(lane, [])
        if writes:
            self.candidates[lane] = [x for x in candidates if x[1] != cell]
        elif all(x[1] != cell for x in candidates):
            candidates.append((lock, cell, section.clock))

    def record(
        self, lanes: Lanes, places: Any, old: Any, new: Any, *, shared: bool = False, modify: bool = False
    ) -> None:
        """Record the values that strong writes store. Call before :meth:`release`. ``modify``: True for an atomic."""
        machine = self.machine
        if not machine.launch.polls:
            return
        table: Any = self.histories if shared else machine.launch.histories
        locations: Any = self.shared if shared else machine.launch.locations
        first, now = machine.order.first, machine.launch.time.now
        for position, (lane, key) in enumerate(zip(machine.index(lanes).tolist(), places.tolist(), strict=True)):
            history = table.get(key)
            if history is None:
                if len(table) >= MOST_HISTORIES:
                    continue
                history = table[key] = [HistoryEntry(old[position if len(old) > 1 else 0].copy(), -1, 0, 0)]
            raw = new[position if len(new) > 1 else 0].copy()
            carries = locations.get(key)
            writer = lane if shared else int(machine.grid_thread[lane, 0])
            if carries is not None and not modify and carries.writer != writer:
                carries = None
            history.append(HistoryEntry(raw, lane // machine.threads + first, lane % machine.threads, now, carries))
            if len(history) > 32:
                del history[:16]

    def _carries(self, key: Any, location: Location | None, *, shared: bool) -> None:
        """Set the clock of the last value of a place."""
        history = (self.histories if shared else self.machine.launch.histories).get(key)
        if history is not None:
            history[-1].carries = location

    def delay(self, lanes: Lanes, places: Any, raw: Any, *, shared: bool = False) -> Mapping[int, Location | None]:
        """Let a strong read return an older value if no newer write happens before the read.

        A polling loop reads an older value once. Only programs that depend on the schedule notice it. This changes ``raw``.

        Returns:
            The clocks of older values, by the positions of the lanes that read them.
        """
        machine = self.machine
        table: Any = self.histories if shared else machine.launch.histories
        older: dict[int, Location | None] = {}
        if not table or not machine.launch.in_loop[machine.at] or len(raw) != len(places):
            return older
        order = machine.order
        for position, (lane, key) in enumerate(zip(machine.index(lanes).tolist(), places.tolist(), strict=True)):
            history = table.get(key)
            if history is None or len(history) < 2 or len(history[-1].raw[0]) != raw.shape[2]:
                continue
            last = history[-1]
            seen = self.looked.get((lane, key, shared))
            if seen is last:
                continue
            self.looked[lane, key, shared] = last
            mine = lane // machine.threads + order.first, lane % machine.threads // 32
            for written in reversed(history):
                if written is seen or written.key < 0 or (written.key, written.column // 32) == mine:
                    break
                known = order.covers(
                    np.array([lane]), np.array([written.key]), np.array([written.column]), np.array([written.time])
                )
                if known[0]:
                    break
            if written is not last:
                raw[position] = written.raw
                older[position] = written.carries
        return older

    def _as_of_fence(self, lane: int) -> Clock:
        machine = self.machine
        clock = machine.order.snapshot(np.array([lane]))
        key = lane // machine.threads + machine.order.first
        row = clock.rows[key].copy()
        row[lane % machine.threads] = self.fenced[lane]
        return Clock({**clock.rows, key: row})


def _renumber(location: Location, ctas: int, lanes: int) -> Location:
    rows = {key + ctas: row for key, row in location.clock.rows.items()}
    return Location(Clock(rows), location.strength, location.writer + lanes, location.shared)
