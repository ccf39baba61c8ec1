"""Loops that make no progress: found by a state that comes again, not by counting steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import numpy as np

from .program import Instruction, Memory, Vector

if TYPE_CHECKING:
    from .machine import Machine, Stuck

FIRST_LOOK = 512
"""Backward branches before the first look; later ones come at twice as many each."""
WINDOW = 96
"""Backward branches that are compared at each look: the longest period that is found."""


@attrs.frozen(eq=False)
class _Picture:
    version: int
    at: int
    pc: Any
    status: Any
    turn: Any
    executed: Any
    registers: dict[str, Any]
    loops: int


class Watch:
    """Watches the loops of one machine.

    Whoever loops while others could run lets them go first now and then; where nobody could change what the loops
    look at any more, they are stuck.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.loops = 0
        self._look_at = FIRST_LOOK
        self._picture: _Picture | None = None
        self._endless: Any = None

    @property
    def suspicious(self) -> bool:
        """Whether so much has been looped that it matters if a store changes anything."""
        return self.loops >= FIRST_LOOK

    def looped(self, lanes: Any) -> None:
        """Lanes have branched back."""
        machine = self.machine
        self.loops += 1
        if machine.others:
            turn = machine.turn[lanes] + 1
            machine.turn[lanes] = turn
            if int(turn.min()) % 64 == 0:
                machine.stale = True
        if self.loops < self._look_at:
            return
        if self._picture is None:
            self._take()
        elif self._same(self._picture):
            self._endless = machine.index(lanes)
            machine.stale = True
        elif self.loops > self._look_at + WINDOW + 64 * len(machine.others):
            self._picture = None
            self._look_at = 2 * self.loops

    def yields(self, lanes: Any) -> None:
        """Lanes have nothing to do but look again: others go first."""
        turn = self.machine.turn
        turn[lanes] = (turn[lanes] | 63) + 1
        if self.machine.others:
            self.machine.stale = True

    def verdict(self) -> Stuck | None:
        """Whether loops have been found that nothing can end."""
        if self._endless is None:
            return None
        machine, lanes = self.machine, self._endless
        self._endless, self._picture = None, None
        self._look_at = self.loops + FIRST_LOOK
        if machine.engines.land_something():
            return None
        from .machine import Stuck

        at = machine.at

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
            machine.launch.executed.copy(),
            dict(machine.registers),
            self.loops,
        )

    def _same(self, old: _Picture) -> bool:
        machine = self.machine
        machine.spill_all()
        if old.at != machine.at or old.version != machine.launch.version or len(old.pc) != machine.units:
            return False
        running = machine.status == 0
        if machine.others:
            waiting = running.copy()
            waiting[machine.index(machine.lanes)] = False
            if (machine.turn[waiting] <= old.turn[waiting]).any():
                return False  # somebody has not had a turn since
            if not np.array_equal(old.pc[waiting], machine.pc[waiting]):
                return False
        if not np.array_equal(old.status, machine.status):
            return False
        visited = np.nonzero(machine.launch.executed != old.executed)[0]
        names = relevant([machine.program.instructions[i] for i in visited if i < len(machine.program.instructions)])
        for name in names:
            now, before = machine.registers.get(name), old.registers.get(name)
            if now is before:
                continue
            if now is None or before is None or bool((now[:, :1] != before[:, :1]).any()):
                return False
            if now.shape[1] > 1 and not np.array_equal(now, before):
                return False
        return True

    def _accuse(self, lanes: Any, at: int) -> NoReturn:
        machine = self.machine
        reads = [
            i
            for i in self._body(at)
            if (i.opcode[0] in ("atom", "ld") and not i.opcode[1].startswith("param")) or "test_wait" in i.opcode
        ]
        if reads:
            place = machine.program.instructions.index(reads[0])
            others = np.nonzero(machine.status != 5)[0]
            _, leaders = np.unique(machine.warp_of[others], return_index=True)
            firsts = [
                machine.name_of(int(x)) for x in others[leaders] if machine.warp_of[x] != machine.warp_of[lanes[0]]
            ][:3]
            more = f"; {', '.join(firsts)} cannot go on either" if firsts else ""
            machine.hazard(
                "deadlock",
                f"waits in a loop for {self._polled(reads[0], lanes)}, which nothing can change any more"
                f"{machine.mbarriers.states()}{more}",
                lanes,
                at=place,
                threads=tuple(firsts),
            )
        machine.hazard("endless", "a loop that never ends: it waits for nothing and changes nothing", lanes, at=at)

    def _polled(self, instruction: Instruction, lanes: Any) -> str:
        """What a load of a loop looks at, in words."""
        machine = self.machine
        operand = next((x for x in instruction.operands if isinstance(x, Memory)), None)
        machine.spill_all()
        if operand is None or operand.base not in machine.registers:
            return "a value"
        address = (int(machine.read(operand.base, lanes[:1])[0, 0]) + operand.offset) & (2**64 - 1)
        memory = machine.launch.memory
        window = (address >> 44) - 1
        if 0 <= window < len(memory.arrays):
            array = memory.arrays[window]
            return array.where(address - array.base)
        return machine.shared.where_offset((address & 0xFFFFFF) - machine.shared.base)

    def _body(self, at: int) -> list[Instruction]:
        program = self.machine.program
        instruction = program.instructions[at]
        start = self.machine.launch.targets[at] if instruction.opcode[0] == "bra" else at
        return list(program.instructions[min(start, at) : at + 1])


def relevant(body: list[Instruction]) -> set[str]:
    """Registers that decide where a loop goes or what it touches."""
    found: set[str] = set()
    for instruction in body:
        if instruction.guard:
            found.add(instruction.guard)
        if instruction.opcode[0] in ("ld", "st", "atom", "red", "cp", "mbarrier", "bar", "barrier", "tcgen05", "brx"):
            sources = instruction.operands[1:] if instruction.opcode[0] in ("ld", "atom") else instruction.operands
            for operand in sources:
                found |= _names(operand)
    while True:
        more = set(found)
        for instruction in body:
            if instruction.operands and _names(instruction.operands[0]) & found:
                for operand in instruction.operands[1:]:
                    more |= _names(operand)
        if more == found:
            return found
        found = more


def _names(operand: Any) -> set[str]:
    if isinstance(operand, Memory):
        return {operand.base}
    if isinstance(operand, Vector):
        return {str(item) for item in operand.items}
    return set(str(operand).split("|"))
