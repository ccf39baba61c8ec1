"""Lines of PTX text as records, written by the builder or parsed from text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, TypeAlias

from ..errors.attrs_classes import frozen
from ..errors.lazy_regex import pattern
from .instructions import Role, instruction_of
from .operands import Address, Register, Vector, Written

__all__ = ["Line", "LineAccess", "instructions_in"]

_COMMENTS = pattern(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT = pattern(r"[{}]|[\w$%]+\s*:(?!:)|[^\s{};][^;]*;?|;")
_GUARD = pattern(r"@(!?) ?([\w$%]+) (?!;)")
_DECLARATION = pattern(r"\.(?:reg|local|shared|global|const|param)\b(?:::\w+)?(.*)", re.DOTALL)
_TYPES = pattern(r"\.align\s+\d+|\.[\w:]+|=\s*(?:\{[^}]*\}|[^,;]*)")
_DECLARED = pattern(r"(%?[A-Za-z_$][\w$]*)\s*(?:<\s*(\d+)\s*>)?")
_NAME = pattern(r"(?<![\w$%.])%?[A-Za-z_$][\w$]*")
_OPCODE = pattern(r"[\w.:]+|\S*")
"""An opcode ends where an operand may begin, which needs no space: ``mov.b32%r0, 1;``."""


@frozen(eq=False)
class LineAccess:
    """A frozen record of what one instruction does to memory at one address. A prefetch neither loads nor stores.

    Attributes:
        address: the operand.
        space: the state space; "" for a generic address.
        bytes: the number of bytes that each thread accesses, or None if the line does not determine it.
        loads: whether the memory is read.
        stores: whether the memory is written.
    """

    address: Any
    space: str
    bytes: int | None
    loads: bool
    stores: bool


@frozen(eq=False, slots=False)  # a kernel has many lines, and a dict is filled faster than slots
class Line:
    """A frozen record of one instruction.

    Attributes:
        opcode: with all its modifiers.
        operands: in the ISA's order: registers, addresses, vectors, integers and text; the last alone is not checked.
        guard: the predicate register that decides whether it is executed (its name, in text of others), or None.
        unless: whether it is executed where the guard is false.
        statement: number of the statement of the kernel that it came from.
    """

    opcode: str
    operands: tuple[Any, ...] = ()
    guard: Register | str | None = None
    unless: bool = False
    statement: int = 0

    @property
    def name(self) -> str:
        """The opcode without its modifiers: ``ld`` for ``ld.global.b32``."""
        return self.opcode.partition(".")[0]

    @property
    def is_branch(self) -> bool:
        """True if the instruction is a branch to a label."""
        return self.name in ("bra", "brx")

    @property
    def roles(self) -> list[tuple[Any, Role]]:
        """The pairs ``(operand, role)``, or [] if the instruction table lacks the opcode."""
        roles = instruction_of(self.opcode).roles
        if self.operands and roles and roles[0].in_parentheses and not str(self.operands[0]).startswith("("):
            roles = roles[1:]
        return list(zip(self.operands, chain(roles, repeat(roles[-1])), strict=False)) if roles else []

    @property
    def names(self) -> list[str]:
        """All names in the guard and the operands; see :func:`names_in`."""
        return [name for operand in (self.guard, *self.operands) for name in names_in(operand)]

    @property
    def results(self) -> list[Any]:
        """The operands that the instruction writes. For an unknown opcode, all operands except addresses."""
        roles = self.roles
        if not roles:
            return [operand for operand in self.operands if not str(operand).startswith("[")]
        return [operand for operand, role in roles if role.writes and not role.is_address]

    @property
    def size(self) -> Any:
        """The operand that holds a bulk copy's size in bytes, or None for other instructions."""
        return next((operand for operand, role in self.roles if role.kind == "size"), None)

    @property
    def accesses(self) -> list[LineAccess]:
        """The loads, stores and prefetches of the instruction, in operand order. Accesses to mbarriers are excluded."""
        size = int(text) if (text := str(self.size)).isdecimal() else None
        return [
            LineAccess(
                operand, role.space or getattr(operand, "space", ""), role.nbytes or size, role.reads, role.writes
            )
            for operand, role in self.roles
            if role.is_address and role.kind != "mbarrier" and (role.reads or role.writes or role.kind == "prefetch")
        ]

    def __str__(self) -> str:
        guard = "" if self.guard is None else f"@{'!' * self.unless}{self.guard} "
        operands = ", ".join([_TEXT_OF[type(operand)](operand) for operand in self.operands])
        return f"\t{guard}{self.opcode} {operands};" if operands else f"\t{guard}{self.opcode};"


_TEXT_OF: defaultdict[type, Callable[[Any], str]] = defaultdict(
    lambda: str, {Register: attrgetter("name"), Vector: attrgetter("text"), Address: attrgetter("text")}
)


@frozen(eq=False)
class Label:
    """A frozen record of a label in PTX text."""

    name: str
    statement: int = 0

    def __str__(self) -> str:
        return f"{self.name}:"


@frozen(eq=False)
class Text:
    """A frozen record of a line of text. ``loose`` is True for text that :meth:`Emitter.raw` wrote."""

    text: str
    statement: int = 0
    loose: bool = False

    def __str__(self) -> str:
        return self.text


AnyLine: TypeAlias = Line | Label | Text


def parse_lines(text: str) -> Iterator[Line | Label | str]:
    """Yield the instructions and labels in PTX text as records, and other statements as strings. Comments are dropped.

    The latter are braces of blocks, directives, and an incomplete statement. A brace where a statement may begin opens or
    closes a block; a brace inside a statement belongs to a vector operand.
    """
    for match in _STATEMENT.findall(_COMMENTS.sub(" ", text)):
        statement = " ".join(match.split())
        if statement.endswith(":"):
            yield Label(statement[:-1].strip())
        elif statement[0] in "{}.;" or not statement.endswith(";"):
            yield statement
        else:
            guard = _GUARD.match(statement)
            text = statement[guard.end() if guard else 0 : -1]
            opcode = _OPCODE.match(text)[0]  # type: ignore[index]
            negated, predicate = guard.groups() if guard else ("", None)
            yield Line(opcode, tuple(_split(text[len(opcode) :].strip())), predicate, bool(negated))


def _split(text: str) -> list[str]:
    """Return operands, split at the commas outside of brackets."""
    operands: list[str] = []
    depth = 0
    for piece in text.split(",") if text else ():
        if depth:
            operands[-1] += f",{piece}"
        else:
            operands.append(piece.strip())
        depth += sum(map(piece.count, "[{(")) - sum(map(piece.count, "]})"))
    return [operand.rstrip() for operand in operands]


def names_in(operand: object) -> list[str]:
    """Return the register names in an operand, or all identifiers in a string. Return [] for a :class:`Written`."""
    return [] if operand is None or isinstance(operand, (int, Written)) else _NAME.findall(str(operand))


def instructions_in(text: str) -> Iterator[tuple[int, Line]]:
    """Yield ``(line number, instruction)`` for each instruction in PTX text that does not span several lines."""
    for number, line in enumerate(text.split("\n"), 1):
        yield from ((number, part) for part in parse_lines(line) if isinstance(part, Line))


def declared_in(statement: str) -> list[str]:
    """Return the names that a directive declares: ``.reg .b32 %a, %r<2>;`` declares %a, %r0 and %r1."""
    declaration = _DECLARATION.match(statement)
    names: list[str] = []
    for name, count in _DECLARED.findall(_TYPES.sub(" ", declaration[1])) if declaration else ():
        names += [f"{name}{number}" for number in range(int(count))] if count else [name]
    return names
