"""``multimem``: addresses of a multicast object, which here has one member, the GPU itself (PTX ISA 9.7.9.17 to .19).

A store or reduction reaches that member's bytes, and a load with a reduction finds its value alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..alu.atomic import atomic_operation
from ..effects import modifiers_of
from ..machine.machine import Machine
from ..memory import profile
from ..order.access import Access
from ..program import REGISTER_BITS, Instruction, Program
from .loads import beside, data_address, names_of
from .operands import Handler, Lanes, Step, demand_count, reader, refuse, writer

_BYTES = {"e4m3x4": "b32", "e5m2x4": "b32"}
"""Types that are nothing but bits here."""


def _parts(instruction: Instruction, default: str) -> tuple[str, int, Access]:
    """The type of an element, how many there are, and how they are accessed."""
    said = modifiers_of(instruction.opcode)
    type, count = said.type or next(_BYTES[part] for part in said.rest if part in _BYTES), said.count or 1
    size = count * REGISTER_BITS[type] // 8
    return type, count, Access(said.space, size, said.order or default, said.scope or "sys")


def _load(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2)
    type, count, access = _parts(instruction, "weak")
    names = names_of(instruction.operands[0], count, instruction)
    writers = [writer(name, type, instruction, program, wider=True) for name in names]
    address = data_address(instruction.operands[1], access.space, instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        raw = np.ascontiguousarray(machine.load(lanes, access, address(machine, lanes)))
        elements = raw.view(f"u{REGISTER_BITS[type] // 8}")
        for position, write in enumerate(writers):
            write(machine, lanes, elements[:, :, position])

    return step


def _store(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2)
    type, count, access = _parts(instruction, "weak")
    address = data_address(instruction.operands[0], access.space, instruction, program)
    names = names_of(instruction.operands[1], count, instruction)
    readers = [reader(name, type, instruction, program, wider=True) for name in names]
    dtype = np.dtype(f"u{REGISTER_BITS[type] // 8}")

    def step(machine: Machine, lanes: Lanes) -> None:
        values = [read(machine, lanes) for read in readers]
        machine.store(lanes, access, address(machine, lanes), beside(values, dtype))

    return step


def _reduce(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2)
    type, count, whole = _parts(instruction, "relaxed")
    operation = next(
        part for part in instruction.opcode if part in ("add", "min", "max", "and", "or", "xor", "inc", "dec")
    )
    narrow = "f16" in type
    found = atomic_operation(
        operation, "u64" if (operation, type) == ("add", "s64") else type, noftz=narrow,
        family="atom.vector" if narrow or count > 1 else "atom",
    )  # fmt: skip
    if found is None:
        raise refuse(instruction, "this form of multimem.red is not known")
    compute = found
    address = data_address(instruction.operands[0], whole.space, instruction, program)
    names = names_of(instruction.operands[1], count, instruction)
    readers = [reader(name, type, instruction, program, wider=True) for name in names]
    size = whole.bytes // count
    access = Access(whole.space, size, whole.semantics, whole.scope, dtype=np.dtype(f"u{size}"))

    def step(machine: Machine, lanes: Lanes) -> None:
        where = address(machine, lanes)
        if machine.launch.profile:
            profile.count_atomic(machine, lanes, where, whole.bytes)
        for number, value in enumerate([read(machine, lanes) for read in readers]):

            def update(old: Any, rows: Any, columns: Any, *, shared: bool = False, value: Any = value) -> Any:
                with np.errstate(all="ignore"):
                    return compute(old, value[rows if len(value) > 1 else 0, columns if value.shape[1] > 1 else 0])

            machine.atomic(lanes, access, where + where.dtype.type(number * size), update)

    return step


INSTRUCTIONS: dict[str, Handler] = {"multimem.ld_reduce": _load, "multimem.st": _store, "multimem.red": _reduce}
