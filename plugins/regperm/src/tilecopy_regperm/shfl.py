"""The variant regperm_shfl of copy. It copies between register fragments if every element stays in its warp.

It takes the copies that regperm declines because elements change lanes. ``shfl.sync`` fetches words of other lanes, and ``prmt`` and
``selp`` combine them. A copy that permutes the bits of (lane, register, byte) needs half a shuffle per register and exchanged bit. Any
other copy needs one for each source register and lane that a word needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecopy_core.plugin import LOCK, CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import first_failure, scope_in, whole_byte_elements

from . import fragments

if TYPE_CHECKING:
    from .in_warp.partition import LanePermutation

variant = Variant(
    name="regperm_shfl",
    op="copy",
    priority=5,
    summary="shuffles between register fragments; every element stays in its warp",
    spaces=(("local", "local"),),
    completion="barrier",
    completion_steps=("the copying threads may use the data at once; registers need no barrier",),
    threads="all",
)

PREDICATE = (scope_in("warp", "warpgroup", "cta"), valid_copy, whole_byte_elements, fragments)
"""The checks for rules that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> LanePermutation | Decline:
    """Return the words that lanes fetch from each other."""
    with LOCK:
        from .in_warp.partition import lane_permutation
    return lane_permutation(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: LanePermutation, ptx: PtxBuilder) -> None:
    """Emit the shuffles, then the instructions that combine words, then the moves to the destination."""
    with LOCK:
        from .in_warp.emit import emit
    emit(partition, ptx)
