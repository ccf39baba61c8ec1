"""Loops that make no progress: found by a state that comes again, not by counting steps."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from ..effects import effect_of, may_load, modifiers_of
from ..memory.memories import Memories
from ..order.access import RANK_MASK, WINDOW_BITS
from ..program import Instruction, Memory
from ..threads.threads import DONE, RUN, TURNS, Lanes, Stuck
from .engines import Engines
from .mbarrier import Mbarriers

FIRST_LOOK = 512
"""Backward branches before the first look; later ones come at twice as many each."""
WINDOW = 96
"""Backward branches that are compared at least at each look: the longest period that is found."""
TIME = "%clock"
"""Among the registers that an instruction has read: the time, which never comes again."""


@attrs.frozen(eq=False)
class _Picture:
    version: int
    at: int
    pc: NDArray[np.int64]
    status: NDArray[np.int8]
    turn: NDArray[np.int64]
    registers: dict[str, Any]
    local: int


class Watch:
    """Watches the loops of one machine.

    Whoever loops while others could run lets them go first now and then; where nobody could change what the loops
    look at any more, they are stuck.
    """

    def __init__(self, machine: Memories, mbarriers: Mbarriers, engines: Engines) -> None:
        self.machine, self.mbarriers, self.engines = machine, mbarriers, engines
        self.loops = 0
        self._look_at = FIRST_LOOK
        self._picture: _Picture | None = None
        self._reads: dict[int, set[str]] = {}
        self._writes: dict[int, set[str]] = {}
        self._deciding: tuple[int, set[str]] = (-1, set())
        self._endless: NDArray[np.int64] | None = None

    def looped(self, lanes: Lanes) -> None:
        """Lanes have branched back."""
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
        if self._picture is None:
            self._take()
        elif self._same(self._picture):
            self._endless = machine.index(lanes)
            machine.stale = True
        elif self.loops > self._look_at + max(WINDOW, self._look_at // 16) + TURNS * len(machine.others):
            self._forget()
            self._look_at = 2 * self.loops

    def verdict(self) -> Stuck | None:
        """Whether loops have been found that nothing can end."""
        if self._endless is None:
            return None
        machine, lanes = self.machine, self._endless
        blind = not self._loads()
        self._endless = None
        self._forget()
        self._look_at = self.loops + FIRST_LOOK
        if self.engines.land_something():
            return None
        at = machine.at
        if blind:  # whatever others do to memory, it does not end
            self._accuse(lanes, at)

        def accuse() -> NoReturn:
            self._accuse(lanes, at)

        return Stuck(accuse)

    def _take(self) -> None:
        machine = self.machine
        machine.spill_all()
        for name in machine.owned:
            machine.owned[name] = False  # so that the next write makes a new array
        self._picture = _Picture(
            machine.launch.version,
            machine.at,
            machine.pc.copy(),
            machine.status.copy(),
            machine.turn.copy(),
            dict(machine.registers),
            machine.local.changes,
        )
        self._record()

    def _record(self) -> None:
        """Note from now on which registers each instruction reads and writes."""
        machine = self.machine
        reads, writes = self._reads, self._writes = defaultdict(set), defaultdict(set)
        self._deciding = (-1, set())
        plain = type(machine)

        def read(name: str, lanes: Lanes) -> Any:
            reads[machine.at].add(name)
            return plain.read(machine, name, lanes)

        def write(name: str, lanes: Lanes, values: Any) -> None:
            writes[machine.at].add(name)
            plain.write(machine, name, lanes, values)

        def read_many(names: list[str], lanes: Lanes) -> Any:
            reads[machine.at].update(names)
            return plain.read_many(machine, names, lanes)

        def write_many(names: list[str], lanes: Lanes, elements: Any) -> bool:
            writes[machine.at].update(names)
            return plain.write_many(machine, names, lanes, elements)

        def clock() -> int:
            reads[machine.at].add(TIME)
            return plain.clock(machine)

        vars(machine).update(read=read, write=write, read_many=read_many, write_many=write_many, clock=clock)

    def _forget(self) -> None:
        """Give the picture up."""
        self._picture = None
        for name in ("read", "write", "read_many", "write_many", "clock"):
            vars(self.machine).pop(name, None)

    def _deciders(self) -> set[str]:
        """Registers that decide where the instructions since the picture go and what they touch."""
        count = sum(map(len, self._reads.values())) + sum(map(len, self._writes.values()))
        if count == self._deciding[0]:
            return self._deciding[1]
        instructions = self.machine.program.instructions
        found: set[str] = set()
        for at, names in self._reads.items():  # what wrote nothing has an effect, or was not executed and may be later
            if at not in self._writes or not effect_of(instructions[at].opcode).registers_only:
                found |= names
        size = -1
        while size != len(found):
            size = len(found)
            for at, names in self._writes.items():
                if names & found and at in self._reads:
                    found |= self._reads[at]
        self._deciding = (count, found)
        return found

    def _loads(self) -> bool:
        """Whether an instruction since the picture may have read memory."""
        instructions = self.machine.program.instructions
        return any(may_load(instructions[at]) for at in self._reads.keys() | self._writes.keys())

    def _same(self, old: _Picture) -> bool:
        machine = self.machine
        if old.at != machine.at or len(old.pc) != machine.units:
            return False
        if old.version != machine.launch.version and self._loads():
            return False
        if old.local != machine.local.changes:
            return False
        machine.spill_all()
        running = machine.status == RUN
        if machine.others:
            waiting = running.copy()
            waiting[machine.index(machine.lanes)] = False
            if (machine.turn[waiting] <= old.turn[waiting]).any():
                return False  # somebody has not had a turn since
            if not np.array_equal(old.pc[waiting], machine.pc[waiting]):
                return False
        if not np.array_equal(old.status, machine.status):
            return False
        names = self._deciders()
        if TIME in names:
            return False
        for name in names:
            now, before = machine.registers.get(name), old.registers.get(name)
            if now is before:
                continue
            if now is None or before is None or bool((now[:, :1] != before[:, :1]).any()):
                return False
            if now.shape[1] > 1 and not np.array_equal(now, before):
                return False
        return True

    def _accuse(self, lanes: NDArray[np.int64], at: int) -> NoReturn:
        machine = self.machine
        reads = [i for i in self._body(at) if effect_of(i.opcode).polled and modifiers_of(i.opcode).space != "param"]
        if reads:
            place = machine.program.instructions.index(reads[0])
            others = np.nonzero(machine.status != DONE)[0]
            _, leaders = np.unique(machine.warp_of[others], return_index=True)
            firsts = [
                machine.name_of(int(x)) for x in others[leaders] if machine.warp_of[x] != machine.warp_of[lanes[0]]
            ][:3]
            more = f"; {', '.join(firsts)} cannot go on either" if firsts else ""
            machine.hazard(
                "deadlock",
                f"waits in a loop for {self._polled(reads[0], lanes)}, which nothing can change any more"
                f"{self.mbarriers.states()}{more}",
                lanes,
                at=place,
                threads=tuple(firsts),
            )
        changes = "changes nothing"
        if any(effect_of(i.opcode).kind == "atomic" for i in self._body(at)):
            changes = "reads nothing of what it changes"
        machine.hazard("endless", f"a loop that never ends: it waits for nothing and {changes}", lanes, at=at)

    def _polled(self, instruction: Instruction, lanes: NDArray[np.int64]) -> str:
        """What a load of a loop looks at, in words."""
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

    def _body(self, at: int) -> tuple[Instruction, ...]:
        start = self.machine.launch.targets[at]
        return self.machine.program.instructions[min(start, at) if start >= 0 else at : at + 1]
