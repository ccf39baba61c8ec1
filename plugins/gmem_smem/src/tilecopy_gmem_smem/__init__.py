"""The variant gmem_smem of copy. It copies synchronously between global and shared memory.

No layout assigns elements to threads, so the partition is derived from the scope: ``[outer, threads, vec]``, in the order
of the global side's descending strides, with vectors as wide as both sides allow. Each round is one vector load and one
vector store per thread, through registers.
"""

from __future__ import annotations

from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import (
    RELAXED,
    VectorPartition,
    divides_threads,
    emit_through_registers,
    emit_with_edges,
    first_failure,
    no_replica,
    relaxed_to_global,
    scope_in,
    synthesize,
    whole_byte_elements,
)

PAIRS = (("global", "shared"), ("shared", "global"))

variant = Variant(
    name="gmem_smem",
    op="copy",
    priority=10,
    summary="vector loads and stores between global and shared memory, through registers",
    spaces=PAIRS,
    completion="barrier",
    threads="all",
    options=(RELAXED,),
    edges=True,
)

PREDICATE = (
    scope_in("thread", "warp", "warpgroup", "cta"),
    valid_copy,
    whole_byte_elements,
    no_replica,
    relaxed_to_global,
    divides_threads,
)
"""The checks for rules that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | Decline:
    """Return the partition ``[outer, threads, vec]``. Elements are ordered by their strides in global memory."""
    return synthesize(request, leader=request.side_in("global"))


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition, ptx: PtxBuilder) -> None:
    """Emit batches of loads and stores without cache hints (see docs/performance.md)."""
    emit_with_edges(ptx, partition, request.scope, lambda part: emit_through_registers(ptx, request, part))
