"""copy_async -> bulk: from global to shared memory by bulk copies; they complete on an mbarrier."""

from __future__ import annotations

from tilecopy_core.plugin import (
    Buffer,
    ChunkPartition,
    CopyRequest,
    Decline,
    Option,
    PtxBuilder,
    Region,
    Variant,
    VariantPlugin,
    Verdict,
    Walk,
    batches,
    chunked,
    first_failure,
    fits_one_phase,
    hookimpl,
    mbarrier_of,
    no_replica,
    one_mbarrier,
    valid_copy,
    whole_byte_elements,
)

variant = Variant(
    name="bulk",
    op="copy_async",
    priority=10,
    summary="global to shared memory by bulk copies; completes on an mbarrier",
    spaces=(("global", "shared"),),
    min_arch=90,
    instructions="cp.async.bulk",
    options=(Option("mbar", (Region, Buffer), "one mbarrier of the CTA, such as mbar[0]", required="in a kernel"),),
    completion="mbarrier",
    completion_steps=(
        "before: fence_proxy_async() by threads that wrote the destination, then a barrier",
        "arrive_expect_tx(bytes of all copies) on mbar, by one thread of the CTA",
        "wait(phase) on mbar, by every thread that reads",
    ),
    threads="one",
)

PREDICATE = (
    valid_copy,
    whole_byte_elements,
    no_replica,
    one_mbarrier,
    fits_one_phase,
)
"""What the record does not declare. Each check gives a reason to decline, or None."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """The table, row by row."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> ChunkPartition | Decline:
    """The longest chunk that is contiguous on both sides, and the loop over the rest."""
    return chunked(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: ChunkPartition, ptx: PtxBuilder) -> None:
    """One bulk copy a chunk; no wait. The CTA's own shared memory is an address of its cluster, as ``.version`` 8.0 has it."""
    mbar = mbarrier_of(request)
    assert mbar is not None
    barrier, rounds = ptx.element(mbar), partition.rounds
    dst, src = (Walk(ptx, side, rounds, 0) for side in (rounds.dst, rounds.src))
    for batch in batches(ptx, rounds.outer, words_per_round=1):
        for turn in batch:
            ptx.instr(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
                dst.address(turn),
                src.address(turn),
                partition.chunk_bytes,
                barrier,
            )


def _typed() -> VariantPlugin:
    """Type checkers hold this module against the hooks here."""
    import tilecopy_bulk

    return tilecopy_bulk
