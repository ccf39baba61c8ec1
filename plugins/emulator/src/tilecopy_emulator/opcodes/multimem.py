"""``multimem``: addresses of a multicast object, which here has one member, the GPU itself (PTX ISA 9.7.9.17 to .19).

A store or reduction reaches that member's bytes, and a load with a reduction finds its value alone.
"""

from __future__ import annotations

import numpy as np

from ..alu.atomic import atomic_operation
from ..effects import Parts, modifiers_of
from ..order.access import Access
from ..program import REGISTER_BITS, Instruction, Program
from .atomics import atomic_step
from .loads import data_address, load, names_of, operands_of, store
from .operands import Handler, Step, reader, refuse

_BYTES = {"e4m3x4": "b32", "e5m2x4": "b32"}
"""Types that are nothing but bits here."""


def _parts(instruction: Instruction) -> Parts:
    """The type of an element, how many there are, and how they are accessed."""
    said = modifiers_of(instruction.opcode)
    type, count = said.type or next(_BYTES[part] for part in said.rest if part in _BYTES), said.count or 1
    order = said.order or ("relaxed" if "red" in instruction.opcode else "weak")
    element = REGISTER_BITS[type] // 8
    return Parts(Access(said.space, count * element, order, said.scope or "sys"), type, count, element)


def _load(instruction: Instruction, program: Program) -> Step:
    return load(instruction, program, _parts(instruction))


def _store(instruction: Instruction, program: Program) -> Step:
    return store(instruction, program, _parts(instruction))


def _reduce(instruction: Instruction, program: Program) -> Step:
    parts = _parts(instruction)
    to, values = operands_of(instruction, 2)
    kinds = ("add", "min", "max", "and", "or", "xor", "inc", "dec")
    operation, narrow = next(part for part in instruction.opcode if part in kinds), "f16" in parts.type
    type = "u64" if (operation, parts.type) == ("add", "s64") else parts.type
    family = "atom.vector" if narrow or parts.count > 1 else "atom"
    compute = atomic_operation(operation, type, noftz=narrow, family=family)
    if compute is None:
        raise refuse(instruction, "this form of multimem.red is not known")
    address, names = (
        data_address(to, parts.access.space, instruction, program),
        names_of(values, parts.count, instruction),
    )
    readers = [reader(name, parts.type, instruction, program, wider=True) for name in names]
    dtype = np.dtype(f"u{parts.element}")
    access = Access(parts.access.space, parts.element, parts.access.semantics, parts.access.scope, dtype=dtype)
    return atomic_step(access, address, [readers], [], compute, compute)


INSTRUCTIONS: dict[str, Handler] = {"multimem.ld_reduce": _load, "multimem.st": _store, "multimem.red": _reduce}
