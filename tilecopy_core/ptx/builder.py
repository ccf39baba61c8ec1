"""The PTX builder that variants use to write instructions.

Each method writes one instruction (or the idiom that the ISA prescribes). Requirements and operands of instructions are in
:mod:`.instructions`; the methods here only order the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import cycle, islice
from typing import TypeAlias

from ..description.scope import Scope, tid_symbol
from ..description.target import Target, Version
from ..errors import PtxError, short_repr
from ..integers.expr import Int
from ..memory.buffers import Buffer
from .bindings import Bindings, Recipe
from .emitter import pure_once
from .index import IndexEmitter
from .instructions import Needs, instruction_of, merge
from .operands import Access, Address, Register, Vector, vector_of

Registers: TypeAlias = Sequence[Register]

_REGISTER_BITS = {8: 32, 16: 32, 32: 32, 64: 64, 128: 128, 256: 256}
"""Width of an access in bits -> the width of the registers that it fills."""


class PtxBuilder(IndexEmitter):
    """A builder that writes the instructions of one kernel with ``cta_threads`` threads per CTA.

    It raises TargetError for instructions that the target does not support. ``bindings`` provide the operands of a copy that is
    not written into a kernel.
    """

    def __init__(self, target: Target, cta_threads: int, bindings: Bindings | None = None) -> None:
        instruction_of("ret")  # reads the table of instructions: no hook is to blame where it cannot be read
        super().__init__(target, bindings or Bindings())
        self.cta_threads = cta_threads
        self._written_once: set[Hashable] = set()

    @property
    def tid(self) -> Int:
        """The thread's index in the CTA."""
        return tid_symbol(self.cta_threads)

    def thread_index(self, scope: Scope) -> Int:
        """Return the thread's index in a scope."""
        return scope.thread_index(self.tid)

    def load(self, source: Access | Address, bits: int, into: Registers | None = None) -> list[Register]:
        """Load 8 to 128 bits into registers and return them. Global memory on sm_100 and newer permits 256 bits.

        8 and 16 bits are zero-extended. ``into`` may also be 64-bit registers that hold exactly ``bits``. In threads whose
        predicate is false the registers keep their values or get the access's fill. Raises PtxError for another number of
        bits, registers of another width, or an address that is not proved to be aligned.
        """
        registers = self.regs("b32", self._check_width(bits)) if into is None else into
        opcode, vector, address, mask = self._checked("ld", source, bits, registers)
        if mask is not None and isinstance(source, Access) and source.fill is not None:
            self.fill(registers, source.fill)
        self.instr(opcode, vector, address, guard=mask)
        return list(registers)

    def store(self, destination: Access | Address, bits: int, registers: Registers, *, relaxed: bool = False) -> None:
        """Store 8 to 128 bits from registers; see :meth:`load`. Global memory on sm_100 and newer permits 256 bits.

        With ``relaxed``, the store is ``st.relaxed.gpu``, which does not race with other such stores to the same address.
        """
        opcode, vector, address, mask = self._checked(
            "st.relaxed.gpu" if relaxed else "st", destination, bits, registers
        )
        self.instr(opcode, address, vector, guard=mask)

    def fill(self, registers: Registers, words: int | tuple[int, ...]) -> None:
        """Fill registers with 32-bit words, repeated as needed. A 64-bit register holds two words."""
        repeated = cycle((words,) if isinstance(words, int) else words)
        for register in registers:
            taken = islice(repeated, register.bits // 32)
            self.instr(f"mov.b{register.bits}", register, sum(word << 32 * n for n, word in enumerate(taken)))

    def constant(self, words: int | tuple[int, ...], bits: int) -> list[Register]:
        """Repeat words to ``bits`` bits and return 32-bit registers that hold them. Equal words share a register."""
        repeated = islice(cycle((words,) if isinstance(words, int) else words), self._check_width(bits))
        return [pure_once(self, self._at(0), ("word", word), "mov.b32", "b32", word) for word in repeated]

    def _check_width(self, bits: int) -> int:
        if bits not in _REGISTER_BITS:
            raise PtxError(
                f"the width of an access must be one of {', '.join(map(str, _REGISTER_BITS))} bits, got {short_repr(bits)}"
            )
        return _REGISTER_BITS[bits] // 32

    def _checked(
        self, name: str, place: Access | Address, bits: int, registers: Registers
    ) -> tuple[str, Vector, Address, Register | None]:
        """Return an access's opcode, registers, address and predicate. Raises PtxError if its operands do not fit ``bits``."""
        address, mask = (place, None) if isinstance(place, Address) else (place.address, place.predicate)
        vector = vector_of(tuple(registers))
        if vector.bits != _REGISTER_BITS.get(bits):
            raise PtxError(
                f"{name} of {bits} bits needs {self._check_width(bits)} registers of 32 bits, or half as many of 64 bits, got {short_repr(registers)}"
            )
        if bits == 256 and (address.space != "global" or self.target.arch < 100):
            raise PtxError(
                f"{name} of 256 bits must be in global memory on sm_100 or newer, got {address.space} memory on {self.target}"
            )
        if address.align_bytes % (bits // 8):
            raise PtxError(
                f"{name} of {bits} bits: the address {address} must be a multiple of {bits // 8} bytes, but it is only proved to "
                f"be a multiple of {address.align_bytes} bytes"
            )
        return f"{name}.{address.space}{vector.suffix if bits >= 32 else f'.u{bits}'}", vector, address, mask

    def fragment(self, buffer: Buffer) -> list[Register]:
        """Return the registers of a local buffer. Registers have 64 bits for 64-bit elements, else 32 bits."""
        return self.bindings.fragment(self, buffer)

    def require(self, *, version: Version, why: str) -> None:
        """Require at least a PTX ISA version such as ``(8, 6)`` in the module's ``.version``. A comment states ``why``.

        Use it for requirements that do not follow from the instructions.
        """
        self.comment(f"PTX ISA {version[0]}.{version[1]}: {why}")
        self._required = merge(self._required, Needs(version=version))

    def once(self, key: Hashable, write: Callable[[PtxBuilder], None]) -> None:
        """Write instructions once at the start of the kernel, even if several copies need them.

        ``write`` is called for the first copy with a key, such as ``("my-package", map)``, and not for later ones. All threads of
        every CTA reach its instructions; use ``guard=`` or :meth:`if_` to restrict them. They may use parameters, ids and shared
        memory, but not loop indices. Raises PtxError if the copy is written into a function, whose start is not known.
        """
        if self.bindings.inlined:
            raise PtxError(
                "a copy that is exported as a function must not write to the start of the kernel; use the copy in a kernel"
            )
        if key in self._written_once:
            return
        self._written_once.add(key)
        around = self.blocks, self._bound, self._floor
        self.blocks, self._bound, self._floor = [self._start], {}, 0
        try:
            write(self)
        finally:
            self.blocks, self._bound, self._floor = around
        self._whole.follow(self._start)

    def host_parameter(self, recipe: Recipe) -> Register:
        """Return the generic address of a kernel parameter that the host computes at each launch, such as a tensor map.

        Equal recipes share one parameter. Raises TargetError if the target does not support the recipe's swizzle, and RequestError
        if the copy is written into a function that cannot have the parameter.
        """
        self._required = merge(self._required, recipe.needs_on(self.target))
        return self.bindings.host_parameter(self, recipe)
