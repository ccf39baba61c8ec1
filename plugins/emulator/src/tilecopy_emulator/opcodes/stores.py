"""Stores of newer forms: ``st.bulk``, ``discard``, and ``st.async`` to global memory (PTX ISA 9.7.9.12 to .16)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..effects import Parts, modifiers_of
from ..machine.machine import Machine
from ..memory.memories import LINE_BYTES
from ..order.access import Access
from ..program import REGISTER_BITS, Instruction, Program
from .loads import data_address, immediate, store
from .operands import Handler, Lanes, Step, demand_count, reader, refuse

_PIECE = 8
"""Bytes that ``st.bulk`` sets at once: its size and address are multiples."""
_SCRAMBLED = np.uint8(0xA5)


def _bulk(instruction: Instruction, program: Program) -> Step:
    """``st.bulk``: zeros in shared memory, by the thread itself."""
    demand_count(instruction, 3)
    if immediate(instruction.operands[2], instruction, "the value") != 0:
        raise refuse(instruction, "the value is 0")
    space = modifiers_of(instruction.opcode).space
    address = data_address(instruction.operands[0], space, instruction, program)
    size = reader(instruction.operands[1], "b64", instruction, program)
    access, zeros = Access(space, _PIECE), np.zeros((1, 1, _PIECE), np.uint8)

    def step(machine: Machine, lanes: Lanes) -> None:
        where = machine.rows(address(machine, lanes), lanes)
        sizes = machine.uniform(size(machine, lanes), lanes)
        for position, lane in enumerate(machine.index(lanes).tolist()):
            count = int(sizes[position])
            if count % _PIECE:
                machine.hazard(
                    "alignment", f"{count} bytes are set; the size is a multiple of {_PIECE}", lanes, position
                )
            if count:
                offsets = np.arange(0, count, _PIECE, dtype=np.uint64)[:, None].astype(where.dtype)
                machine.store(np.full(len(offsets), lane), access, where[position] + offsets, zeros)

    return step


def _discard(instruction: Instruction, program: Program) -> Step:
    """``discard.L2``: who reads the 128 bytes afterwards finds anything, so here something else than was there."""
    demand_count(instruction, 2)
    if immediate(instruction.operands[1], instruction, "the size") != LINE_BYTES:
        raise refuse(instruction, f"the size is {LINE_BYTES}")
    address = data_address(instruction.operands[0], "global", instruction, program)
    access = Access("global", 16)

    def step(machine: Machine, lanes: Lanes) -> None:
        where = address(machine, lanes)
        machine.demand_aligned(lanes, where, LINE_BYTES, "the global address {}")
        for offset in range(0, LINE_BYTES, access.bytes):
            there = where + where.dtype.type(offset)
            pieces = machine.globals.locate(lanes, machine.globals.spread(lanes, there), access.bytes)
            raw: Any = np.empty((machine.size(lanes), machine.copies, access.bytes), np.uint8)
            for array, chosen, offsets in pieces:
                part = array.data[offsets[..., None] + np.arange(access.bytes)]
                raw[slice(None) if chosen is None else chosen] = part ^ _SCRAMBLED
            machine.store(lanes, access, there, raw)

    return step


def send_to_global(instruction: Instruction, program: Program) -> Step:
    """``st.async.release`` to global memory: what the thread did before is there before it is."""
    said = modifiers_of(instruction.opcode)
    size = REGISTER_BITS[said.type] // 8
    return store(instruction, program, Parts(Access(said.space, size, "release", said.scope), said.type, 1, size))


INSTRUCTIONS: dict[str, Handler] = {
    "st.bulk": _bulk,
    "discard": _discard,
    "st.async.release": send_to_global,
    "st.async.mmio": send_to_global,
}
