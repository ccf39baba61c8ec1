"""``ldmatrix`` and ``stmatrix``: 8 x 8 tiles of 16-bit elements between shared memory and the registers of a warp.

Lane ``8 * j + r`` gives the address of row ``r`` of tile ``j``; lane ``t`` holds, of each tile, the elements 2 * (t % 4) and the
next of row ``t / 4`` (``.trans``: of column ``t / 4``). Source: PTX ISA 9.7.14.5.15 and .16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .access import Access
from .accesses import address_reader
from .operands import Handler, Lanes, Step, reader, refuse, writer
from .program import Instruction, Program, Vector

if TYPE_CHECKING:
    from .machine import Machine

_ROW = Access("shared", 16)


def _parts(instruction: Instruction) -> tuple[int, bool]:
    """The number of tiles and whether they are transposed."""
    parts = set(instruction.opcode)
    if not {"m8n8", "b16"} < parts or not parts & {"shared", "shared::cta"}:
        raise refuse(instruction, f"this form of {instruction.opcode[0]} is not known")
    return next(count for count in (1, 2, 4) if f"x{count}" in parts), "trans" in parts


def _items(instruction: Instruction, operand: Any, count: int) -> tuple[str, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count or not all(isinstance(item, str) for item in items):
        raise refuse(instruction, f"{count} registers are wanted")
    return tuple(items)


def _rows(machine: Machine, lanes: Lanes, tiles: int) -> tuple[Any, Any]:
    """Positions among the lanes, and the lanes, that give the addresses of rows."""
    machine.demand_whole_warps(lanes)
    index = machine.index(lanes)
    if len(index) % 32 or (machine.lane[index, 0] != np.arange(len(index)) % 32).any():
        machine.hazard("aligned", "a matrix is moved by a warp of less than 32 threads", lanes)
    giving = np.nonzero(machine.lane[index, 0] < 8 * tiles)[0]
    return giving, index[giving]


def _load(instruction: Instruction, program: Program) -> Step:
    tiles, trans = _parts(instruction)
    if len(instruction.operands) != 2:
        raise refuse(instruction, f"it takes 2 operands, not {len(instruction.operands)}")
    writers = [writer(x, "b32", instruction, program) for x in _items(instruction, instruction.operands[0], tiles)]
    address = address_reader(instruction.operands[1], instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        giving, who = _rows(machine, lanes, tiles)
        addresses = machine.rows(address(machine, lanes), lanes)[giving]
        raw = np.ascontiguousarray(machine.load(who, _ROW, addresses))
        raw = np.broadcast_to(raw, (len(who), *raw.shape[1:])).reshape(-1, tiles, 8, *raw.shape[1:])
        elements = np.ascontiguousarray(raw).view(np.uint16)  # (warps, tiles, rows, copies, columns)
        elements = np.moveaxis(elements, 3, 4)
        if trans:
            elements = elements.swapaxes(2, 3)
        words = np.ascontiguousarray(np.moveaxis(elements, 4, 2)).view(np.uint32)  # (warps, tiles, copies, rows, 4)
        for tile, write in enumerate(writers):
            values = words[:, tile].reshape(words.shape[0], words.shape[2], 32)
            write(machine, lanes, values.swapaxes(1, 2).reshape(-1, words.shape[2]))

    return step


def _store(instruction: Instruction, program: Program) -> Step:
    tiles, trans = _parts(instruction)
    if len(instruction.operands) != 2:
        raise refuse(instruction, f"it takes 2 operands, not {len(instruction.operands)}")
    address = address_reader(instruction.operands[0], instruction, program)
    readers = [reader(x, "b32", instruction, program) for x in _items(instruction, instruction.operands[1], tiles)]

    def step(machine: Machine, lanes: Lanes) -> None:
        giving, who = _rows(machine, lanes, tiles)
        addresses = machine.rows(address(machine, lanes), lanes)[giving]
        held = np.broadcast_arrays(*(machine.rows(read(machine, lanes), lanes) for read in readers))
        words = np.stack(held).reshape(tiles, -1, 32, held[0].shape[1])  # (tiles, warps, lanes, copies)
        words = np.ascontiguousarray(words.transpose(1, 0, 3, 2))
        elements = words.view(np.uint16).reshape(*words.shape[:3], 8, 8)
        if trans:
            elements = elements.swapaxes(3, 4)
        raw = np.ascontiguousarray(elements.transpose(0, 1, 3, 2, 4)).view(np.uint8)
        machine.store(who, _ROW, addresses, raw.reshape(len(who), words.shape[2], 16))

    return step


INSTRUCTIONS: dict[str, Handler] = {"ldmatrix": _load, "stmatrix": _store}
