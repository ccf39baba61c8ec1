"""Checks for the predicates of variants that share an option or a way to copy. Each returns a reason to decline a request, or None."""

from __future__ import annotations

from tilecopy_core.plugin import Buffer, CopyRequest, Option, Region
from tilecopy_core.ptx import MBARRIER_TX_LIMIT

RELAXED = Option(
    "relaxed",
    (bool,),
    "True if other CTAs may write the same values to the same elements of global memory (stores are then st.relaxed.gpu)",
    default=False,
)
"""For variants that store to global memory: accesses that are strong at a scope with all their threads race with none of
those (PTX ISA, memory consistency model: morally strong operations)."""


def relaxed_to_global(request: CopyRequest) -> str | None:
    """Check that option ``relaxed`` is given only for stores to global memory."""
    if request.relaxed and request.dst.buffer.space != "global":
        return f"option relaxed needs a destination in global memory, but {request.dst} is in {request.dst.buffer.space} memory"
    return None


def mbarrier_of(request: CopyRequest) -> Region | None:
    """Return the region of option ``mbar`` (the first element of a buffer), or None if the option is not given."""
    mbar = request.options.get("mbar")
    return mbar[0] if isinstance(mbar, Buffer) else mbar


def one_mbarrier(request: CopyRequest) -> str | None:
    """Check that option ``mbar``, if given, is one mbarrier in shared memory."""
    mbar = mbarrier_of(request)
    if mbar is not None and (mbar.buffer.space != "shared" or mbar.buffer.dtype.bits != 64 or mbar.size != 1):
        return f"option mbar must be one mbarrier in shared memory, such as mbar[0], got {mbar!r}"
    return None


def fits_one_phase(request: CopyRequest) -> str | None:
    """Check that one phase of an mbarrier can count all bytes of the copy."""
    if request.src.nbytes > MBARRIER_TX_LIMIT:
        return f"one mbarrier phase counts at most {MBARRIER_TX_LIMIT} bytes, but the copy has {request.src.nbytes}"
    return None


def divides_threads(request: CopyRequest) -> str | None:
    """Check that the element count is a multiple of the scope's thread count."""
    count, threads = request.dst.size, request.scope.threads
    if count % threads:
        return f"the {count} elements must be divisible by the {threads} threads of the {request.scope.kind}"
    return None
