"""The partition of a copy into contiguous chunks. One bulk copy instruction copies each chunk."""

from __future__ import annotations

from math import gcd

from tilecopy_core.integers import Int, divisor_of, is_multiple
from tilecopy_core.layout import Iter, Pair, TileLayout, m
from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Region, frozen, structural_equal
from tilecopy_core.ptx import Operand

from .round_loop import SideAddresses, round_indices
from .vector_partition import Side, VectorPartition, by_descending_stride, refine, slice_layout

ALIGN_BYTES = 16
"""The alignment of sizes and addresses of ``cp.async.bulk`` (PTX ISA 9.7.9.25.4.1)."""


@frozen
class ChunkPartition:
    """A frozen record of bulk copies of ``chunk_bytes`` bytes each. Each of the ``rounds`` is one bulk copy."""

    chunk_bytes: int
    rounds: VectorPartition

    @property
    def chunks(self) -> tuple[tuple[Int, Int], ...]:
        """The ``(destination, source)`` element offsets of each chunk, before swizzles are applied."""
        dst, src, shape = self.rounds.dst, self.rounds.src, self.rounds.shape
        return tuple((dst.offset(i, 0, shape), src.offset(i, 0, shape)) for i in range(self.rounds.outer))

    @property
    def instructions_per_thread(self) -> int:
        """The number of bulk copies that one thread issues."""
        return self.rounds.outer

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        count = self.rounds.outer
        return f"{count} bulk {'copy' if count == 1 else 'copies'} of {self.chunk_bytes} bytes"


def partition_chunks(request: CopyRequest) -> ChunkPartition | Decline:
    """Return the partition into the longest chunks contiguous in source and destination. Return Decline if none fits.

    A chunk is a multiple of 16 bytes, and so is every start and step on both sides.
    """
    dst, src = slice_layout("destination", request.dst), slice_layout("source", request.src)
    if isinstance(dst, Decline):
        return dst
    if isinstance(src, Decline):
        return src
    pairs = refine(dst.shard, src.shard)
    if pairs is None:
        return Decline(f"destination {dst} and source {src} must share a factorization of their extents")
    ordered = by_descending_stride(pairs)
    chunk, plain = _chunk_elems(dst, src, ordered)
    nbytes = chunk * request.src.buffer.dtype.bytes
    if nbytes % ALIGN_BYTES:
        return Decline(
            f"the contiguous chunk must be a multiple of {ALIGN_BYTES} bytes for cp.async.bulk, got {nbytes} bytes "
            f"({chunk} elements; destination {dst}, source {src})"
        )
    sides = []
    for n, (what, region, layout) in enumerate((("destination", request.dst, dst), ("source", request.src, src))):
        iters = [pair[n] for pair in ordered]
        if why := _why_misaligned(what, region, layout, iters):
            return Decline(why)
        sides.append(Side(region, (layout.unswizzled if plain else layout).with_iters(iters)))
    rounds = VectorPartition(request.src.size // chunk, 1, chunk, nbytes * 8, sides[0], sides[1])
    return ChunkPartition(nbytes, rounds)


def emit_chunks(ptx: PtxBuilder, partition: ChunkPartition, opcode: str, *operands: Operand) -> None:
    """Emit one bulk copy per chunk, without a wait. ``operands`` follow the addresses and the size in each instruction."""
    rounds = partition.rounds
    dst, src = (SideAddresses(ptx, side, rounds, 0) for side in (rounds.dst, rounds.src))
    for turn in round_indices(ptx, rounds.outer):
        ptx.instr(opcode, dst.address(turn), src.address(turn), partition.chunk_bytes, *operands)


def bulk_destination(ptx: PtxBuilder) -> str:
    """Return the destination's state space for bulk and tensor loads to the shared memory of the executing CTA.

    From sm_120 on, ptxas compiles ``shared::cluster`` to a call (``__cuda_syscall_...``) and ``shared::cta`` to an
    instruction. ``shared::cta`` needs ``.version`` 8.6, so older targets use ``shared::cluster``.
    """
    return "shared::cta" if ptx.target.arch >= 120 else "shared::cluster"


def _chunk_elems(dst: TileLayout, src: TileLayout, ordered: list[Pair]) -> tuple[int, bool]:
    """Return the elements of a chunk, and whether swizzles do not matter (none, or the same at the same phase).

    A swizzle permutes blocks of ``2**(M + B)`` elements within themselves. Whole blocks at equal phase are the same
    bytes on both sides; anything else is taken apart into pieces of the runs of ``2**M`` elements, each at its own
    address: a piece never crosses a run, so what the starts and steps are multiples of bounds it too.
    """
    run = ordered[-1][0].extent if ordered and all(structural_equal(it.stride, 1) for it in ordered[-1]) else 1
    starts = (dst.offset_on(m), src.offset_on(m))
    if dst.swizzle == src.swizzle:
        period, block = (dst.swizzle.period_elems, dst.swizzle.block_elems) if dst.swizzle is not None else (1, 1)
        phases_equal = is_multiple(starts[0] - starts[1], period) and all(
            is_multiple(a.stride - b.stride, period) for a, b in ordered
        )
        steps = [it.stride for pair in ordered[:-1] for it in pair]
        if phases_equal and run % block == 0 and all(is_multiple(value, block) for value in (*starts, *steps)):
            return run, True
    chunk = run
    for n, layout in enumerate((dst, src)):
        if layout.swizzle is not None:
            steps = [pair[n].stride for pair in ordered[:-1]]
            chunk = gcd(chunk, layout.swizzle.chunk_elems, divisor_of(starts[n]), *map(divisor_of, steps))
    return chunk, False


def _why_misaligned(what: str, region: Region, layout: TileLayout, iters: list[Iter]) -> str | None:
    """Return why a start or an outer step is not a multiple of 16 bytes, or None."""
    buffer, size = region.buffer, region.buffer.dtype.bytes
    if buffer.align_bytes % ALIGN_BYTES:
        return f"{what} {buffer.name} must be aligned to {ALIGN_BYTES} bytes for bulk copies, got {buffer.align_bytes} bytes"
    for name, value in (("start", layout.offset_on(m)), ("buffer's storage offset", buffer.storage_offset)):
        if not is_multiple(value * size, ALIGN_BYTES):
            known = divisor_of(value) * size
            return f"{what} {region}: the {name} must be a multiple of {ALIGN_BYTES} bytes for bulk copies, got a multiple of {known} bytes"
    for it in iters[:-1]:
        if not is_multiple(it.stride * size, ALIGN_BYTES):
            return f"{what} {region}: each stride must be a multiple of {ALIGN_BYTES} bytes, got a stride of {it.stride} {buffer.dtype} elements"
    return None
