"""Bindings: the registers that hold the addresses, symbols and fragments of a copy's instructions.

A tilecopy kernel binds buffers to parameters and shared variables, and symbols to special registers and parameters. A copy
that is written into a function of another language has its own bindings.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import attrs

from ..description.target import STATIC_SHARED_LIMIT_BYTES, Target
from ..errors import PtxError
from ..errors.attrs_classes import frozen
from ..integers.expr import Symbol
from ..memory.buffers import Buffer, Memory
from .emitter import Emitter, pure_once
from .instructions import Needs
from .operands import Register, Written

POOL = "smem_pool"


class Recipe(Hashable, Protocol):
    """A frozen description of a kernel parameter that each launch computes, such as a tensor map."""

    @property
    def parameter_stem(self) -> str:
        """The prefix of the parameter's name."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes of the parameter."""

    @property
    def align_bytes(self) -> int:
        """The alignment of the parameter's address."""

    def needs_on(self, target: Target) -> Needs:
        """Return what the parameter requires on a target. Raises TargetError if the target does not support it."""


class Bindings(Protocol):
    """The protocol of bindings. Every register that they return is valid in the whole kernel or function.

    The names of registers begin with ``mark``, which differs from ``%`` inside the text of a compiler whose registers are
    called ``%r0``. ``inlined`` says that the text is part of another function: fragments hold values before the first
    instruction, which must be kept, and branches would prevent the compiler from moving the code around the copy.
    """

    mark: str
    inlined: bool

    def pointer(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register that holds a global buffer's 64-bit address."""

    def shared_base(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register that holds a shared buffer's 32-bit address."""

    def symbol(self, emitter: Emitter, symbol: Symbol) -> Register:
        """Return the register that holds a symbol's value. The symbol must not be a loop index."""

    def fragment(self, emitter: Emitter, buffer: Buffer) -> list[Register]:
        """Return the registers that hold the span of a local buffer, in words of 32 bits (64 for 64-bit elements)."""


@frozen(eq=False)
class SharedPlan:
    """A frozen record of a kernel's shared memory: the buffers in order, and the byte offset of each buffer.

    ``size_bytes`` is the shared memory of the CTA, including alignment gaps. ``dynamic`` says whether the buffers are in a
    dynamic pool, because they exceed the static limit of 48 KiB.
    """

    buffers: Mapping[Memory, Buffer]
    offsets: Mapping[Memory, int]
    size_bytes: int
    dynamic: bool

    @classmethod
    def of(cls, buffers: Sequence[Buffer], target: Target) -> SharedPlan:
        """Place buffers in order at aligned offsets, and return the record. Raises PtxError if they exceed the target's limit."""
        offsets: dict[Memory, int] = {}
        end = 0
        for buffer in buffers:
            offsets[buffer.memory] = -(-end // buffer.align_bytes) * buffer.align_bytes
            end = offsets[buffer.memory] + buffer.span_bytes
        limit = target.shared_limit_bytes
        if end > limit:
            sizes = ", ".join(f"{b.name} {b.span_bytes}" for b in buffers)
            raise PtxError(f"shared memory must be at most {limit} bytes on {target}, got {end} ({sizes})")
        return cls({b.memory: b for b in buffers}, offsets, end, end > STATIC_SHARED_LIMIT_BYTES)


@attrs.define(slots=False, eq=False)
class KernelBindings:
    """Bindings of a kernel to parameters, shared variables, special registers, and virtual registers for fragments.

    Attributes:
        scalars: the parameter of each symbol that is one, as ``(name, register type)``.
        cluster: CTAs of a cluster of the kernel; None where its launch says that.
        host_parameters: the name of the parameter of each recipe that was asked for, in order.
    """

    mark = "%"
    inlined = False
    shared: SharedPlan
    _scalars: dict[Symbol, tuple[str, str]] = attrs.field(factory=dict)
    cluster: int | None = None
    host_parameters: dict[Recipe, str] = attrs.field(factory=dict, init=False)
    _fragments: dict[Memory, list[Register]] = attrs.field(factory=dict, init=False)

    def pointer(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register that holds a buffer's global address, converted once from the kernel parameter."""
        root, place = emitter.blocks[0], Written(f"[param_{buffer.name}]")
        loaded = pure_once(emitter, root, ("param", buffer.memory), "ld.param.u64", "b64", place)
        return pure_once(emitter, root, ("pointer", buffer.memory), "cvta.to.global.u64", "b64", loaded)

    def shared_base(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register that holds a shared buffer's address. Raises PtxError for a buffer of another kernel."""
        shared, root = self.shared, emitter.blocks[0]
        if buffer.memory not in shared.buffers:
            raise PtxError(f"the shared buffer {buffer.name} must be declared by this kernel, but it is not")
        variable, start = (POOL, shared.offsets[buffer.memory]) if shared.dynamic else (f"smem_{buffer.name}", 0)
        base = pure_once(emitter, root, ("variable", buffer.memory), "mov.u32", "b32", Written(variable))
        return pure_once(emitter, root, ("shared", buffer.memory), "add.s32", "b32", base, start) if start else base

    def symbol(self, emitter: Emitter, symbol: Symbol) -> Register:
        """Return the register that holds a symbol's value. Raises PtxError for a symbol of a closed loop or of another kernel."""
        root = emitter.blocks[0]
        if symbol.register:
            return pure_once(emitter, root, ("special", symbol.register), "mov.u32", "b32", Written(symbol.register))
        if symbol in self._scalars:
            name, type = self._scalars[symbol]
            return pure_once(emitter, root, ("scalar", symbol), f"ld.param.{type}", type, Written(f"[param_{name}]"))
        raise PtxError(f"the symbol {symbol.name} is used outside the loop or kernel that it belongs to")

    def fragment(self, emitter: Emitter, buffer: Buffer) -> list[Register]:
        """Return the virtual registers of a buffer, created at the first use of its memory. A view uses those that it spans."""
        memory, word = buffer.memory, buffer.memory.word_bits
        if memory not in self._fragments:
            self._fragments[memory] = emitter.regs(f"b{word}", -(-memory.span_bytes * 8 // word))
        return self._fragments[memory][: -(-buffer.span_elems * buffer.dtype.bits // word)]

    def host_parameter(self, emitter: Emitter, recipe: Recipe) -> Register:
        """Add a kernel parameter after the caller's parameters, and return its address. Equal recipes share one parameter."""
        if recipe not in self.host_parameters:
            self.host_parameters[recipe] = f"{recipe.parameter_stem}{len(self.host_parameters)}"
        name, root = f"param_{self.host_parameters[recipe]}", emitter.blocks[0]
        place = pure_once(emitter, root, ("place", name), "mov.b64", "b64", Written(name))
        return pure_once(emitter, root, ("generic", name), "cvta.param.u64", "b64", place)
