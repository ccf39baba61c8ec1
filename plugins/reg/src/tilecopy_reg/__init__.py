"""The variant reg of copy. It copies between register fragments and shared or global memory, in both directions.

The partition is induced: the register layout's thread axes say who owns what. They are dropped from the iteration,
each thread is left with its private elements, and those are moved in vectors as wide as the registers and the other
side allow.
"""

from __future__ import annotations

from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import RELAXED, first_failure, owned_fragment, relaxed_to_global, scope_in, whole_byte_elements

from .emission import emit
from .partition import FragmentPartition, clip_to_fragment, fragment_inside, fragment_partition, sliced_other

variant = Variant(
    name="reg",
    op="copy",
    priority=10,
    summary="vector loads and stores between register fragments and shared or global memory",
    spaces=(("shared", "local"), ("local", "shared"), ("global", "local"), ("local", "global")),
    completion="barrier",
    threads="all",
    options=(RELAXED,),
    edges=True,
)

PREDICATE = (
    scope_in("thread", "warp", "warpgroup", "cta"),
    valid_copy,
    whole_byte_elements,
    relaxed_to_global,
    owned_fragment,
    sliced_other,
)
"""The checks for rules that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    why = fragment_inside(request)
    return Decline(why) if why else first_failure(clip_to_fragment(request), PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> FragmentPartition | Decline:
    """Return the vectors that each thread copies between its registers and memory."""
    return fragment_partition(clip_to_fragment(request))


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: FragmentPartition, ptx: PtxBuilder) -> None:
    """Emit vector loads into the fragment's registers or vector stores from them."""
    emit(request, partition, ptx)
