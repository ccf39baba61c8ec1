"""The variant regperm of copy. It copies between register fragments if every element stays in its thread.

Both layouts say which thread holds what, and where among its registers. A copy between them is a permutation of the
bytes of each thread's registers, the same in all of them: ``prmt.b32`` and ``mov``, and no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tilecopy_core.plugin import LOCK, CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import first_failure, owned_fragment, scope_in, whole_byte_elements

if TYPE_CHECKING:
    from .in_thread.partition import RegisterPermutation

variant = Variant(
    name="regperm",
    op="copy",
    priority=10,
    summary="prmt and mov between register fragments; every element stays in its thread",
    spaces=(("local", "local"),),
    completion="barrier",
    completion_steps=("the copying threads may use the data at once; registers need no barrier",),
    threads="all",
)


def fragments(request: CopyRequest) -> str | None:
    """Check that source and destination are fragments whose layouts assign elements to threads of the scope."""
    # owned_fragment checks the destination; threads of the scope must hold the source in the same way
    return owned_fragment(request) or owned_fragment(attrs.evolve(request, dst=request.src, src=request.dst))


PREDICATE = (scope_in("thread", "warp", "warpgroup", "cta"), valid_copy, whole_byte_elements, fragments)
"""The checks for rules that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> RegisterPermutation | Decline:
    """Return the permutation of each thread's registers."""
    with LOCK:
        from .in_thread.partition import permutation
    return permutation(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: RegisterPermutation, ptx: PtxBuilder) -> None:
    """Emit the ``prmt`` instructions that combine bytes, then the writes to destination registers."""
    with LOCK:
        from .in_thread.emit import emit
    emit(partition, ptx)
