"""Checks that predicates are made of: each looks at a request and gives a reason to decline, or None.

A predicate is a table of them: ``tilecopy_predicate`` returns ``first_failure(request, TABLE)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .request import Accept, CopyRequest, Decline, Variant, Verdict, why_invalid, why_not_shared

Check = Callable[[CopyRequest], str | None]


def first_failure(request: CopyRequest, table: Iterable[Check]) -> Verdict:
    """Accept when every check passes, else decline with the reason of the first that fails."""
    for check in table:
        reason = check(request)
        if reason is not None:
            return Decline(reason)
    return Accept()


def architecture(variant: Variant) -> Check:
    """The target is new enough for the variant's instructions."""

    def check(request: CopyRequest) -> str | None:
        if request.target.arch < variant.min_arch:
            return f"target {request.target} is too old: {variant.name} needs sm_{variant.min_arch} or newer"
        return None

    return check


def scope_in(*kinds: str) -> Check:
    """The scope is one of these kinds."""

    def check(request: CopyRequest) -> str | None:
        if request.scope.kind not in kinds:
            return f"scope {request.scope.kind} is not one of {', '.join(kinds)}"
        return None

    return check


def spaces_in(*pairs: tuple[str, str]) -> Check:
    """The (source, destination) spaces are one of these pairs."""

    def check(request: CopyRequest) -> str | None:
        if request.spaces not in pairs:
            found, taken = "{} -> {}".format(*request.spaces), ", ".join(f"{s} -> {d}" for s, d in pairs)
            return f"memory pair {found} is not one of {taken}"
        return None

    return check


def options_in(*names: str) -> Check:
    """No option but these is given: one that a variant does not know would be lost in silence."""

    def check(request: CopyRequest) -> str | None:
        unknown = sorted(set(request.options) - set(names))
        if unknown:
            return f"option {unknown[0]!r} is not known to it (it takes {', '.join(names) or 'none'})"
        return None

    return check


def all_threads_active(request: CopyRequest) -> str | None:
    """Every thread of the scope reaches the copy; the reason names the axis that was narrowed."""
    return request.active.why_not_all(request.scope) or why_not_shared(request)


def single_thread(request: CopyRequest) -> str | None:
    """One thread alone reaches the copy: each active thread would issue it again."""
    if request.scope.kind != "thread":
        return f"scope {request.scope.kind}: a single thread issues this copy"
    active = request.active
    if active.undecided:
        return f"the enclosing condition '{active.undecided}' cannot be shown to leave a single thread"
    count = active.count()
    if count is not None and count != 1:
        return f"{count} threads reach the copy and each would issue it; put it inside if_(thread_id() == 0)"
    return None


def valid_copy(request: CopyRequest) -> str | None:
    """Equal dtypes and equal extents once those of 1 are dropped."""
    return why_invalid(request)


def whole_byte_elements(request: CopyRequest) -> str | None:
    """Elements are whole bytes: two elements to a byte have no address of their own."""
    dtype = request.src.buffer.dtype
    if dtype.bits < 8:
        return f"elements of {dtype.bits} bits ({dtype}) are not addressable; view two as one uint8"
    return None


def no_replica(request: CopyRequest) -> str | None:
    """Neither layout has replica iters."""
    for operand, region in (("destination", request.dst), ("source", request.src)):
        if region.buffer.layout.replica:
            return f"{operand} {region.buffer.name} has replicas {list(region.buffer.layout.replica)}"
    return None


def divides_threads(request: CopyRequest) -> str | None:
    """The element count is a multiple of the scope's thread count."""
    count, threads = request.dst.size, request.scope.threads
    if count % threads:
        return f"{count} elements are not divisible by the {threads} threads of the {request.scope.kind}"
    return None
