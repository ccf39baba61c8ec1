"""``mma.sync.aligned.m16n8k16.row.col.f32.{f16.f16,bf16.bf16}.f32``: the warp's matrix product, known by its entry point.

Lane ``t`` holds, with ``g = t / 4`` and ``q = t % 4``: of A the pairs of columns ``2 q`` and ``2 q + 8`` of rows ``g`` and ``g + 8``; of B the
pairs of rows ``2 q`` and ``2 q + 8`` of column ``g``; of C and D the columns ``2 q`` and the next of rows ``g`` and ``g + 8``. Source:
PTX ISA 9.7.15.5.8. The products are exact and summed in float64, then rounded once: the ISA leaves order and rounding of the
sum open, so that the last bits of hardware may differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .alu.formats import BF16, F16, F32, decode, encode, quantize
from .machine.machine import Machine
from .opcodes.operands import Handler, Lanes, Step, demand_count, reader, refuse, writer
from .program import Instruction, Program, Vector

_TYPES = {("f32", "f16", "f16", "f32"): F16, ("f32", "bf16", "bf16", "f32"): BF16}
_LANE = np.arange(32)
_PAIR = np.arange(2)
_ROW, _COLUMN = _LANE // 4, 2 * (_LANE % 4)


def _registers(instruction: Instruction, number: int, count: int) -> tuple[Any, ...]:
    operand = instruction.operands[number]
    if not isinstance(operand, Vector) or len(operand.items) != count:
        raise refuse(instruction, f"operand {number + 1} is {count} registers in braces")
    return tuple(operand.items)


def _mma(instruction: Instruction, program: Program) -> Step:
    shape, types = instruction.opcode[1:6], instruction.opcode[6:]
    if shape != ("sync", "aligned", "m16n8k16", "row", "col") or types not in _TYPES:
        raise refuse(instruction, "this form of mma is not known")
    demand_count(instruction, 4)
    halves = _TYPES[types]
    names = _registers(instruction, 0, 4)
    writers = [writer(x, "f32", instruction, program) for x in names]
    a, b = (
        [reader(x, "b32", instruction, program) for x in _registers(instruction, number, count)]
        for number, count in ((1, 4), (2, 2))
    )
    c = [reader(x, "f32", instruction, program) for x in _registers(instruction, 3, 4)]

    def pass_on(machine: Machine, lanes: Lanes, origins: list[Any]) -> None:
        """Of what holds nothing in the operands come rows, columns and elements of the result that hold nothing."""
        left, right, total = origins
        rows: Any = np.zeros((total.shape[1], 16), np.int64)
        columns: Any = np.zeros((total.shape[1], 8), np.int64)
        every: Any = slice(None)
        for register in range(4):
            np.maximum.at(rows, (every, _ROW + 8 * (register % 2)), left[register])
        for register in range(2):
            np.maximum.at(columns, (every, _ROW), right[register])
        for register, name in enumerate(names):
            above = np.maximum(rows[:, _ROW + 8 * (register // 2)], columns[:, _COLUMN + register % 2])
            whence = np.maximum(above, total[register]).ravel()
            machine.undefine(name, machine.index(lanes)[whence != 0], whence[whence != 0])

    def step(machine: Machine, lanes: Lanes) -> None:
        machine.demand_whole_warps(lanes)
        index = machine.index(lanes)
        if len(index) % 32 or (machine.lane[index, 0] != np.arange(len(index)) % 32).any():
            machine.hazard("aligned", "a matrix product by a warp of less than 32 threads", lanes)

        lacking: list[Any] = []

        def held(readers: Any) -> Any:
            """Registers as (registers, warps, 32, copies)."""
            values, missing = machine.sources(readers, lanes)
            none = np.zeros((len(readers), len(index)), np.int64)
            lacking.append(np.stack([whence for _, whence in missing]) if missing else none)
            found = np.stack(np.broadcast_arrays(*(machine.rows(each, lanes) for each in values)))
            return np.ascontiguousarray(found).reshape(len(readers), -1, 32, found.shape[-1])

        def pairs(readers: Any) -> Any:
            """Packed registers as values (registers, warps, 32, copies, 2)."""
            words = held(readers)
            return decode(np.ascontiguousarray(words[..., None]).view(np.uint16), halves)

        left, right, total = pairs(a), pairs(b), decode(held(c), F32)
        copies = max(left.shape[3], right.shape[3], total.shape[3])
        warps = total.shape[1]
        matrices = [np.zeros((warps, copies, rows, columns)) for rows, columns in ((16, 16), (16, 8), (16, 8))]
        for register in range(4):  # rows g, g + 8, then the same with the columns + 8
            rows, columns = _ROW + 8 * (register % 2), _COLUMN + 8 * (register // 2)
            matrices[0][:, :, rows[:, None], columns[:, None] + _PAIR] = left[register].swapaxes(1, 2)
            at = 2 * (register // 2)
            matrices[2][:, :, _ROW + 4 * at, _COLUMN + register % 2] = total[register].swapaxes(1, 2)
        for register in range(2):
            rows = _COLUMN + 8 * register
            matrices[1][:, :, rows[:, None] + _PAIR, _ROW[:, None]] = right[register].swapaxes(1, 2)
        with np.errstate(all="ignore"):
            product = matrices[0] @ matrices[1] + matrices[2]
            raw = encode(quantize(product, F32, "rn"), F32)
        for register, write in enumerate(writers):
            values = raw[:, :, _ROW + 8 * (register // 2), _COLUMN + register % 2]
            write(machine, lanes, np.ascontiguousarray(values.swapaxes(1, 2)).reshape(-1, copies))
        if any(each.any() for each in lacking):
            pass_on(machine, lanes, [each.reshape(len(each), -1, 32) for each in lacking])

    return step


INSTRUCTIONS: dict[str, Handler] = {"mma": _mma}
