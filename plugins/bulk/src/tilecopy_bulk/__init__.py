"""copy_async -> bulk: from global to shared memory by bulk copies; they complete on an mbarrier."""

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
    first_failure,
    fits_one_phase,
    frozen,
    hookimpl,
    mbarrier_of,
    no_replica,
    one_mbarrier,
    valid_copy,
    whole_byte_elements,
)
from tilecopy_partitions import (
    ChunkPartition,
    SideAddresses,
    VectorPartition,
    emit_chunks,
    partition_chunks,
    round_indices,
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
        Option("prefetch", (Region,), "a global region of the copy's dtype and extents that comes to L2 meanwhile"),
    ),
    completion="mbarrier",
    completion_steps=(
        "before: fence_proxy_async() by threads that wrote the destination, then a barrier",
        "arrive_expect_tx(bytes of all copies) on mbar, by one thread of the CTA",
        "wait(phase) on mbar, by every thread that reads",
    ),
    threads="one",
)


def ahead_of(request: CopyRequest) -> CopyRequest | None:
    """The copy that option ``prefetch`` is for, which comes later; None where it is left out."""
    region = request.options.get("prefetch")
    return None if region is None else attrs.evolve(request, src=region)


def prefetch_fits(request: CopyRequest) -> str | None:
    """Option ``prefetch`` could be the source of such a copy."""
    ahead = ahead_of(request)
    if ahead is None:
        return None
    if ahead.spaces != request.spaces:
        return f"option prefetch is a region of global memory, not {ahead.src} in {ahead.src.buffer.space} memory"
    why = valid_copy(ahead)
    return why and f"option prefetch: {why}"


PREDICATE = (
    valid_copy,
    whole_byte_elements,
    no_replica,
    one_mbarrier,
    fits_one_phase,
    prefetch_fits,
)
"""What the record does not declare. Each check gives a reason to decline, or None."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """The table, row by row."""
    return first_failure(request, PREDICATE)


@frozen
class Load:
    """What is copied, and what is fetched ahead.

    Attributes:
        copies: the bulk copies.
        ahead: the prefetches, as the copies that they are for; None without the option.
    """

    copies: ChunkPartition
    ahead: ChunkPartition | None

    @property
    def rounds(self) -> VectorPartition:
        """The copies as ``[outer, 1, elements of a chunk]``."""
        return self.copies.rounds

    @property
    def instructions_per_thread(self) -> int:
        """Bulk copies and prefetches that the one thread issues."""
        return self.rounds.outer + (self.ahead.rounds.outer if self.ahead else 0)

    def summary(self) -> str:
        """One line for ``plan.explain()``."""
        return self.copies.summary() + (f", prefetches of {self.ahead.chunk_bytes} bytes" if self.ahead else "")


@hookimpl
def tilecopy_partition(request: CopyRequest) -> Load | Decline:
    """The longest chunk that is contiguous on both sides, and the loop over the rest."""
    copies, later = partition_chunks(request), ahead_of(request)
    if isinstance(copies, Decline):
        return copies
    ahead = None if later is None else partition_chunks(later)
    return ahead if isinstance(ahead, Decline) else Load(copies, ahead)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: Load, ptx: PtxBuilder) -> None:
    """Emit one bulk copy per chunk, and no wait."""
    mbar = mbarrier_of(request)
    assert mbar is not None
    opcode = f"cp.async.bulk.{ptx.bulk_destination}.global.mbarrier::complete_tx::bytes"
    emit_chunks(ptx, partition.copies, opcode, ptx.element(mbar))
    if partition.ahead is not None:
        rounds = partition.ahead.rounds
        src = SideAddresses(ptx, rounds.src, rounds, 0)
        for turn in round_indices(ptx, rounds.outer):
            ptx.instr("cp.async.bulk.prefetch.L2.global", src.address(turn), partition.ahead.chunk_bytes)
