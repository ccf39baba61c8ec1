"""The variant bulk of copy_async. It issues bulk copies from global to shared memory that complete on an mbarrier."""

from __future__ import annotations

import attrs

from tilecopy_core.plugin import (
    Buffer,
    CopyRequest,
    Decline,
    Option,
    PtxBuilder,
    Region,
    Variant,
    Verdict,
    frozen,
    hookimpl,
    valid_copy,
)
from tilecopy_partitions import (
    ChunkPartition,
    SideAddresses,
    VectorPartition,
    bulk_destination,
    emit_chunks,
    first_failure,
    fits_one_phase,
    mbarrier_of,
    no_replica,
    one_mbarrier,
    partition_chunks,
    round_indices,
    whole_byte_elements,
)

variant = Variant(
    name="bulk",
    op="copy_async",
    priority=10,
    summary="global to shared memory by bulk copies; completes on an mbarrier",
    spaces=(("global", "shared"),),
    features=("cp.async.bulk",),
    options=(
        Option("mbar", (Region, Buffer), "one mbarrier of the CTA, such as mbar[0]", required="in a kernel"),
        Option("prefetch", (Region,), "a global region to prefetch into L2, with the copy's dtype and extents"),
    ),
    completion="mbarrier",
    completion_steps=(
        "before the copy: call fence_proxy_async() in the threads that wrote the destination, then put a barrier",
        "call arrive_expect_tx(bytes of all copies) on mbar in one thread of the CTA",
        "call wait(phase) on mbar in every thread that reads the data",
    ),
    threads="one",
)


def prefetch_copy(request: CopyRequest) -> CopyRequest | None:
    """Return a copy request whose source is the region of option ``prefetch``. Return None without the option."""
    region = request.options.get("prefetch")
    return None if region is None else attrs.evolve(request, src=region)


def prefetch_fits(request: CopyRequest) -> str | None:
    """Check that the region of option ``prefetch`` could be the source of a later copy to the same destination."""
    later = prefetch_copy(request)
    if later is None:
        return None
    if later.spaces != request.spaces:
        return f"option prefetch must be a region of global memory, got {later.src} in {later.src.buffer.space} memory"
    why = valid_copy(later)
    return why and f"option prefetch: {why}"


PREDICATE = (valid_copy, whole_byte_elements, no_replica, one_mbarrier, fits_one_phase, prefetch_fits)
"""The checks for rules that the record does not declare; each returns a reason to decline, or None."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, PREDICATE)


@frozen
class BulkPartition:
    """A frozen record of the bulk copies of a request, and of the L2 prefetches for a later copy.

    Attributes:
        copies: the bulk copies.
        prefetches: the copies whose sources are prefetched into L2, or None without the option.
    """

    copies: ChunkPartition
    prefetches: ChunkPartition | None

    @property
    def rounds(self) -> VectorPartition:
        """The partition of the bulk copies, with shape ``[outer, 1, elements per chunk]``."""
        return self.copies.rounds

    @property
    def instructions_per_thread(self) -> int:
        """The number of bulk copies and prefetches that one thread issues."""
        return self.rounds.outer + (self.prefetches.rounds.outer if self.prefetches else 0)

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        prefetched = f", prefetches of {self.prefetches.chunk_bytes} bytes" if self.prefetches else ""
        return self.copies.summary() + prefetched


@hookimpl
def tilecopy_partition(request: CopyRequest) -> BulkPartition | Decline:
    """Return the partition into the longest chunks that are contiguous in source and destination."""
    copies, later = partition_chunks(request), prefetch_copy(request)
    if isinstance(copies, Decline):
        return copies
    prefetches = None if later is None else partition_chunks(later)
    return prefetches if isinstance(prefetches, Decline) else BulkPartition(copies, prefetches)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: BulkPartition, ptx: PtxBuilder) -> None:
    """Emit one bulk copy per chunk, without a wait."""
    mbar = mbarrier_of(request)
    assert mbar is not None
    opcode = f"cp.async.bulk.{bulk_destination(ptx)}.global.mbarrier::complete_tx::bytes"
    emit_chunks(ptx, partition.copies, opcode, ptx.element(mbar))
    if partition.prefetches is not None:
        rounds = partition.prefetches.rounds
        src = SideAddresses(ptx, rounds.src, rounds, 0)
        for turn in round_indices(ptx, rounds.outer):
            ptx.instr("cp.async.bulk.prefetch.L2.global", src.address(turn), partition.prefetches.chunk_bytes)
