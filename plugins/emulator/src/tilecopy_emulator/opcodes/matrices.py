"""``ldmatrix`` and ``stmatrix``: 8 x 8 tiles of 16-bit elements between shared memory and the registers of a warp.

Lane ``8 * j + r`` gives the address of row ``r`` of tile ``j``; lane ``t`` holds, of each tile, the elements 2 * (t % 4) and the
next of row ``t / 4`` (``.trans``: of column ``t / 4``). Source: PTX ISA 9.7.14.5.15 and .16.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..order.access import Access
from ..program import Instruction, Program
from .loads import address_reader, names_of, origins_of
from .operands import Handler, Lanes, Step, demand_count, reader, refuse, writer

_ROW = Access("shared", 16)


def _parts(instruction: Instruction) -> tuple[int, bool]:
    """The number of tiles and whether they are transposed."""
    parts = set(instruction.opcode)
    if not {"m8n8", "b16"} < parts or not parts & {"shared", "shared::cta"}:
        raise refuse(instruction, f"this form of {instruction.opcode[0]} is not known")
    return next(count for count in (1, 2, 4) if f"x{count}" in parts), "trans" in parts


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
    demand_count(instruction, 2)
    names = names_of(instruction.operands[0], tiles, instruction)
    writers = [writer(x, "b32", instruction, program) for x in names]
    address = address_reader(instruction.operands[1], instruction, program)

    def given(rows: Any) -> Any:
        """From elements of rows, shape (rows, copies, 8), to those of lanes: (tiles, lanes, copies, 2)."""
        elements = rows.reshape(-1, tiles, 8, *rows.shape[1:])  # (warps, tiles, rows, copies, columns)
        elements = np.moveaxis(elements, 3, 2)
        if trans:
            elements = elements.swapaxes(3, 4)
        elements = elements.reshape(*elements.shape[:3], 32, 2)  # (warps, tiles, copies, lanes, 2)
        return np.ascontiguousarray(elements.transpose(1, 0, 3, 2, 4)).reshape(tiles, -1, rows.shape[1], 2)

    def step(machine: Machine, lanes: Lanes) -> None:
        giving, who = _rows(machine, lanes, tiles)
        addresses = machine.rows(address(machine, lanes), lanes)[giving]
        raw = np.ascontiguousarray(machine.shared.load(who, _ROW, addresses)).view(np.uint16)
        words = given(np.broadcast_to(raw, (len(who), *raw.shape[1:]))).view(np.uint32)[..., 0]
        for write, values in zip(writers, words, strict=True):
            write(machine, lanes, values)
        if machine.unwritten:
            ((_, origins),), machine.unwritten = machine.unwritten, []
            halves = given(origins.reshape(len(who), 1, 8, 2).max(axis=3))[:, :, 0]
            machine.poison_found(
                names, 4, lanes, np.repeat(halves, 2, axis=2).swapaxes(0, 1).reshape(len(halves[0]), -1)
            )

    return step


def _store(instruction: Instruction, program: Program) -> Step:
    tiles, trans = _parts(instruction)
    demand_count(instruction, 2)
    address = address_reader(instruction.operands[0], instruction, program)
    readers = [reader(x, "b32", instruction, program) for x in names_of(instruction.operands[1], tiles, instruction)]

    def taken(elements: Any) -> Any:
        """From elements of lanes, shape (tiles, lanes, copies, 2), to those of rows: (rows, copies, 8)."""
        copies = elements.shape[2]
        elements = elements.reshape(tiles, -1, 32, copies, 2).transpose(1, 0, 3, 2, 4)
        elements = elements.reshape(*elements.shape[:3], 8, 8)  # (warps, tiles, copies, rows, columns)
        if trans:
            elements = elements.swapaxes(3, 4)
        return np.ascontiguousarray(elements.transpose(0, 1, 3, 2, 4)).reshape(-1, copies, 8)

    def step(machine: Machine, lanes: Lanes) -> None:
        giving, who = _rows(machine, lanes, tiles)
        addresses = machine.rows(address(machine, lanes), lanes)[giving]
        values, lacking = machine.sources(readers, lanes)
        words = np.stack(np.broadcast_arrays(*(machine.rows(each, lanes) for each in values)))
        raw = taken(words[..., None].view(np.uint16)).view(np.uint8)
        origins = origins_of(lacking, 4)
        if lacking:
            halves = origins.reshape(-1, tiles, 1, 2, 2).max(axis=4).swapaxes(0, 1)
            origins = np.repeat(taken(halves)[:, 0], 2, axis=1)
        machine.shared.store(who, _ROW, addresses, raw, origins)

    return step


INSTRUCTIONS: dict[str, Handler] = {"ldmatrix": _load, "stmatrix": _store}
