"""The variant ragged_async of copy_async. It copies from global to shared memory if variant ldgsts declines the copy.

Vectors of 4 bytes and more are copied by ``cp.async``, narrower ones through registers, which complete at once. The
caller commits and waits as for ldgsts.
"""

from __future__ import annotations

from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl
from tilecopy_partitions import VectorPartition, emit_cp_async, emit_with_edges, first_failure

from . import PREDICATE
from .partition import ragged_partition

variant = Variant(
    name="ragged_async",
    op="copy_async",
    priority=5,
    summary="fallback for any sizes: bounds-checked cp.async from global to shared memory; vectors of less than 4 bytes go through registers",
    spaces=(("global", "shared"),),
    features=("cp.async",),
    completion="cp_async_group",
    threads="all",
    edges=True,
)


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check of variant ragged passes, else Decline with the reason of the first that fails."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> VectorPartition | Decline:
    """Return the partition ``[outer, threads, vec]``. The last round may copy fewer elements."""
    return ragged_partition(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: VectorPartition, ptx: PtxBuilder) -> None:
    """Emit one ``cp.async`` per round, or a load and a store for 1- or 2-byte vectors, with bounds checks if needed."""
    emit_with_edges(ptx, partition, request.scope, lambda part: emit_cp_async(ptx, request, part))
