"""The variant ragged of copy. It copies between global, shared and local memory, for any sizes and starts.

The partition is that of gmem_smem, but the number of vectors need not be a multiple of the threads: in the last round
some threads do nothing. If a box splits an extent of its layout, the address of each element is computed. For a register
fragment, each thread loops over its registers and copies those that are inside the box.
"""

from __future__ import annotations

from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import (
    RELAXED,
    VectorPartition,
    emit_through_registers,
    emit_with_edges,
    first_failure,
    no_replica,
    relaxed_to_global,
    scope_in,
    whole_byte_elements,
)

from .fragments import FragmentElements, emit_fragment, fragment_elements, why_not_fragment
from .partition import ragged_partition

variant = Variant(
    name="ragged",
    op="copy",
    priority=5,
    summary="fallback for any sizes: bounds-checked vector loads and stores; fragments element by element",
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
"""Checks for all pairs of memory spaces that the record does not declare."""
PREDICATE = (*VALID, no_replica)
"""Checks of copies between global and shared memory."""
FRAGMENT_PREDICATE = (*VALID, why_not_fragment)
"""Checks of copies in which one side is a register fragment."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, FRAGMENT_PREDICATE if "local" in request.spaces else PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | FragmentElements | Decline:
    """Return the partition into vectors, or into single elements if an operand is a fragment."""
    return fragment_elements(request) if "local" in request.spaces else ragged_partition(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition | FragmentElements, ptx: PtxBuilder) -> None:
    """Emit loads and stores, with bounds checks where elements may be out of bounds."""
    if isinstance(partition, FragmentElements):
        emit_fragment(request, partition, ptx)
        return
    emit_with_edges(ptx, partition, request.scope, lambda part: emit_through_registers(ptx, request, part))
