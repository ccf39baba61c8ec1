"""Emulation of the bulk prefetch into L2 (PTX ISA 9.7.9.25.4). It checks alignment and bounds but moves no bytes."""

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
    """Return a function that checks the address and size of ``cp.async.bulk.prefetch.L2.global [a], size``."""
    hint = instruction.opcode[6:]
    if instruction.opcode[5:6] != ("global",) or hint not in ((), ("L2::cache_hint",)):
        raise refuse(instruction, f"suffixes must be .global[.L2::cache_hint], got {'.'.join(instruction.opcode[5:])}")
    if (count := len(instruction.operands)) != 2 + len(hint):
        raise refuse(instruction, f"operands must be an address, a size and, with a cache hint, a policy, got {count}")
    address = address_reader(instruction.operands[0], instruction, program)
    size = reader(instruction.operands[1], "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        for lane in machine.index(lanes).tolist():
            one = np.array([lane])
            size_bytes = int(machine.uniform(size(machine, one), one)[0])
            check_global(machine, lane, address(machine, one), size_bytes)

    return step


INSTRUCTIONS: dict[str, Handler] = {"cp.async.bulk.prefetch.L2": prefetch}
