"""The variant tma_store of copy_async. It issues TMA copies from shared to global memory without commit or wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecopy_core.plugin import LOCK, CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import (
    SideAddresses,
    first_failure,
    guards_of,
    no_replica,
    round_indices,
    tensor_place,
    whole_byte_elements,
)

if TYPE_CHECKING:
    from .boxes import BoxPartition

variant = Variant(
    name="tma_store",
    op="copy_async",
    priority=30,
    summary="shared to global memory by tensor copies (TMA); the caller commits and waits",
    spaces=(("shared", "global"),),
    features=("tma",),
    completion="bulk_group",
    threads="one",
    edges=True,
)
STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group"


def tile_is_whole(request: CopyRequest) -> str | None:
    """Check that the tile is in bounds in the shared buffer, because a tensor copy reads whole boxes."""
    if request.may_exceed_bounds and guards_of(request.src):
        return f"{request.src} must be in bounds, because a tensor copy reads whole boxes from shared memory"
    return None


def starts_inside(request: CopyRequest) -> str | None:
    """Check that no coordinate of the box's first element is negative."""
    with LOCK:
        from .boxes import never_negative
    return never_negative(request.dst)


PREDICATE = (valid_copy, whole_byte_elements, no_replica, tile_is_whole, starts_inside)
"""The checks for rules that the record does not declare; each returns a reason to decline, or None."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept or Decline. The priority is lower if bulk copies need no more instructions than tensor copies."""
    with LOCK:
        from .boxes import accept_with_priority
    return first_failure(request, PREDICATE) and accept_with_priority(request, request.src, request.dst)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> BoxPartition | Decline:
    """Return the partition into the largest boxes that fit source and destination."""
    with LOCK:
        from .boxes import partition_boxes
    return partition_boxes(request, request.src, request.dst)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: BoxPartition, ptx: PtxBuilder) -> None:
    """Emit one tensor copy per box, without a commit or a wait."""
    map = ptx.host_parameter(partition.map)
    src = SideAddresses(ptx, partition.rounds.src, partition.rounds, 0)
    opcode = STORE.format(len(partition.starts))
    for turn in round_indices(ptx, partition.rounds.outer):
        place = tensor_place(ptx, map, partition.coordinates(turn), clamp=request.may_exceed_bounds)
        ptx.instr(opcode, place, src.address(turn))
