"""Writing PTX text: registers, lines, labels, and the blocks that computed values live in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import PtxError
from ..target import Target
from .needs import Needs, check_target, merge, needs_of
from .operands import TYPE_BITS, Register


class Block:
    """A stretch of instructions with its own head.

    Pure values (addresses, indices) go to the head of the outermost block in which all that they depend on exists,
    so that they are computed once and dominate every use.

    Attributes:
        depth: how deep it is nested; the kernel's own block is 0.
        head: lines that come first.
        body: lines that follow.
        known: values computed in this block, by what they are.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.head: list[str] = []
        self.body: list[str] = []
        self.known: dict[Any, Any] = {}


class Emitter:
    """Text, registers and blocks of one kernel.

    Attributes:
        target: the architecture; an instruction that it lacks is refused.
        needs: what the instructions so far need together.
        blocks: the open blocks, outermost first.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.needs = Needs()
        self.blocks = [Block(0)]
        self._registers: dict[str, int] = {}
        self._labels: dict[str, int] = {}
        self._needs_of_opcode: dict[str, Needs] = {}

    def reg(self, type: str = "b32") -> Register:
        """A new virtual register of a type of :data:`TYPE_BITS`."""
        if type not in TYPE_BITS:
            raise PtxError(f"register type {type!r} is unknown; the types are {', '.join(TYPE_BITS)}")
        number = self._registers.get(type, 0)
        self._registers[type] = number + 1
        return Register(type, number)

    def regs(self, type: str, count: int) -> list[Register]:
        """New virtual registers."""
        return [self.reg(type) for _ in range(count)]

    def instr(self, opcode: str, *operands: object, guard: Register | None = None, unless: bool = False) -> None:
        """One instruction at the current place.

        Args:
            opcode: with all its modifiers.
            operands: registers, addresses, numbers, or text, in the ISA's order.
            guard: a predicate register: the instruction is executed where it is true.
            unless: executed where ``guard`` is false instead.

        Raises:
            TargetError: the target lacks the instruction.
            PtxError: the guard is not a predicate.
        """
        prefix = ""
        if guard is not None:
            if guard.type != "pred":
                raise PtxError(f"{opcode}: the guard {guard} is not a predicate register")
            prefix = f"@!{guard} " if unless else f"@{guard} "
        self._require(opcode)
        text = ", ".join(map(str, operands))
        self.blocks[-1].body.append(f"\t{prefix}{opcode} {text};" if text else f"\t{prefix}{opcode};")

    def pure(self, block: Block, opcode: str, result: Register, *operands: object) -> Register:
        """One instruction without side effects in the head of a block; returns its result."""
        self._require(opcode)
        block.head.append(f"\t{opcode} {result}, {', '.join(map(str, operands))};")
        return result

    def _require(self, opcode: str) -> None:
        needs = self._needs_of_opcode.get(opcode)
        if needs is None:
            needs = needs_of(opcode)
            check_target(opcode, needs, self.target)
            self._needs_of_opcode[opcode] = needs
            self.needs = merge(self.needs, needs)

    def raw(self, text: str) -> None:
        """PTX text as it is, its lines indented; what it needs is read off its instructions."""
        for line in text.strip().splitlines():
            for statement in line.split("//")[0].split(";"):
                instruction = statement.strip().strip("{} \t")
                if instruction.startswith("@"):
                    instruction = instruction.split(None, 1)[-1]
                if instruction and not instruction.startswith(".") and not instruction.endswith(":"):
                    needs = needs_of(instruction)
                    check_target(instruction, needs, self.target)
                    self.needs = merge(self.needs, needs)
            self.blocks[-1].body.append(f"\t{line.strip()}")

    def comment(self, text: str) -> None:
        """A comment line."""
        self.blocks[-1].body.append("\t// " + text.replace("\n", " "))

    def new_label(self, stem: str) -> str:
        """A label that is not in use yet."""
        number = self._labels.get(stem, 0)
        self._labels[stem] = number + 1
        return f"${stem}_{number}"

    def place(self, label: str) -> None:
        """The label at the current place."""
        self.blocks[-1].body.append(f"{label}:")

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
        end = self.new_label("endif")
        self.instr("bra", end, guard=predicate, unless=True)
        with self.block():
            yield
        self.place(end)
