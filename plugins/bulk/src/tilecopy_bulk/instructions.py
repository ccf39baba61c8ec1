"""What the emulator learns of this package: a prefetch into L2 is aligned and lies inside an array (PTX ISA 9.7.9.25.4)."""

from __future__ import annotations

import numpy as np
from tilecopy_emulator.extending import (
    Handler,
    Instruction,
    Lanes,
    Machine,
    Program,
    Step,
    address_reader,
    check_global,
    reader,
    refuse,
)


def prefetch(instruction: Instruction, program: Program) -> Step:
    """``cp.async.bulk.prefetch.L2.global [a], size``: nothing is read that a program could see, but it must be there."""
    hint = instruction.opcode[6:]
    if instruction.opcode[5:6] != ("global",) or hint not in ((), ("L2::cache_hint",)):
        raise refuse(instruction, "this form of a prefetch is not known")
    if len(instruction.operands) != 2 + len(hint):
        raise refuse(instruction, "its operands are an address, a size, and the policy of a hint")
    address = address_reader(instruction.operands[0], instruction, program)
    size = reader(instruction.operands[1], "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        for lane in machine.index(lanes).tolist():
            one = np.array([lane])
            size_bytes = int(machine.uniform(size(machine, one), one)[0])
            check_global(machine, lane, address(machine, one), size_bytes)

    return step


INSTRUCTIONS: dict[str, Handler] = {"cp.async.bulk.prefetch.L2": prefetch}
