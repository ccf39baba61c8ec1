"""The variant bulk_store of copy_async. It issues bulk copies from shared to global memory without commit or wait."""

from __future__ import annotations

from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import (
    ChunkPartition,
    emit_chunks,
    first_failure,
    no_replica,
    partition_chunks,
    whole_byte_elements,
)

variant = Variant(
    name="bulk_store",
    op="copy_async",
    priority=10,
    summary="shared to global memory by bulk copies; the caller commits and waits",
    spaces=(("shared", "global"),),
    features=("cp.async.bulk",),
    completion="bulk_group",
    threads="one",
)

PREDICATE = (valid_copy, whole_byte_elements, no_replica)
"""The checks for rules that the record does not declare; each returns a reason to decline, or None."""


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
    """Emit one bulk copy per chunk, without a commit or a wait."""
    emit_chunks(ptx, partition, "cp.async.bulk.global.shared::cta.bulk_group")
