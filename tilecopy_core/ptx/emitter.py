"""Writing PTX text: registers, lines, labels, and the blocks that computed values live in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeAlias

from ..description.target import Target
from ..errors import PtxError, short_repr
from ..errors.patterns import pattern
from .instructions import Needs, instruction_of, merge, needs_on, needs_together
from .lines import AnyLine, Label, Line, Text, declared_in, parse_lines
from .operands import STEM, TYPE_BITS, Operand, Register, Written, register_of

P = ParamSpec("P")
Key: TypeAlias = tuple[Hashable, ...]
"""What a computed value is known by in its block: its kind first."""
_CTA_GROUP = pattern(r"tcgen05\.\S*\bcta_group::(\d)")


class Block:
    """A stretch of instructions with its own head.

    Pure values (addresses, indices) go to the head of the outermost block in which all that they depend on exists,
    so that they are computed once and dominate every use.

    ``depth`` is how deep it is nested; the kernel's own block is 0. ``settled`` is where in the head the first of what
    was its body is, or None.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.settled: int | None = None
        self.head: list[AnyLine] = []
        self.body: list[AnyLine] = []
        self._known: dict[Key, Register] = {}

    def once(self, key: Key, make: Callable[P, Register], *args: P.args, **keywords: P.kwargs) -> Register:
        """The register of a key, made of the arguments at the first call."""
        register = self._known.get(key)
        if register is None:
            register = self._known[key] = make(*args, **keywords)
        return register

    def settle(self) -> None:
        """Let the body so far belong to the head, so that what is computed next comes after it."""
        if self.settled is None:
            self.settled = len(self.head)
        self.head += self.body
        self.body = []

    def lookup(self, key: Key) -> Register | None:
        """Return the register of a key, or None where this block did not compute it."""
        return self._known.get(key)

    def follow(self, before: Block) -> None:
        """Know what a block that comes before this one has made too."""
        self._known = {**before._known, **self._known}


class Sunk(Block):
    """An outer block as one inside it sees it that keeps to itself what it computes: only what is known there is shared."""

    def __init__(self, outer: Block, inner: Block) -> None:
        self.depth, self.head = outer.depth, inner.head
        self._outer, self._own = outer, inner

    def once(self, key: Key, make: Callable[P, Register], *args: P.args, **keywords: P.kwargs) -> Register:
        """The register that the outer block has, else one of the inner block's own."""
        return self._outer.lookup(key) or self._own.once(key, make, *args, **keywords)


class Emitter:
    """Text, registers and blocks of one kernel.

    An instruction that the target lacks is refused. The names of registers begin with ``mark``.

    Attributes:
        blocks: the open blocks, outermost first.
        statement: number of the statement that is being lowered; lines remember it.
        recent: the lines since this was last cleared, in the order in which they were written.
    """

    def __init__(self, target: Target, mark: str = "%") -> None:
        self.target, self.mark = target, mark
        self._start, self._whole = Block(0), Block(0)
        self.blocks = [self._whole]
        self.statement = 0
        self.recent: list[AnyLine] = []
        self.register_counts: dict[str, int] = {}
        self._labels: dict[str, int] = {}
        self._allowed: set[str] = set()
        self._required = Needs()
        self._groups: dict[str, str] = {}
        self._predicates: set[str] = set()
        self._bound: dict[Hashable, tuple[Register, int]] = {}

    @property
    def lines(self) -> list[AnyLine]:
        """The lines of the kernel so far; while a block is open, without that block's."""
        return [*self._start.head, *self._start.body, *self._whole.head, *self._whole.body]

    @property
    def needs(self) -> Needs:
        """What the instructions so far, and :meth:`PtxBuilder.require`, need together."""
        return merge(needs_together(frozenset(self._allowed), self.target), self._required)

    def reg(self, type: str = "b32") -> Register:
        """Return a new virtual register of a type of :data:`TYPE_BITS`."""
        return self.regs(type, 1)[0]

    def register_names(self) -> set[str]:
        """Return the names of all registers so far."""
        return {f"{self.mark}{STEM[type]}{n}" for type, count in self.register_counts.items() for n in range(count)}

    def declarations(self) -> list[str]:
        """Return the lines that declare all registers so far."""
        counts = sorted(self.register_counts.items())
        return [f".reg .{type} {self.mark}{STEM[type]}<{count}>;" for type, count in counts]

    def regs(self, type: str, count: int) -> list[Register]:
        """Return new virtual registers."""
        if type not in TYPE_BITS:
            raise PtxError(f"register type {short_repr(type)} is unknown; the types are {', '.join(TYPE_BITS)}")
        first, stem = self.register_counts.get(type, 0), self.mark + STEM[type]
        if count:
            self.register_counts[type] = first + count
        return [register_of(type, stem, number) for number in range(first, first + count)]

    def instr(self, opcode: str, *operands: Operand, guard: Register | None = None, unless: bool = False) -> None:
        """One instruction at the current place: the opcode with all its modifiers, operands in the ISA's order.

        Operands are registers, addresses, numbers, or text. With a predicate register as ``guard`` the instruction is
        executed where it is true; with ``unless``, where it is false. Raises TargetError where the target lacks the
        instruction, PtxError for an operand that the ISA does not allow, or a guard that is not a predicate.
        """
        if guard is not None and guard.type != "pred":
            raise PtxError(f"{short_repr(opcode)}: the guard {short_repr(guard)} is not a predicate register")
        instruction = instruction_of(opcode)
        if instruction.operands:
            instruction.check(opcode, operands)
        needing = f"{opcode} {_shapes(operands)}" if instruction.varies else opcode
        if needing not in self._allowed:
            self._require(needing)
        self._place(Line(opcode, operands, guard, unless, self.statement))

    def pure(self, block: Block, opcode: str, type: str, *operands: Operand) -> Register:
        """One instruction without side effects in the head of a block; returns the new register of a type that it writes."""
        result, first = self.regs(type, 1)[0], operands[0]
        needing = f"{opcode} {first}" if isinstance(first, str) and first[0] == "%" else opcode  # %cluster_ctarank
        if needing not in self._allowed:
            self._require(needing)
        self._place(Line(opcode, (result, *operands), statement=self.statement), block.head)
        return result

    def _require(self, instruction: str) -> None:
        """Let the module need what an instruction does, which the target has."""
        needs_on(self.target, instruction)
        if group := _CTA_GROUP.match(instruction):
            self._groups.setdefault(group[1], instruction)
            if len(self._groups) > 1:
                before = next(iter(self._groups.values()))
                raise PtxError(
                    f"'{instruction}' and '{before}': all tcgen05 instructions of a kernel must have the same cta_group"
                )
        self._allowed.add(instruction)

    def raw(self, text: str) -> None:
        """PTX text as it is, its lines indented; what it needs is read off its instructions."""
        if not text.isascii():
            raise PtxError(f"PTX is text of ASCII characters, got {short_repr(text)}")
        for part in parse_lines(text):
            if isinstance(part, Line):
                operands = [
                    "p" if str(operand).strip("! ") in self._predicates else str(operand) for operand in part.operands
                ]
                self._require(f"{part.opcode} {', '.join(operands)}".strip())
            elif isinstance(part, str) and part.startswith(".reg") and ".pred" in part:
                self._predicates.update(declared_in(part))
            elif isinstance(part, str) and part[0] not in "{}.;":  # a statement without its end
                self._require(part)
        for line in text.strip().splitlines():
            self._place(Text(f"\t{line.strip()}", self.statement, loose=True))

    def _place(self, line: AnyLine, lines: list[AnyLine] | None = None) -> None:
        (self.blocks[-1].body if lines is None else lines).append(line)
        self.recent.append(line)

    def place_first(self, line: str) -> None:
        """A line before everything that the kernel does."""
        root = self.blocks[0]
        at = len(root.head) if root.settled is None else root.settled
        first = Text(line, self.statement)
        root.head.insert(at, first)
        if root.settled is not None:
            root.settled += 1
        self.recent.append(first)

    def comment(self, text: str) -> None:
        """A comment line."""
        words = " ".join(text.split())
        self._place(Text("\t// " + words.encode("ascii", "backslashreplace").decode(), self.statement))

    def new_label(self, stem: str) -> Written:
        """Return a label that is not in use yet."""
        number = self._labels.get(stem, 0)
        self._labels[stem] = number + 1
        return Written(f"${stem}_{number}")

    def place(self, label: str) -> None:
        """The label at the current place."""
        self._place(Label(label, self.statement))

    @contextmanager
    def block(self) -> Iterator[Block]:
        """A nested block; when it closes, its lines join the enclosing body, and what was bound in it ends."""
        opened = Block(len(self.blocks))
        self.blocks.append(opened)
        yield opened
        self.blocks.pop()
        self.blocks[-1].body += opened.head + opened.body
        self._bound = {key: (register, depth) for key, (register, depth) in self._bound.items() if depth < opened.depth}

    @contextmanager
    def if_(self, predicate: Register) -> Iterator[None]:
        """Instructions for the threads whose predicate is true."""
        end = self.new_label("endif")
        self.instr("bra", end, guard=predicate, unless=True)
        with self.block():
            yield
        self.place(end)


def pure_once(emitter: Emitter, block: Block, key: Key, opcode: str, type: str, *operands: Operand) -> Register:
    """Return the register that ``emitter.pure`` writes, once for each key of the block."""
    return block.once(key, emitter.pure, block, opcode, type, *operands)


def _shapes(operands: Sequence[Operand]) -> str:
    """What of some operands decides which version of the ISA an instruction needs."""
    predicates = [isinstance(operand, Register) and operand.type == "pred" for operand in operands]
    return ", ".join(["_" if o == "_" else "xp"[is_one] for o, is_one in zip(operands, predicates, strict=True)])
