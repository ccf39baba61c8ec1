"""The livelock detector. It reports a loop that returns to an earlier state. The number of steps is not limited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from ..effects import effect_of, may_load, modifiers_of
from ..memory.memories import Memories
from ..memory_model.access import RANK_MASK, WINDOW_BITS
from ..memory_model.clocks import TENSOR
from ..program import Instruction, Memory
from ..threads.threads import DONE, RUN, TURNS, Blocked, Lanes
from .engines import Engines
from .mbarrier import Mbarriers

FIRST_LOOK = 512
"""Backward branches before the first check; each later check comes after twice as many."""
WINDOW = 96
"""Backward branches that each check compares at least: the longest period that can be found."""
MOST_BYTES = 1 << 20
"""The largest global memory, in bytes, that is compared if only one thread changes it."""
TIME = "%clock"
"""The name of the time among the registers that an instruction read; the time never repeats."""


@attrs.frozen(eq=False)
class StateSnapshot:
    """A frozen record of a batch's state at a backward branch, for comparison with later states."""

    versions: tuple[int, int]
    memory: list[Any] | None
    at: int
    pc: NDArray[np.int64]
    status: NDArray[np.int8]
    turn: NDArray[np.int64]
    registers: dict[str, Any]


class LivelockDetector:
    """The livelock detector of one batch of clusters.

    A thread that loops lets others run first from time to time. If no thread can change the values that decide the
    loops, they are stuck.
    """

    def __init__(self, machine: Memories, mbarriers: Mbarriers, engines: Engines) -> None:
        self.machine, self.mbarriers, self.engines = machine, mbarriers, engines
        self.loops = 0
        self._look_at = FIRST_LOOK
        self._snapshot: StateSnapshot | None = None
        self._reads: dict[int, set[str]] = {}
        self._writes: dict[int, set[str]] = {}
        self._deciding: tuple[int, set[str], list[int]] = (-1, set(), [])
        self._endless: NDArray[np.int64] | None = None

    def count_loop(self, lanes: Lanes) -> None:
        """Count a backward branch that lanes take."""
        machine = self.machine
        self.loops += 1
        machine.suspicious = self.loops >= FIRST_LOOK
        if machine.others:
            turn = machine.turn[lanes] + 1
            machine.turn[lanes] = turn
            if int(turn.min()) % TURNS == 0:
                machine.stale = True
        if self.loops < self._look_at:
            return
        if self._snapshot is None:
            self._take()
        elif self._same(self._snapshot):
            self._endless = machine.index(lanes)
            machine.stale = True
        elif self.loops > self._look_at + max(WINDOW, self._look_at // 16) + TURNS * len(machine.others):
            self._forget()
            self._look_at = 2 * self.loops

    def verdict(self) -> Blocked | None:
        """Return :class:`Blocked` if a loop waits for another batch, else None. Raise a hazard for an endless loop."""
        if self._endless is None:
            return None
        machine, lanes, loads = self.machine, self._endless, self._deciders()[1]
        repeats = self._snapshot is not None and self._snapshot.versions != self._versions()
        self._endless = None
        self._forget()
        self._look_at = self.loops + FIRST_LOOK
        if self.engines.complete_oldest():
            return None
        at = machine.at
        if not loads:  # no change of memory can end it
            self._raise_hang(lanes, at, loads)

        def raise_hang() -> NoReturn:
            self._raise_hang(lanes, at, loads, repeats=repeats)

        return Blocked(raise_hang)

    def _take(self) -> None:
        machine = self.machine
        machine.spill_all()
        for name in machine.owned:
            machine.owned[name] = False  # so that the next write makes a new array
        self._snapshot = StateSnapshot(
            self._versions(), self._memory(), machine.at, machine.pc.copy(), machine.status.copy(),
            machine.turn.copy(), dict(machine.registers),
        )  # fmt: skip
        self._record()

    def _versions(self) -> tuple[int, int]:
        """Return version numbers, which change with every change of a memory."""
        return self.machine.launch.version, self.machine.local.changes

    def _memory(self) -> list[Any] | None:
        """Return the bytes of all memories, or None if they are too large or more than one thread may change them."""
        machine = self.machine
        alone = machine.copies * int((machine.status == RUN).sum()) == 1
        plain = not machine.shared.has_objects and TENSOR not in machine.launch.sections
        kept = machine.launch.memory.copy_writable(MOST_BYTES) if alone and plain else None
        return None if kept is None else [*kept, machine.shared.data.copy(), np.copy(machine.local.data)]

    def _record(self) -> None:
        """Record from now on which registers each instruction reads and writes."""
        machine = self.machine
        reads: dict[int, set[str]] = defaultdict(set)
        writes: dict[int, set[str]] = defaultdict(set)
        self._reads, self._writes = reads, writes
        self._deciding = (-1, set(), [])
        plain = type(machine)

        def recorder(table: dict[int, set[str]], method: Callable[..., Any]) -> Callable[..., Any]:
            def run(names: str | list[str], *more: Any) -> Any:
                table[machine.at].update([names] if isinstance(names, str) else names)
                return method(machine, names, *more)

            return run

        def clock() -> int:
            reads[machine.at].add(TIME)
            return plain.clock(machine)

        reading = {name: recorder(reads, getattr(plain, name)) for name in ("read", "read_many")}
        writing = {name: recorder(writes, getattr(plain, name)) for name in ("write", "write_many")}
        vars(machine).update(reading | writing, clock=clock)

    def _forget(self) -> None:
        """Drop the snapshot."""
        self._snapshot = None
        for name in ("read", "write", "read_many", "write_many", "clock"):
            vars(self.machine).pop(name, None)

    def _deciders(self) -> tuple[set[str], list[int]]:
        """Return the registers and loads that decide the branches and addresses since the snapshot."""
        count = sum(map(len, self._reads.values())) + sum(map(len, self._writes.values()))
        if count != self._deciding[0]:
            deciders, loads = self._decide(values=False)
            if loads:  # they may read what is written
                deciders, loads = self._decide(values=True)
            self._deciding = (count, deciders, loads)
        return self._deciding[1:]

    def _decide(self, *, values: bool) -> tuple[set[str], list[int]]:
        """Return the deciding registers and loads; ``values``: whether values written to memory decide, too."""
        instructions = self.machine.program.instructions
        deciders: set[str] = set()
        for at, names in self._reads.items():  # an instruction without results has an effect, or may still be executed
            instruction = instructions[at]
            effect = effect_of(instruction.opcode)
            if not values and effect.kind in ("store", "atomic"):
                places = (x.base for x in instruction.operands if isinstance(x, Memory))
                deciders |= names & {instruction.guard, *places}
            elif at not in self._writes or not effect.registers_only:
                deciders |= names
        size = -1
        while size != len(deciders):
            size = len(deciders)
            for at, names in self._writes.items():
                if names & deciders and at in self._reads:
                    deciders |= self._reads[at]
        loads = [at for at in sorted(self._reads.keys() | self._writes.keys()) if may_load(instructions[at])]
        plain = [at for at in loads if effect_of(instructions[at].opcode).kind in ("load", "atomic")]
        idle = {at for at in plain if deciders.isdisjoint(self._writes.get(at, ()))}
        idle |= {at for at in plain if modifiers_of(instructions[at].opcode).space == "param"}  # these never change
        return deciders, [at for at in loads if at not in idle]

    def _same(self, old: StateSnapshot) -> bool:
        machine = self.machine
        if old.at != machine.at or len(old.pc) != machine.units:
            return False
        names, loads = self._deciders()
        changed = bool(loads) and old.versions != self._versions()
        if TIME in names or (changed and old.memory is None):
            return False
        machine.spill_all()
        running = machine.status == RUN
        if machine.others:
            waiting = running.copy()
            waiting[machine.index(machine.lanes)] = False
            if (machine.turn[waiting] <= old.turn[waiting]).any():
                return False  # a thread has not run since
            if not np.array_equal(old.pc[waiting], machine.pc[waiting]):
                return False
        if not np.array_equal(old.status, machine.status):
            return False
        for name in names:
            now, before = machine.registers.get(name), old.registers.get(name)
            if now is before:
                continue
            if now is None or before is None or bool((now[:, :1] != before[:, :1]).any()):
                return False
            if now.shape[1] > 1 and not np.array_equal(now, before):
                return False
        if not changed:
            return True
        now = self._memory()
        return old.memory is not None and now is not None and all(map(np.array_equal, old.memory, now))

    def _raise_hang(self, lanes: NDArray[np.int64], at: int, loads: list[int], *, repeats: bool = False) -> NoReturn:
        machine, instructions = self.machine, self.machine.program.instructions
        start = machine.launch.targets[at]
        body = range(min(start, at) if start >= 0 else at, at + 1)
        reads = [place for place in loads if place in body and effect_of(instructions[place].opcode).polled]
        if reads and not repeats:
            others = np.nonzero(machine.status != DONE)[0]
            _, leaders = np.unique(machine.warp_of[others], return_index=True)
            firsts = [
                machine.name_of(int(x)) for x in others[leaders] if machine.warp_of[x] != machine.warp_of[lanes[0]]
            ][:3]
            more = f"; {', '.join(firsts)} cannot continue either" if firsts else ""
            what = f"waits in a loop for {self._poll_target(instructions[reads[0]], lanes)}; no thread can change it any more{self.mbarriers.states()}{more}"
            machine.hazard("deadlock", what, lanes, at=reads[0], threads=tuple(firsts))
        why = "no instruction waits or writes memory"
        if repeats:
            why = "registers and memory return to an earlier state"
        elif any(effect_of(instructions[place].opcode).kind in ("store", "atomic") for place in body):
            why = "no instruction waits, and none reads what the loop writes"
        machine.hazard("endless", f"the loop never ends: {why}", lanes, at=at)

    def _poll_target(self, instruction: Instruction, lanes: NDArray[np.int64]) -> str:
        """Return the name of the bytes that a load of a loop reads."""
        machine = self.machine
        operand = next((x for x in instruction.operands if isinstance(x, Memory)), None)
        machine.spill_all()
        if operand is None or operand.base not in machine.registers:
            return "a value"
        address = (int(machine.read(operand.base, lanes[:1])[0, 0]) + operand.offset) & (2**64 - 1)
        memory = machine.launch.memory
        window = (address >> WINDOW_BITS) - 1
        if 0 <= window < len(memory.arrays):
            array = memory.arrays[window]
            return array.where(address - array.base)
        return machine.shared.where_offset((address & RANK_MASK) - machine.shared.base)
