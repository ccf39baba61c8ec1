"""Instructions on registers alone, from the tables in :mod:`.alu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tilecopy_core import HazardError

from .alu import FORMS, Form, Mode, UndefinedResultError, find_forms
from .operands import CARRY, Handler, Lanes, Reader, Step, Writer, is_constant, reader, refuse, writer
from .program import Instruction, Operand, Pair, Program

if TYPE_CHECKING:
    from .machine import Machine


def _count(roles: tuple[str, ...]) -> int:
    return sum(role != "cc" for role in roles)


def _results_of(form: Form, operand: Operand, instruction: Instruction) -> list[Operand]:
    """The registers of the results, ``_`` for one that is left out."""
    roles = [role for role in form.results if role != "cc"]
    if isinstance(operand, Pair):
        if len(roles) != 2:
            raise refuse(instruction, "it has one result")
        return [operand.first, operand.second]
    if len(roles) == 2 and not roles[1].endswith("?"):
        raise refuse(instruction, "it has two results, p|q")
    return [operand, *(["_"] if len(roles) == 2 else [])]


def _chosen(instruction: Instruction, table: Mapping[str, Sequence[Form]]) -> tuple[Form, Mode]:
    found = find_forms(instruction.opcode, table)
    if not found:
        raise refuse(instruction, f"this form of {instruction.opcode[0]} is not known")
    for form, mode in found:
        if _count(form.sources) == len(instruction.operands) - 1:
            return form, mode
    wanted = " or ".join(str(_count(form.sources) + 1) for form, _ in found)
    raise refuse(instruction, f"it takes {wanted} operands, not {len(instruction.operands)}")


def compile_arithmetic(instruction: Instruction, program: Program, table: Mapping[str, Sequence[Form]] = FORMS) -> Step:
    """The step of an instruction of a table of forms.

    Raises:
        UnsupportedPtxError: a modifier, type or operand that is in no table.
    """
    form, mode = _chosen(instruction, table)
    compute = form.build(mode)
    wider = instruction.opcode[0] == "cvt"
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
            raise refuse(instruction, f"'{operand}' stands where a constant is wanted")
        readers.append(reader(operand, form.type_of(role, mode), instruction, program, wider=wider))
    only = writers[0] if len(writers) == 1 else None
    given = iter(_results_of(form, instruction.operands[0], instruction))
    names = [CARRY if role == "cc" else next(given) for role in form.results]
    choose = _chooser(compute, instruction.opcode[0]) if instruction.opcode[0] in _SELECTING else None

    def step(machine: Machine, lanes: Lanes) -> None:
        try:
            operands = [read(machine, lanes) for read in readers]
        except HazardError:
            if machine.spread_poison(lanes, readers, names, step, choose):
                return
            raise
        try:
            with np.errstate(all="ignore"):
                result = compute(*operands)
        except UndefinedResultError as error:
            _undefined(machine, lanes, error)
        if only is not None:
            only(machine, lanes, result[0] if isinstance(result, tuple) else result)
            return
        for write, values in zip(writers, result, strict=True):
            write(machine, lanes, values)

    return step


_SELECTING = ("and", "or", "xor", "not", "selp", "setp")
"""Instructions whose result may not depend on a source that is poison: ``and`` with false, ``selp`` of the other value."""


def _chooser(compute: Any, name: str) -> Any:
    """See ``choose`` of :meth:`.machine.Machine.spread_poison`: the results are known where every poison gives the same."""
    some = 0x3F803F803F803F80  # a float of any width, neither 0 nor flushed to it; -1 is a NaN

    def choose(values: list[Any], unknown: list[Any]) -> list[tuple[Any, Any]]:
        if name == "setp":  # pairs of constants may compare either way, one constant with what is there may not
            unknown[:2] = [unknown[0] | unknown[1]] * 2
        trials = []
        for fills in product((0, some, -1), repeat=len(values)):
            if any(fill and not each.any() for fill, each in zip(fills, unknown, strict=True)):
                continue
            tried = [
                np.where(each[:, None], np.asarray(fill).astype(value.dtype), value)
                for fill, each, value in zip(fills, unknown, values, strict=True)
            ]
            with np.errstate(all="ignore"):
                result = compute(*tried)
            trials.append(result if isinstance(result, tuple) else (result,))
        return [
            (outcomes[0], np.logical_or.reduce([(x != outcomes[0]).any(axis=1) for x in outcomes]))
            for outcomes in zip(*trials, strict=True)
        ]

    return choose


def _undefined(machine: Machine, lanes: Lanes, error: UndefinedResultError) -> None:
    bad: Any = machine.rows(error.lanes, lanes).any(axis=1)
    machine.hazard("arithmetic", error.message, lanes, int(np.argmax(bad)))


INSTRUCTIONS: dict[str, Handler] = dict.fromkeys(FORMS, compile_arithmetic)
