"""A PTX kernel as data: instructions, labels, registers, parameters, variables. :func:`.parser.module.parse` makes one from text."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from functools import lru_cache

import attrs
from tilecopy import LaunchError

from tilecopy_core import Target, TilecopyError

from .debug_info import SourceLocation, readable
from .demands import demand, is_whole

_SM90 = Target(90)

_MOST_CHARACTERS = 1000
"""Most characters of a message, which quotes the text that it is about."""
REGISTER_BITS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsuf" for bits in (8, 16, 32, 64) if (kind, bits) != ("f", 8)},
    "f16x2": 32,
    "bf16": 16,
    "bf16x2": 32,
}
"""Width of each type in bits (predicates 1)."""
DECLARABLE = frozenset(REGISTER_BITS) - {"bf16", "bf16x2"}
"""Types that registers and variables can be declared with; bits of bf16 lie in those of ``.b16`` and ``.b32``."""
TAKES_PART = "takes part"
"""The opcode that stands for the comment by which an exported copy says who executes it: no instruction of PTX."""
CARRY = "the carry flag"
"""The register that stands for the condition code (``.cc``)."""


class UnsupportedPtxError(TilecopyError, NotImplementedError):
    """The text is not PTX, or has something that the emulator does not know; the message names the line.

    Attributes:
        line: 1-based line of the text, or 0.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        demand("UnsupportedPtxError", "message", message, isinstance(message, str), "a text")
        demand("UnsupportedPtxError", "line", line, is_whole(line, 0, 2**63), "the number of a line, or 0")
        text = message if len(message) <= _MOST_CHARACTERS else f"{message[: _MOST_CHARACTERS - 3]}..."
        text = printable(text)  # what a text repeats may move the cursor
        super().__init__(f"PTX line {line}: {text}" if line else text)
        self.line = line


class BudgetError(LaunchError):
    """The launch fits the kernel, and needs more memory or more CTAs than the emulator may use."""


def printable(text: str) -> str:
    """A text for a message, in which lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


@attrs.frozen
class Memory:
    """An address operand: ``[base + offset]``; base is a register or variable name, or ``""``."""

    base: str
    offset: int


@attrs.frozen
class TensorAddress:
    """Where a box begins in a tensor: ``[base + offset, {c0, c1}]``; a map's address, and coordinates, innermost first."""

    base: str
    offset: int
    coordinates: tuple[str, ...]


@attrs.frozen
class Braces:
    """A braced operand: ``{%r0, %r1}``; ``_`` where nothing is wanted."""

    items: tuple[str, ...]


@attrs.frozen
class Pair:
    """Two results: ``p|q``; ``_`` where one is not wanted."""

    first: str
    second: str


@attrs.frozen
class Negated:
    """A predicate operand turned round: ``!p``."""

    name: str


@attrs.frozen
class Offset:
    """The address of a variable and a distance, used as a value: ``table+16``."""

    base: str
    offset: int


Operand = str | Memory | TensorAddress | Braces | Pair | Negated | Offset
"""A string is a register, a special register, a variable, a label, or a constant (``"-12"``, ``"0f3F800000"``,
``"0d3FF0000000000000"``: whole numbers in decimal, floating-point ones by their bits)."""


def names_in(operand: Operand) -> tuple[str, ...]:
    """The registers, variables and constants that an operand names."""
    if isinstance(operand, (Memory, Offset)):
        return (operand.base,)
    if isinstance(operand, TensorAddress):
        return operand.base, *operand.coordinates
    if isinstance(operand, Braces):
        return operand.items
    if isinstance(operand, Pair):
        return operand.first, operand.second
    return (operand.name if isinstance(operand, Negated) else operand,)


@attrs.frozen(eq=False)
class Instruction:
    """One instruction.

    Attributes:
        line: 1-based line of the text.
        text: as written.
        opcode: split at its dots.
        operands: parsed; registers and labels by their names in :class:`Program`.
        guard: predicate register, or "".
        unless: the guard is negated.
        source: the comment above it that names the copy it belongs to, or "".
        spelled: the opcode as the text has it; "" where a call was expanded.
        place: where the compiler's line information has it, or None.
    """

    line: int
    text: str
    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str = ""
    unless: bool = False
    source: str = ""
    spelled: str = ""
    place: SourceLocation | None = None


@attrs.frozen
class Parameter:
    """A parameter of the entry, or a parameter or a result of a function.

    ``name``: unique in the program; ``type``: PTX type of it, or of its elements; ``bytes``: size; ``align``: in bytes; ``offset``: of
    the entry's, in the parameter space; ``is_array``: a structure passed by value (``.b8 name[16]``); ``space``: ``param`` or ``reg``;
    ``elements``: of a vector of registers.
    """

    name: str
    type: str
    bytes: int
    align: int
    offset: int = 0
    is_array: bool = False
    space: str = "param"
    elements: int = 1


@attrs.frozen
class Relocation:
    """An address in a variable's initial value: at byte ``at``, that of ``symbol`` plus ``offset``; without a symbol, ``offset`` alone."""

    at: int
    symbol: str
    offset: int
    generic: bool


@attrs.frozen
class Variable:
    """A variable in memory.

    Attributes:
        name: unique in the program.
        space: ``global``, ``const``, ``shared`` or ``local`` (one for each thread).
        align: in bytes.
        bytes: size; 0 for an array of unknown size.
        data: initial bytes, of which the rest are zero; None where there is no initial value.
        extern: declared ``.extern``.
        relocations: addresses in the initial value.
        type: PTX type of its elements.
    """

    name: str
    space: str
    align: int
    bytes: int
    data: builtins.bytes | None = None
    extern: bool = False
    relocations: tuple[Relocation, ...] = ()
    type: str = "b8"


def shown_name(variable: Variable) -> str:
    """The name of a variable in C++, or in PTX where that takes more than names."""
    return readable(variable.name) or variable.name


@attrs.frozen(eq=False)
class Program:
    """A parsed kernel; calls are expanded in place.

    Attributes:
        name: of the entry.
        arch: number in ``.target``.
        instructions: in order.
        labels: name -> index of the instruction that follows.
        register_bits: register name -> width (predicates 1).
        register_types: register name -> the type that it is declared with.
        parameters: in order.
        variables: of the module, the entry, and the functions that it calls.
        threads: of a CTA, from ``.reqntid``; 0 where there is none.
        block: ``.reqntid``, or None.
        max_threads: of a CTA, from ``.maxntid``; 0 where there is none.
        cluster: ``.reqnctapercluster``, or None.
        target: ``.target``.
        version: ``.version``.
        sources: texts of source files, by their names in ``.file``; others are read where they lie.
        notes: what the report of a run says about how the text was made.
    """

    name: str
    arch: int
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    register_bits: dict[str, int]
    parameters: tuple[Parameter, ...]
    variables: tuple[Variable, ...]
    threads: int
    block: tuple[int, int, int] | None = None
    max_threads: int = 0
    cluster: tuple[int, int, int] | None = None
    target: Target = _SM90
    version: tuple[int, int] = (7, 8)
    register_types: Mapping[str, str] = attrs.Factory(dict)
    sources: Mapping[str, str] = attrs.Factory(dict)
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=32)
def spaces_of(program: Program) -> dict[str, str]:
    """The state space of every variable and parameter of a program."""
    variables = {variable.name: variable.space for variable in program.variables}
    return dict.fromkeys((parameter.name for parameter in program.parameters), "param") | variables


def refuse(instruction: Instruction, why: str) -> UnsupportedPtxError:
    """The error for an instruction that is not known or not PTX."""
    return UnsupportedPtxError(f"'{instruction.text}': {why}", instruction.line)
