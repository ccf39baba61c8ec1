"""Where addresses, symbols and fragments come from: the seam between a copy's instructions and what is around it.

A kernel of ours binds buffers to parameters and shared variables, symbols to special registers and parameters. A copy
that is written into something else (a function of another language) brings bindings of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import attrs

from ..description.target import STATIC_SHARED_LIMIT_BYTES, Target
from ..errors import PtxError
from ..errors.records import frozen
from ..integers.expr import Symbol
from ..memory.buffers import Buffer, Memory
from .emitter import Emitter, pure_once
from .instructions import Needs
from .operands import Register, Written

POOL = "smem_pool"


class Recipe(Hashable, Protocol):
    """How a launch makes the bytes of a parameter: frozen data, such as a tensor map."""

    @property
    def parameter_stem(self) -> str:
        """Return how the name of the parameter begins."""

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the parameter."""

    @property
    def align_bytes(self) -> int:
        """Return what the address of the parameter is a multiple of."""

    def needs_on(self, target: Target) -> Needs:
        """Return what the parameter needs of a target; raises TargetError where the target lacks it."""


class Bindings(Protocol):
    """What the index arithmetic asks for; every register is valid in the whole kernel or function.

    The names of registers begin with ``mark``: another one than ``%`` inside the text of a compiler whose registers are
    called ``%r0``. ``inlined`` says that the text is part of somebody's function: fragments hold values before the
    first instruction, which must be kept, and a branch would keep a compiler from moving what surrounds it.
    """

    mark: str
    inlined: bool

    def pointer(self, emitter: Emitter, buffer: Buffer) -> Register:
        """The 64-bit address of a global buffer."""

    def shared_base(self, emitter: Emitter, buffer: Buffer) -> Register:
        """The 32-bit address of a shared buffer."""

    def symbol(self, emitter: Emitter, symbol: Symbol) -> Register:
        """The register of a symbol that no loop binds."""

    def fragment(self, emitter: Emitter, buffer: Buffer) -> list[Register]:
        """The registers of a local buffer: its span, packed into words of 32 bits (64 for elements of 64)."""


@frozen(eq=False)
class SharedPlan:
    """Where the shared buffers of a kernel lie: in order, by their memory, with the start of each in the pool in bytes.

    ``size_bytes`` is the shared memory of the CTA, alignment gaps included. ``dynamic`` says whether they lie in one
    dynamic pool (more than the static limit of 48 KiB).
    """

    buffers: Mapping[Memory, Buffer]
    offsets: Mapping[Memory, int]
    size_bytes: int
    dynamic: bool

    @classmethod
    def of(cls, buffers: Sequence[Buffer], target: Target) -> SharedPlan:
        """Buffers one after the other, each at its alignment; a PtxError where a block of the target has less memory."""
        offsets: dict[Memory, int] = {}
        end = 0
        for buffer in buffers:
            offsets[buffer.memory] = -(-end // buffer.align_bytes) * buffer.align_bytes
            end = offsets[buffer.memory] + buffer.span_bytes
        limit = target.shared_limit_bytes
        if end > limit:
            sizes = ", ".join(f"{b.name} {b.span_bytes}" for b in buffers)
            raise PtxError(f"{end} bytes of shared memory ({sizes}) are more than the {limit} of {target}")
        return cls({b.memory: b for b in buffers}, offsets, end, end > STATIC_SHARED_LIMIT_BYTES)


@attrs.define(slots=False, eq=False)
class KernelBindings:
    """Bindings of a kernel: parameters, shared variables, special registers, virtual registers for fragments.

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
        """A parameter, converted to a global address once."""
        root, place = emitter.blocks[0], Written(f"[param_{buffer.name}]")
        loaded = pure_once(emitter, root, ("param", buffer.memory), "ld.param.u64", "b64", place)
        return pure_once(emitter, root, ("pointer", buffer.memory), "cvta.to.global.u64", "b64", loaded)

    def shared_base(self, emitter: Emitter, buffer: Buffer) -> Register:
        """A shared variable, or its place in the dynamic pool; a PtxError if the kernel has no such buffer."""
        shared, root = self.shared, emitter.blocks[0]
        if buffer.memory not in shared.buffers:
            raise PtxError(f"the shared buffer {buffer.name} does not belong to this kernel")
        variable, start = (POOL, shared.offsets[buffer.memory]) if shared.dynamic else (f"smem_{buffer.name}", 0)
        base = pure_once(emitter, root, ("variable", buffer.memory), "mov.u32", "b32", Written(variable))
        return pure_once(emitter, root, ("shared", buffer.memory), "add.s32", "b32", base, start) if start else base

    def symbol(self, emitter: Emitter, symbol: Symbol) -> Register:
        """A special register or a scalar parameter; a PtxError if it belongs to a loop or kernel that is closed."""
        root = emitter.blocks[0]
        if symbol.register:
            return pure_once(emitter, root, ("special", symbol.register), "mov.u32", "b32", Written(symbol.register))
        if symbol in self._scalars:
            name, type = self._scalars[symbol]
            return pure_once(emitter, root, ("scalar", symbol), f"ld.param.{type}", type, Written(f"[param_{name}]"))
        raise PtxError(f"the symbol {symbol.name} has no value here: it belongs to a loop or kernel that is closed")

    def fragment(self, emitter: Emitter, buffer: Buffer) -> list[Register]:
        """Virtual registers, new at the first use of their memory; a view has those that it spans."""
        memory, word = buffer.memory, buffer.memory.word_bits
        if memory not in self._fragments:
            self._fragments[memory] = emitter.regs(f"b{word}", -(-memory.span_bytes * 8 // word))
        return self._fragments[memory][: -(-buffer.span_elems * buffer.dtype.bits // word)]

    def host_parameter(self, emitter: Emitter, recipe: Recipe) -> Register:
        """A parameter of the kernel behind those of the caller; equal recipes share one."""
        if recipe not in self.host_parameters:
            self.host_parameters[recipe] = f"{recipe.parameter_stem}{len(self.host_parameters)}"
        name, root = f"param_{self.host_parameters[recipe]}", emitter.blocks[0]
        place = pure_once(emitter, root, ("place", name), "mov.b64", "b64", Written(name))
        return pure_once(emitter, root, ("generic", name), "cvta.param.u64", "b64", place)
