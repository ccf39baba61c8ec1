"""Writing PTX text: registers, lines, labels, and the blocks that computed values live in."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import attrgetter
from typing import Any, ParamSpec

from ..errors import TEXT, PtxError, did_you_mean, integer_in, shown
from ..target import Target
from .instructions import Needs, instruction_of, merge, needs_on
from .operands import STEM, TYPE_BITS, Address, Register, register_of

P = ParamSpec("P")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABELS = re.compile(r"^([{}\s]|[\w$%.]+:(?!:))+")
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|[0-9]+)")
Line = tuple[str, int]
"""A line of text, and the number of the statement that it came from."""

MOST_REGISTERS = 1 << 16
"""Virtual registers that are made together."""
_COUNT = integer_in(0, MOST_REGISTERS)


class Block:
    """A stretch of instructions with its own head.

    Pure values (addresses, indices) go to the head of the outermost block in which all that they depend on exists,
    so that they are computed once and dominate every use.

    Attributes:
        depth: how deep it is nested; the kernel's own block is 0.
        head: lines that come first.
        body: lines that follow.
        settled: where in the head the first of what was its body is, or None.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.settled: int | None = None
        self.head: list[Line] = []
        self.body: list[Line] = []
        self._known: dict[tuple[Hashable, ...], Register] = {}

    def once(
        self, key: tuple[Hashable, ...], make: Callable[P, Register], *args: P.args, **keywords: P.kwargs
    ) -> Register:
        """The register of a key (its kind first), made of the arguments at the first call."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make(*args, **keywords)
        return found

    def settle(self) -> None:
        """Let the body so far belong to the head, so that what is computed next comes after it."""
        if self.settled is None:
            self.settled = len(self.head)
        self.head += self.body
        self.body = []

    def known(self, key: tuple[Hashable, ...]) -> Register | None:
        """The register of a key, if it was made here."""
        return self._known.get(key)


class Sunk(Block):
    """An outer block as one inside it sees it that keeps to itself what it computes: only what is known there is shared."""

    def __init__(self, outer: Block, own: Block) -> None:
        self.depth, self.head, self.body = outer.depth, own.head, own.body
        self._outer, self._own = outer, own

    def once(
        self, key: tuple[Hashable, ...], make: Callable[P, Register], *args: P.args, **keywords: P.kwargs
    ) -> Register:
        """The register that the outer block has, else one of the inner block's own."""
        return self.known(key) or self._own.once(key, make, *args, **keywords)

    def known(self, key: tuple[Hashable, ...]) -> Register | None:
        """The register of a key, if it was made in either."""
        return self._outer.known(key) or self._own.known(key)


class Emitter:
    """Text, registers and blocks of one kernel.

    Attributes:
        target: the architecture; an instruction that it lacks is refused.
        mark: what the names of registers begin with.
        blocks: the open blocks, outermost first.
        statement: number of the statement that is being lowered; lines remember it.
        recent: the lines since this was last cleared, in the order in which they were written.
        loose: whether text was among their operands, which nothing here has checked.
    """

    def __init__(self, target: Target, mark: str = "%") -> None:
        self.target = target
        self.mark = mark
        self.blocks = [Block(0)]
        self.statement = 0
        self.recent: list[str] = []
        self.loose = False
        self.register_counts: dict[str, int] = {}
        self._labels: dict[str, int] = {}
        self._allowed: dict[str, Needs] = {}

    @property
    def needs(self) -> Needs:
        """What the instructions so far need together."""
        return reduce(merge, set(self._allowed.values()), Needs())

    def reg(self, type: str = "b32") -> Register:
        """A new virtual register of a type of :data:`TYPE_BITS`."""
        return self.regs(type, 1)[0]

    def register_names(self) -> set[str]:
        """The names of all registers so far."""
        return {f"{self.mark}{STEM[type]}{n}" for type, count in self.register_counts.items() for n in range(count)}

    def declarations(self) -> list[str]:
        """The lines that declare all registers so far."""
        counts = sorted(self.register_counts.items())
        return [f".reg .{type} {self.mark}{STEM[type]}<{count}>;" for type, count in counts]

    def regs(self, type: str, count: int) -> list[Register]:
        """New virtual registers."""
        if type.__class__ is not str or type not in TYPE_BITS:
            known = ", ".join(TYPE_BITS)
            raise PtxError(
                f"register type {shown(type)} is unknown; the types are {known}{did_you_mean(type, TYPE_BITS)}"
            )
        if count.__class__ is not int or not 0 <= count <= MOST_REGISTERS:
            _COUNT.check(count, "regs", "count", PtxError)
        first, stem = self.register_counts.get(type, 0), self.mark + STEM[type]
        if count:
            self.register_counts[type] = first + count
        return [register_of(type, stem, number) for number in range(first, first + count)]

    def instr(self, opcode: str, *operands: object, guard: Register | None = None, unless: bool = False) -> None:
        """One instruction at the current place.

        Args:
            opcode: with all its modifiers.
            operands: registers, addresses, numbers, or text, in the ISA's order.
            guard: a predicate register: the instruction is executed where it is true.
            unless: executed where ``guard`` is false instead.

        Raises:
            TargetError: the target lacks the instruction.
            PtxError: an operand that the ISA does not allow, or a guard that is no predicate.
        """
        prefix = ""
        if unless is not False and unless is not True:
            raise PtxError(f"{shown(opcode)}: unless is True or False, not {shown(unless)}")
        if guard is not None:
            if not isinstance(guard, Register) or guard.type != "pred":
                raise PtxError(f"{shown(opcode)}: the guard {shown(guard)} is not a predicate register")
            prefix = f"@!{guard} " if unless else f"@{guard} "
        found = instruction_of(_text(opcode, "opcode"))
        if found.operands:
            found.check(opcode, operands)
        needing = f"{opcode} {_shapes(operands)}" if found.varies else opcode
        if needing not in self._allowed:
            self._require(needing)
        if str in map(type, operands):
            self.loose = True
        self.place_text(f"\t{prefix}{opcode} {_listed(operands)};" if operands else f"\t{prefix}{opcode};")

    def pure(self, block: Block, opcode: str, result: Register, *operands: object) -> Register:
        """One instruction without side effects in the head of a block; returns its result."""
        if not isinstance(block, Block):
            raise PtxError(f"{shown(opcode)}: block {shown(block)} is not an open Block")
        if type(result) is not Register:
            raise PtxError(f"{shown(opcode)}: result {shown(result)} is not a register")
        if operands and type(operands[0]) is str and operands[0].startswith("%"):
            self._require(f"{_text(opcode, 'opcode')} {operands[0]}")  # %cluster_ctarank: more than mov
        elif opcode.__class__ is not str or opcode not in self._allowed:
            self._require(opcode)
        self.place_text(f"\t{opcode} {result.name}, {_listed(operands)};", block.head)
        return result

    def _require(self, instruction: str) -> None:
        """Let the module need what an instruction does."""
        self._allowed[instruction] = needs_on(_text(instruction, "opcode"), self.target)

    def raw(self, text: str) -> None:
        """PTX text as it is, its lines indented; what it needs is read off its instructions."""
        for statement in _COMMENTS.sub(" ", _text(text, "text")).split(";"):
            instruction = _LABELS.sub("", " ".join(statement.split()))
            if instruction.startswith("@"):
                instruction = instruction.split(None, 1)[-1]
            if instruction and not instruction.startswith("."):
                self._require(instruction)
        for line in text.strip().splitlines():
            self.place_text(f"\t{line.strip()}")
        self.loose = True

    def place_text(self, line: str, lines: list[Line] | None = None) -> None:
        """A line at the current place, or at the end of some lines."""
        if type(line) is not str or not line.isascii():
            _text(line, "line")
        if lines is not None and type(lines) is not list:
            raise PtxError(f"place_text: lines is the head or body of a Block, not {shown(lines)}")
        (self.blocks[-1].body if lines is None else lines).append((line, self.statement))
        self.recent.append(line)

    def place_first(self, line: str) -> None:
        """A line before everything that the kernel does."""
        _text(line, "line")
        root = self.blocks[0]
        at = len(root.head) if root.settled is None else root.settled
        root.head.insert(at, (line, self.statement))
        if root.settled is not None:
            root.settled += 1
        self.recent.append(line)

    def comment(self, text: str) -> None:
        """A comment line."""
        TEXT.check(text, "comment", "text", PtxError)
        words = " ".join(text.split())
        self.place_text("\t// " + words.encode("ascii", "backslashreplace").decode())

    def new_label(self, stem: str) -> Written:
        """A label that is not in use yet."""
        if not _LABEL.fullmatch(_text(stem, "stem")):
            raise PtxError(f"new_label: stem {shown(stem)} is not made of letters, digits and underscores")
        number = self._labels.get(stem, 0)
        self._labels[stem] = number + 1
        return Written(f"${stem}_{number}")

    def place(self, label: str) -> None:
        """The label at the current place."""
        self.place_text(f"{_text(label, 'label')}:")

    @contextmanager
    def block(self) -> Iterator[Block]:
        """A nested block; its lines join the enclosing body when it closes."""
        opened = Block(len(self.blocks))
        self.blocks.append(opened)
        yield opened
        self.blocks.pop()
        self.blocks[-1].body += opened.head + opened.body

    @contextmanager
    def if_(self, predicate: Register) -> Iterator[None]:
        """Instructions for the threads whose predicate is true."""
        if not isinstance(predicate, Register) or predicate.type != "pred":
            raise PtxError(f"if_: the predicate {shown(predicate)} is not a predicate register")
        end = self.new_label("endif")
        self.instr("bra", end, guard=predicate, unless=True)
        with self.block():
            yield
        self.place(end)


def pure_once(
    emitter: Emitter, block: Block, key: tuple[Hashable, ...], opcode: str, type: str, *operands: object
) -> Register:
    """As ``emitter.pure``, into a new register of a type and once for each key of the block."""
    return block.once(key, lambda: emitter.pure(block, opcode, emitter.reg(type), *operands))


class Written(str):
    """An operand that is text of our own making: registers in braces, a label."""

    __slots__ = ()


def _number(operand: int) -> str:
    """A plain integer: the common case of :func:`_operand`."""
    return str(operand) if -(2**63) <= operand < 2**64 else _operand(operand)


_TEXT_OF: dict[type, Callable[[Any], str]] = {
    Register: attrgetter("name"),
    Address: str,
    Written: str,
    int: _number,
}


def _shapes(operands: Sequence[object]) -> str:
    """What of some operands decides which version of the ISA an instruction needs."""
    predicates = [isinstance(operand, Register) and operand.type == "pred" for operand in operands]
    kinds = zip(predicates, operands, strict=True)
    return ", ".join("p" if predicate else "_" if operand == "_" else "x" for predicate, operand in kinds)


def _listed(operands: Sequence[object]) -> str:
    return ", ".join([_TEXT_OF.get(type(each), _operand)(each) for each in operands])


def _operand(operand: object) -> str:
    """A number or text among the operands.

    Raises:
        PtxError: neither, nor a register or an address.
    """
    if isinstance(operand, int) and not isinstance(operand, bool) and -(2**63) <= operand < 2**64:
        text = str(operand)  # a plugin's own int may print itself as 0x..., a member of an enum by its name
        return text if _NUMBER.fullmatch(text) else str(int(operand))
    if isinstance(operand, str) and operand and operand.isascii():
        return operand
    raise PtxError(
        f"an operand of an instruction is a register, an address, a number of 64 bits or text, not {shown(operand)}"
    )


def _text(text: object, what: str) -> str:
    """Text that may stand in PTX.

    Raises:
        PtxError: it is no text, empty, or not ASCII (PTX ISA 4.1).
    """
    if not isinstance(text, str) or not text or not text.isascii():
        raise PtxError(f"{what} is PTX, which is text of ASCII characters and not empty; not {shown(text)}")
    return text
