"""Contiguous chunks of a shared-to-shared copy."""

from __future__ import annotations

from math import gcd

import attrs

from tilecopy_core import CopyRequest, Decline, Int, Iter, Region, Swizzle, TileLayout, m
from tilecopy_core.expr import divisor_of, is_multiple, same
from tilecopy_core.partition import Side, VectorPartition, by_descending_stride, refine, sliced
from tilecopy_core.ptx import MBARRIER_TX_LIMIT

ALIGN_BYTES = 16
"""Size and addresses of ``cp.async.bulk`` are multiples of this (PTX ISA 9.7.9.25.4.1)."""


@attrs.frozen
class ChunkPartition:
    """One bulk copy a chunk.

    Attributes:
        chunk_bytes: bytes of a chunk.
        rounds: the chunks as ``[outer, 1, elements of a chunk]``.
    """

    chunk_bytes: int
    rounds: VectorPartition

    @property
    def chunks(self) -> tuple[tuple[Int, Int], ...]:
        """``(destination, source)`` element offset of each chunk before a swizzle, one for each bulk copy."""
        shape = self.rounds.shape
        return tuple(
            (self.rounds.dst.offset(i, 0, shape), self.rounds.src.offset(i, 0, shape)) for i in range(self.rounds.outer)
        )

    def summary(self) -> str:
        """One line for ``plan.explain()``."""
        return f"{self.rounds.outer} bulk copies of {self.chunk_bytes} bytes"


def chunk_partition(request: CopyRequest) -> ChunkPartition | Decline:
    """The longest chunk that is contiguous on both sides, times a loop over the other extents."""
    cuts = [sliced(what, region) for what, region in (("destination", request.dst), ("source", request.src))]
    for cut in cuts:
        if isinstance(cut, Decline):
            return cut
    (dst, dst_swizzle), (src, src_swizzle) = cuts  # type: ignore[misc]
    pairs = refine(dst.shard, src.shard)
    if pairs is None:
        return Decline(f"destination {dst} and source {src} cannot be split along common extents")
    ordered = by_descending_stride(pairs)
    size = request.src.buffer.dtype.bytes
    run = ordered[-1][0].extent if ordered and all(same(it.stride, 1) for it in ordered[-1]) else 1
    chunk, plain = _chunk_elems(run, dst, src, dst_swizzle, src_swizzle, ordered)
    if chunk * size < ALIGN_BYTES or chunk * size % ALIGN_BYTES:
        return Decline(
            f"the contiguous chunk is {chunk * size} bytes ({chunk} elements); cp.async.bulk needs a multiple of "
            f"{ALIGN_BYTES} (destination {dst}, source {src})"
        )
    if request.src.nbytes > MBARRIER_TX_LIMIT:
        return Decline(
            f"{request.src.nbytes} bytes complete on one mbarrier phase, which counts at most {MBARRIER_TX_LIMIT}"
        )
    for position, (what, region, tile) in enumerate((("destination", request.dst, dst), ("source", request.src, src))):
        why = _why_misaligned(what, region, tile, [pair[position] for pair in ordered], chunk)
        if why is not None:
            return Decline(why)
    sides = [
        Side(region, TileLayout.of([pair[position] for pair in ordered], (), tile.spec.offset), swizzle)
        for position, (region, tile, swizzle) in enumerate(
            ((request.dst, dst, None if plain else dst_swizzle), (request.src, src, None if plain else src_swizzle))
        )
    ]
    rounds = VectorPartition(request.src.size // chunk, 1, chunk, chunk * size * 8, sides[0], sides[1])
    return ChunkPartition(chunk * size, rounds)


def _chunk_elems(
    run: int,
    dst: TileLayout,
    src: TileLayout,
    dst_swizzle: Swizzle | None,
    src_swizzle: Swizzle | None,
    ordered: list[tuple[Iter, Iter]],
) -> tuple[int, bool]:
    """Elements of a chunk, and whether bytes move as they lie (no swizzle, or the same one at the same phase).

    A swizzle permutes blocks of ``2**(M + B)`` elements within themselves. Whole blocks at equal phase are the same
    bytes on both sides; anything else is taken apart into runs of ``2**M`` elements, each at its own address.
    """
    if dst_swizzle is None and src_swizzle is None:
        return run, True
    if dst_swizzle == src_swizzle and dst_swizzle is not None:
        block = dst_swizzle.chunk_elems * 2**dst_swizzle.swizzle_len
        starts = (dst.offset_on(m), src.offset_on(m))
        phases_equal = is_multiple(starts[0] - starts[1], dst_swizzle.period_elems) and all(
            is_multiple(a.stride - b.stride, dst_swizzle.period_elems) for a, b in ordered
        )
        steps = [it.stride for pair in ordered[:-1] for it in pair]
        if phases_equal and run % block == 0 and all(is_multiple(value, block) for value in (*starts, *steps)):
            return run, True
    chunks = [swizzle.chunk_elems for swizzle in (dst_swizzle, src_swizzle) if swizzle is not None]
    return gcd(run, *chunks), False


def _why_misaligned(what: str, region: Region, tile: TileLayout, iters: list[Iter], chunk: int) -> str | None:
    """Starts and outer steps are multiples of 16 bytes on both sides."""
    size, buffer = region.buffer.dtype.bytes, region.buffer
    if buffer.align_bytes % ALIGN_BYTES:
        return f"{what} {buffer.name} is aligned to {buffer.align_bytes} bytes; bulk copies need {ALIGN_BYTES}"
    for name, value in (("start", tile.offset_on(m)), ("buffer's own start", buffer.elem_offset)):
        if not is_multiple(value * size, ALIGN_BYTES):
            return (
                f"{what} {region}: the {name} is at a multiple of {divisor_of(value) * size} bytes; bulk copies need "
                f"{ALIGN_BYTES}"
            )
    for it in iters[:-1]:
        if not is_multiple(it.stride * size, ALIGN_BYTES):
            return f"{what} {region}: a step of {it.stride} elements is not a multiple of {ALIGN_BYTES} bytes"
    return None
