"""The atomics ``atom`` and ``red`` (PTX ISA 9.7.13.5 and .6), and ``multimem`` (PTX ISA 9.7.9.17 to .19).

Addresses of ``multimem`` are in a multicast object, which on the emulator has one member, the GPU itself. A store or reduction
accesses the bytes of that member, and a load with a reduction returns its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..alu.atomic import atomic_operation, scan_of
from ..effects import Parts, modifiers_of
from ..machine.machine import Machine
from ..memory import profile
from ..memory_model.access import AccessKind, Scan
from ..program import REGISTER_BITS, Instruction, Program
from .loads import data_address, gather, load, names_of, operands_of, store
from .operands import Handler, Lanes, Reader, Step, Writer, reader, refuse, writer

_NARROW = ("f16", "bf16", "f16x2", "bf16x2")


def _atomic(instruction: Instruction, program: Program) -> Step:
    name, parts = instruction.opcode[0], modifiers_of(instruction.opcode)
    type, returns = parts.type, name == "atom"
    operation, *unknown = [part for part in parts.rest if part not in ("noftz", "async", "mmio")] or [""]
    if unknown:
        raise refuse(instruction, f"the modifier '.{unknown[0]}' is not supported")
    noftz = "noftz" in parts.rest or (parts.count > 0 and type in _NARROW)  # vectors have it even without the modifier
    family = "atom.vector" if parts.count else "atom"
    compute, in_shared = (
        atomic_operation(operation, type, noftz=noftz, family=family_name) if type else None
        for family_name in (family, family if parts.count else "atom.shared")
    )
    if (
        compute is None
        or in_shared is None
        or (not returns and operation in ("exch", "cas"))
        or parts.space in ("param", "const", "local")
    ):
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    if not returns and parts.order in ("acquire", "acq_rel"):
        raise refuse(instruction, f"red must be .relaxed or .release because red has no result, got .{parts.order}")
    operands = list(operands_of(instruction, (3 if operation == "cas" else 2) + returns))
    count = 2 if type == "b128" else parts.count or 1
    kind = "b64" if type == "b128" else type
    results = names_of(operands.pop(0), count, instruction) if returns else ()
    write = [writer(x, kind, instruction, program) for x in results]
    address = data_address(operands.pop(0), parts.space, instruction, program)
    readers = [[reader(x, kind, instruction, program) for x in names_of(y, count, instruction)] for y in operands]
    size = 16 if type == "b128" else REGISTER_BITS[type] // 8
    scan = None if parts.count else scan_of(operation, type)
    access = AccessKind(
        parts.space, size, parts.order or "relaxed", parts.scope or "gpu",
        dtype=np.dtype("c16" if type == "b128" else f"u{size}"), exchange=operation in ("exch", "cas"),
        scan=scan and Scan(*scan),
    )  # fmt: skip
    if type == "b128":
        return _wide(access, address, readers, write, compare=operation == "cas")

    return atomic_step(access, address, readers, write, compute, in_shared)


def atomic_step(
    access: AccessKind, address: Reader, readers: list[list[Reader]], write: list[Writer], compute: Any, in_shared: Any
) -> Step:
    """Return a step that executes atomics on adjacent elements. ``readers[i][j]`` reads element j of operand i."""
    size, count = access.bytes, len(readers[0])

    def update_of(values: list[Any]) -> Callable[..., Any]:
        def update(old: Any, rows: Any, columns: Any, *, shared: bool = False) -> Any:
            return (in_shared if shared else compute)(old, *(_pick(value, rows, columns) for value in values))

        return update

    def step(machine: Machine, lanes: Lanes) -> None:
        values = [[read(machine, lanes) for read in of] for of in readers]
        where = address(machine, lanes)
        if machine.launch.profile:
            profile.count_atomic(machine, lanes, where, count * size)
        if count > 1:
            machine.demand_aligned(lanes, where, count * size, "the global address {}")
        for number in range(count):
            at = where + where.dtype.type(number * size)
            old = machine.atomic(lanes, access, at, update_of([of[number] for of in values]))
            if write:
                write[number](machine, lanes, old)

    return step


def _pick(value: Any, rows: Any, columns: Any) -> Any:
    return value[rows if value.shape[0] > 1 else 0, columns if value.shape[1] > 1 else 0]


def _wide(
    access: AccessKind, address: Reader, readers: list[list[Reader]], write: list[Writer], *, compare: bool
) -> Step:
    """Return the step of ``exch`` or ``cas`` of 128 bits; a complex NumPy type holds the bits."""

    def step(machine: Machine, lanes: Lanes) -> None:
        values = [gather(machine, lanes, of, np.uint64).view(access.dtype)[..., 0] for of in readers]

        def update(old: Any, rows: Any, columns: Any, *, shared: bool = False) -> Any:
            new = np.broadcast_to(_pick(values[-1], rows, columns), old.shape)
            if not compare:
                return new
            wanted = np.broadcast_to(_pick(values[0], rows, columns), old.shape)
            words = [np.ascontiguousarray(x)[..., None].view(np.uint64) for x in (old, wanted)]
            return np.where((words[0] == words[1]).all(axis=-1), new, old)

        old = machine.atomic(lanes, access, address(machine, lanes), update)
        halves = np.ascontiguousarray(old)[..., None].view(np.uint64)
        for number, write_half in enumerate(write):
            write_half(machine, lanes, halves[..., number])

    return step


_BYTES = {"e4m3x4": "b32", "e5m2x4": "b32"}
"""Types that are only bits here."""


def _multicast_parts(instruction: Instruction) -> Parts:
    """Return the parsed opcode of ``multimem``."""
    mods = modifiers_of(instruction.opcode)
    type, count = mods.type or next(_BYTES[part] for part in mods.rest if part in _BYTES), mods.count or 1
    order = mods.order or ("relaxed" if "red" in instruction.opcode else "weak")
    element = REGISTER_BITS[type] // 8
    return Parts(AccessKind(mods.space, count * element, order, mods.scope or "sys"), type, count, element)


def _multicast_reduce(instruction: Instruction, program: Program) -> Step:
    parts = _multicast_parts(instruction)
    to, values = operands_of(instruction, 2)
    kinds = ("add", "min", "max", "and", "or", "xor", "inc", "dec")
    operation, narrow = next(part for part in instruction.opcode if part in kinds), "f16" in parts.type
    type = "u64" if (operation, parts.type) == ("add", "s64") else parts.type
    family = "atom.vector" if narrow or parts.count > 1 else "atom"
    compute = atomic_operation(operation, type, noftz=narrow, family=family)
    if compute is None:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    address = data_address(to, parts.access.space, instruction, program)
    names = names_of(values, parts.count, instruction)
    readers = [reader(name, parts.type, instruction, program, wider=True) for name in names]
    dtype = np.dtype(f"u{parts.element}")
    access = AccessKind(parts.access.space, parts.element, parts.access.semantics, parts.access.scope, dtype=dtype)
    return atomic_step(access, address, [readers], [], compute, compute)


INSTRUCTIONS: dict[str, Handler] = {
    "multimem.ld_reduce": lambda instruction, program: load(instruction, program, _multicast_parts(instruction)),
    "multimem.st": lambda instruction, program: store(instruction, program, _multicast_parts(instruction)),
    "multimem.red": _multicast_reduce,
    "atom": _atomic,
    "red": _atomic,
    **dict.fromkeys(("red.async.release", "red.async.mmio"), _atomic),  # to global memory: like red
}
