"""The shared memory of a kernel: the offset of each buffer, and registers that hold buffer addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tilecopy_core.description import Target
from tilecopy_core.errors import PtxError, frozen
from tilecopy_core.memory import Buffer, Memory
from tilecopy_core.ptx import Bindings, Emitter, Register, Written, pure_once

POOL = "smem_pool"
_STATIC_LIMIT_BYTES = 48 * 1024
"""The most shared memory that a module may declare statically (PTX ISA; larger needs ``.extern`` and an opt-in)."""


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
        """Place buffers in order at aligned byte offsets. Raise PtxError if they exceed the target's shared memory."""
        offsets: dict[Memory, int] = {}
        end = 0
        for buffer in buffers:
            offsets[buffer.memory] = -(-end // buffer.align_bytes) * buffer.align_bytes
            end = offsets[buffer.memory] + buffer.span_bytes
        limit = target.shared_limit_bytes
        if end > limit:
            sizes = ", ".join(f"{b.name}: {b.span_bytes}" for b in buffers)
            raise PtxError(f"shared memory must be at most {limit} bytes on {target}, got {end} bytes ({sizes})")
        return cls({b.memory: b for b in buffers}, offsets, end, end > _STATIC_LIMIT_BYTES)


@attrs.define(slots=False, eq=False, repr=False)
class KernelBindings(Bindings):
    """The register bindings of a kernel, with the offsets of shared buffers."""

    shared: SharedPlan = attrs.field(kw_only=True)

    def shared_base(self, emitter: Emitter, buffer: Buffer) -> Register:
        """Return the register that holds a shared buffer's address. Raise PtxError if the kernel lacks the buffer."""
        shared, root = self.shared, emitter.blocks[0]
        if buffer.memory not in shared.buffers:
            raise PtxError(f"the shared buffer {buffer.name} must be declared by this kernel")
        if not shared.dynamic:
            return super().shared_base(emitter, buffer)
        start = shared.offsets[buffer.memory]
        base = pure_once(emitter, root, ("variable", buffer.memory), "mov.u32", "b32", Written(POOL))
        return pure_once(emitter, root, ("shared", buffer.memory), "add.s32", "b32", base, start) if start else base
