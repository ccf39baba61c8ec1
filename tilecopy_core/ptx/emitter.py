"""An emitter of PTX text: registers, lines, labels, and the blocks in which values are computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeAlias

from ..description.target import Target
from ..errors import PtxError, short_repr
from ..errors.lazy_regex import pattern
from .instructions import Needs, instruction_of, merge, needs_on, needs_together
from .lines import AnyLine, Label, Line, Text, declared_in, parse_lines
from .operands import TYPE_BITS, Operand, Register, Written, registers_of

P = ParamSpec("P")
Key: TypeAlias = tuple[Hashable, ...]
"""The key of a computed value in its block; its first item is the kind of value."""
_CTA_GROUP = pattern(r"tcgen05\.\S*\bcta_group::(\d)")


class Block:
    """A block of instructions. Each pure value is computed once, in the outermost block that has all of its operands.

    The kernel's own block has ``depth`` 0. ``settled`` is the index in the head of the first line from the body, or None.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.settled: int | None = None
        self.head: list[AnyLine] = []
        self.body: list[AnyLine] = []
        self._known: dict[Key, Register] = {}

    def once(self, key: Key, make: Callable[P, Register], *args: P.args, **keywords: P.kwargs) -> Register:
        """Return the register that is stored under a key. The first call creates the register with ``make``."""
        register = self._known.get(key)
        if register is None:
            register = self._known[key] = make(*args, **keywords)
        return register

    def settle(self) -> None:
        """Move the body's lines to the head, so that values computed later come after these lines."""
        if self.settled is None:
            self.settled = len(self.head)
        self.head += self.body
        self.body = []

    def lookup(self, key: Key) -> Register | None:
        """Return the register that is stored under a key, or None if this block has not computed it."""
        return self._known.get(key)

    def follow(self, before: Block) -> None:
        """Reuse the values of an earlier block, ``before``."""
        self._known = {**before._known, **self._known}


class Sunk(Block):
    """A view of an outer block that reuses the outer block's values but computes new values in an inner block."""

    def __init__(self, outer: Block, inner: Block) -> None:
        self.depth, self.head = outer.depth, inner.head
        self._outer, self._own = outer, inner

    def once(self, key: Key, make: Callable[P, Register], *args: P.args, **keywords: P.kwargs) -> Register:
        """Return the outer block's register for a key. If it has none, return the inner block's register."""
        return self._outer.lookup(key) or self._own.once(key, make, *args, **keywords)


class Emitter:
    """The text, registers and blocks of one kernel.

    It raises TargetError for an instruction that the target does not support. The names of registers begin with ``mark``.

    Attributes:
        blocks: the open blocks, outermost first.
        statement: the number of the statement that is being lowered, which is stored in lines.
        recent: the lines since it was last cleared, in the order in which they were written.
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
        """The lines that are written to the kernel, without the lines of open blocks."""
        return [*self._start.head, *self._start.body, *self._whole.head, *self._whole.body]

    @property
    def needs(self) -> Needs:
        """The PTX version and target that the module needs for its instructions and for calls of :meth:`PtxBuilder.require`."""
        return merge(needs_together(frozenset(self._allowed), self.target), self._required)

    def reg(self, type: str = "b32") -> Register:
        """Return a new virtual register of a type in :data:`TYPE_BITS`."""
        return self.regs(type, 1)[0]

    def regs(self, type: str, count: int) -> list[Register]:
        """Return ``count`` new virtual registers of a type in :data:`TYPE_BITS`."""
        if type not in TYPE_BITS:
            raise PtxError(f"register type {short_repr(type)} is unknown; the types are {', '.join(TYPE_BITS)}")
        first = self.register_counts.get(type, 0)
        if count:
            self.register_counts[type] = first + count
        return list(registers_of(type, self.mark, first, count))

    def instr(self, opcode: str, *operands: Operand, guard: Register | None = None, unless: bool = False) -> None:
        """Write one instruction: the opcode with all its modifiers, and the operands in the ISA's order.

        Operands are registers, addresses, numbers, or text. With a predicate register as ``guard``, threads in which it is true
        execute the instruction; with ``unless``, threads in which it is false. Raises TargetError if the target does not support the
        instruction, and PtxError for an operand that the ISA does not allow or a guard that is not a predicate.
        """
        if guard is not None and guard.type != "pred":
            raise PtxError(f"{short_repr(opcode)}: the guard must be a predicate register, got {short_repr(guard)}")
        instruction = instruction_of(opcode)
        if instruction.operands:
            instruction.check(opcode, operands)
        needing = f"{opcode} {_shapes(operands)}" if instruction.varies else opcode
        if needing not in self._allowed:
            self._require(needing)
        self._place(Line(opcode, operands, guard, unless, self.statement))

    def pure(self, block: Block, opcode: str, type: str, *operands: Operand) -> Register:
        """Write an instruction without side effects to the head of a block. Return the new register with the result."""
        result, first = self.regs(type, 1)[0], operands[0]
        needing = f"{opcode} {first}" if isinstance(first, str) and first[0] == "%" else opcode  # %cluster_ctarank
        if needing not in self._allowed:
            self._require(needing)
        self._place(Line(opcode, (result, *operands), None, False, self.statement), block.head)
        return result

    def _require(self, instruction: str) -> None:
        """Add the requirements of an instruction. Raises TargetError if the target does not support it."""
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
        """Write indented lines of PTX. Instructions in the text raise the PTX version and target that the module requires."""
        if not text.isascii():
            raise PtxError(f"PTX text must consist of ASCII characters, got {short_repr(text)}")
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
        """Write a line at the start of the kernel."""
        root = self.blocks[0]
        at = len(root.head) if root.settled is None else root.settled
        first = Text(line, self.statement)
        root.head.insert(at, first)
        if root.settled is not None:
            root.settled += 1
        self.recent.append(first)

    def comment(self, text: str) -> None:
        """Write a comment line."""
        words = " ".join(text.split())
        self._place(Text("\t// " + words.encode("ascii", "backslashreplace").decode(), self.statement))

    def new_label(self, stem: str) -> Written:
        """Return a new label."""
        number = self._labels.get(stem, 0)
        self._labels[stem] = number + 1
        return Written(f"${stem}_{number}")

    def place(self, label: str) -> None:
        """Write a label."""
        self._place(Label(label, self.statement))

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Open a nested block. On exit, its lines join the enclosing block and its symbols are unbound."""
        opened = Block(len(self.blocks))
        self.blocks.append(opened)
        yield opened
        self.blocks.pop()
        self.blocks[-1].body += opened.head + opened.body
        self._bound = {key: (register, depth) for key, (register, depth) in self._bound.items() if depth < opened.depth}

    @contextmanager
    def if_(self, predicate: Register) -> Iterator[None]:
        """Open a block for the threads whose predicate is true."""
        end = self.new_label("endif")
        self.instr("bra", end, guard=predicate, unless=True)
        with self.block():
            yield
        self.place(end)


def pure_once(emitter: Emitter, block: Block, key: Key, opcode: str, type: str, *operands: Operand) -> Register:
    """Return the register that a block stores under a key. The first call computes the value in a new register."""
    return block.once(key, emitter.pure, block, opcode, type, *operands)


def _shapes(operands: Sequence[Operand]) -> str:
    """What of some operands decides which version of the ISA an instruction needs."""
    predicates = [isinstance(operand, Register) and operand.type == "pred" for operand in operands]
    return ", ".join(["_" if o == "_" else "xp"[is_one] for o, is_one in zip(operands, predicates, strict=True)])
