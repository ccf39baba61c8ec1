"""Scalar video instructions whose operands are parts of registers, or negated: the reader of a text marks them in the opcode."""

from __future__ import annotations

import attrs

from ..alu import Form, Mode, find_forms, video
from ..alu.forms import Compute
from ..program import Instruction, Program
from .arithmetic import compile_arithmetic
from .operands import Handler, Step, refuse


def _video(instruction: Instruction, program: Program) -> Step:
    name = instruction.opcode[0]
    parts = [part.partition("@") for part in instruction.opcode]
    marks = {int(position): mark for mark, at, position in parts if at}
    plain = attrs.evolve(instruction, opcode=tuple(part for part, at, _ in parts if not at))
    if not marks:
        return compile_arithmetic(plain, program)
    merges, secondary = 0 in marks, {"add", "min", "max"} & set(plain.opcode)
    negated = any(mark.startswith("-") for mark in marks.values())
    if marks.get(3, "-") != "-" or (merges and (secondary or name == "vmad")):
        raise refuse(instruction, "a part of the third source, or of a result that is combined with it, is not PTX")
    if negated and (name != "vmad" or "po" in plain.opcode):
        raise refuse(instruction, "only sources of vmad without .po are negated")
    forms = [_marked(form, marks) for form, _ in find_forms(plain.opcode)]
    if merges:
        forms = [attrs.evolve(form, sources=("u32",) * 3) for form in forms]
    return compile_arithmetic(plain, program, {name: forms})


def _marked(form: Form, marks: dict[int, str]) -> Form:
    def build(mode: Mode) -> Compute:
        return video.computation(form.name, mode, marks)

    return attrs.evolve(form, build=build)


INSTRUCTIONS: dict[str, Handler] = dict.fromkeys(video.NAMES, _video)
