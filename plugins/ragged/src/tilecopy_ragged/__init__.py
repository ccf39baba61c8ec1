"""copy -> ragged: the fallback between global, shared and local memory, for any element count, thread count and start.

The partition is that of gmem_smem, but the threads need not divide the vectors: in the last round those with a vector
past the last one do nothing. A box that cuts inside an iter of its layout has each element's place computed; of a register
fragment each thread goes through its registers and moves those that the box has.
"""

from __future__ import annotations

from tilecopy_core.plugin import (
    RELAXED,
    CopyRequest,
    Decline,
    PtxBuilder,
    Variant,
    Verdict,
    first_failure,
    hookimpl,
    no_replica,
    relaxed_to_global,
    scope_in,
    valid_copy,
    whole_byte_elements,
)
from tilecopy_partitions import VectorPartition, emit_through_registers, emit_with_edges

from .fragments import FragmentElements, emit_fragment, fragment_elements, why_not_fragment
from .partition import ragged_partition

variant = Variant(
    name="ragged",
    op="copy",
    priority=5,
    summary="fallback for sizes that do not divide: guarded vector loads and stores; fragments element by element",
    spaces=(
        ("global", "shared"),
        ("shared", "global"),
        ("shared", "local"),
        ("local", "shared"),
        ("global", "local"),
        ("local", "global"),
    ),
    completion="barrier",
    threads="all",
    options=(RELAXED,),
    edges=True,
)

VALID = (scope_in("thread", "warp", "warpgroup", "cta"), valid_copy, whole_byte_elements, relaxed_to_global)
"""What holds for every pair of memories and the record does not declare."""
PREDICATE = (*VALID, no_replica)
"""Checks of copies between global and shared memory."""
FRAGMENT_PREDICATE = (*VALID, why_not_fragment)
"""Checks of copies in which one side is a register fragment."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return the first reason of the table to decline, or Accept."""
    return first_failure(request, FRAGMENT_PREDICATE if "local" in request.spaces else PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | FragmentElements | Decline:
    """Return ``[outer, threads, vec]`` with a last round that may be short, or for fragments every register."""
    return fragment_elements(request) if "local" in request.spaces else ragged_partition(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition | FragmentElements, ptx: PtxBuilder) -> None:
    """Write batches of loads, then their stores, guarded where vectors end; for fragments one guarded access per register."""
    if isinstance(partition, FragmentElements):
        emit_fragment(request, partition, ptx)
        return
    emit_with_edges(ptx, partition, request.scope, lambda part: emit_through_registers(ptx, request, part))
