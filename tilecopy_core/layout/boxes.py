"""Functions on boxes, the rectangular parts of a shape. They find starts and extents, and cut a layout to a box."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import attrs

from ..errors import LayoutError, short_repr
from ..errors.attrs_classes import frozen
from ..integers import bounds_of, divisor_of, is_int_like, is_multiple, key_of, plain
from ..integers.conditions import RunTime
from ..integers.expr import Expr, Int, add, mul, structural_equal, sub
from .axes import Axis, OnAxis, m


@frozen(repr=False)
class Iter:
    """A frozen record of ``extent`` positions along ``axis``, ``stride`` elements apart."""

    extent: int
    stride: Int = attrs.field(eq=key_of)
    axis: Axis = m

    def __attrs_post_init__(self) -> None:
        extent, stride, axis = self.extent, self.stride, self.axis
        is_stride = type(stride) is int or is_int_like(stride)
        if type(extent) is not int or extent < 1 or not is_stride or type(axis) is not Axis:
            raise LayoutError(
                "Iter: (extent, stride, axis) must be (an int of at least 1, an integer, an Axis such as m), "
                f"got ({short_repr(extent)}, {short_repr(stride)}, {short_repr(axis)})"
            )

    def __repr__(self) -> str:
        return f"{self.extent}:{self.stride if self.axis == m else OnAxis(self.stride, self.axis)}"


Iters = Sequence[Iter]
Offset = tuple[tuple[Axis, "Int"], ...]
"""The offset along each axis, sorted by the axis's name; 0 only for a thread axis that no iter names."""


def add_offsets(left: Offset, right: Offset) -> Offset:
    """Add two offsets axis by axis and return the sum."""
    right = tuple([pair for pair in right if isinstance(pair[1], Expr) or pair[1]])
    if not right:
        return left
    total: dict[Axis, Int] = dict(left)
    for axis, value in right:
        total[axis] = add(total.get(axis, 0), value)
    kept = [(axis, value) for axis, value in total.items() if isinstance(value, Expr) or value != 0]
    return tuple(sorted(kept, key=lambda item: item[0].name) if len(kept) > 1 else kept)


def fuse(iters: Iters) -> tuple[Iter, ...]:
    """Return the iters after removing those of extent 1 and fusing contiguous neighbours."""
    return tuple([it for (it,) in fuse_pairs([(it,) for it in iters])])


Pair = tuple[Iter, ...]
"""Iters of one extent, one per side of a copy (and per guarded coordinate), for one loop of the common iteration space."""


def fuse_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of iters after removing those of extent 1 and fusing contiguous neighbours."""
    fused: list[Pair] = []
    for pair in pairs:
        if pair[0].extent == 1:
            continue
        if fused and all(
            structural_equal(outer.stride, inner.stride * inner.extent) and outer.axis == inner.axis
            for outer, inner in zip(fused[-1], pair, strict=True)
        ):
            fused[-1] = tuple([Iter(fused[-1][0].extent * it.extent, it.stride, it.axis) for it in pair])
        else:
            fused.append(pair)
    return fused


def box(
    shape: Sequence[Int], region: Sequence[Any], *, overhang: bool = False
) -> tuple[tuple[Int, ...], tuple[int, ...]]:
    """Return the starts and extents of a region with one slice or integer per dimension. An integer has extent 1.

    Extents of the shape may be symbolic. With ``overhang`` the box may reach past the shape, and starts and stops may be
    negative coordinates. Raises :class:`LayoutError` if the rank differs, if an extent of the box is symbolic or negative,
    or if the box is certainly outside.
    """
    if len(region) != len(shape):
        raise LayoutError(
            f"a region of the shape {tuple(shape)} must have {len(shape)} dimensions, got {short_repr(region)}"
        )
    parts = [_start_and_extent(region[dim], size, dim, overhang) for dim, size in enumerate(shape)]
    return tuple([start for start, _ in parts]), tuple([extent for _, extent in parts])


def surely_leaves(start: Int, extent: int, size: Int) -> bool:
    """Return whether ``[start, start + extent)`` is proved to exceed ``[0, size)``."""
    lower, upper = bounds_of(start)
    if not isinstance(size, Expr):
        return (lower is not None and lower + extent > size) or (upper is not None and upper < 0)
    room = bounds_of(sub(size, add(start, extent)))[1]
    return (room is not None and room < 0) or (upper is not None and upper < 0)


def leaving(dim: int, start: Int, extent: int, size: Int) -> str:
    """Return the message for a box that exceeds its dimension."""
    return f"dimension {dim}: the region {short_repr(start)} : {short_repr(add(start, extent))} is out of bounds for extent {size}"


_LOADED = "; to index by a value that is loaded, use KernelBuilder.index"


def _start_and_extent(part: Any, size: Int, dim: int, overhang: bool) -> tuple[Int, int]:
    if isinstance(part, slice):
        if part.step is not None and (type(part.step) is not int or part.step != 1):
            raise LayoutError(f"dimension {dim}: a slice must have step 1, got {short_repr(part.step)}")
        start, stop = plain(0 if part.start is None else part.start), plain(size if part.stop is None else part.stop)
    elif is_int_like(start := plain(part)):
        stop = start + 1
    else:
        hint = _LOADED * isinstance(part, RunTime)
        raise LayoutError(f"dimension {dim}: an index must be an integer or a slice, got {short_repr(part)}{hint}")
    if not (is_int_like(start) and is_int_like(stop)):
        ends, hint = f"{short_repr(start)}:{short_repr(stop)}", _LOADED * isinstance(start, RunTime)
        raise LayoutError(f"dimension {dim}: the ends of a slice must be integers, got {ends}{hint}")
    extent = stop - start
    if isinstance(extent, Expr):
        raise LayoutError(f"dimension {dim}: the extent of {start} : {stop} must be a plain integer, got {extent}")
    if extent < 0:
        raise LayoutError(
            f"dimension {dim}: the region {short_repr(start)} : {short_repr(stop)} must not end before it starts, got extent {short_repr(extent)}"
        )
    if not overhang and surely_leaves(start, extent, size):
        raise LayoutError(leaving(dim, start, extent, size))
    return start, extent


def flat_run(shape: Sequence[int], starts: Sequence[Int], extents: Sequence[int]) -> tuple[Int, int] | None:
    """Return a box's first flat index and number of elements. Return None if the flat indices are not contiguous."""
    first = next((dim for dim, extent in enumerate(extents) if extent > 1), len(shape) - 1)
    if any(extents[dim] != shape[dim] or not structural_equal(starts[dim], 0) for dim in range(first + 1, len(shape))):
        return None
    start: Int = 0
    for index, size in zip(starts, shape, strict=True):
        start = start * size + index
    return start, prod(extents)


def cut(iters: Iters, start: Int, extent: int) -> tuple[list[Iter], Offset] | None:
    """Return the iters and the offset of ``[start, start + extent)``. Return None if no iters describe this range."""
    if not iters:
        return [Iter(extent, 0)] if extent > 1 else [], ()  # of the one place; the rest is outside
    first, rest = iters[0], iters[1:]
    inner = prod([it.extent for it in rest])
    if extent % inner == 0 and (inner == 1 or is_multiple(start, inner)):
        kept = first if extent == first.extent * inner else Iter(extent // inner, first.stride, first.axis)
        return [kept, *rest], ((first.axis, start // inner * first.stride),)
    quotient = start // inner
    within = start - quotient * inner
    upper = bounds_of(within)[1]
    if upper is None or upper + extent > inner:
        if not isinstance(start, Expr):
            return _pieces(iters, start, extent, inner)
        step = gcd(inner, divisor_of(start))  # a multiple of it starts in [0, inner - step] of its block
        if extent > step:
            return None
        within = start % inner
    deeper = cut(rest, within, extent)
    return None if deeper is None else (deeper[0], ((first.axis, quotient * first.stride), *deeper[1]))


def _pieces(iters: Iters, start: int, extent: int, inner: int) -> tuple[list[Iter], Offset] | None:
    """Return the result of :func:`cut` for a box that straddles blocks of ``inner`` in equal pieces with one stride, or None."""
    size = gcd(start, extent, inner)

    def step(at: int) -> Offset | None:
        """Return the offset between the pieces before and after index ``at``, or None if the pieces' layouts differ."""
        before, after = cut(iters, at - size, size), cut(iters, at, size)
        if before is None or after is None or fuse(before[0]) != fuse(after[0]):
            return None
        return add_offsets(add_offsets((), after[1]), tuple((axis, mul(value, -1)) for axis, value in before[1]))

    edge = step((start // inner + 1) * inner)  # looked at first: it is where an uneven box shows
    if edge is None or len(edge) > 1:
        return None
    if any(key_of(step(at)) != key_of(edge) for at in range(start + size, start + extent, size)):
        return None
    axis, stride = edge[0] if edge else (iters[0].axis, 0)
    first = cut(iters, start, size)
    if first is None or isinstance(stride, Expr) or stride < 0:
        return None
    return [Iter(extent // size, stride, axis), *first[0]], first[1]
