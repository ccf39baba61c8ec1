"""The emulator's table of instructions, held against its handlers and against what ptxas takes."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tilecopy_emulator import UnsupportedPtxError
from tilecopy_emulator.alu import FORMS
from tilecopy_emulator.effects import EFFECTS, modifiers_of, parts_of, written_by
from tilecopy_emulator.opcodes import operands
from tilecopy_emulator.opcodes.table import compile_program, handlers
from tilecopy_emulator.parser.module import parse
from tilecopy_emulator.program import CARRY, TAKES_PART
from tilecopy_test_helpers.ptx_verdicts import LINES, module

from tilecopy_core.ptx import Line, instruction_of, names_in, parse_lines


def test_the_table_has_the_registers_that_handlers_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each instruction that ptxas takes, those for which the handlers of its program ask for a writer."""
    asked: list[Any] = []
    make = operands.writer

    def noted(operand: Any, *rest: Any, **options: Any) -> operands.Writer:
        asked.append(operand)
        return make(operand, *rest, **options)

    handlers()  # imports them all
    for name, each in list(sys.modules.items()):
        if name.startswith("tilecopy_emulator") and getattr(each, "writer", None) is make:
            monkeypatch.setattr(each, "writer", noted)
    held = 0
    for body, least in LINES:
        for target in list(least)[:1]:
            asked.clear()
            program = parse(module((9, 0), target, body))
            try:
                compile_program(program)
            except UnsupportedPtxError:
                continue
            held += 1
            assert {*asked} - {"_"} == {name for each in program.instructions for name in written_by(each)}, body
    assert held >= 720


def test_every_row_names_an_opcode() -> None:
    """A row that no opcode begins with would never be read."""
    opcodes = [body.split()[0].rstrip(";") for body, _ in LINES]
    opcodes += [spelled for forms in FORMS.values() for form in forms for spelled in form.spellings()]
    starts = {
        ".".join(parts[:length]) for parts in (x.split(".") for x in opcodes) for length in range(1, len(parts) + 1)
    }
    assert set(EFFECTS) - {TAKES_PART} <= starts


def test_the_cores_table_has_the_same_registers() -> None:
    """Of each instruction that ptxas takes: what the core's table says that it writes is what the emulator writes."""
    held = 0
    for body, least in LINES:
        for target in list(least)[:1]:
            lines = [line for line in parse_lines(body) if isinstance(line, Line)]
            assert all(instruction_of(line.opcode).roles for line in lines), body
            written = {
                name
                for line in lines
                for operand, role in line.roles
                if role.writes and not str(operand).startswith("[")
                for name in names_in(operand)
            }
            try:
                program = parse(module((9, 0), target, body))
                compile_program(program)
            except UnsupportedPtxError:
                continue
            held += 1
            names = {name.partition(".")[0] for each in program.instructions for name in written_by(each)}
            passed = {
                name for each in program.instructions if each.opcode[:2] == ("ld", "param") for name in written_by(each)
            }
            written -= {"_"}
            assert written <= names and names - written <= passed | {CARRY}, body
    assert held >= 720


def test_an_operand_in_brackets_is_an_address_in_the_cores_table() -> None:
    """And what the table calls an address stands in brackets, in each instruction that ptxas takes."""
    for body, _ in LINES:
        for line in parse_lines(body):
            if isinstance(line, Line):
                for operand, role in line.roles:
                    assert role.is_address <= str(operand).startswith("["), (body, operand)
                    if str(operand).startswith("[") and not role.is_address:
                        assert line.opcode.startswith("tcgen05.mma"), (body, operand)


def test_the_cores_table_has_the_accesses_of_the_emulator() -> None:
    """The space and the bytes of a thread of loads, stores and reductions that ptxas takes."""
    held = 0
    for body, least in LINES:
        for target in list(least)[:1]:
            try:
                program = parse(module((9, 0), target, body))
                compile_program(program)
            except UnsupportedPtxError:
                continue
            for each in program.instructions:
                if each.opcode[0] not in ("ld", "st", "atom", "red") or "param" in each.text or "async" in each.opcode:
                    continue
                if each.opcode[:2] == ("st", "bulk"):
                    continue
                said = modifiers_of(each.opcode)
                size = {"b128": 16}.get(said.type) or operands.width_of(said.type) // 8 * (said.count or 1)
                access = parts_of(each).access if each.opcode[0] in ("ld", "st") else None
                (role,) = (role for role in instruction_of(".".join(each.opcode)).roles if role.is_address)
                assert (role.space, role.nbytes) == ((access.space, access.bytes) if access else (said.space, size)), (
                    body
                )
                held += 1
    assert held >= 130
