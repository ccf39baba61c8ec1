"""One copy to be lowered, what a variant answers, and what a variant says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from .errors import LayoutError, RequestError
from .expr import Expr, Symbol, evaluate, of_atom
from .memory import Region
from .scope import ActiveThreads, Scope, differs_within
from .target import Target, target_of

OPS = ("copy", "copy_async")
SCOPES = ("thread", "warp", "warpgroup", "cta")
_ENUMERATE_LIMIT = 1 << 24


@attrs.frozen
class Accept:
    """The variant can do this copy."""

    def __bool__(self) -> bool:
        return True


@attrs.frozen
class Decline:
    """The variant does not do this copy.

    Attributes:
        reason: operand, value and rule, for a person to read.
    """

    reason: str

    def __bool__(self) -> bool:
        return False


Verdict = Accept | Decline


@attrs.frozen
class Variant:
    """What a variant plugin says of itself; the plugin object carries it as its attribute ``variant``.

    Attributes:
        name: the same as its entry point.
        op: ``copy`` or ``copy_async``.
        priority: higher is asked first; equal priorities go by name.
        summary: one line.
        spaces: the ``(source, destination)`` pairs that it takes.
        min_arch: the oldest architecture that has its instructions, such as 90.
    """

    name: str
    op: str
    priority: int
    summary: str
    spaces: tuple[tuple[str, str], ...]
    min_arch: int = 75


@attrs.frozen(kw_only=True)
class CopyRequest:
    """One copy to be lowered.

    Attributes:
        op: ``copy`` (done when the instruction stream goes on) or ``copy_async`` (the caller waits).
        dst: destination region.
        src: source region.
        scope: the threads that do it together.
        target: the architecture.
        active: which threads of the CTA reach it.
        options: further options of ``copy``/``copy_async``, by name; a variant declines those it does not know.
    """

    op: str
    dst: Region
    src: Region
    scope: Scope
    target: Target = attrs.field(converter=target_of)
    active: ActiveThreads = attrs.field(factory=ActiveThreads)
    options: Mapping[str, Any] = attrs.field(factory=dict, converter=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.op} {_describe(self.src)} -> {_describe(self.dst)}, scope {self.scope}, {self.target}"

    @property
    def spaces(self) -> tuple[str, str]:
        """Source and destination space."""
        return self.src.buffer.space, self.dst.buffer.space

    def side_in(self, space: str) -> Region:
        """The operand that lies in a space (the destination when both do)."""
        return self.dst if self.dst.buffer.space == space else self.src


def _describe(region: Region) -> str:
    extents = "x".join(map(str, region.extents))
    return f"{region.buffer.dtype} {region.buffer.space} {region.buffer.name}[{extents}]"


def non_unit(extents: tuple[int, ...]) -> tuple[int, ...]:
    """Extents without those of 1."""
    return tuple(extent for extent in extents if extent != 1)


def check_request(request: CopyRequest) -> None:
    """Refuse what no variant could give a meaning (docs/design.md, "A valid copy").

    Raises:
        RequestError: unknown op, scope or operand; dtypes or extents that differ.
        LayoutError: the destination's layout puts two elements in one place.
    """
    if request.op not in OPS:
        raise RequestError(f"op {request.op!r} is unknown; the ops are {', '.join(OPS)}")
    if not isinstance(request.scope, Scope) or request.scope.kind not in SCOPES:
        raise RequestError(f"scope {request.scope!r} does not copy; the scopes are {', '.join(SCOPES)}")
    for operand, region in (("destination", request.dst), ("source", request.src)):
        if not isinstance(region, Region):
            raise RequestError(f"{request.op}: {operand} is a region such as buffer[0:8, :], not {region!r}")
    reason = why_invalid(request)
    if reason is not None:
        raise RequestError(f"{request}: {reason}")
    if why := why_aliasing(request.dst):
        raise LayoutError(f"{request}: destination {why}")


def why_invalid(request: CopyRequest) -> str | None:
    """Why source and destination do not match (dtype, extents, layouts), or None."""
    dst, src = request.dst.buffer.dtype, request.src.buffer.dtype
    if dst != src:
        return f"destination {request.dst} is {dst}, source {request.src} is {src}; a copy does not convert"
    if non_unit(request.dst.extents) != non_unit(request.src.extents):
        return (
            f"destination extents {request.dst.extents} and source extents {request.src.extents} differ "
            "(extents of 1 aside)"
        )
    return None


def why_aliasing(region: Region) -> str | None:
    """Why two coordinates of a region share a place, or None; symbolic strides are taken as given."""
    tile = (region.sliced_layout() or region.buffer.layout).unswizzled
    steps = sorted((it for it in tile.shard if it.extent > 1 and isinstance(it.stride, int)), key=lambda it: it.stride)
    for it in steps:
        if it.stride == 0:
            return f"{region} has an iter of extent {it.extent} and stride 0: its elements share one address"
    if any(isinstance(it.stride, Expr) for it in tile.shard):
        return None
    reached: dict[str, int] = {}
    for it in steps:
        if it.stride <= reached.get(it.axis.name, 0):
            break
        reached[it.axis.name] = reached.get(it.axis.name, 0) + (it.extent - 1) * it.stride
    else:
        return None  # every stride is past all that the smaller ones reach: one place each
    if tile.size > _ENUMERATE_LIMIT:
        return f"{region} has overlapping strides and {tile.size} elements, too many to compare one by one"
    places = np.zeros(tile.size, np.int64)
    scale, flat = 1, Symbol("flat", 0, tile.size - 1)
    for axis in tile.axes:
        symbolic = tile.apply(of_atom(flat))[axis.name]
        values = np.asarray(evaluate(symbolic - tile.offset_on(axis), {flat: np.arange(tile.size)}))
        places += values * scale
        scale *= int(values.max(initial=0)) + 1
    if len(np.unique(places)) != tile.size:
        return f"{region} puts {tile.size} elements in {len(np.unique(places))} places of {tile}"
    return None


def why_not_shared(request: CopyRequest) -> str | None:
    """Why the threads of the scope do not copy one box together: a start that differs between them; or None."""
    for region in (request.dst, request.src):
        for start in region.starts:
            if differs_within(start, request.scope):
                return (
                    f"the start {start} of {region} differs between the threads of a {request.scope.kind}: each would "
                    "copy another box; copy at scope thread, or let the start depend on nothing finer than the scope"
                )
    return None
