"""The variant dsmem of copy_async. It issues bulk copies to the shared memory of another CTA of the cluster.

One thread maps the destination and its mbarrier into the other CTA (``mapa``) and issues ``cp.async.bulk`` for each
contiguous chunk. No wait is emitted: the destination CTA arms the mbarrier (``arrive_expect_tx`` of all bytes) and
waits on it; the source was fenced (``fence_proxy_async``) after it was written.
"""

from __future__ import annotations

from tilecopy_core.plugin import (
    Buffer,
    CopyRequest,
    Decline,
    Expr,
    Option,
    PtxBuilder,
    Region,
    Variant,
    Verdict,
    bounds_of,
    hookimpl,
    valid_copy,
)
from tilecopy_partitions import (
    ChunkPartition,
    SideAddresses,
    first_failure,
    fits_one_phase,
    mapa,
    mbarrier_of,
    no_replica,
    one_mbarrier,
    partition_chunks,
    round_indices,
    whole_byte_elements,
)

PAIRS = (("shared", "shared"),)
LEAST_CLUSTER, MAX_CLUSTER = 2, 16
COPY = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"

variant = Variant(
    name="dsmem",
    op="copy_async",
    priority=10,
    summary="bulk copies to another CTA's shared memory; completes on that CTA's mbarrier",
    spaces=PAIRS,
    features=("cp.async.bulk", "cluster"),
    options=(
        Option(
            "mbar",
            (Region, Buffer),
            "one mbarrier of the destination CTA, such as mbar[0]",
            required="in a kernel",
        ),
        Option(
            "remote_cta_id",
            (int, Expr),
            "the rank of the destination CTA in the cluster",
            required="in a kernel",
        ),
    ),
    completion="mbarrier",
    completion_steps=(
        "before the copy: call fence_proxy_async() in the threads that wrote the source, then put a barrier",
        "call arrive_expect_tx(bytes of all copies) on mbar in one thread of the destination CTA",
        "call wait(phase) on mbar in every thread of the destination CTA that reads the data",
    ),
    threads="one",
)


def cluster_launch(request: CopyRequest) -> str | None:
    """Check that the cluster has at least two CTAs, so that there is another CTA to copy to."""
    if request.cluster is not None and request.cluster < LEAST_CLUSTER:
        return (
            f"the cluster must have at least {LEAST_CLUSTER} CTAs to copy to another CTA's shared memory, got {request.cluster}: "
            f"use build(cluster={LEAST_CLUSTER})"
        )
    return None


def remote_rank(request: CopyRequest) -> str | None:
    """Check that ``remote_cta_id=`` is a rank in the cluster. An unknown cluster size counts as 16 CTAs."""
    rank = request.options.get("remote_cta_id")
    if rank is None:
        return None
    ctas = MAX_CLUSTER if request.cluster is None else request.cluster
    lower, upper = bounds_of(rank)
    if (lower is not None and lower >= ctas) or (upper is not None and upper < 0):
        has = f"a cluster has at most {ctas} CTAs" if request.cluster is None else f"the cluster has {ctas} CTAs"
        return f"option remote_cta_id must be a rank from 0 to {ctas - 1}, got {rank}: {has}"
    return None


PREDICATE = (
    valid_copy,
    whole_byte_elements,
    no_replica,
    one_mbarrier,
    cluster_launch,
    remote_rank,
    fits_one_phase,
)
"""The checks for rules that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> ChunkPartition | Decline:
    """Return the partition into the longest chunks that are contiguous in source and destination."""
    return partition_chunks(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: ChunkPartition, ptx: PtxBuilder) -> None:
    """Emit ``mapa`` and one bulk copy per chunk, without a wait."""
    mbar, rank = mbarrier_of(request), request.options["remote_cta_id"]
    assert mbar is not None
    barrier = mapa(ptx, ptx.element(mbar, whole=True), rank)
    rounds = partition.rounds
    src, dst = SideAddresses(ptx, rounds.src, rounds, 0), SideAddresses(ptx, rounds.dst, rounds, 0, whole=True)
    for turn in round_indices(ptx, rounds.outer):
        remote = mapa(ptx, dst.address(turn), rank)
        ptx.instr(COPY, remote, src.address(turn), partition.chunk_bytes, barrier)
