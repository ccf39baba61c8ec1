"""Checks that predicates are made of: each looks at a request and gives a reason to decline, or None.

A predicate is a table of them: ``tilecopy_predicate`` returns ``first_failure(request, TABLE)``. What the record
declares (op, spaces, architecture, threads, options) dispatch has checked already, with :func:`not_as_declared`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .errors import did_you_mean
from .loading import shown
from .request import IN_A_KERNEL, Accept, CopyRequest, Decline, Variant, Verdict, why_invalid, why_not_shared

Check = Callable[[CopyRequest], str | None]


def first_failure(request: CopyRequest, table: Iterable[Check]) -> Verdict:
    """Accept when every check passes, else decline with the reason of the first that fails."""
    for check in table:
        reason = check(request)
        if reason is not None:
            return Decline(reason)
    return Accept()


def not_as_declared(variant: Variant, request: CopyRequest) -> str | None:
    """Why a request does not fit a variant's record, or None: what dispatch asks before the variant's predicate."""
    if variant.op != request.op:
        return f"it lowers {variant.op}, this is a {request.op}"
    checks = (
        spaces_in(*variant.spaces),
        architecture(variant),
        threads(variant),
        edges(variant),
        options(variant),
        no_option_missing(variant),
    )
    return next((why for check in checks if (why := check(request))), None)


def threads(variant: Variant) -> Check:
    """The threads that the record asks for reach the copy: all of the scope, one alone, or any."""
    return {"all": all_threads_active, "one": single_thread, "any": lambda request: None}[variant.threads]


def edges(variant: Variant) -> Check:
    """A copy whose regions may overhang goes to variants that declare ``edges``."""

    def check(request: CopyRequest) -> str | None:
        if variant.edges or not request.overhangs:
            return None
        region, dim = next(
            (region, dim)
            for region in (request.src, request.dst)
            for dim in range(len(region.starts))
            if any(region.overhang(dim))
        )
        return (
            f"{region} may overhang dimension {dim} of {region.buffer.name} (outside={request.outside}), and {variant.name} "
            "copies whole boxes alone; let starts be proved inside (bounds of scalars, a static grid), or copy the tiles at the edge "
            "with a variant that lowers edges"
        )

    return check


def options(variant: Variant) -> Check:
    """Every option that is given is declared, and of one of its types."""
    known = options_in(*(option.name for option in variant.options))

    def check(request: CopyRequest) -> str | None:
        if why := known(request):
            return why
        for option in variant.options:
            value = request.options.get(option.name)
            if value is not None and not option.fits(value):
                return f"option {option.name} is {option.meaning}, not {shown(value)}"
        return None

    return check


def no_option_missing(variant: Variant) -> Check:
    """Every option that the record requires is given."""

    def check(request: CopyRequest) -> str | None:
        for option in variant.options:
            if option.missing_in(request):
                where = f" {IN_A_KERNEL}" if option.required == IN_A_KERNEL else ""
                return f"option {option.name} is {option.meaning}; it is required{where} and was not given"
        return None

    return check


def architecture(variant: Variant) -> Check:
    """The target is new enough for the variant's instructions."""

    def check(request: CopyRequest) -> str | None:
        if request.target.arch < variant.min_arch:
            lacks = f"has no {variant.instructions}" if variant.instructions else "is too old"
            return f"target {request.target} {lacks}: {variant.name} needs sm_{variant.min_arch} or newer"
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
            near = did_you_mean(unknown[0], names)
            return f"option {unknown[0]!r} is not known to it (it takes {', '.join(names) or 'none'}){near}"
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
    count = active.count()
    if count is None and active.cta_threads is not None:
        around = active.undecided or active.deciding[0][0]
        return f"the enclosing condition '{around}' cannot be shown to leave a single thread"
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
