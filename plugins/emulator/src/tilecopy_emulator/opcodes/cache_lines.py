"""Instructions on cache lines: prefetches, eviction priorities and ``discard``. Only ``discard`` changes bytes.

Source: PTX ISA, ``prefetch``, ``applypriority``, ``cp.async.bulk.prefetch``, ``discard``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..effects import modifiers_of
from ..machine.machine import Machine
from ..memory.memories import LINE_BYTES
from ..memory_model.access import AccessKind
from ..program import Instruction, Program
from .copies import demand_bulk_size, global_bytes, row_of
from .loads import address_reader, data_address, immediate, operands_of
from .operands import Handler, Lanes, Step, demand_count, reader, refuse
from .tensor_copies import map_prefetch


def _line(instruction: Instruction, program: Program) -> Step:
    """Compile ``prefetch``, ``prefetchu`` and ``applypriority`` of the cache line at an address, or of a tensor map."""
    if "tensormap" in instruction.opcode:
        return map_prefetch(instruction, program)
    sized = instruction.opcode[0] == "applypriority"
    demand_count(instruction, 2 if sized else 1)
    if sized and immediate(instruction.operands[1], instruction, "the size") != LINE_BYTES:
        raise refuse(instruction, f"the size must be {LINE_BYTES} bytes, got {instruction.operands[1]}")
    space = modifiers_of(instruction.opcode).space
    address = data_address(instruction.operands[0], space, instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        where = np.asarray(address(machine, lanes)).astype(np.uint64)
        if sized:
            machine.demand_aligned(lanes, where, LINE_BYTES, "the address {}")
        machine.demand_mapped(lanes, AccessKind(space, 1), where)

    return step


def bulk_prefetch(instruction: Instruction, program: Program) -> Step:
    """Compile ``cp.async.bulk.prefetch.L2``. The emulator only checks the size and the address."""
    place, size = operands_of(instruction, 2)
    address, read = address_reader(place, instruction, program), reader(size, "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        where, sizes = address(machine, lanes), machine.uniform(read(machine, lanes), lanes).astype(np.int64)
        for position, one in enumerate(machine.index(lanes)[:, None]):
            demand_bulk_size(machine, one, int(sizes[position]))
            global_bytes(machine, one, row_of(where, position), int(sizes[position]))

    return step


_SCRAMBLED = np.uint8(0xA5)


def _discard(instruction: Instruction, program: Program) -> Step:
    """Compile ``discard.L2``, which writes other values to the 128 bytes, because they are undefined afterwards."""
    demand_count(instruction, 2)
    if immediate(instruction.operands[1], instruction, "the size") != LINE_BYTES:
        raise refuse(instruction, f"the size must be {LINE_BYTES} bytes, got {instruction.operands[1]}")
    address = data_address(instruction.operands[0], "global", instruction, program)
    access = AccessKind("global", 16)

    def step(machine: Machine, lanes: Lanes) -> None:
        where = address(machine, lanes)
        machine.demand_aligned(lanes, where, LINE_BYTES, "the global address {}")
        for offset in range(0, LINE_BYTES, access.bytes):
            addresses = where + where.dtype.type(offset)
            pieces = machine.globals.locate(lanes, machine.globals.spread(lanes, addresses), access.bytes)
            raw: Any = np.empty((machine.size(lanes), machine.copies, access.bytes), np.uint8)
            for array, chosen, offsets in pieces:
                part = array.data[offsets[..., None] + np.arange(access.bytes)]
                raw[slice(None) if chosen is None else chosen] = part ^ _SCRAMBLED
            machine.store(lanes, access, addresses, raw)

    return step


INSTRUCTIONS: dict[str, Handler] = {
    "discard": _discard,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority"), _line),
}
