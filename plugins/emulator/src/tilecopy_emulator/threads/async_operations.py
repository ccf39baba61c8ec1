"""Records of asynchronous operations in flight: the issuing thread, the bytes read and written, and the completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ..memory_model.clocks import Clock
from ..memory_model.shadow import FLIGHT_ACTOR
from .threads import Threads


@attrs.frozen
class Pending:
    """The reason why an asynchronous operation is still in flight.

    ``lane``: that issued the part of it in question; ``lack``: the text of what is missing; ``remedy``: the text of
    what completes it, or ""; ``wait``: a later wait of the lane that does not cover it, or -1; ``alone``: the wait
    orders only this lane, so other lanes need a barrier after it.
    """

    lane: int
    lack: str
    remedy: str = ""
    wait: int = -1
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.lack}: {self.remedy}" if self.remedy else self.lack


def in_group(lane: int, name: str, newer: int, operation: Operation) -> Pending:
    """Return the reason why an operation of a ``cp.async``, bulk or ``wgmma`` group is still in flight.

    ``lane``: that issued it; ``name``: of its instructions, ``cp.async`` or ``cp.async.bulk``; ``newer``: groups that
    the lane committed after this one; -1 if this one is not committed.
    """
    wait, at_wait = operation.waited, operation.newer_at_wait
    count = max(newer if at_wait < 0 else at_wait, 0)
    commit, complete = f"{name}.commit_group", f"{name}.wait_group {count}"
    if name == "cp.async":
        commit, complete = f"{commit} (__pipeline_commit())", f"{complete} (__pipeline_wait_prior({count}))"
    if newer < 0 and wait < 0:
        lack, remedy = "the commit and the wait are missing", f"{commit}, then {complete}"
    elif newer < 0:
        lack, remedy = "the commit before the wait is missing", f"{commit} before the wait"
    elif wait < 0:
        lack, remedy = "the wait is missing", complete
    else:
        where = "after the commit, before this access" if at_wait < 0 else "instead of that wait"
        lack, remedy = "the wait covers older groups only", f"{complete} {where}"
    return Pending(lane, lack, remedy, wait, alone=True)


@attrs.define(eq=False)
class Operation:
    """An asynchronous operation in flight.

    Attributes:
        kind: its name in messages.
        machine: that issued it.
        number: among all operations.
        at: the instruction that issued it.
        lanes: unit lanes that issued it, in its order.
        reads, writes: shadow cells of shared memory.
        array_write: its writes to global memory: array, cells, and the threads that own them afterwards.
        reduces: it is a reduction, so others may write the same bytes at the same time.
        complete: the function that moves the bytes.
        lack: the text of what is missing before an access; an operation of a group has ``explain`` instead.
        barrier: place of the mbarrier that it completes on, or -1.
        size: bytes that it counts there.
        group: number of the bulk group of its thread; read: its source may be reused.
        ctas: the CTAs with its shared memory.
        clock: of everything before it (see VectorClocks.causes).
        explain: a function from the operation and a shadow cell (-1 for any) to what is missing.
        was_reported: True if a hazard has reported that its completion is missing.
        waited: the last wait of its lane that does not cover it, or -1; newer_at_wait: groups that the lane had
            committed after this one at that wait, or -1 if this one was not committed.
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
    newer_at_wait: int = -1
    was_reported: bool = False

    @property
    def actor(self) -> int:
        """The number that identifies this operation in shadow-memory stamps."""
        return FLIGHT_ACTOR + self.number

    def pending(self, cell: int = -1) -> Pending:
        """Return the reason why the operation is still in flight."""
        return Pending(self.lane, self.lack) if self.explain is None else self.explain(self, cell)

    def describe(self, lane: int = -1) -> str:
        """Return text with the operation's PTX line and a lane, by default the first lane that issued it."""
        who = self.machine.name_of(lane if lane >= 0 else self.lane)
        line = self.machine.program.instructions[self.at].line
        return f"an asynchronous copy ({self.kind} of PTX line {line}, {who})"


def completes_late(operation: Operation) -> None:
    """Do nothing: a later wait or commit completes the operation and moves its bytes."""
