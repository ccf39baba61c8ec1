"""The compiler of the register instructions in :mod:`..alu`. In video opcodes, ``h0@1`` selects half 0 of operand 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from ..alu import FORMS, Form, Mode, UndefinedResultError, find_forms, video
from ..alu.forms import Compute
from ..machine.machine import Machine
from ..program import DECLARABLE, Instruction, Operand, Pair, Program
from .loads import names_of
from .operands import CARRY, Handler, Lanes, Reader, Step, Writer, is_constant, reader, refuse, writer


def _count(roles: tuple[str, ...]) -> int:
    return sum(role != "cc" for role in roles)


def _results_of(form: Form, operand: Operand, instruction: Instruction) -> list[Operand]:
    """Return the registers of the results, ``_`` for an unused one."""
    roles = [role for role in form.results if role != "cc"]
    if isinstance(operand, Pair):
        if len(roles) != 2:
            raise refuse(instruction, f"the instruction must have one result, got {operand.first}|{operand.second}")
        return [operand.first, operand.second]
    if len(roles) == 2 and not roles[1].endswith("?"):
        raise refuse(instruction, f"the instruction must have two results, such as p|q, got '{operand}'")
    return [operand, *(["_"] if len(roles) == 2 else [])]


def _chosen(instruction: Instruction, table: Mapping[str, Sequence[Form]]) -> tuple[Form, Mode]:
    matches = find_forms(instruction.opcode, table)
    if not matches:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    for form, mode in matches:
        if _count(form.sources) == len(instruction.operands) - 1:
            return form, mode
    wanted = " or ".join(str(_count(form.sources) + 1) for form, _ in matches)
    raise refuse(instruction, f"the instruction takes {wanted} operands, got {len(instruction.operands)}")


def compile_arithmetic(instruction: Instruction, program: Program, table: Mapping[str, Sequence[Form]] = FORMS) -> Step:
    """Compile a register instruction that matches a form in ``table``."""
    form, mode = _chosen(instruction, table)
    compute = form.build(mode)
    wider = instruction.opcode[0] == "cvt" and all(type in DECLARABLE for type in mode.types)
    writers: list[Writer] = []
    registers = iter(_results_of(form, instruction.operands[0], instruction))
    for role in form.results:
        type = form.type_of(role, mode)
        if role == "cc":
            writers.append(writer(CARRY, "pred", instruction, program))
        else:
            writers.append(writer(next(registers), type, instruction, program, wider=wider))
    readers: list[Reader] = []
    sources = iter(instruction.operands[1:])
    for role in form.sources:
        if role == "cc":
            readers.append(reader(CARRY, "pred", instruction, program))
            continue
        operand = next(sources)
        if role.endswith("!") and not is_constant(operand):
            raise refuse(instruction, f"expected a constant, got '{operand}'")
        for item in names_of(operand, 4, instruction) if role.endswith("*") else [operand]:
            readers.append(reader(item, form.type_of(role, mode), instruction, program, wider=wider))
    only = writers[0] if len(writers) == 1 else None
    compares = instruction.opcode[0] == "setp"

    def step(machine: Machine, lanes: Lanes) -> None:
        operands = [read(machine, lanes) for read in readers]
        if compares and machine.trial >= 0:
            operands[:2] = _comparison_sides(machine, lanes, readers)
        try:
            result = compute(*operands)
        except UndefinedResultError as error:
            _raise_undefined(machine, lanes, error)
        if only is not None:
            only(machine, lanes, result[0] if isinstance(result, tuple) else result)
            return
        for write, values in zip(writers, result, strict=True):
            write(machine, lanes, values)

    return step


_SOME = 0x3F803F803F803F80  # a float of any width, neither 0 nor flushed to it; -1 is a NaN


def _comparison_sides(machine: Machine, lanes: Lanes, readers: list[Reader]) -> list[Any]:
    """Return the two sides of a comparison; where one is undefined, a pair with one of the possible results."""
    before, machine.missing = machine.missing, np.zeros_like(machine.missing)
    sides = [read(machine, lanes) for read in readers[:2]]
    nothing = (machine.missing != 0)[:, None]
    machine.missing |= before
    pair = ((0, 0), (_SOME, 0), (0, _SOME), (-1, -1))[machine.trial % 4]
    return [np.where(nothing, np.asarray(x).astype(side.dtype), side) for x, side in zip(pair, sides, strict=True)]


def _raise_undefined(machine: Machine, lanes: Lanes, error: UndefinedResultError) -> None:
    bad: Any = machine.rows(error.lanes, lanes).any(axis=1)
    machine.hazard("arithmetic", error.message, lanes, int(np.argmax(bad)))


def _video(instruction: Instruction, program: Program) -> Step:
    """Compile a scalar video instruction, whose operands may be parts of registers, or negated."""
    name = instruction.opcode[0]
    parts = [part.partition("@") for part in instruction.opcode]
    marks = {int(position): mark for mark, at, position in parts if at}
    plain = attrs.evolve(instruction, opcode=tuple(part for part, at, _ in parts if not at))
    if not marks:
        return compile_arithmetic(plain, program)
    merges, secondary = 0 in marks, {"add", "min", "max"} & set(plain.opcode)
    negated = any(mark.startswith("-") for mark in marks.values())
    if marks.get(3, "-") != "-" or (merges and (secondary or name == "vmad")):
        raise refuse(instruction, "a byte selector must not be on source 3, or on a result of vmad, .add, .min or .max")
    if negated and (name != "vmad" or "po" in plain.opcode):
        raise refuse(instruction, f"only vmad without .po may have a negated source, got {'.'.join(plain.opcode)}")
    forms = [_mark(form, marks) for form, _ in find_forms(plain.opcode)]
    if merges:
        forms = [attrs.evolve(form, sources=("u32",) * 3) for form in forms]
    return compile_arithmetic(plain, program, {name: forms})


def _mark(form: Form, marks: dict[int, str]) -> Form:
    def build(mode: Mode) -> Compute:
        return video.computation(form.name, mode, marks)

    return attrs.evolve(form, build=build)


INSTRUCTIONS: dict[str, Handler] = dict.fromkeys(FORMS, compile_arithmetic) | dict.fromkeys(video.NAMES, _video)
