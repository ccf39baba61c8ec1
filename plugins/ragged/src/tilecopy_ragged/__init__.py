"""copy -> ragged: what is left between global and shared memory, of any element count, thread count and start.

The partition is that of gmem_smem, but the threads need not divide the vectors: in the last round those with a vector
past the last one do nothing. A box that cuts inside an iter of its layout has each element's place computed.
"""

from __future__ import annotations

from tilecopy_core.plugin import (
    CopyRequest,
    Decline,
    PtxBuilder,
    Variant,
    VariantPlugin,
    VectorPartition,
    Verdict,
    at_edges,
    first_failure,
    hookimpl,
    no_replica,
    scope_in,
    through_registers,
    valid_copy,
    whole_byte_elements,
)

from .partition import ragged_partition

variant = Variant(
    name="ragged",
    op="copy",
    priority=5,
    summary="vector loads and stores between global and shared memory, the last round guarded",
    spaces=(("global", "shared"), ("shared", "global")),
    completion="barrier",
    threads="all",
    edges=True,
)

PREDICATE = (
    scope_in("thread", "warp", "warpgroup", "cta"),
    valid_copy,
    whole_byte_elements,
    no_replica,
)
"""What the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """The table, row by row."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | Decline:
    """``[outer, threads, vec]`` with a last round that may be short."""
    return ragged_partition(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition, ptx: PtxBuilder) -> None:
    """Batches of loads, then their stores, guarded where vectors end."""
    at_edges(ptx, partition, request.scope, lambda part: through_registers(ptx, request, part))


def _typed() -> VariantPlugin:
    """Type checkers hold this module against the hooks here."""
    import tilecopy_ragged

    return tilecopy_ragged
