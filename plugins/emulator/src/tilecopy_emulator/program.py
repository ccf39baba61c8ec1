"""Parsing PTX text into a program: instructions, labels, registers, parameters, shared variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from tilecopy_core import TilecopyError

REGISTER_BITS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsuf" for bits in (8, 16, 32, 64) if not (kind == "f" and bits == 8)},
}


class UnsupportedPtxError(TilecopyError, NotImplementedError):
    """The text has an instruction or directive that the emulator does not know."""


@attrs.frozen
class Memory:
    """An address operand: ``[base + offset]``; base is a register or variable name, or ``""``."""

    base: str
    offset: int


@attrs.frozen
class Vector:
    """A braced operand: ``{%r0, %r1}``."""

    items: tuple[str, ...]


Operand = str | Memory | Vector


@attrs.frozen(eq=False)
class Instruction:
    """One instruction.

    Attributes:
        line: 1-based line of the text.
        text: as written.
        opcode: split at its dots.
        operands: parsed.
        guard: predicate register, or "".
        unless: the guard is negated.
        source: the comment above it that names the copy it belongs to, or "".
    """

    line: int
    text: str
    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str = ""
    unless: bool = False
    source: str = ""


@attrs.frozen(eq=False)
class Program:
    """A parsed kernel.

    Attributes:
        name: of the entry.
        arch: number in ``.target``.
        instructions: in order.
        labels: name -> index of the instruction that follows.
        register_bits: register name -> width (predicates 1).
        parameters: ``(name, bytes)`` in order.
        shared: ``(name, align, bytes)`` of each static variable; 0 bytes is the dynamic pool.
        threads: from ``.reqntid``.
    """

    name: str
    arch: int
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    register_bits: dict[str, int]
    parameters: tuple[tuple[str, int], ...]
    shared: tuple[tuple[str, int, int], ...]
    threads: int


def parse(text: str) -> Program:
    """Parse a module with one entry.

    Raises:
        UnsupportedPtxError: a directive or operand that is not known; the message names the line.
    """
    return _Parser(text).run()


_REG = re.compile(r"\.reg\s+\.(\w+)\s+(.+)")
_SHARED = re.compile(r"(?:\.extern\s+)?\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(\w+)\s*(?:\[(\d*)\])?")
_PARAM = re.compile(r"\.param\s+\.(\w+)\s+(\w+)")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._instructions: list[Instruction] = []
        self._labels: dict[str, int] = {}
        self._registers: dict[str, int] = {}
        self._shared: list[tuple[str, int, int]] = []
        self._renames: list[dict[str, str]] = [{}]
        self._scopes = 0
        self._source = ""
        self._arch = 0
        self._threads = 0

    def run(self) -> Program:
        header = re.search(r"\.entry\s+(\w+)\s*\(([^)]*)\)", self._text)
        target = re.search(r"\.target\s+sm_(\d+)", self._text)
        if header is None or target is None:
            raise UnsupportedPtxError("the text has no .entry or no .target")
        self._arch = int(target[1])
        parameters = tuple((name, REGISTER_BITS[type] // 8) for type, name in _PARAM.findall(header[2]))
        for match in re.finditer(r"^\s*\.extern\s+\.shared.*;", self._text, re.M):
            self._declare_shared(match[0].strip().rstrip(";"))
        threads = re.search(r"\.reqntid\s+(\d+)", self._text)
        self._threads = int(threads[1]) if threads else 0
        first_line = self._text.count("\n", 0, header.end()) + 1
        body = self._text[header.end() :]
        opening = body.index("{")
        for line, statement in _statements(body[opening + 1 :], first_line + body.count("\n", 0, opening)):
            self._statement(line, statement)
        return Program(
            header[1],
            self._arch,
            tuple(self._instructions),
            self._labels,
            self._registers,
            parameters,
            tuple(self._shared),
            self._threads,
        )

    def _statement(self, line: int, statement: str) -> None:
        if statement.startswith("//"):
            self._source = statement[2:].strip()
        elif statement == "{":
            self._scopes += 1
            self._renames.append({})
        elif statement == "}":
            if len(self._renames) > 1:
                self._renames.pop()
        elif statement.endswith(":"):
            self._labels[self._scoped_label(statement[:-1].strip())] = len(self._instructions)
        elif statement.startswith(".reg"):
            self._declare_registers(line, statement)
        elif statement.startswith((".shared", ".extern")):
            self._declare_shared(statement)
        elif statement.startswith((".pragma", ".loc")):
            pass
        elif statement.startswith("."):
            raise UnsupportedPtxError(f"line {line}: the directive '{statement}' is not known")
        else:
            self._instructions.append(self._instruction(line, statement))

    def _scoped_label(self, label: str) -> str:
        if len(self._renames) > 1:
            return f"{label}@{self._scopes}"
        return label

    def _declare_registers(self, line: int, statement: str) -> None:
        match = _REG.match(statement)
        if match is None or match[1] not in REGISTER_BITS:
            raise UnsupportedPtxError(f"line {line}: the register declaration '{statement}' is not known")
        for name in (part.strip() for part in match[2].split(",")):
            counted = re.match(r"(.+)<(\d+)>$", name)
            if counted:
                for number in range(int(counted[2])):
                    self._registers[f"{counted[1]}{number}"] = REGISTER_BITS[match[1]]
            else:
                inner = f"{name}@{self._scopes}" if len(self._renames) > 1 else name
                self._renames[-1][name] = inner
                self._registers[inner] = REGISTER_BITS[match[1]]

    def _declare_shared(self, statement: str) -> None:
        match = _SHARED.match(statement)
        if match is None:
            raise UnsupportedPtxError(f"the shared variable '{statement}' is not known")
        count = int(match[4]) if match[4] else (1 if match[4] is None else 0)
        entry = (match[3], int(match[1] or 1), count * max(1, REGISTER_BITS[match[2]] // 8))
        if entry not in self._shared:
            self._shared.append(entry)

    def _instruction(self, line: int, statement: str) -> Instruction:
        text, guard, unless = statement, "", False
        if statement.startswith("@"):
            condition, statement = statement.split(None, 1)
            unless = condition.startswith("@!")
            guard = self._name(condition.lstrip("@!"))
        parts = statement.split(None, 1)
        operands = tuple(self._operand(part) for part in _split(parts[1])) if len(parts) > 1 else ()
        if parts[0].startswith("bra") and len(self._renames) > 1:
            operands = (f"{parts[1].strip()}@{self._scopes}",)  # a label of this scope, or of the kernel
        return Instruction(line, text, tuple(parts[0].split(".")), operands, guard, unless, self._source)

    def _name(self, name: str) -> str:
        for scope in reversed(self._renames):
            if name in scope:
                return scope[name]
        return name

    def _operand(self, text: str) -> Operand:
        text = text.strip()
        if text.startswith("["):
            match = re.match(r"\[\s*([%\w$]*)\s*(?:([+-])\s*(-?\w+))?\s*\]$", text)
            if match is None:
                raise UnsupportedPtxError(f"the address {text} is not known")
            base, offset = match[1], int(match[3], 0) if match[3] else 0
            if re.fullmatch(r"\d+", base):
                return Memory("", int(base) + offset)
            return Memory(self._name(base), -offset if match[2] == "-" else offset)
        if text.startswith("{"):
            return Vector(tuple(self._name(part.strip()) for part in text[1:-1].split(",")))
        return "|".join(self._name(part) for part in text.split("|"))


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _statements(body: str, line: int) -> Iterator[tuple[int, str]]:
    """Statements, scopes, labels and whole-line comments with their line numbers."""
    for number, raw in enumerate(body.split("\n"), line):
        code, _, comment = raw.partition("//")
        if comment and not code.strip():
            yield number, "//" + comment
        rest = code.strip()
        while rest:
            label = re.match(r"([$\w%]+)\s*:(?!:)", rest)
            if rest[0] in "{}" and not re.match(r"\{\s*%", rest):
                yield number, rest[0]
                rest = rest[1:].strip()
            elif label:
                yield number, label[1] + ":"
                rest = rest[label.end() :].strip()
            elif ";" in rest:
                statement, _, rest = rest.partition(";")
                yield number, " ".join(statement.split())
                rest = rest.strip()
            else:
                raise UnsupportedPtxError(f"line {number}: '{rest}' does not end in ';' on its own line")
