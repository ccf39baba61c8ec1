"""Operands of instructions: checks at compilation, and functions that read and write operands as bit patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from tilecopy_core.ptx.instructions import Instruction as Needed
from tilecopy_core.ptx.instructions import instruction_of

from ..machine.machine import Machine
from ..program import CARRY, REGISTER_BITS, Instruction, Negated, Offset, Operand, Program, refuse, spaces_of
from ..threads.special import SPECIAL_REGISTERS
from ..threads.threads import FULL, Lanes

Step = Callable[[Machine, Lanes], None]
Handler = Callable[[Instruction, Program], Step]
Reader = Callable[[Machine, Lanes], Any]
"""A function from the machine and some of its lanes to unsigned bits of shape ``(lanes or 1, copies or 1)``."""
Writer = Callable[[Machine, Lanes, Any], None]

__all__ = ["CARRY", "Handler", "Lanes", "Reader", "Step", "Writer", "constant_bits", "demand_count", "is_constant"]
__all__ += ["reader", "refuse", "width_of", "writer"]

_UNSIGNED: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def width_of(type: str) -> int:
    """Return the number of bits of a PTX type."""
    if type in ("u16x2", "s16x2", "f16x2", "bf16x2"):
        return 32
    if type == "f32x2":
        return 64
    return REGISTER_BITS[type]


def demand_count(instruction: Instruction, *counts: int) -> None:
    """Raise an error if the instruction's number of operands is not in ``counts``."""
    if len(instruction.operands) not in counts:
        wanted = " or ".join(map(str, counts))
        raise refuse(instruction, f"the instruction takes {wanted} operands, got {len(instruction.operands)}")


def hold(instruction: Instruction, program: Program) -> Needed:
    """Check that ``.target`` and ``.version`` support an instruction. Return its row of the instruction table."""
    spelled = instruction.spelled
    table_row = instruction_of(spelled)
    if table_row.varies:
        table_row = instruction_of(instruction.text[instruction.text.index(spelled) :])
    if table_row.needs.known:
        _demand(table_row, instruction, program)
    return table_row


def _demand(needed: Needed, instruction: Instruction, program: Program) -> None:
    ways = [needs.version for needs in needed.ways if needs.met_by(program.target)]
    if not ways:
        raise refuse(instruction, f"the instruction needs {needed.needs}, but the target is {program.target}")
    if min(ways) > program.version:
        wanted, have = ("{}.{}".format(*version) for version in (min(ways), program.version))
        raise refuse(instruction, f"the .version must be {wanted} or newer, got {have}")


def is_constant(operand: Operand) -> TypeGuard[str]:
    """Return True if an operand is a constant."""
    return isinstance(operand, str) and (operand[0] == "-" or operand[0].isdigit())


def constant_bits(text: str, type: str, instruction: Instruction) -> int:
    """Return the bit pattern of a constant in a PTX type. Integers are truncated to the type's width."""
    width = width_of(type)
    if text[:2] in ("0f", "0d"):
        pattern = int(text[2:], 16)
        size = 4 if text[1] == "f" else 8
        if type in ("f32", "f64"):
            constant: Any = np.array(pattern, f"u{size}").view(f"f{size}")
            if (text[1] == "f") == (type == "f32"):
                return pattern
            with np.errstate(all="ignore"):
                return int(constant.astype(f"f{width // 8}").view(f"u{width // 8}"))
        if type[0] == "b" and type != "bf16" and width == (32 if text[1] == "f" else 64):
            return pattern
        raise refuse(instruction, f"expected a .{type} operand, got the floating-point constant {text}")
    value = int(text)
    if type == "pred":
        return int(value != 0)
    if type[0] == "f" or type.startswith("bf"):
        raise refuse(instruction, f"expected a .{type} operand, got the integer {text}")
    return value & ((1 << width) - 1)


def reader(operand: Operand, type: str, instruction: Instruction, program: Program, *, wider: bool = False) -> Reader:  # noqa: C901, PLR0912 (one kind of operand after another)
    """Return a function that reads a source operand as bit patterns of a PTX type.

    ``operand``: a register, special register, constant, variable (its address), or a negated predicate; ``type``: PTX
    type of the instruction; ``instruction``: for messages; ``program``: declares the registers and variables;
    ``wider``: a register may be wider than the type (``cvt``, ``st``); its low bits are used.
    """
    dtype = _UNSIGNED[width_of(type)]
    if isinstance(operand, Negated):
        if type != "pred":
            raise refuse(instruction, f"expected a .{type} operand, got '!{operand.name}'")
        name = operand.name
        return lambda machine, lanes: ~machine.read(name, lanes)
    if isinstance(operand, Offset):
        base = reader(operand.base, type, instruction, program, wider=wider)
        no_sum = is_constant(operand.base) or type[0] == "f" or type.startswith("bf") or type.endswith("x2")
        if no_sum or type == "pred" or operand.base in SPECIAL_REGISTERS:
            raise refuse(instruction, f"expected an operand without an offset, got '{operand.base}{operand.offset:+d}'")
        offset = np.array(operand.offset & ((1 << width_of(type)) - 1), dtype)
        return lambda machine, lanes: base(machine, lanes) + offset
    if not isinstance(operand, str) or operand == "_":
        raise refuse(instruction, f"expected a .{type} operand")
    if is_constant(operand):
        constant = np.full((1, 1), constant_bits(operand, type, instruction), dtype)
        return lambda machine, lanes: constant
    if operand in program.register_bits:
        width = program.register_bits[operand]
        _demand_type(operand, type, instruction, program)
        if width != width_of(type) and not (wider and width > width_of(type) and type != "pred"):
            raise refuse(instruction, f"expected a .{type} register, got {operand} with {width} bits")
        if width == width_of(type):
            return lambda machine, lanes: machine.read(operand, lanes)
        return lambda machine, lanes: machine.read(operand, lanes).astype(dtype)
    if operand in SPECIAL_REGISTERS:
        _demand_special(operand, type, instruction)
        _demand(instruction_of(f"mov.b32 {operand}"), instruction, program)
        read = SPECIAL_REGISTERS[operand]
        return lambda machine, lanes: read(machine, lanes).astype(dtype)
    if operand in program.labels:
        raise refuse(instruction, f"expected a .{type} operand, got the label {operand}")
    if width_of(type) < (32 if spaces_of(program).get(operand) == "shared" else 64) or type[0] == "f":
        raise refuse(instruction, f"expected a .{type} operand, got the address of {operand}")
    if instruction.opcode[0] not in ("mov", "cvta", "mapa", "getctarank"):
        raise refuse(instruction, f"the address of {operand} must be moved to a register first")
    return lambda machine, lanes: machine.symbol(operand, lanes).astype(dtype)


def _demand_type(name: str, type: str, instruction: Instruction, program: Program) -> None:
    """Raise an error if the declared type of a register does not fit that of an instruction: integers, floats, or only bits."""
    declared = program.register_types.get(name, "b")
    is_float, wants_float = declared[0] == "f", type[0] == "f" or type.startswith("bf")
    wider = is_float and program.register_bits[name] != width_of(type)
    plain_bits = type[0] == "b" and not wants_float
    packed = type.endswith("x2") and declared != type
    if declared[0] != "b" and not plain_bits and (is_float != wants_float or wider or packed):
        raise refuse(instruction, f"expected a .{type} register, got {name} of type .{declared}")


_WIDE_SPECIAL = ("%clock64", "%globaltimer", "%gridid", "%current_graph_exec", *(f"%pm{n}_64" for n in range(8)))


def _demand_special(name: str, type: str, instruction: Instruction) -> None:
    """Raise an error for a special register outside ``mov`` and ``cvt`` between integers."""
    converts = instruction.opcode[0] == "cvt" and all(part[0] in "us" for part in instruction.opcode[-2:])
    if type == "pred" or name == "%is_explicit_cluster":
        fits = type == "pred" and name == "%is_explicit_cluster" and instruction.opcode[0] == "mov"
    elif converts:
        fits = (name in _WIDE_SPECIAL) == (width_of(type) == 64)
    elif name in _WIDE_SPECIAL:
        fits = instruction.opcode[0] == "mov" and type in ("b64", "u64", "s64")
    else:
        fits = instruction.opcode[0] == "mov" and type in ("b32", "u32", "s32", "u16", "s16")
    if not fits:
        raise refuse(instruction, f"expected a .{type} operand, got {name}; move it to a register first")


def agree(machine: Machine, lanes: Lanes, *readers: Reader) -> None:
    """Before lanes wait for each other, check that operands have the same value in every cluster of the batch.

    Raises:
        CopiesDiverged: the operands differ.
    """
    for read in readers if lanes is not FULL else ():
        machine.uniform(read(machine, lanes), lanes)


def writer(operand: Operand, type: str, instruction: Instruction, program: Program, *, wider: bool = False) -> Writer:
    """Return a function that writes a result to a register. If ``wider``, the register may be wider than ``type``."""
    if operand == "_":
        return lambda machine, lanes, values: None
    if not isinstance(operand, str) or operand not in program.register_bits:
        raise refuse(instruction, f"expected a register, got '{operand}'")
    name, width = operand, program.register_bits[operand]
    _demand_type(name, type, instruction, program)
    if width == width_of(type):
        return lambda machine, lanes, values: machine.write(name, lanes, values)
    if not (wider and width > width_of(type) and type != "pred"):
        raise refuse(instruction, f"expected a .{type} register for the result, got {operand} with {width} bits")
    if type[0] != "s":
        return lambda machine, lanes, values: machine.write(name, lanes, values.astype(_UNSIGNED[width]))

    def write_extended(machine: Machine, lanes: Lanes, values: Any) -> None:
        signed = values.view(f"i{width_of(type) // 8}").astype(f"i{width // 8}")
        machine.write(name, lanes, signed.view(_UNSIGNED[width]))

    return write_extended
