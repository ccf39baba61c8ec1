"""An asynchronous operation in flight: who issued it, what it touches, what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ..memory_model.clocks import Clock
from ..memory_model.shadow import FLIGHT_ACTOR
from .threads import Threads


@attrs.frozen
class Pending:
    """Why an operation is still in flight.

    ``lane``: who issued the part of it that is asked for; ``lack``: what is missing, in words; ``remedy``: what
    completes it, in words, or ""; ``wait``: the instruction by which the lane has waited since, in vain, or -1;
    ``alone``: the wait tells the lane alone, so that others need a barrier after it.
    """

    lane: int
    lack: str
    remedy: str = ""
    wait: int = -1
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.lack} ({self.remedy})" if self.remedy else self.lack


def in_group(lane: int, name: str, newer: int, wait: int) -> Pending:
    """Return what an operation of a group lacks.

    ``lane``: who issued it; ``name``: of its instructions, ``cp.async`` or ``cp.async.bulk``; ``newer``: groups that
    the lane has committed since its own; -1 if its own is not committed; ``wait``: as in :class:`Pending`.
    """
    commit, complete = f"{name}.commit_group", f"{name}.wait_group {max(newer, 0)}"
    if name == "cp.async":
        commit, complete = f"{commit} (__pipeline_commit())", f"{complete} (__pipeline_wait_prior({max(newer, 0)}))"
    if newer < 0 and wait < 0:
        lack, remedy = "the commit and the wait are missing", f"{commit}, then {complete}"
    elif newer < 0:
        lack, remedy = "the commit before the wait is missing", f"{commit} before the wait"
    else:
        lack, remedy = "the wait is missing" if wait < 0 else "the wait covers older groups only", complete
    return Pending(lane, lack, remedy, wait, alone=True)


@attrs.define(eq=False)
class Operation:
    """One operation in flight.

    Attributes:
        kind: what it is, in words.
        machine: whose.
        number: among all.
        at: the instruction that issued it.
        lanes: unit lanes that issued it, in its order.
        reads, writes: shadow cells of shared memory.
        array_write: what it writes of global memory: array, cells, and the threads that get them.
        reduces: what it writes it combines with what is there; so others may do at the same time.
        complete: moves the bytes.
        lack: what is missing where somebody did not wait for it; of an operation of a group its ``explain`` says it.
        barrier: place of the mbarrier that it completes on, or -1.
        size: bytes that it counts there.
        group: number of the bulk group of its thread; read: its source may be reused.
        ctas: whose shared memory it uses.
        clock: what it comes after (see VectorClocks.causes).
        explain: from the operation and a shadow cell (-1 for any) to what it lacks.
        was_reported: a hazard has told that its completion is missing.
        waited: the last instruction by which its lane has waited in vain, or -1.
    """

    kind: str
    machine: Threads
    number: int
    at: int
    lane: int
    complete: Callable[[Operation], None]
    lack: str
    reads: Any = None
    writes: Any = None
    array_write: Any = None
    reduces: bool = False
    barrier: int = -1
    size: int = 0
    group: int = -1
    read: bool = False
    ctas: tuple[int, ...] = ()
    clock: Clock | None = None
    data: dict[str, Any] = attrs.Factory(dict)
    explain: Callable[[Operation, int], Pending] | None = None
    waited: int = -1
    was_reported: bool = False

    @property
    def actor(self) -> int:
        """Return the actor that the shadows know it by."""
        return FLIGHT_ACTOR + self.number

    def pending(self, cell: int = -1) -> Pending:
        """Return why it is still in flight."""
        return Pending(self.lane, self.lack) if self.explain is None else self.explain(self, cell)

    def describe(self, lane: int = -1) -> str:
        """In words, with its line and the lane, by default the first that issued it."""
        who = self.machine.name_of(lane if lane >= 0 else self.lane)
        line = self.machine.program.instructions[self.at].line
        return f"an asynchronous copy ({self.kind} of PTX line {line}, {who})"


def completes_late(operation: Operation) -> None:
    """Complete an operation whose bytes another one moves."""
