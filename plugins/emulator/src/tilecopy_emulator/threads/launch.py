"""The state that all batches of a launch share: the program, the grid, global memory, the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from tilecopy import HazardError

from ..effects import effect_of, loads_strongly
from ..hazards import Hazard
from ..memory_model.clocks import Clock, Time
from ..memory_model.shadow import time_of
from ..program import Program
from .global_arrays import GlobalMemory

Dim3 = tuple[int, int, int]
MOST_AT_A_LINE, MOST_ALIKE = 16, 2
"""The largest number of hazards of one kind at one line of PTX, and of those whose earlier accesses are not distinguished."""


@attrs.frozen
class SharedVariable:
    """A variable in shared memory: the PTX name, the byte offset in the CTA's shared memory, and the size in bytes."""

    name: str
    offset: int
    size_bytes: int


@attrs.frozen(eq=False)
class Location:
    """The vector clock that a strong write releases. A thread that acquires the written bytes merges it into its clock.

    ``clock``: of the writers; ``strength``: the scope of the release, see shadow.py; ``writer``: number of the last
    writing thread, in the grid, or in the unit for shared memory; ``shared``: whether the bytes are in shared memory.
    """

    clock: Clock
    strength: int
    writer: int
    shared: bool = False


@attrs.frozen(eq=False)
class Section:
    """A critical section that has ended.

    ``start``: the time when its lock was acquired; ``clock``: released with its lock, with the scope ``reach`` (see
    shadow.py), by a thread of CTA ``key``.
    """

    start: int
    clock: Clock
    reach: int
    key: int


@attrs.define(eq=False)
class Lock:
    """A lock: bytes that a thread changed by an atomic exchange and will change back.

    Any thread may acquire a lock next, so its release alone orders nothing: it orders only two accesses that are both
    made while it is held (and after one has observed the other, everything before that one).

    ``free``: the bytes of a free lock; ``holder``: CTA and thread in it, or None; ``start``: the time of its acquire;
    ``reach``: the scope of that acquire, 0 for none; ``sections``: the earlier ones.
    """

    free: bytes
    holder: tuple[int, int] | None
    start: int
    reach: int
    sections: list[Section] = attrs.Factory(list)


@attrs.define(eq=False)
class HistoryEntry:
    """A record of a strong write: the bytes (a row per cluster), the writer, the time and the released vector clock."""

    raw: Any
    key: int
    column: int
    time: int
    carries: Location | None = None


@attrs.frozen
class RaceQuery:
    """The earlier access of a race. Shadow memory does not record its instruction, so a second run finds it.

    ``memory``: base of an array, or ``~first`` of the machine with the shared memory; ``cell``: of its shadow;
    ``stamp``: actor, time and strength, see shadow.py; ``writes``: whether it writes.
    """

    memory: int
    cell: int
    stamp: int
    writes: bool


@attrs.define(eq=False)
class Launch:
    """The state of one launch.

    Attributes:
        program: the parsed kernel.
        steps: functions that execute the instructions; lengths: the number of instructions that each step covers.
        grid, block, cluster: CTAs of the grid, threads of a CTA, CTAs of a cluster.
        blocks: ``(n, 3)`` ids of all CTAs, whole clusters in order of rank.
        memory: global memory.
        symbols: variable or parameter -> state space and address (shared: offset in the CTA).
        shared: the shared variables, in order of their offsets.
        shared_bytes: of one CTA.
        shared_cell, global_cell: bytes that no access of the program splits.
        sections: proxies whose fences matter to the program.
        local_owner: for each byte of a thread's local memory, the number of its variable, or -1.
        profile: count memory transactions.
        observer: called for every access and transfer, or None.
        single: execute instructions one by one, because an observer or a query looks at each.
        source_location: PTX line -> the statement of the builder, or "".
        version: incremented with every change that another thread could see.
        operations: number of asynchronous operations so far; writing: those in flight that write global memory, by number.
        locations: address -> the clock of its last strong write; locks: address -> lock;
            histories: address -> the values of strong writes.
        targets: the target of each branch; in_loop: whether an instruction is in a loop.
        polls: whether a strong load may be in a loop.
        executed: thread instructions by place in the program.
        allows_same_value: unordered threads may write the same value to the same place.
        allows_unfenced_init: a bulk copy may use an mbarrier whose init was not fenced for the async proxy.
        all_hazards: the run continues after a hazard if possible.
        hazards: those of the run; raced: the earlier accesses of their races, for a second run to look for.
        first_only: the run continues only to find out whether a divergent barrier caused the first hazard, ``first_error``.
        suspects: races whose earlier thread waits at a barrier that may be divergent, with the later and the earlier thread.
        counts: how often each hazard was recorded, see :meth:`record`.
        sought: accesses that this run looks for, by memory, direction and time; seen: their instruction, and the wait for it or -1.
        printed: the thread and the text of each ``printf``, in order of execution.
        notes: notes for the report, without repetitions.
    """

    program: Program
    steps: list[Callable[[Any, Any], None]]
    lengths: list[int]
    grid: Dim3
    block: Dim3
    cluster: Dim3
    blocks: NDArray[np.int64]
    memory: GlobalMemory
    symbols: Mapping[str, tuple[str, int]]
    shared: tuple[SharedVariable, ...]
    shared_bytes: int
    shared_cell: int
    global_cell: int
    sections: tuple[str, ...]
    local_owner: NDArray[np.int32]
    profile: bool = False
    observer: Any = None
    source_location: Callable[[int], str] = lambda line: ""
    shared_base: int = 0
    time: Time = attrs.Factory(Time)
    version: int = 0
    operations: int = 0
    writing: dict[int, Any] = attrs.Factory(dict)
    locations: dict[Any, Location] = attrs.Factory(dict)
    locks: dict[Any, Lock] = attrs.Factory(dict)
    histories: dict[Any, list[HistoryEntry]] = attrs.Factory(dict)
    counters: Counter[str] = attrs.Factory(Counter)
    dynamic_shared_bytes: int = 0
    total_shared_bytes: int = 0
    explicit_cluster: bool = False
    allows_same_value: bool = False
    allows_unfenced_init: bool = False
    all_hazards: bool = False
    hazards: list[Hazard] = attrs.Factory(list)
    raced: list[RaceQuery] = attrs.Factory(list)
    first_only: bool = False
    first_error: HazardError | None = None
    suspects: list[tuple[Hazard, int, int]] = attrs.Factory(list)
    counts: Counter[tuple[Any, ...]] = attrs.Factory(Counter)
    sought: dict[tuple[int, bool, int], list[RaceQuery]] = attrs.Factory(dict)
    seen: dict[RaceQuery, tuple[int, int]] = attrs.Factory(dict)
    printed: list[tuple[str, str]] = attrs.Factory(list)
    notes: list[str] = attrs.Factory(list)
    single: bool = attrs.field(init=False)
    targets: list[int] = attrs.field(init=False)
    in_loop: NDArray[np.bool_] = attrs.field(init=False)
    polls: bool = attrs.field(init=False)
    executed: NDArray[np.int64] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.single = self.profile or self.observer is not None
        labels = self.program.labels
        goes = [effect_of(i.opcode).kind == "branch" and str(i.operands[0]) for i in self.program.instructions]
        self.targets = [labels[label] if label else -1 for label in goes]
        self.in_loop = np.zeros(len(self.targets) + 1, bool)
        for at, target in enumerate(self.targets):
            if 0 <= target <= at:
                self.in_loop[target : at + 1] = True
        self.polls = any(self.in_loop[at] and loads_strongly(i) for at, i in enumerate(self.program.instructions))
        self.executed = np.zeros(len(self.program.instructions) + 1, np.int64)

    def record(self, error: HazardError) -> None:
        """Record an error's hazard, unless enough similar ones are known. For a race, record the earlier access too."""
        if self.first_only and self.hazards:
            return
        hazard, sought, suspect = (error.details.get(name) for name in ("hazard", "sought", "suspect"))
        hazard = hazard or Hazard(error.kind, str(error).removeprefix(f"{error.kind}: "))
        alike = () if sought is None else (sought.memory, sought.writes, time_of(sought.stamp))
        place = hazard.kind, hazard.line
        if (
            any(entry is hazard for entry in self.hazards)
            or self.counts[place] >= MOST_AT_A_LINE
            or self.counts[place, alike] >= MOST_ALIKE
        ):
            return
        self.counts.update([place, (place, alike)])
        self.hazards.append(hazard)
        self.first_error = self.first_error or error
        self.raced += [] if sought is None else [sought]
        self.suspects += [] if suspect is None else [(hazard, *suspect)]

    def reaches(self, start: int, end: int) -> bool:
        """Return True if the program's control flow can lead from instruction ``start`` to instruction ``end``."""
        seen, places = set[int](), [start]
        while places:
            at = places.pop()
            instruction = self.program.instructions[at]
            goes_on = instruction.guard or not (
                instruction.opcode[0] == "bra" or effect_of(instruction.opcode).kind == "end"
            )
            after = {self.targets[at], *([at + 1] if goes_on else [])} - seen
            seen |= after
            places += [target for target in after if 0 <= target < len(self.targets)]
        return end in seen

    @property
    def threads(self) -> int:
        """The number of threads per CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_size(self) -> int:
        """The number of CTAs per cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    def name_of(self, thread: int) -> str:
        """Return the name that messages use for a thread of the grid, for example ``thread 3 of CTA (0,0,0)``."""
        block = ",".join(map(str, self.blocks[thread // self.threads]))
        return f"thread {thread % self.threads} of CTA ({block})"
