"""Checks for the predicates of variants. Each returns a reason to decline a request, or None to accept it.

A predicate is a table of them: ``tilecopy_predicate`` returns ``first_failure(request, TABLE)``. Dispatch has already
checked what the record declares (op, spaces, architecture, threads, options).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilecopy_core.description import why_not_in_bytes
from tilecopy_core.plugin import Accept, Buffer, CopyRequest, Decline, Option, Region, Verdict
from tilecopy_core.ptx import MBARRIER_TX_LIMIT

Check = Callable[[CopyRequest], str | None]
_ACCEPT = Accept()
RELAXED = Option(
    "relaxed",
    (bool,),
    "True (other CTAs may write the same values to the same elements of global memory; stores use st.relaxed.gpu) or False",
    default=False,
)
"""For variants that store to global memory: accesses that are strong at a scope with all their threads race with none of
those (PTX ISA, memory consistency model: morally strong operations)."""


def first_failure(request: CopyRequest, table: Iterable[Check]) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    for check in table:
        reason = check(request)
        if reason is not None:
            return Decline(reason)
    return _ACCEPT


def scope_in(*kinds: str) -> Check:
    """Return a check that the scope's kind is one of ``kinds``."""

    def check(request: CopyRequest) -> str | None:
        kind = request.scope.kind
        return None if kind in kinds else f"scope {kind} is not one of {', '.join(kinds)}"

    return check


def whole_byte_elements(request: CopyRequest) -> str | None:
    """Check that elements are whole bytes, because an element of less than a byte has no address."""
    dtype = request.src.buffer.dtype
    if dtype.bits < 8:
        return f"elements of {dtype.bits} bits ({dtype}) are not addressable: {why_not_in_bytes(request)}"
    return None


def no_replica(request: CopyRequest) -> str | None:
    """Check that the layouts of source and destination have no replicas."""
    for operand, region in (("destination", request.dst), ("source", request.src)):
        if region.buffer.layout.replica:
            return f"{operand} {region.buffer.name} must not have replicas, got {list(region.buffer.layout.replica)}"
    return None


def relaxed_to_global(request: CopyRequest) -> str | None:
    """Check that option ``relaxed`` is given only for stores to global memory."""
    if request.dst.buffer.space != "global" and request.relaxed:
        return f"the destination must be in global memory for option relaxed, got {request.dst} in {request.dst.buffer.space} memory"
    return None


def mbarrier_of(request: CopyRequest) -> Region | None:
    """Return the mbarrier of option ``mbar`` as a region. Return None without the option."""
    mbar = request.options.get("mbar")
    return mbar[0] if isinstance(mbar, Buffer) else mbar


def one_mbarrier(request: CopyRequest) -> str | None:
    """Check that option ``mbar`` is one mbarrier in shared memory or is not given."""
    mbar = mbarrier_of(request)
    if mbar is not None and (mbar.buffer.space != "shared" or mbar.buffer.dtype.bits != 64 or mbar.size != 1):
        return f"option mbar must be one mbarrier in shared memory, such as mbar[0], got {mbar!r}"
    return None


def fits_one_phase(request: CopyRequest) -> str | None:
    """Check that one phase of an mbarrier can count all bytes of the copy."""
    if request.src.nbytes > MBARRIER_TX_LIMIT:
        return f"a copy must have at most {MBARRIER_TX_LIMIT} bytes, because one mbarrier phase counts no more, got {request.src.nbytes} bytes"
    return None


def divides_threads(request: CopyRequest) -> str | None:
    """Check that the element count is a multiple of the scope's thread count."""
    count, threads = request.dst.size, request.scope.threads
    if count % threads:
        return f"the number of elements must be a multiple of the {threads} threads of the {request.scope.kind}, got {count} elements"
    return None
