"""The record of a copy that is exported as a function. The record has the arguments and the PTX.

The copy's variant writes its instructions as in a kernel of KernelBuilder. :class:`FunctionBindings` gives it addresses, symbols
and fragments. The inline assembly first moves the caller's values to its own registers, and at the end moves fragments back
(assemblers remove these moves).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import attrs
from tilecopy.emission_checks import statements
from tilecopy.expression_text import unique_name
from tilecopy.module_text import declarations, header_target

from tilecopy_core import Plan
from tilecopy_core.description import Target, Version
from tilecopy_core.errors import PtxError, RequestError, checked, instance_of
from tilecopy_core.integers import Symbol
from tilecopy_core.memory import Buffer
from tilecopy_core.ptx import (
    AnyLine,
    Bindings,
    Emitter,
    Label,
    Line,
    Needs,
    PtxBuilder,
    Recipe,
    Register,
    Written,
    names_in,
)
from tilecopy_partitions import HostBytes, TensorMap

from .function_arguments import (
    MARK,
    Argument,
    BufferArgument,
    Key,
    ScalarArgument,
    arguments_of,
    by_key,
    check_function_name,
    cta_threads,
    key_of_symbol,
)


@attrs.frozen
class RegisterMove:
    """A frozen record of a PTX move between an argument and a register of the inline assembly block.

    Attributes:
        opcode: the opcode of the move.
        register: the register of the block.
        argument: the name of the function's argument.
        words: the words of a fragment that the register holds; empty for other arguments.
    """

    opcode: str
    register: str
    argument: str
    words: tuple[int, ...] = ()

    @property
    def operands(self) -> tuple[AsmOperand, ...]:
        """The inline assembly operands that the move reads or writes. A fragment has one operand per 32-bit word."""
        return tuple(AsmOperand(self.argument, word) for word in self.words or (None,))


@attrs.frozen
class AsmOperand:
    """A frozen record of an inline assembly operand: an argument of the function, or one 32-bit word of a fragment.

    Attributes:
        argument: name of the function's argument.
        word: the index of the word in its fragment, or None for other arguments.
    """

    argument: str
    word: int | None = None


@attrs.frozen(eq=False)
class CopyFunction:
    """A frozen record of a copy that is exported as a function in another language, for example CUDA C++.

    Attributes:
        name: the name of the function.
        plan: the plan of the copy.
        arguments: the arguments in order.
        declarations: the lines that declare the block's registers.
        inputs: the moves to them at the start.
        body: the instructions, one per line.
        outputs: the moves at the end, each to a word of a fragment.
        kept: the words of fragments that the block may not overwrite, which are also inputs.
        needs: the target and PTX version that the instructions need.
        computed: inputs that are computed from arguments before the block -> their widths in bits.
    """

    name: str
    plan: Plan
    arguments: tuple[Argument, ...]
    declarations: tuple[str, ...]
    inputs: tuple[RegisterMove, ...]
    body: tuple[AnyLine, ...]
    outputs: tuple[RegisterMove, ...]
    kept: frozenset[AsmOperand]
    needs: Needs
    computed: Mapping[AsmOperand, int] = attrs.field(factory=dict)

    @property
    def target(self) -> Target:
        """The lowest architecture that supports the copy's instructions."""
        return header_target(self.needs, self.plan.request.target)[1]

    @property
    def version(self) -> Version:
        """The lowest PTX ISA version that supports the copy's instructions."""
        return header_target(self.needs, self.plan.request.target)[0]

    @property
    def block_outputs(self) -> tuple[AsmOperand, ...]:
        """The operands that the inline assembly writes, sorted by operand number."""
        return tuple(operand for move in self.outputs for operand in move.operands)

    @property
    def block_inputs(self) -> tuple[AsmOperand, ...]:
        """The operands that the inline assembly only reads, numbered after the outputs."""
        written = set(self.block_outputs)
        operands = [operand for move in self.inputs for operand in move.operands if operand not in written]
        together = self.plan.request.scope.kind != "thread"
        return tuple(operands) if not together or self._thread in operands else (*operands, self._thread)

    @property
    def _thread(self) -> AsmOperand:
        return AsmOperand(self.arguments[-1].name)

    def _participation(self, thread: str) -> Iterator[str]:
        """Yield a comment that tells the emulator which threads must execute the block. It costs no instruction."""
        scope, last = self.plan.request.scope, self.arguments[-1]
        if scope.kind != "thread" and isinstance(last, ScalarArgument) and last.upper is not None:
            yield f"// tilecopy: {self.name}: {scope.threads} of {last.upper + 1} threads copy together; this is thread {thread}"

    def bits_of(self, operand: AsmOperand) -> int:
        """Return the width of an operand in bits, for example 64 for pointers and 32 for words of fragments."""
        if operand in self.computed:
            return self.computed[operand]
        argument = next(a for a in self.arguments if a.name == operand.argument)
        if isinstance(argument, ScalarArgument):
            return argument.bits
        return 64 if argument.buffer.space == "global" else 32

    def assembly(self, sign: str) -> list[str]:
        """Return the PTX lines of the inline assembly block.

        Args:
            sign: the character before an operand's number in the surrounding language. Elsewhere in the text it is doubled.
        """
        order = (*self.block_outputs, *self.block_inputs)
        numbers = {operand: f"{sign}{number}" for number, operand in enumerate(order)}

        def callers(move: RegisterMove) -> str:
            operands = [numbers[operand] for operand in move.operands]
            return operands[0] if len(operands) == 1 else f"{{{', '.join(operands)}}}"

        def own(line: str) -> str:
            return line.replace(sign, sign * 2)

        return [
            "{",
            *self._participation(numbers.get(self._thread, "")),
            *map(own, self.declarations),
            *(f"{move.opcode} {own(move.register)}, {callers(move)};" for move in self.inputs),
            *(own(str(line).strip()) for line in self.body),
            *(f"{move.opcode} {callers(move)}, {own(move.register)};" for move in self.outputs),
            "}",
        ]


class FunctionBindings(Bindings):
    """Bindings that turn the addresses, symbols and fragments of a copy into arguments of an exported function."""

    mark = MARK
    inlined = True

    def __init__(self, arguments: Sequence[Argument]) -> None:
        super().__init__()
        self._arguments = by_key(arguments)
        self._names = {argument.name for argument in arguments}
        self.made: dict[TensorMap, BufferArgument] = {}
        self.inputs: list[RegisterMove] = []
        self.outputs: list[RegisterMove] = []

    def pointer(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register with the global address of a buffer, converted from a generic pointer."""
        return self._move_argument(emitter, buffer.memory, "cvta.to.global.u64", "b64", f"the array {buffer.name}")

    def shared_base(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register with the 32-bit shared address of a buffer."""
        return self._move_argument(emitter, buffer.memory, "mov.b32", "b32", f"the shared buffer {buffer.name}")

    def symbol(self, emitter: Emitter, symbol: Symbol) -> Register:
        """Return the register with a symbol's value. The value is read from an argument or a special register."""
        key = key_of_symbol(symbol)
        argument = self._arguments.get(key)
        if argument is None and symbol.register:
            root = emitter.blocks[0]
            special = Written(symbol.register)
            return root.once(("special", special), lambda: emitter.pure(root, "mov.u32", "b32", special))
        bits = argument.bits if isinstance(argument, ScalarArgument) else 32
        return self._move_argument(emitter, key, f"mov.b{bits}", f"b{bits}", f"the symbol {symbol.name}")

    def fragment(self, emitter: Emitter, buffer: Buffer) -> list[Register]:
        """Return the registers that hold the words of a fragment in the inline assembly."""
        memory, word = buffer.memory, buffer.memory.word_bits
        if memory in self._fragments:
            return super().fragment(emitter, buffer)
        operand = self._argument(memory, f"the fragment {buffer.name}")
        assert isinstance(operand, BufferArgument)
        registers = super().fragment(emitter, buffer)
        for number, register in enumerate(self._fragments[memory]):
            words = (number,) if word == 32 else (2 * number, 2 * number + 1)
            move = RegisterMove(f"mov.b{word}", str(register), operand.name, words)
            self.inputs.append(move)
            if operand.written:
                self.outputs.append(move)
        return registers

    def host_parameter(self, emitter: Emitter, recipe: Recipe) -> Register:
        """Return the register with a pointer to a tensor map that the host encodes. Equal tensor maps share one argument."""
        if isinstance(recipe, HostBytes):
            raise RequestError(
                f"this copy needs {recipe.size_bytes} bytes that the Python function {recipe.make.__qualname__} computes at each launch, so the "
                "copy cannot be exported; build the kernel with KernelBuilder"
            )
        assert isinstance(recipe, TensorMap)
        if recipe not in self.made:
            array = self._argument(recipe.array.memory, f"the array {recipe.array.name}").name
            name = unique_name(f"{array}_map", self._names, separator="")
            self._names.add(name)
            memory = Buffer((recipe.size_bytes,), "uint8", space="global", name=name, align_bytes=recipe.align_bytes)
            role = f"tensor map of {array}"
            self.made[recipe] = BufferArgument(name, memory, role, written=False, recipe=recipe)
            self._arguments[memory.memory] = self.made[recipe]
        memory = self.made[recipe].buffer
        return self._move_argument(emitter, memory.memory, "mov.b64", "b64", f"the tensor map {memory.name}")

    def _argument(self, key: Key, what: str) -> Argument:
        if key not in self._arguments:
            raise PtxError(
                f"the copy cannot be exported, because {what} belongs to the kernel and is not an operand of the copy"
            )
        return self._arguments[key]

    def _move_argument(self, emitter: Emitter, key: Key, opcode: str, type: str, what: str) -> Register:
        def move() -> Register:
            register = emitter.reg(type)
            self.inputs.append(RegisterMove(opcode, str(register), self._argument(key, what).name))
            return register

        return emitter.blocks[0].once(("argument", key), move)


@checked(RequestError, plan=instance_of("a Plan from tilecopy_core.plan or a kernel's .plans", Plan))
def function_of(plan: Plan, name: str, registry: Any = None) -> CopyFunction:
    """Return a record that describes a plan's copy as a function in another language, for example CUDA C++.

    Args:
        plan: a result of :func:`tilecopy_core.plan`, or one of a kernel's plans.
        name: a C++ identifier.
        registry: the registry that has the plan's variant; by default that of the process.

    Raises:
        RequestError: the name is not an identifier, or the copy cannot be exported from its kernel; the message says why.
        PtxError, PluginError: the variant's instructions cannot be written here.
    """
    check_function_name(name)
    arguments = arguments_of(plan)
    bindings = FunctionBindings(arguments)
    ptx = PtxBuilder(plan.request.target, cta_threads(plan), bindings=bindings)
    plan.emit(ptx, registry)
    body = tuple(line for line in ptx.lines if not str(line).lstrip().startswith("//"))
    overwritten = _written_first(body) & {move.register for move in bindings.outputs}
    kept = {operand for m in bindings.outputs if m.register not in overwritten for operand in m.operands}
    return CopyFunction(
        name=name,
        plan=plan,
        arguments=(*arguments[:-1], *bindings.made.values(), arguments[-1]),
        declarations=tuple(declarations(ptx)),
        inputs=tuple(move for move in bindings.inputs if move.register not in overwritten),
        body=body,
        outputs=tuple(bindings.outputs),
        kept=frozenset(kept),
        needs=ptx.needs,
    )


def branches(part: Line | Label | str) -> bool:
    """Return True if a line is a branch or a label."""
    return isinstance(part, Label) or (isinstance(part, Line) and part.is_branch)


def _written_first(body: Sequence[AnyLine]) -> set[str]:
    """Return the registers that every thread overwrites, by a load or a move, before any read or branch."""
    written: set[str] = set()
    read: set[str] = set()
    for part in takewhile(lambda part: not branches(part), statements(body)):
        if not isinstance(part, Line):
            continue
        is_whole = part.name in ("ld", "ldmatrix", "mov") and part.guard is None
        results = {name for operand in part.results for name in names_in(operand)} if is_whole else set[str]()
        read |= {name for operand in part.operands[is_whole:] for name in names_in(operand)} - written
        written |= results - read
    return written
