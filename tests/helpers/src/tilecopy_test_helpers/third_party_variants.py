"""Two variants as third parties write them: one synchronous, one asynchronous, neither first-party."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tilecopy_core.plugin import (
    CopyRequest,
    Decline,
    PtxBuilder,
    Variant,
    Verdict,
    evaluate,
    hookimpl,
    is_multiple,
    m,
    structural_equal,
    valid_copy,
)
from tilecopy_partitions import (
    Side,
    VectorPartition,
    batches,
    by_descending_stride,
    first_failure,
    no_replica,
    read_local,
    refine,
    scope_in,
    slice_layout,
    whole_byte_elements,
    write_local,
)


@attrs.frozen
class Elements:
    """Element ``i`` goes to thread ``i % threads`` in round ``i // threads``."""

    count: int
    threads: int
    dst: Side
    src: Side

    @property
    def outer(self) -> int:
        """Rounds; in the last one some threads have nothing to do."""
        return -(-self.count // self.threads)

    def summary(self) -> str:
        """One line."""
        return f"{self.outer} rounds of {self.threads} single elements, {self.count} in all"

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[int, int]]:
        """Places of every element."""
        return [(_place(self.dst, i, values), _place(self.src, i, values)) for i in range(self.count)]


def _place(side: Side, element: int, values: Mapping[Any, int]) -> int:
    place = evaluate(side.layout.unswizzled.apply(element).get("m", 0), values)
    return int((place if side.swizzle is None else side.swizzle.apply(place)) + side.region.buffer.storage_offset)


class Elementwise:
    """copy -> elementwise: global <-> shared copies of any element count, one element a thread and round."""

    variant = Variant(
        name="elementwise",
        op="copy",
        priority=7,
        summary="any element count, one element a thread and round",
        spaces=(("global", "shared"), ("shared", "global")),
    )

    @hookimpl
    def tilecopy_predicate(self, request: CopyRequest) -> Verdict:
        """A table of checks."""
        scopes = scope_in("thread", "warp", "warpgroup", "cta")
        return first_failure(request, (scopes, valid_copy, whole_byte_elements, no_replica, _element_aligned))

    @hookimpl
    def tilecopy_partition(self, request: CopyRequest) -> Elements | Decline:
        """Both sides in logical order."""
        sides = []
        for operand, region in (("destination", request.dst), ("source", request.src)):
            cut = slice_layout(operand, region)
            if isinstance(cut, Decline):
                return cut
            sides.append(Side(region, cut))
        return Elements(request.dst.size, request.scope.threads, *sides)

    @hookimpl
    def tilecopy_emit(self, request: CopyRequest, partition: Elements, ptx: PtxBuilder) -> None:
        """A load and a store a round, guarded where the last round is not full."""
        thread = ptx.thread_index(request.scope)
        dtype = request.src.buffer.dtype
        for turn in range(partition.outer):
            element = turn * partition.threads + thread
            left = partition.count - turn * partition.threads
            if left >= partition.threads:
                self.move(ptx, partition, element, dtype.bits)
            else:
                with ptx.if_(ptx.predicate(thread < left)):
                    self.move(ptx, partition, element, dtype.bits)

    @staticmethod
    def move(ptx: PtxBuilder, partition: Elements, element: Any, bits: int) -> None:
        """One element."""
        src, dst = (
            ptx.address(side.region.buffer, side.layout.unswizzled.apply(element)["m"], side.swizzle)
            for side in (partition.src, partition.dst)
        )
        into = ptx.regs("b64", 1) if bits == 64 else None
        ptx.store(dst, bits, ptx.load(src, bits, into))


def _element_aligned(request: CopyRequest) -> str | None:
    for region in (request.dst, request.src):
        if region.buffer.align_bytes % region.buffer.dtype.bytes:
            return f"{region.buffer.name} is aligned to {region.buffer.align_bytes} bytes, less than an element"
    return None


@attrs.frozen
class Rows:
    """One bulk copy of ``nbytes`` a row."""

    nbytes: int
    rounds: VectorPartition

    def summary(self) -> str:
        """One line."""
        return f"{self.rounds.outer} bulk stores of {self.nbytes} bytes"


class BulkStore:
    """copy_async -> bulk_store: shared to global memory by ``cp.async.bulk``, completing by bulk groups."""

    variant = Variant(
        name="bulk_store",
        op="copy_async",
        priority=30,
        summary="bulk copies from shared to global memory; the caller commits and waits",
        spaces=(("shared", "global"),),
        features=("cp.async.bulk",),
        completion="bulk_group",
        threads="one",
    )

    @hookimpl
    def tilecopy_predicate(self, request: CopyRequest) -> Verdict:
        """A table of checks."""
        return first_failure(request, (valid_copy, whole_byte_elements, no_replica, _no_swizzle))

    @hookimpl
    def tilecopy_partition(self, request: CopyRequest) -> Rows | Decline:
        """The longest run that is contiguous on both sides, times the rest."""
        dst, src = slice_layout("destination", request.dst), slice_layout("source", request.src)
        if isinstance(dst, Decline):
            return dst
        if isinstance(src, Decline):
            return src
        pairs = refine(dst.shard, src.shard)
        if pairs is None:
            return Decline("destination and source cannot be split along common extents")
        ordered = by_descending_stride(pairs)
        size = request.src.buffer.dtype.bytes
        run = ordered[-1][0].extent if ordered and all(structural_equal(it.stride, 1) for it in ordered[-1]) else 1
        if run * size % 16:
            return Decline(f"the contiguous run is {run * size} bytes, not a multiple of 16")
        for region, layout, which in ((request.dst, dst, 0), (request.src, src, 1)):
            steps = [layout.offset_on(m), region.buffer.storage_offset, *(pair[which].stride for pair in ordered[:-1])]
            if region.buffer.align_bytes % 16 or not all(is_multiple(step * size, 16) for step in steps):
                return Decline(f"{region} does not begin, or step, by multiples of 16 bytes")
        sides = [
            Side(region, layout.with_iters([pair[which] for pair in ordered]))
            for region, layout, which in ((request.dst, dst, 0), (request.src, src, 1))
        ]
        return Rows(run * size, VectorPartition(request.src.size // run, 1, run, run * size * 8, *sides))

    @hookimpl
    def tilecopy_emit(self, request: CopyRequest, partition: Rows, ptx: PtxBuilder) -> None:
        """One bulk copy a row."""
        rounds = partition.rounds
        for batch in batches(ptx, rounds.outer, words_per_round=1):
            for turn in batch:
                dst, src = (
                    ptx.address(side.region.buffer, side.offset(turn, 0, rounds.shape))
                    for side in (rounds.dst, rounds.src)
                )
                ptx.instr("cp.async.bulk.global.shared::cta.bulk_group", dst, src, partition.nbytes)


def _no_swizzle(request: CopyRequest) -> str | None:
    for region in (request.dst, request.src):
        if region.buffer.layout.swizzle is not None:
            return f"{region.buffer.name} is swizzled, and bulk copies move bytes as they lie"
    return None


@attrs.frozen
class Registers:
    """``(source register, destination register)`` of each element."""

    pairs: tuple[tuple[int, int], ...]

    def summary(self) -> str:
        """One line."""
        return f"{len(self.pairs)} registers in each thread"

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[Any, Any]]:
        """Registers of the one thread."""
        return [((0, target), (0, source)) for source, target in self.pairs]


class Renamed:
    """copy -> renamed: between register fragments, where each thread has its elements already."""

    variant = Variant(
        name="renamed",
        op="copy",
        priority=3,
        summary="registers of one fragment to those of another, within each thread",
        spaces=(("local", "local"),),
    )

    @hookimpl
    def tilecopy_predicate(self, request: CopyRequest) -> Verdict:
        """A table of checks."""
        return first_failure(request, (scope_in("thread"), valid_copy, whole_byte_elements, no_replica))

    @hookimpl
    def tilecopy_partition(self, request: CopyRequest) -> Registers | Decline:
        """Both sides in logical order."""
        places = []
        for operand, region in (("source", request.src), ("destination", request.dst)):
            cut = slice_layout(operand, region)
            if isinstance(cut, Decline):
                return cut
            places.append([int(cut.apply(index).get("m", 0)) for index in range(region.size)])
        return Registers(tuple(zip(*places, strict=True)))

    @hookimpl
    def tilecopy_emit(self, request: CopyRequest, partition: Registers, ptx: PtxBuilder) -> None:
        """One move a register."""
        bits = request.src.buffer.dtype.bits
        for source, target in partition.pairs:
            write_local(ptx, request.dst.buffer, target, bits, read_local(ptx, request.src.buffer, source, bits))


elementwise = Elementwise()
renamed = Renamed()
bulk_store = BulkStore()
