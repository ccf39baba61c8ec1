"""Bindings provide the registers that hold addresses, symbol values and fragments for a copy's instructions.

A tilecopy kernel binds buffers to parameters and shared variables, and symbols to special registers and parameters. A copy
that is written into a function of another language has its own bindings.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Protocol

import attrs

from ..description.target import Target
from ..errors import PtxError
from ..integers.expr import Symbol
from ..memory.buffers import Buffer, Memory
from .emitter import Emitter, pure_once
from .instructions import Needs
from .operands import Register, Written


class Recipe(Hashable, Protocol):
    """A frozen description of a kernel parameter that each launch computes, such as a tensor map."""

    @property
    def parameter_stem(self) -> str:
        """The prefix of the parameter's name."""

    @property
    def size_bytes(self) -> int:
        """The size of the parameter in bytes."""

    @property
    def align_bytes(self) -> int:
        """The alignment of the parameter's address in bytes."""

    def needs_on(self, target: Target) -> Needs:
        """Return the PTX version and target that the parameter requires. Raises TargetError if a feature is missing."""


@attrs.define(slots=False, eq=False, repr=False)
class Bindings:
    """The registers of a kernel's parameters, shared variables, symbols and fragments, valid in the whole kernel.

    A function of another language has its own methods. The names of registers begin with ``mark``, because a compiler may call its
    registers ``%r0``. In an ``inlined`` text, fragments hold values before the first instruction, which must be kept, and branches
    would prevent the compiler from moving the code around the copy.

    Attributes:
        scalars: the parameter of each symbol that is one, as ``(name, register type)``.
        cluster: CTAs of a cluster of the kernel; None where its launch says that.
        host_parameters: the name of the parameter of each recipe that was asked for, in order.
    """

    mark: ClassVar[str] = "%"
    inlined: ClassVar[bool] = False
    scalars: dict[Symbol, tuple[str, str]] = attrs.field(factory=dict)
    cluster: int | None = None
    host_parameters: dict[Recipe, str] = attrs.field(factory=dict, init=False)
    _fragments: dict[Memory, list[Register]] = attrs.field(factory=dict, init=False)

    def pointer(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register of a global buffer's 64-bit address. The parameter's address is converted once."""
        root, place = emitter.blocks[0], Written(f"[param_{buffer.name}]")
        loaded = pure_once(emitter, root, ("param", buffer.memory), "ld.param.u64", "b64", place)
        return pure_once(emitter, root, ("pointer", buffer.memory), "cvta.to.global.u64", "b64", loaded)

    def shared_base(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register that holds the 32-bit address of a shared buffer's variable ``smem_NAME``."""
        variable = Written(f"smem_{buffer.name}")
        return pure_once(emitter, emitter.blocks[0], ("variable", buffer.memory), "mov.u32", "b32", variable)

    def symbol(self, emitter: Emitter, symbol: Symbol) -> Register:
        """Return the register that holds a symbol's value. Raises PtxError outside the symbol's loop or kernel."""
        root = emitter.blocks[0]
        if symbol.register:
            return pure_once(emitter, root, ("special", symbol.register), "mov.u32", "b32", Written(symbol.register))
        if symbol in self.scalars:
            name, type = self.scalars[symbol]
            return pure_once(emitter, root, ("scalar", symbol), f"ld.param.{type}", type, Written(f"[param_{name}]"))
        raise PtxError(f"the symbol {symbol.name} is valid only inside the loop or kernel that defines it")

    def fragment(self, emitter: Emitter, buffer: Buffer) -> list[Register]:
        """Return the registers of a local buffer. Registers have 64 bits for 64-bit elements, else 32 bits.

        They are created at the first use of its memory. A view uses those that it spans.
        """
        memory, word = buffer.memory, buffer.memory.word_bits
        if memory not in self._fragments:
            self._fragments[memory] = emitter.regs(f"b{word}", -(-memory.span_bytes * 8 // word))
        return self._fragments[memory][: -(-buffer.span_elems * buffer.dtype.bits // word)]

    def host_parameter(self, emitter: Emitter, recipe: Recipe) -> Register:
        """Return the address of the kernel parameter that ``recipe`` describes. Equal recipes share a parameter."""
        if recipe not in self.host_parameters:
            self.host_parameters[recipe] = f"{recipe.parameter_stem}{len(self.host_parameters)}"
        name, root = f"param_{self.host_parameters[recipe]}", emitter.blocks[0]
        place = pure_once(emitter, root, ("place", name), "mov.b64", "b64", Written(name))
        return pure_once(emitter, root, ("generic", name), "cvta.param.u64", "b64", place)
