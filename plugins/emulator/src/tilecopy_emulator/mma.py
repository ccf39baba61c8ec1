"""The handler of ``mma.sync``: a warp multiplies dense matrices. An entry point registers the handler.

The fragments are those of PTX ISA 9.7.15.5, with one rule for all shapes. :mod:`.opcodes.products` has the rule, and explains
the rounding of sums. Sparse and block-scaled products, and ``m8n8k4`` of f16, are not supported.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .machine.machine import Machine
from .opcodes.loads import names_of
from .opcodes.operands import Handler, Lanes, Reader, Step, demand_count, reader, refuse, writer
from .opcodes.products import ELEMENT_BITS, Fragment, operand, product, total
from .program import Instruction, Program

_MODIFIERS = {"row", "col", "satfinite", "rn", "rz", "rm", "rp", "xor", "and", "popc", "kind::f8f6f4"}


def _mma(instruction: Instruction, program: Program) -> Step:
    opcode = instruction.opcode
    shape = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", opcode[3]) if opcode[1:3] == ("sync", "aligned") else None
    types = [part for part in opcode[4:] if part in ELEMENT_BITS]
    modifiers = {part for part in opcode[4:] if part not in ELEMENT_BITS}
    if shape is None or len(types) != 4 or not modifiers <= _MODIFIERS:
        raise refuse(instruction, f"mma is not supported with .{'.'.join(opcode[1:])}")
    m, n, k = map(int, shape.groups())
    if k * ELEMENT_BITS[types[1]] < (256 if types[1] == "f64" else 128):  # m8n8k4 of f16, by quarters of a warp
        raise refuse(instruction, f"mma is not supported with shape {opcode[3]} and type .{types[1]}")
    demand_count(instruction, 4)
    result, a, b, c = total(m, n, types[0]), operand(m, k, types[1]), operand(n, k, types[2]), total(m, n, types[3])
    names = names_of(instruction.operands[0], result.registers, instruction)
    writers = [writer(name, result.register_type, instruction, program) for name in names]
    sources = [
        (matrix, [reader(name, matrix.register_type, instruction, program) for name in _names(instruction, at, matrix)])
        for at, matrix in enumerate((a, b, c), 1)
    ]
    direction = next((part for part in opcode if part in ("rn", "rz", "rm", "rp")), "rn")
    saturate, xor = "satfinite" in modifiers, "xor" in modifiers

    def step(machine: Machine, lanes: Lanes) -> None:
        index = machine.demand_full_warps(lanes, "mma")
        pairs = [_words(machine, lanes, readers) for _, readers in sources]
        left, right, before = (matrix.values(words) for (matrix, _), (words, _) in zip(sources, pairs, strict=True))
        raw = product(left, right, before, types[0], direction=direction, saturate=saturate, xor=xor)
        for write, words in zip(writers, result.words(raw), strict=True):
            write(machine, lanes, words.reshape(len(index), -1))
        if any(origins.any() for _, origins in pairs):
            _pass_on(machine, index, result, names, [tile for tile, _ in sources], [origins for _, origins in pairs])

    return step


def _names(instruction: Instruction, at: int, fragment: Fragment) -> tuple[str, ...]:
    return names_of(instruction.operands[at], fragment.registers, instruction)


def _words(machine: Machine, lanes: Lanes, readers: list[Reader]) -> tuple[Any, Any]:
    """Return registers as ``(registers, warps, threads, copies)``, and the origins of their undefined bits, without the copies."""
    values, missing = machine.sources(readers, lanes)
    words = machine.stack(values, lanes)
    lacking = np.zeros(words.shape[:2], np.int64) if missing is None else np.stack([whence for _, whence in missing])
    return words.reshape(len(words), -1, 32, words.shape[2]), lacking.reshape(len(words), -1, 32)


def _pass_on(machine: Machine, index: Any, result: Fragment, names: Any, fragments: Any, lacking: Any) -> None:
    """Mark the rows, columns and elements of the result that depend on undefined operands as undefined."""
    left, right, before = (fragment.spread(origins) for fragment, origins in zip(fragments, lacking, strict=True))
    whence = np.maximum(np.maximum(left.max(axis=2)[:, :, None], right.max(axis=2)[:, None, :]), before)
    for name, origins in zip(names, result.gather(whence), strict=True):
        flat = origins.ravel()
        machine.undefine(name, index[flat != 0], flat[flat != 0])


INSTRUCTIONS: dict[str, Handler] = {"mma": _mma}
