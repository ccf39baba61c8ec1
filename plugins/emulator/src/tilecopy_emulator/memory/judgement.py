"""Whether two accesses are in order, and what is said when they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..hazards import COMPLETED, ReportedAccess, value_of
from ..order.access import SCOPES
from ..order.shadow import (
    ACTOR_MASK,
    BARRIER_ACTOR,
    FLIGHT_ACTOR,
    REDUCED,
    Conflict,
    actor_of,
    alike,
    allowed,
    barrier_of,
    may_meet,
    scope_of,
    strength_of,
    time_of,
)
from ..threads.launch import Sought
from ..threads.operations import Operation
from ..threads.registers import Registers
from ..threads.threads import AT_BARRIER, Lanes


def judge_global(machine: Registers, threads: Any, strength: int, before: Any) -> tuple[Any, Any]:
    """Order of accesses by threads of the grid after earlier stamps; see shadow.Judge."""
    return _judge(machine, threads, strength, before, _ordered_in_grid)


def judge_shared(machine: Registers, lanes: Any, strength: int, before: Any) -> tuple[Any, Any]:
    """Order of accesses by unit lanes after earlier stamps; see shadow.Judge."""
    return _judge(machine, lanes, strength, before, _ordered_in_unit)


def _judge(
    machine: Registers, who: Any, strength: int, before: Any, order: Callable[[Registers, Any, Any], Any]
) -> tuple[Any, Any]:
    """As the judges; of two accesses that are both strong and may meet, ``order`` is not asked."""
    if not strength:
        return order(machine, who, before), np.zeros(len(before), bool)
    exempt = may_meet(strength, before)
    if not exempt.all():
        size, cluster, earlier = machine.threads, machine.cluster_size, strength_of(before)
        mine, ctas = who // size, actor_of(before) // size
        near = allowed(strength, earlier, ctas == mine, ctas // cluster == mine // cluster) & alike(strength, earlier)
        exempt |= near & (actor_of(before) < BARRIER_ACTOR)
    ordered, rest = np.zeros(len(before), bool), np.nonzero(~exempt)[0]
    if len(rest):
        space, cells, writes = machine.flags.touched
        machine.flags.touched = space, cells[rest], writes
        ordered[rest] = order(machine, who[rest], before[rest])
    return ordered, exempt


def _ordered_in_grid(machine: Registers, threads: Any, before: Any) -> Any:
    actor, size = actor_of(before), machine.threads
    ctas, columns = _columns(machine, actor)
    local = threads - machine.first * size
    copy, lane = local // machine.units, local % machine.units
    known = ctas
    if machine.copies > 1:
        known = ctas - machine.first - copy * machine.unit_ctas
        known = np.where((known >= 0) & (known < machine.unit_ctas), known, -1)
    ordered = machine.order.ordered(lane, known, columns, time_of(before)) & (actor < FLIGHT_ACTOR)
    if machine.flags.locked:
        machine.flags.locks_order(ordered, actor < BARRIER_ACTOR, lane, known, columns, time_of(before))
    return ordered


def _columns(machine: Registers, actor: Any) -> tuple[Any, Any]:
    """The CTA of each actor, and the column in its rows of the thread or the mbarrier."""
    ctas, columns = actor // machine.threads, actor % machine.threads
    by_thread = actor < BARRIER_ACTOR
    if by_thread.all():
        return ctas, columns
    homes, numbers = barrier_of(actor)
    return np.where(by_thread, ctas, homes), np.where(by_thread, columns, numbers + machine.order.barriers_at)


def _ordered_in_unit(machine: Registers, lanes: Any, before: Any) -> Any:
    actor, size, order = actor_of(before), machine.threads, machine.order
    locked, many = machine.flags.locked, machine.unit_ctas > 1 or not len(before) or int(actor.max()) >= size
    if not locked and not many and int(time_of(before.max())) <= int(order.floor[0]):
        return np.ones(len(before), bool)  # a barrier of all has been since
    ctas, columns = _columns(machine, actor)
    ordered = order.ordered(lanes, ctas + order.first, columns, time_of(before)) & (actor < FLIGHT_ACTOR)
    if locked:
        machine.flags.locks_order(ordered, actor < BARRIER_ACTOR, lanes, ctas + order.first, columns, time_of(before))
    return ordered


def blame(
    machine: Registers,
    conflict: Conflict,
    where: str,
    action: str,
    strength: int,
    lanes: Lanes,
    position: int,
    copy: int,
    span: tuple[int, int],
    *,
    whole_grid: bool = False,
    same: bool = False,
    memory: int,
    values: tuple[Any, Any],
) -> NoReturn:
    """The hazard for two accesses that nothing orders.

    ``same``: two writes, and of the same value; ``memory``: as in :class:`..threads.launch.Sought`; ``values``: bytes of the
    access and of the one before, None where they are not known.
    """
    actor = int(conflict.stamp & int(ACTOR_MASK))
    before = "written" if conflict.wrote else "read"
    if actor >= FLIGHT_ACTOR:
        operation = machine.flying.get(actor - FLIGHT_ACTOR) or machine.launch.writing[actor - FLIGHT_ACTOR]
        cell = -1 if whole_grid else int(conflict.cell)
        blame_flight(machine, operation, cell, where, action, lanes, position, copy, span, wrote=conflict.wrote)
    if not whole_grid:
        who = machine.actor_name(actor, copy)
    else:
        who = machine.launch.name_of(actor) if actor < BARRIER_ACTOR else "an asynchronous copy that an mbarrier counts"
    if conflict.together:
        text = f"{where} is {action} by two threads at once ({who})"
    else:
        text = f"{where} is {action} with no barrier since it was {before} by {who}"
    earlier = int(strength_of(np.int64(conflict.stamp)))
    cause = ""
    if same:
        cause = "same-value"
        text += '; both write the same value (run_ptx(..., allow=("same-value",)) lets such writes pass)'
    elif strength and earlier and REDUCED not in (strength, earlier) and not alike(strength, earlier):
        text += "; both accesses are strong, but not of the same bytes"
    elif strength and earlier and REDUCED not in (strength, earlier):
        cause = "scope"
        text += f"; both are strong, but the scope .{_scope_name(min(scope_of(strength), scope_of(earlier)))} does not hold both"
    else:
        lane = int(machine.index(lanes)[position])
        if lane in machine.flags.narrow:
            cause = "scope"
            text += f"; {machine.flags.narrow[lane]}"
    launch, instruction = machine.launch, machine.instruction_of(lanes, position)
    own, there = ("" if raw is None else value_of(raw, instruction) for raw in values)
    mine = int(machine.grid_thread[int(machine.index(lanes)[position]), copy])
    other = actor if whole_grid or actor >= BARRIER_ACTOR else int(machine.grid_thread[actor, copy])
    remedy = _what_orders(machine, mine, other, scope=cause == "scope")
    sought = Sought(memory, int(conflict.cell), int(conflict.stamp), conflict.wrote)
    if conflict.together:
        remedy = "both do it by one instruction: let one thread write, or use an atomic"
    made, waited = launch.seen.get(sought, (-1, -1))
    if made < 0 and not conflict.together:
        met = [ReportedAccess(who, before, value=there)]
    else:
        met = [
            machine.reported(instruction if made < 0 else machine.program.instructions[made], who, before, value=there)
        ]
    if waited >= 0 and actor < BARRIER_ACTOR:
        met.append(machine.reported(machine.program.instructions[waited], who, "", relation=COMPLETED))
        text = f"{where} is {action} with no barrier since {who} waited for its copy, which counts as {before} from then on"
        remedy = remedy.replace("between the two", "after that wait")
    suspect = behind = None
    if max(mine, other) < BARRIER_ACTOR and mine // machine.threads == other // machine.threads:
        waits = machine.status[(other - machine.first * machine.threads) % machine.units] == AT_BARRIER
        suspect = (mine, other) if waits else None
        behind = machine.barriers.passed_by(mine, other)
    machine.hazard(
        "race", text, lanes, position, copy=copy, threads=(who,), bytes=span, cause=cause, action=action, value=own, met=met,
        remedy=remedy, sought=None if conflict.together else sought,
        suspect=suspect, behind=behind,
    )  # fmt: skip


def _what_orders(machine: Registers, mine: int, other: int, *, scope: bool) -> str:
    """What would order accesses by two threads of the grid; ``scope``: they are in order for too narrow a scope."""
    if other >= BARRIER_ACTOR:
        return "a wait on the mbarrier that the copy completes on"
    cta, size = machine.threads, machine.threads * machine.cluster_size
    near, clustered = mine // cta == other // cta, mine // size == other // size
    if scope:
        return f"scope .{'cta' if near else 'cluster' if clustered else 'gpu'} or wider on both sides"
    if near and mine % cta // 32 == other % cta // 32:
        return "__syncwarp() (bar.warp.sync) or __syncthreads() (bar.sync) between the two"
    if near:
        return "__syncthreads() (bar.sync) between the two"
    if clustered:
        return "a barrier of the cluster (barrier.cluster) between the two"
    return "a release after the first and an acquire before the second, of scope .gpu, on one flag; grid.sync(); two launches"


def blame_flight(
    machine: Registers, operation: Operation, cell: int, where: str, action: str, lanes: Lanes, position: int, copy: int,
    span: tuple[int, int] | None, *, wrote: bool,
) -> NoReturn:  # fmt: skip
    """The hazard for an access to what an operation in flight uses; ``cell``: of shared memory, or -1."""
    pending, operation.blamed = operation.pending(cell), True
    own = operation.machine is machine and pending.lane == int(machine.index(lanes)[position])
    remedy = (pending.remedy or pending.lack) + ("" if own or not pending.alone else ", then a barrier")
    who, verb = operation.machine.name_of(pending.lane), "to it is in flight" if wrote else "still reads it"
    met = machine.in_vain(operation.at, pending, "written" if wrote else "read", who)
    machine.hazard(
        "async", f"{where} is {action} while {operation.named(pending.lane)} {verb}: {pending.lack}", lanes, position, copy=copy,
        threads=(who,), bytes=span, action=action, remedy=remedy, met=met,
    )  # fmt: skip


def _scope_name(strength: int) -> str:
    return {number: name for name, number in SCOPES.items()}[strength]
