"""The variant tma of copy_async. It issues TMA copies from global to shared memory that complete on an mbarrier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecopy_core.plugin import (
    LOCK,
    Buffer,
    CopyRequest,
    Decline,
    Expr,
    Int,
    Option,
    PtxBuilder,
    Region,
    Register,
    Variant,
    Verdict,
    bounds_of,
    hookimpl,
    valid_copy,
)
from tilecopy_partitions import (
    SideAddresses,
    bulk_destination,
    first_failure,
    fits_one_phase,
    guards_of,
    mbarrier_of,
    no_replica,
    one_mbarrier,
    round_indices,
    tensor_place,
    whole_byte_elements,
)

if TYPE_CHECKING:
    from .boxes import BoxPartition

variant = Variant(
    name="tma",
    op="copy_async",
    priority=30,
    summary="global to shared memory by tensor copies (TMA); completes on an mbarrier",
    spaces=(("global", "shared"),),
    features=("tma",),
    options=(
        Option("mbar", (Region, Buffer), "one mbarrier of the CTA, such as mbar[0]", required=True),
        Option("multicast", (int, Expr), "a mask of the cluster's receiving CTAs: bit n stands for rank n"),
    ),
    completion="mbarrier",
    completion_steps=(
        "before the copy: call fence_proxy_async() in the threads that wrote the destination, then put a barrier",
        "call arrive_expect_tx(bytes of all boxes, including bytes out of bounds) on mbar in one thread of each receiving CTA",
        "call wait(phase) on mbar in every thread that reads the data",
    ),
    threads="one",
    edges=True,
)
MAX_CLUSTER = 16
"""CTAs that a mask can name."""
LOAD = "cp.async.bulk.tensor.{}d.{}.global.tile.mbarrier::complete_tx::bytes"
MULTICAST = LOAD.replace("{}.global", "shared::cluster.global") + ".multicast::cluster"


def filled_with_zeros(request: CopyRequest) -> str | None:
    """Check that elements out of bounds are filled with zeros. Check that the tile is in bounds in shared memory."""
    if request.may_exceed_bounds and guards_of(request.dst):
        return f"{request.dst} must be in bounds, because a tensor copy writes whole boxes to shared memory"
    if request.may_exceed_bounds and not (request.outside is not None and request.outside.is_zero):
        return f'outside must be "zero" for a tensor copy, got {request.outside}: the hardware fills elements out of bounds with zeros'
    return None


def mask_of_ctas(request: CopyRequest) -> str | None:
    """Check that option ``multicast`` is a mask of 16 bits that names only CTAs of the cluster."""
    mask, cluster = request.options.get("multicast"), request.cluster
    if mask is None:
        return None
    if isinstance(mask, int) and not 0 < mask < 1 << MAX_CLUSTER:
        return f"option multicast must be a mask from 1 to {(1 << MAX_CLUSTER) - 1}, one bit per CTA, got {mask}"
    lower, upper = bounds_of(mask)
    if cluster == 1 and (lower, upper) != (1, 1):
        return f"the cluster must have at least 2 CTAs for option multicast={mask}, got 1 CTA: use build(cluster=2)"
    if cluster is not None and cluster < MAX_CLUSTER and lower is not None and lower >= 1 << cluster:
        return f"option multicast must name only CTAs 0 to {cluster - 1} of the cluster, but {mask} names CTA {lower.bit_length() - 1}"
    return None


PREDICATE = (valid_copy, whole_byte_elements, no_replica, one_mbarrier, fits_one_phase, filled_with_zeros, mask_of_ctas)
"""The checks for rules that the record does not declare; each returns a reason to decline, or None."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept or Decline. The priority is lower if bulk copies need no more instructions than tensor copies."""
    with LOCK:
        from .boxes import accept_with_priority
    return first_failure(request, PREDICATE) and accept_with_priority(request, request.dst, request.src)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> BoxPartition | Decline:
    """Return the partition into the largest boxes that fit source and destination."""
    with LOCK:
        from .boxes import partition_boxes
    return partition_boxes(request, request.dst, request.src)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: BoxPartition, ptx: PtxBuilder) -> None:
    """Emit one tensor copy per box, without a wait."""
    mbar, mask = mbarrier_of(request), request.options.get("multicast")
    assert mbar is not None
    barrier, map = ptx.element(mbar), ptx.host_parameter(partition.map)
    opcode = (LOAD if mask is None else MULTICAST).format(len(partition.starts), bulk_destination(ptx))
    masked = () if mask is None else (_of_16_bits(ptx, mask),)
    dst = SideAddresses(ptx, partition.rounds.dst, partition.rounds, 0)
    for turn in round_indices(ptx, partition.rounds.outer):
        to = dst.address(turn)
        place = tensor_place(ptx, map, partition.coordinates(turn), clamp=request.may_exceed_bounds)
        ptx.instr(opcode, to, place, barrier, *masked)


def _of_16_bits(ptx: PtxBuilder, mask: Int) -> Register:
    """Return a 16-bit register with a mask for multicast."""
    register = ptx.reg("b16")
    if isinstance(mask, int):
        ptx.instr("mov.b16", register, mask)
    else:
        ptx.instr("cvt.u16.u32", register, ptx.value(mask))
    return register
