"""copy_async -> dsmem: shared memory to the shared memory of another CTA of the cluster, by bulk copies.

One thread maps the destination and its mbarrier into the other CTA (``mapa``) and issues ``cp.async.bulk`` for each
contiguous chunk. No wait is emitted: the destination CTA arms the mbarrier (``arrive_expect_tx`` of all bytes) and
waits on it; the source was fenced (``fence_proxy_async``) after it was written.
"""

from __future__ import annotations

from tilecopy_core.plugin import (
    Buffer,
    CopyRequest,
    Decline,
    PtxBuilder,
    Region,
    Variant,
    VariantPlugin,
    Verdict,
    Walk,
    architecture,
    batches,
    bounds_of,
    first_failure,
    hookimpl,
    is_int,
    no_replica,
    options_in,
    single_thread,
    spaces_in,
    valid_copy,
    whole_byte_elements,
)

from .partition import ChunkPartition, chunk_partition

PAIRS = (("shared", "shared"),)
MAX_CLUSTER = 16

variant = Variant(
    name="dsmem",
    op="copy_async",
    priority=10,
    summary="bulk copies to another CTA's shared memory; completes on that CTA's mbarrier",
    spaces=PAIRS,
    min_arch=90,
)


def barrier_of(request: CopyRequest) -> Region | None:
    """The mbarrier of ``mbar=``: one element, or the first of a buffer."""
    mbar = request.options.get("mbar")
    return mbar[0] if isinstance(mbar, Buffer) else mbar


def remote_barrier(request: CopyRequest) -> str | None:
    """``mbar=`` is one mbarrier in shared memory (a plan with no kernel around it may leave it out)."""
    mbar = barrier_of(request)
    if mbar is None and request.active.cta_threads is None:
        return None
    if not isinstance(mbar, Region) or mbar.buffer.space != "shared" or mbar.buffer.dtype.bits != 64 or mbar.size != 1:
        return f"option mbar is one mbarrier of the destination CTA, such as mbar[0], not {mbar!r}"
    return None


def remote_rank(request: CopyRequest) -> str | None:
    """``remote_cta_id=`` is a rank that a cluster can have."""
    rank = request.options.get("remote_cta_id")
    if rank is None and request.active.cta_threads is None:
        return None
    if not is_int(rank):
        return f"option remote_cta_id is the rank of the destination CTA in the cluster, not {rank!r}"
    lower, upper = bounds_of(rank)
    if (lower is not None and lower >= MAX_CLUSTER) or (upper is not None and upper < 0):
        return f"option remote_cta_id is {rank}; a cluster has ranks 0 to {MAX_CLUSTER - 1} at most"
    return None


PREDICATE = (
    architecture(variant),
    spaces_in(*PAIRS),
    single_thread,
    valid_copy,
    whole_byte_elements,
    no_replica,
    options_in("mbar", "remote_cta_id"),
    remote_barrier,
    remote_rank,
)


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """The seed's table, row by row."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> ChunkPartition | Decline:
    """The longest contiguous chunk and the loop over the rest."""
    return chunk_partition(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: ChunkPartition, ptx: PtxBuilder) -> None:
    """``mapa`` and one bulk copy a chunk; no wait."""
    mbar, rank = barrier_of(request), request.options["remote_cta_id"]
    assert mbar is not None
    place = mbar.buffer.layout.apply(*mbar.starts, shape=mbar.buffer.shape)["m"]
    barrier = ptx.mapa(ptx.address(mbar.buffer, place, whole=True), rank)
    rounds = partition.rounds
    src, dst = Walk(ptx, rounds.src, rounds, 0), Walk(ptx, rounds.dst, rounds, 0, whole=True)
    for batch in batches(ptx, rounds.outer, words_per_round=1):
        for turn in batch:
            remote = ptx.mapa(dst.access(turn).address, rank)
            ptx.bulk_copy_to_cluster(remote, src.access(turn).address, partition.chunk_bytes, barrier)


def _typed() -> VariantPlugin:
    """Type checkers hold this module against the hooks here."""
    import tilecopy_dsmem

    return tilecopy_dsmem
