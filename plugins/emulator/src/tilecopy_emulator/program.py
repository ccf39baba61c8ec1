"""The records of a parsed PTX kernel: instructions, registers, parameters and variables."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from functools import lru_cache

import attrs
from tilecopy import LaunchError

from tilecopy_core import Target, TilecopyError

from .argument_checks import demand, is_whole
from .debug_info import SourceLocation, readable

_SM90 = Target(90)

_MOST_CHARACTERS = 1000
"""The largest number of characters in a message, because messages quote the text."""
REGISTER_BITS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsuf" for bits in (8, 16, 32, 64) if (kind, bits) != ("f", 8)},
    "f16x2": 32,
    "bf16": 16,
    "bf16x2": 32,
}
"""The width of each type in bits (1 for predicates)."""
DECLARABLE = frozenset(REGISTER_BITS) - {"bf16", "bf16x2"}
"""Types of declared registers and variables; bf16 is declared as ``.b16`` or ``.b32``."""
TAKES_PART = "takes part"
"""The opcode of the comment in which an exported copy names its threads; it is not a PTX instruction."""
CARRY = "the carry flag"
"""The name of the register of the condition code (``.cc``)."""


class UnsupportedPtxError(TilecopyError, NotImplementedError):
    """The error for text that is not PTX or that the emulator does not support. The message names the line.

    Attributes:
        line: 1-based line of the text, or 0.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        demand("UnsupportedPtxError", "message", message, isinstance(message, str), "a string")
        demand("UnsupportedPtxError", "line", line, is_whole(line, 0, 2**63), "the number of a line, or 0")
        text = message if len(message) <= _MOST_CHARACTERS else f"{message[: _MOST_CHARACTERS - 3]}..."
        text = printable(text)  # control characters of the text could move the cursor
        super().__init__(f"PTX line {line}: {text}" if line else text)
        self.line = line


class BudgetError(LaunchError):
    """The error for a launch that needs more memory or more CTAs than the emulator may use."""


def printable(text: str) -> str:
    """Return a text with escapes for control characters other than line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


@attrs.frozen
class Memory:
    """An address operand: ``[base + offset]``. The base is the name of a register or variable, or ``""``."""

    base: str
    offset: int


@attrs.frozen
class TensorAddress:
    """The address of a tensor map and the start of a box: ``[base + offset, {c0, c1}]``, innermost coordinate first."""

    base: str
    offset: int
    coordinates: tuple[str, ...]


@attrs.frozen
class Braces:
    """An operand in braces: ``{%r0, %r1}``. An unused element is ``_``."""

    items: tuple[str, ...]


@attrs.frozen
class Pair:
    """An operand that names two results: ``p|q``. An unused result is ``_``."""

    first: str
    second: str


@attrs.frozen
class Negated:
    """A negated predicate operand: ``!p``."""

    name: str


@attrs.frozen
class Offset:
    """The address of a variable plus an offset, used as a value: ``table+16``."""

    base: str
    offset: int


Operand = str | Memory | TensorAddress | Braces | Pair | Negated | Offset
"""A string is a register, a special register, a variable, a label, or a constant (``"-12"``, ``"0f3F800000"``,
``"0d3FF0000000000000"``: integers in decimal, floating-point numbers by their bits)."""


def names_in(operand: Operand) -> tuple[str, ...]:
    """Return the registers, variables and constants in an operand."""
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
    """An instruction of a program.

    Attributes:
        line: 1-based line of the text.
        text: as written.
        opcode: split at its dots.
        operands: parsed; registers and labels by their names in :class:`Program`.
        guard: predicate register, or "".
        unless: the guard is negated.
        source: the comment above it that names its copy, or "".
        spelled: the opcode as written; "" if a call was expanded.
        place: its location from the compiler's line information, or None.
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

    ``name``: unique in the program; ``type``: its PTX type, or that of its elements; ``bytes``: size; ``align``: in bytes; ``offset``:
    in the parameter space of the entry; ``is_array``: a structure passed by value (``.b8 name[16]``); ``space``: ``param`` or ``reg``;
    ``elements``: number of registers in a vector.
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
    """An address in a variable's initial value: at byte ``at``, the address of ``symbol`` plus ``offset``."""

    at: int
    symbol: str
    offset: int
    generic: bool


@attrs.frozen
class Variable:
    """A variable in memory.

    Attributes:
        name: unique in the program.
        space: ``global``, ``const``, ``shared`` or ``local`` (one per thread).
        align: in bytes.
        bytes: size; 0 for an array of unknown size.
        data: initial bytes, followed by zeros; None if there is no initial value.
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
    """Return the C++ name of a variable, or the PTX name if the C++ name is not known."""
    return readable(variable.name) or variable.name


@attrs.frozen(eq=False)
class Program:
    """A parsed kernel, with calls expanded in place.

    Attributes:
        name: of the entry.
        arch: number in ``.target``, such as 90.
        instructions: in order.
        labels: name -> index of the instruction that follows.
        register_bits: register name -> width (predicates 1).
        register_types: register name -> its declared type.
        parameters: in order.
        variables: of the module, the entry, and the functions that it calls.
        threads: number per CTA, from ``.reqntid``; 0 without one.
        block: ``.reqntid``, or None.
        max_threads: number per CTA, from ``.maxntid``; 0 without one.
        cluster: ``.reqnctapercluster``, or None.
        target: ``.target``.
        version: ``.version``.
        sources: texts of source files, by their names in ``.file``; other files are read from disk.
        notes: notes for the report of a run about the compilation of the text.
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
    """Return a dictionary from the names of a program's variables and parameters to their state spaces."""
    variables = {variable.name: variable.space for variable in program.variables}
    return dict.fromkeys((parameter.name for parameter in program.parameters), "param") | variables


def refuse(instruction: Instruction, why: str) -> UnsupportedPtxError:
    """Return the error for an instruction that is not supported or is not PTX."""
    return UnsupportedPtxError(f"'{instruction.text}': {why}", instruction.line)
