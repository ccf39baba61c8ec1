"""copy -> gmem_smem: synchronous copies between global and shared memory.

Neither side says which thread moves what, so the partition is synthesized from the scope: ``[outer, threads, vec]``,
the global side in descending strides giving the order, vectors as wide as both sides allow. Each round is one vector
load and one vector store per thread, through registers.
"""

from __future__ import annotations

from tilecopy_core.plugin import (
    RELAXED,
    CopyRequest,
    Decline,
    PtxBuilder,
    Variant,
    Verdict,
    divides_threads,
    first_failure,
    hookimpl,
    no_replica,
    relaxed_to_global,
    scope_in,
    valid_copy,
    whole_byte_elements,
)
from tilecopy_partitions import VectorPartition, emit_through_registers, emit_with_edges, synthesize

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
"""The rows of the specification that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return the first reason of the table to decline, or Accept."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | Decline:
    """Return ``[outer, threads, vec]`` in the order of the global side's strides."""
    return synthesize(request, leader=request.side_in("global"))


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition, ptx: PtxBuilder) -> None:
    """Write batches of loads, then their stores; no cache hints (docs/performance.md has what each is worth)."""
    emit_with_edges(ptx, partition, request.scope, lambda part: emit_through_registers(ptx, request, part))
