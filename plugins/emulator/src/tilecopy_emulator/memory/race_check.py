"""The check that two accesses to shared or global memory are ordered, and the hazard of a race between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from tilecopy import HazardError

from ..hazards import COMPLETED, ReportedAccess, value_of
from ..memory_model.access import SCOPES, AccessKind, IntraWarpConflict, in_turn, new_values
from ..memory_model.shadow import (
    ACTOR_MASK,
    BARRIER_ACTOR,
    FLIGHT_ACTOR,
    REDUCED,
    Conflict,
    ShadowMemory,
    actor_of,
    alike,
    barrier_of,
    in_scope,
    may_meet,
    scope_of,
    stamp,
    strength_of,
    time_of,
)
from ..threads.async_operations import Operation
from ..threads.launch import RaceQuery
from ..threads.registers import Registers
from ..threads.threads import AT_BARRIER, Lanes

Touched = tuple[int, Any, bool]
"""The key of the memory, the cell of each access, and whether the accesses write."""
JudgeAccess = Callable[[Registers, Any, int, Any, Touched], tuple[Any, Any]]
"""From machine, actors, strength of their accesses, earlier stamps and bytes to the result of :data:`..memory_model.shadow.Judge`."""


def judge_global(machine: Registers, threads: Any, strength: int, before: Any, touched: Touched) -> tuple[Any, Any]:
    """Judge whether accesses by threads of the grid are ordered after earlier accesses. See ``shadow.Judge``."""
    return _judge(machine, threads, strength, before, touched, _ordered_in_grid)


def judge_shared(machine: Registers, lanes: Any, strength: int, before: Any, touched: Touched) -> tuple[Any, Any]:
    """Judge whether accesses by lanes of the batch are ordered after earlier accesses. See ``shadow.Judge``."""
    return _judge(machine, lanes, strength, before, touched, _ordered_in_unit)


def _judge(
    machine: Registers, who: Any, strength: int, before: Any, touched: Touched, order: Callable[..., Any]
) -> tuple[Any, Any]:
    """Return the result of a judge; ``order`` is not called for two strong accesses that may conflict."""
    if not strength:
        return order(machine, who, before, touched), np.zeros(len(before), bool)
    exempt = may_meet(strength, before)
    if not exempt.all():
        size, cluster, earlier = machine.threads, machine.cluster_size, strength_of(before)
        mine, ctas = who // size, actor_of(before) // size
        near = in_scope(strength, earlier, ctas == mine, ctas // cluster == mine // cluster) & alike(strength, earlier)
        exempt |= near & (actor_of(before) < BARRIER_ACTOR)
    ordered, rest = np.zeros(len(before), bool), np.nonzero(~exempt)[0]
    if len(rest):
        memory, cells, writes = touched
        ordered[rest] = order(machine, who[rest], before[rest], (memory, cells[rest], writes))
    return ordered, exempt


def _ordered_in_grid(machine: Registers, threads: Any, before: Any, touched: Touched) -> Any:
    actor, size = actor_of(before), machine.threads
    ctas, columns = _columns(machine, actor)
    local = threads - machine.first * size
    copy, lane = local // machine.units, local % machine.units
    known = ctas
    if machine.copies > 1:
        known = ctas - machine.first - copy * machine.unit_ctas
        known = np.where((known >= 0) & (known < machine.unit_ctas), known, -1)
    ordered = machine.order.covers(lane, known, columns, time_of(before)) & (actor < FLIGHT_ACTOR)
    if machine.flags.locked:
        machine.flags.locks_order(ordered, actor < BARRIER_ACTOR, lane, known, columns, time_of(before), touched)
    return ordered


def _columns(machine: Registers, actor: Any) -> tuple[Any, Any]:
    """Return the CTA of each actor, and the column of the thread or mbarrier in the rows of that CTA."""
    ctas, columns = actor // machine.threads, actor % machine.threads
    by_thread = actor < BARRIER_ACTOR
    if by_thread.all():
        return ctas, columns
    homes, numbers = barrier_of(actor)
    return np.where(by_thread, ctas, homes), np.where(by_thread, columns, numbers + machine.order.barriers_at)


def _ordered_in_unit(machine: Registers, lanes: Any, before: Any, touched: Touched) -> Any:
    actor, size, order = actor_of(before), machine.threads, machine.order
    locked, many = machine.flags.locked, machine.unit_ctas > 1 or not len(before) or int(actor.max()) >= size
    if not locked and not many and int(time_of(before.max())) <= int(order.floor[0]):
        return np.ones(len(before), bool)  # a barrier of all threads came after them
    ctas, columns = _columns(machine, actor)
    ordered = order.covers(lanes, ctas + order.first, columns, time_of(before)) & (actor < FLIGHT_ACTOR)
    if locked:
        keys = ctas + order.first
        machine.flags.locks_order(ordered, actor < BARRIER_ACTOR, lanes, keys, columns, time_of(before), touched)
    return ordered


class ShadowedMemory:
    """A memory whose accesses are checked for races. Its shadow memory stores the last accesses to each byte.

    ``machine``: its threads access the memory; ``cell``: bytes of a cell, which no access splits; ``judge``: decides
    which accesses are ordered; ``whole_grid``: stamps name threads of the grid, not of the batch.
    """

    def __init__(self, machine: Registers, cell: int, judge: JudgeAccess, *, whole_grid: bool) -> None:
        self.machine, self.cell, self._judge_access, self._whole_grid = machine, cell, judge, whole_grid

    def cells_from(self, places: Any, size: int) -> tuple[Any, int]:
        """Return a flat array of the shadow cells at byte offsets ``places``, and the number of cells per access."""
        first = places // self.cell
        count = max(1, size // self.cell)
        return (first, 1) if count == 1 else ((first[:, None] + np.arange(count)).ravel(), count)

    def hold(
        self, shadow: ShadowMemory, cells: Any, actors: Any, strength: int, *, key: int = 0, writes: bool = False,
        remember: bool = True, equal: Any = None, modifies: bool = False,
    ) -> None:  # fmt: skip
        """Check accesses to shadow cells against earlier accesses to the same cells.

        ``shadow``: has the stamps; ``cells``: 1-D; ``actors``: one per cell; ``strength``: of these accesses;
        ``key``: of the memory, for the locks; ``writes``: whether they write; ``remember``: whether later accesses are checked
        against these reads; ``equal``, ``modifies``: of writes, see :meth:`..memory_model.shadow.ShadowMemory.write`.

        Raises:
            Conflict: an access is not ordered after an earlier one.
        """
        machine = self.machine
        stamps = actors | np.int64(int(stamp(machine.launch.time.now, strength, 0)))
        if machine.launch.sought:
            self.seek(shadow, cells, stamps, key, writes=writes)

        def judge(positions: Any, before: Any) -> tuple[Any, Any]:
            if machine.tolerant:
                return np.ones(len(positions), bool), np.zeros(len(positions), bool)
            return self._judge_access(machine, actors[positions], strength, before, (key, cells[positions], writes))

        try:
            if writes:
                shadow.write(cells, stamps, judge, equal=equal, modifies=modifies)
            else:
                shadow.read(cells, stamps, judge, remember=remember)
        except Conflict:
            if not machine.tolerant:
                raise

    def seek(
        self, shadow: ShadowMemory, cells: Any, stamps: Any, key: int = 0, *, writes: bool, copy: int = -1
    ) -> None:
        """If accesses match a race query, record the current instruction, or the copy instruction at index ``copy``.

        When the query was made, one lane of the machine may have stood for many.
        """
        machine = self.machine
        for sought in machine.launch.sought.get((self._which(key), writes, machine.launch.time.now), ()):
            wanted = sought.stamp if self._whole_grid else self._in_unit(sought.stamp)
            hits = np.nonzero((cells == sought.cell % len(shadow.writer)) & (stamps == wanted))[0]
            if len(hits) and copy >= 0:
                machine.launch.seen[sought] = copy, machine.at
            elif len(hits) and (machine.many is None or len(cells) % len(machine.many) == 0):
                steps = 1 if machine.many is None else len(machine.many) // machine.width
                machine.launch.seen[sought] = machine.at + int(hits[-1]) * steps // len(cells), -1

    def serialize(
        self, access: AccessKind, update: Any, places: Any, keys: Any, lanes: Any, of: Any, fetch: Any, put: Any, *,
        shared: bool,
    ) -> Any:  # fmt: skip
        """Execute an atomic operation. Accesses to the same address run one after another. Return the bits before each access.

        ``access``: its kind; ``update``: see :meth:`Machine.atomic`; ``places``: of the accesses, 1-D; ``keys``: of these
        places in flags; ``lanes``: of the accesses; None if each copy of one lane is an access;
        ``of``: rows and columns for ``update``, each of shape (accesses, copies); ``fetch``: returns the bits of
        places, of shape (places, copies); ``put``: writes them; ``shared``: whether the memory is shared memory.
        """
        machine, flags, (rows, columns) = self.machine, self.machine.flags, of
        if access.scan is not None and flags.quiet(access, shared=shared):
            old, new, where, last = access.scan(update, places, rows, columns, fetch)
            if not np.array_equal(old, new):
                machine.launch.version += 1
                put(where, last)
            self._let_others_go(lanes, old == new)
            return old
        old = np.empty(rows.shape, access.dtype)

        def compute(part: Any) -> tuple[Any, Any]:
            was = fetch(places[part])
            new = new_values(update, was.ravel(), rows[part].ravel(), columns[part].ravel())
            return was, new.reshape(was.shape)

        for part, was, new in in_turn(places, compute):
            machine.launch.version += not np.array_equal(new, was)
            put(places[part], new)
            old[part] = was
            if lanes is not None:
                who, where = lanes[part], keys[part]
                before, after = (bits[..., None].view(np.uint8) for bits in (was, new))
                flags.record(who, where, before, after, shared=shared, modify=True)
                flags.acquire(who, access, where, shared=shared)
                flags.release(who, access, where, shared=shared, modify=True, old=before, new=after)
                self._let_others_go(who, new == was)
        return old

    def _let_others_go(self, lanes: Any, same: Any) -> None:
        """Let other lanes run before lanes of a loop whose atomic changed nothing, such as a try of a lock that is held."""
        machine = self.machine
        if lanes is not None and machine.launch.in_loop[machine.at] and same.any():
            machine.yields(lanes[same.all(axis=1)])

    def _in_unit(self, stamp: int) -> int:
        """Return a stamp as it was while one cluster of the machine stood for many."""
        actor = stamp & int(ACTOR_MASK)
        return stamp - actor + actor % self.machine.units if actor < BARRIER_ACTOR else stamp

    def _which(self, key: int) -> int:
        """Return the key of the memory, see :class:`RaceQuery`."""
        return key if self._whole_grid else ~self.machine.first

    def raise_race(
        self, conflict: Conflict, where: str, strength: int, lanes: Lanes, at: tuple[int, int], span: tuple[int, int],
        *, writes: bool, values: tuple[Any, Any, Any] | None, fetch: Callable[[], Any], near: Callable[[int], bool],
        key: int = 0,
    ) -> NoReturn:  # fmt: skip
        """Raise the hazard of two accesses that are not ordered.

        ``conflict``: from :meth:`hold`; ``where``: the name of the bytes; ``strength``: of the current access;
        ``lanes``: that execute it; ``at``: the position of the lane, and its copy; ``span``: the bytes; ``writes``: whether it
        writes; ``values``: of a write: its value, those that its instruction writes to the same place, and the actors
        that write them; ``fetch``: returns the bytes in memory; ``near``: whether an actor is in the same warp;
        ``key``: of the memory, as in :meth:`hold`.

        Raises:
            IntraWarpConflict: lanes of one instruction write there, and the values decide whether it is a hazard.
        """
        machine, launch, (position, copy) = self.machine, self.machine.launch, at
        actor, action = int(actor_of(conflict.stamp)), "written" if writes else "read"
        before = "written" if conflict.wrote else "read"
        new, old, same = None, fetch(), False
        if values is not None:
            new, together, whose = values
            old = together[whose == actor] if conflict.together else old
            others = together if conflict.together else old
            same = conflict.wrote and actor < BARRIER_ACTOR and bool((others == new).all())
        if actor >= FLIGHT_ACTOR:
            operation = machine.in_flight.get(actor - FLIGHT_ACTOR) or launch.writing[actor - FLIGHT_ACTOR]
            cell = -1 if self._whole_grid else int(conflict.cell)
            raise_in_flight(machine, operation, cell, where, action, lanes, position, copy, span, wrote=conflict.wrote)
        if not self._whole_grid:
            who = machine.actor_name(actor, copy)
        else:
            who = launch.name_of(actor) if actor < BARRIER_ACTOR else "an asynchronous copy counted by an mbarrier"
        lane, instruction = int(machine.index(lanes)[position]), machine.instruction_of(lanes, position)
        text = f"{where} is {action} with no barrier since it was {before} by {who}"
        cause, why = _cause(machine, lane, strength, int(strength_of(np.int64(conflict.stamp))), same=same)
        current, earlier = ("" if raw is None else value_of(raw, instruction) for raw in (new if writes else old, old))
        mine = int(machine.grid_thread[lane, copy])
        other = actor if self._whole_grid or actor >= BARRIER_ACTOR else int(machine.grid_thread[actor, copy])
        remedy = _what_orders(machine, mine, other, scope=cause == "scope")
        sought = RaceQuery(self._which(key), int(conflict.cell), int(conflict.stamp), conflict.wrote)
        first_at, waited = launch.seen.get(sought, (-1, -1))
        if conflict.together:
            text = f"{where} is {action} by two threads at once ({who})"
            remedy = remedy if cause == "scope" else "let only one thread write, or use an atomic"
        met = [ReportedAccess(who, before, value=earlier)]
        if first_at >= 0 or conflict.together:
            first = instruction if first_at < 0 else machine.program.instructions[first_at]
            met = [machine.report(first, who, before, value=earlier)]
        if waited >= 0 and actor < BARRIER_ACTOR:
            met.append(machine.report(machine.program.instructions[waited], who, "", relation=COMPLETED))
            verb = "wrote" if conflict.wrote else "read"
            text, why = f"{where} is {action} with no barrier since {who} waited for the copy that {verb} it", ""
            remedy = remedy.replace("between the two accesses", "after that wait")
        suspect = behind = None
        if max(mine, other) < BARRIER_ACTOR and mine // machine.threads == other // machine.threads:
            waits = machine.status[(other - machine.first * machine.threads) % machine.units] == AT_BARRIER
            suspect = (mine, other) if waits else None
            behind = machine.barriers.passed_by(mine, other)
        try:
            machine.hazard(
                "race", f"{text}{why}", lanes, position, copy=copy, threads=(who,), bytes=span, cause=cause, action=action, value=current, met=met,
                remedy=remedy + _advice_for_update(met[0], machine.report(instruction, who, action)), sought=None if conflict.together else sought,
                suspect=suspect, behind=behind,
            )  # fmt: skip
        except HazardError as error:
            if conflict.together and values is not None and (launch.allows_same_value or near(actor)):
                raise IntraWarpConflict(error) from None
            raise


def _advice_for_update(earlier: ReportedAccess, later: ReportedAccess) -> str:
    """Return the advice to use an atomic if the accesses read and write one address, as ``bins[i] += 1`` does, else ""."""
    read, write = (access.text.partition("[")[2].partition("]")[0] for access in (earlier, later))
    updates = read == write != "" and (earlier.action, later.action) == ("read", "written")
    return "; if several threads update one value, use an atomic" if updates else ""


def _cause(machine: Registers, lane: int, strength: int, earlier: int, *, same: bool) -> tuple[str, str]:
    """Return why two accesses are not ordered, if that is known: the cause, and the end of the message."""
    if same:
        return "same-value", '; both write the same value (run_ptx(..., allow=("same-value",)) allows this)'
    if strength and earlier and REDUCED not in (strength, earlier):
        if not alike(strength, earlier):
            return "", "; both accesses are strong, but they overlap only partly"
        least = min(scope_of(strength), scope_of(earlier))
        name = next(name for name, number in SCOPES.items() if number == least)
        return "scope", f"; both accesses are strong, but scope .{name} does not include both threads"
    return ("scope", f"; {machine.flags.narrow[lane]}") if lane in machine.flags.narrow else ("", "")


def _what_orders(machine: Registers, mine: int, other: int, *, scope: bool) -> str:
    """Return how to order accesses by two threads of the grid; ``scope``: they are ordered, but for too narrow a scope."""
    if other >= BARRIER_ACTOR:
        return "wait on the mbarrier on which the copy completes"
    cta, size = machine.threads, machine.threads * machine.cluster_size
    near, clustered = mine // cta == other // cta, mine // size == other // size
    if scope:
        return f"use scope .{'cta' if near else 'cluster' if clustered else 'gpu'} or wider for both accesses"
    if near and mine % cta // 32 == other % cta // 32:
        return "__syncwarp() (bar.warp.sync) or __syncthreads() (bar.sync) between the two accesses"
    if near:
        return "__syncthreads() (bar.sync) between the two accesses"
    if clustered:
        return "a cluster barrier (barrier.cluster) between the two accesses"
    return "call grid.sync() between the two accesses, release a flag after the first and acquire it before the second with scope .gpu, or use two launches"


def raise_in_flight(
    machine: Registers, operation: Operation, cell: int, where: str, action: str, lanes: Lanes, position: int, copy: int,
    span: tuple[int, int] | None, *, wrote: bool,
) -> NoReturn:  # fmt: skip
    """Raise the hazard of an access to the bytes of an operation in flight. ``cell`` is -1 for global memory."""
    pending, operation.was_reported = operation.pending(cell), True
    same_thread = operation.machine is machine and pending.lane == int(machine.index(lanes)[position])
    remedy = pending.remedy or pending.lack.removesuffix(" is missing").removesuffix(" are missing")
    remedy += "" if same_thread or not pending.alone else ", then a barrier"
    who, copying = operation.machine.name_of(pending.lane), operation.describe(pending.lane)
    met = machine.in_vain(operation.at, pending, "written" if wrote else "read", who)
    machine.hazard(
        "async", f"{where} is {action} while {copying} {'to it is in flight' if wrote else 'still reads it'}: {pending.lack}", lanes, position, copy=copy,
        threads=(who,), bytes=span, action=action, remedy=remedy, met=met,
    )  # fmt: skip
