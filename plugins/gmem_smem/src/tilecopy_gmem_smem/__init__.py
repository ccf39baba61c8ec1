"""copy -> gmem_smem: synchronous copies between global and shared memory.

Neither side says which thread moves what, so the partition is synthesized from the scope: ``[outer, threads, vec]``,
the global side in descending strides giving the order, vectors as wide as both sides allow. Each round is one vector
load and one vector store a thread, through registers.
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
    divides_threads,
    first_failure,
    hookimpl,
    no_replica,
    same,
    scope_in,
    synthesize,
    through_registers,
    valid_copy,
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
    edges=True,
)

PREDICATE = (
    scope_in("thread", "warp", "warpgroup", "cta"),
    valid_copy,
    whole_byte_elements,
    no_replica,
    divides_threads,
)
"""The rows of the specification that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """The table, row by row."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | Decline:
    """``[outer, threads, vec]``, the global side driving the order."""
    return synthesize(request, leader=request.side_in("global"))


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition, ptx: PtxBuilder) -> None:
    """Batches of loads, then their stores. Vectors of 16 bytes that neighbouring threads continue stream past L1."""

    def rounds(part: VectorPartition) -> None:
        streaming = part.vec_bits == 128 and _neighbours_continue(request, part)
        through_registers(ptx, request, part, streaming=streaming)

    at_edges(ptx, partition, request.scope, rounds)


def _neighbours_continue(request: CopyRequest, partition: VectorPartition) -> bool:
    """Whether the next thread's vector follows in global memory."""
    if partition.threads == 1:
        return False
    side = partition.src if partition.src.region is request.side_in("global") else partition.dst
    first, second = (side.offset(0, thread, partition.shape) for thread in (0, 1))
    return same(second - first, partition.vec)


def _typed() -> VariantPlugin:
    """Type checkers hold this module against the hooks here."""
    import tilecopy_gmem_smem

    return tilecopy_gmem_smem
