"""The variant ldgsts of copy_async. It issues ``cp.async`` from global to shared memory.

The partition is that of gmem_smem with the widths of ``cp.async``. No wait is emitted: the caller commits a
group, waits for it (``cp_async_commit``, ``cp_async_wait``) and puts a barrier before other threads read.
"""

from __future__ import annotations

from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import (
    VectorPartition,
    divides_threads,
    emit_cp_async,
    emit_with_edges,
    first_failure,
    no_replica,
    scope_in,
    synthesize,
    whole_byte_elements,
)

PAIRS = (("global", "shared"),)
WIDTHS_BITS = (128, 64, 32)
"""The sizes that ``cp.async`` copies: 16, 8 and 4 bytes."""

variant = Variant(
    name="ldgsts",
    op="copy_async",
    priority=20,
    summary="cp.async from global to shared memory; the caller commits and waits",
    spaces=PAIRS,
    features=("cp.async",),
    completion="cp_async_group",
    threads="all",
    edges=True,
)

PREDICATE = (
    scope_in("thread", "warp", "warpgroup", "cta"),
    valid_copy,
    whole_byte_elements,
    no_replica,
    divides_threads,
)
"""The checks for rules that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | Decline:
    """Return the partition ``[outer, threads, vec]`` with vectors of 16, 8 or 4 bytes."""
    return synthesize(request, leader=request.src, widths_bits=WIDTHS_BITS)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition, ptx: PtxBuilder) -> None:
    """Emit one ``cp.async`` per round, without a commit or a wait."""
    emit_with_edges(ptx, partition, request.scope, lambda part: emit_cp_async(ptx, request, part))
