"""Checks that a variant's record supports a copy request. Dispatch runs these checks before it calls any hook."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import did_you_mean, short_repr
from .request import IN_A_KERNEL, CopyRequest, Variant, why_not_shared


def of_another_kind(variant: Variant, request: CopyRequest) -> str | None:
    """Return a message if a variant does not support the request's op, memory spaces or target, else None."""
    if variant.op != request.op:
        return why_other_op(variant.op, request.op)
    if request.spaces not in variant.spaces:
        pair, taken = "{} -> {}".format(*request.spaces), ", ".join(f"{s} -> {d}" for s, d in variant.spaces)
        return f"the variant copies {taken}, but this copy is {pair}"
    return variant.why_not_on(request.target)


def why_other_op(op: str, requested: str) -> str:
    """Return the message for a variant whose op is not the requested op."""
    return f"the variant lowers only {op}, but the op of the request is {requested}"


def why_not_threads(request: CopyRequest) -> Mapping[str, str | None]:
    """Return a dict from each :attr:`Variant.threads` rule to None, or to a message if the threads break the rule."""
    all_active = request.active.why_not_all(request.scope) or why_not_shared(request)
    return {"all": all_active, "one": _why_not_one(request), "any": None}


def not_as_declared(variant: Variant, request: CopyRequest, threads: Mapping[str, str | None]) -> str | None:
    """Return a message if a variant does not support the request's threads, bounds or options, else None."""
    if why := threads[variant.threads] or _why_not_edges(variant, request):
        return why
    if not request.options:
        return None
    names = [option.name for option in variant.options]
    if unknown := sorted(set(request.options).difference(names)):  # it would be lost in silence
        near = did_you_mean(unknown[0], names)
        return f"the variant does not take option {unknown[0]!r} (its options: {', '.join(names) or 'none'}){near}"
    for option in variant.options:
        value = request.options.get(option.name)
        if value is not None and not option.fits(value):
            return f"option {option.name} must be {option.meaning}, got {short_repr(value)}"
    return None


def options_missing(variant: Variant, request: CopyRequest) -> tuple[str | None, tuple[str, ...]]:
    """Return a message and the names of the missing required options. Return ``(None, ())`` if no option is missing."""
    required = (True,) if request.active.cta_threads is None else (True, IN_A_KERNEL)
    missing = [o for o in variant.options if o.required in required and request.options.get(o.name) is None]
    if not missing:
        return None, ()
    first = missing[0]
    where = f" {IN_A_KERNEL}" if first.required == IN_A_KERNEL else ""
    why = f"option {first.name} is required{where} but was not given; it must be {first.meaning}"
    return why, tuple(option.name for option in missing)


def why_not_asked(variant: Variant, request: CopyRequest) -> str | None:
    """Return a message if a variant's record excludes a request, else None. The hooks are not called."""
    why = of_another_kind(variant, request) or not_as_declared(variant, request, why_not_threads(request))
    return why or options_missing(variant, request)[0]


def _why_not_edges(variant: Variant, request: CopyRequest) -> str | None:
    """Return a message if a region may reach out of bounds and the variant does not declare ``edges``, else None."""
    if variant.edges or not request.may_exceed_bounds:
        return None
    dims = [(region, dim) for region in (request.src, request.dst) for dim in range(len(region.starts))]
    region, dim = next((region, dim) for region, dim in dims if any(region.exceeds(dim)))
    why = f"{region} may reach out of bounds in dimension {dim} of {region.buffer.name} (outside={request.outside})"
    advice = "declare scalar bounds or a static grid to keep the region in bounds, or use a variant that masks elements"
    return f"{why}, but {variant.name} cannot mask elements out of bounds; {advice}"


def _why_not_one(request: CopyRequest) -> str | None:
    """Return why not exactly one thread reaches the copy, or None. Each active thread would issue the whole copy."""
    if request.scope.kind != "thread":
        return f"the scope must be thread, got {request.scope.kind}: a single thread issues this copy"
    active = request.active
    count = active.count()
    if count is None and active.cta_threads is not None:
        around = active.undecided or active.deciding[0][0]
        return f"exactly one thread must reach the copy, but the enclosing condition '{around}' may be true for several threads; put the copy inside if_(thread_id() == 0)"
    if count is not None and count != 1:
        return f"exactly one thread must reach the copy, got {count} threads; put the copy inside if_(thread_id() == 0)"
    return None
