"""Views: the same memory through another order of its dimensions, another shape, layout or element type.

Everything here works on shapes and layouts; what a view shares with its buffer (the memory, its address and alignment) is
the buffer's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

from .errors import LayoutError, shown
from .expr import Expr, Int, add, bounds_of, is_multiple, mul, same
from .layout import Axis, Iter, StridedLayout, Swizzle, TCol, TileLayout, m

AnyLayout: TypeAlias = "TileLayout | StridedLayout"
ELEMENT_AXES = (m, TCol)
"""Axes along which a stride counts elements."""


def checked_order(order: Sequence[Any], rank: int) -> tuple[int, ...]:
    """The order of a permutation of dimensions.

    Raises:
        LayoutError: not each dimension once.
    """
    given = tuple(order[0]) if len(order) == 1 and isinstance(order[0], (tuple, list)) else tuple(order)
    if not all(type(dim) is int for dim in given) or sorted(given) != list(range(rank)):
        raise LayoutError(
            f"permute names each of the {rank} dimensions once, 0 to {rank - 1}; found {shown(given)} as the order"
        )
    return given


def permuted(layout: AnyLayout, shape: tuple[Any, ...], order: tuple[int, ...]) -> AnyLayout:
    """The layout for the dimensions in another order.

    Raises:
        LayoutError: an iter of the layout belongs to two dimensions.
    """
    if isinstance(layout, StridedLayout):
        return layout.permute(order)
    owned = layout.by_dimension(shape)
    return layout.with_iters([it for dim in order for it in owned[dim]])


def rescaled(
    layout: AnyLayout, shape: tuple[Any, ...], old_bits: int, new_bits: int
) -> tuple[AnyLayout, tuple[Int, ...]]:
    """Layout and shape of the same bits as elements of another width.

    The last dimension that is contiguous has more elements, or fewer; the others stay.

    Raises:
        LayoutError: no dimension is contiguous, or a stride, extent, offset or swizzle chunk splits a new element.
    """
    if new_bits == old_bits:
        return layout, shape
    if max(new_bits, old_bits) % min(new_bits, old_bits):
        raise LayoutError(f"elements of {old_bits} bits are no whole number of elements of {new_bits} bits, nor in one")
    if isinstance(layout, StridedLayout):
        return _rescaled_strides(layout, old_bits, new_bits)
    owned = layout.by_dimension(shape)
    wider = new_bits > old_bits
    by = max(new_bits, old_bits) // min(new_bits, old_bits)
    dim = _contiguous_dimension(owned, wider=wider)
    last = owned[dim].pop() if owned[dim] else Iter(1, 1, _element_axis(layout))
    extent = _scaled(last.extent, by, up=not wider, what=f"dimension {dim}: its contiguous extent")
    assert isinstance(extent, int)

    def scaled(it: Iter) -> Iter:
        if it.axis not in ELEMENT_AXES:
            return it
        return Iter(it.extent, _scaled(it.stride, by, up=not wider, what="the stride"), it.axis)

    resized: dict[Axis, Int] = {}
    for axis in layout.axes:
        offset = layout.offset_on(axis)
        resized[axis] = _scaled(offset, by, up=not wider, what="the offset") if axis in ELEMENT_AXES else offset
    shard = [[scaled(it) for it in each] for each in owned]
    if extent > 1:
        shard[dim].append(Iter(extent, 1, last.axis))
    made = TileLayout.of(
        [it for each in shard for it in each],
        [scaled(it) for it in layout.replica],
        resized,
        None if layout.swizzle is None else _rescaled_swizzle(layout.swizzle, by, up=not wider),
    )
    whole = _scaled(shape[dim], by, up=not wider, what=f"dimension {dim}: its extent")
    return made, (*shape[:dim], whole, *shape[dim + 1 :])


def _contiguous_dimension(owned: list[list[Iter]], *, wider: bool) -> int:
    for dim in reversed(range(len(owned))):
        if owned[dim]:
            last = owned[dim][-1]
            if last.axis in ELEMENT_AXES and same(last.stride, 1):
                return dim
        elif not wider:
            return dim
    raise LayoutError("no dimension is contiguous (stride 1), so no elements lie side by side")


def _element_axis(layout: TileLayout) -> Axis:
    return TCol if TCol in layout.axes else m


def _rescaled_strides(layout: StridedLayout, old_bits: int, new_bits: int) -> tuple[AnyLayout, tuple[Int, ...]]:
    wider = new_bits > old_bits
    by = max(new_bits, old_bits) // min(new_bits, old_bits)
    dim = next((d for d in reversed(range(len(layout.shape))) if same(layout.strides[d], 1)), None)
    if dim is None:
        raise LayoutError("no dimension is contiguous (stride 1), so no elements lie side by side")
    extent = _scaled(layout.shape[dim], by, up=not wider, what=f"dimension {dim}: its contiguous extent")
    strides = [
        1 if d == dim else _scaled(stride, by, up=not wider, what="the stride")
        for d, stride in enumerate(layout.strides)
    ]
    shape = (*layout.shape[:dim], extent, *layout.shape[dim + 1 :])
    return StridedLayout(shape, tuple(strides)), shape


def _scaled(value: Int, by: int, *, up: bool, what: str) -> Int:
    if up:
        return mul(value, by)
    if not is_multiple(value, by):
        raise LayoutError(
            f"{what} {value} is not proved to be a multiple of {by} elements, which one new element takes"
        )
    return value // by


def _rescaled_swizzle(swizzle: Swizzle, by: int, *, up: bool) -> Swizzle:
    step = by.bit_length() - 1
    per_element = swizzle.per_element + step if up else swizzle.per_element - step
    if 1 << step != by or per_element < 0:
        raise LayoutError(f"{swizzle} keeps {swizzle.chunk_elems} elements together, a new element takes {by}")
    return Swizzle(per_element, swizzle.swizzle_len, swizzle.atom_len)


def reshaped(layout: AnyLayout, shape: tuple[Int, ...], wanted: tuple[Int, ...]) -> AnyLayout:
    """The layout of the same elements, row-major order kept, in another shape.

    Raises:
        LayoutError: the shape has another number of elements, or symbolic extents whose array is not row-major.
    """
    if isinstance(layout, TileLayout):
        if not all(isinstance(extent, int) for extent in wanted):
            raise LayoutError(f"the shape {wanted} has a size known at launch, the elements {shape} have none")
        if prod(wanted) != layout.size:
            raise LayoutError(f"the shape {wanted} has {prod(wanted)} elements, it has {layout.size}; give layout= too")
        return layout
    if not same(layout.strides, symbolic_row_major(shape)):
        raise LayoutError(f"{layout} is not row-major, so another shape of it needs a layout= of its own")
    if not same(_product(wanted), _product(shape)):
        raise LayoutError(f"the shape {wanted} is not proved to have the elements of {shape}; give layout= too")
    return StridedLayout(wanted, symbolic_row_major(wanted))


def _product(shape: Sequence[Int]) -> Int:
    total: Int = 1
    for extent in shape:
        total = mul(total, extent)
    return total


def symbolic_row_major(shape: Sequence[Int]) -> tuple[Int, ...]:
    """Strides, in elements, of a row-major array of a shape that may be symbolic."""
    strides: list[Int] = []
    step: Int = 1
    for extent in reversed(shape):
        strides.append(step)
        step = mul(step, extent)
    return tuple(reversed(strides))


def reach(layout: AnyLayout, axis: Axis) -> Int:
    """Places along an axis from 0 to the last that the layout reaches, inclusive; symbolic where a part is."""
    if isinstance(layout, StridedLayout):
        return layout.reach() if axis == m else 1
    last = layout.offset_on(axis)
    if isinstance(last, int) and all(isinstance(it.stride, int) for it in layout.shard + layout.replica):
        return layout.span(axis)
    for it in layout.shard + layout.replica:
        if it.axis == axis:
            last = add(last, mul(it.stride, it.extent - 1))
    whole = layout.swizzle.block_elems if layout.swizzle is not None and axis == m else 1
    return add(last, whole)  # never less than whole blocks of what the swizzle permutes


def check_begins_inside(layout: AnyLayout, what: str) -> None:
    """Raise :class:`LayoutError` for an offset that can be negative: before the buffer's start there is nothing."""
    if isinstance(layout, StridedLayout):
        return
    for axis in layout.axes:
        offset = layout.offset_on(axis)
        lower, _ = bounds_of(offset)
        if lower is None or lower < 0:
            reaches = f", which reaches down to {lower}" if isinstance(offset, Expr) else ""
            raise LayoutError(f"{what}: the offset {offset}{reaches} along {axis} of {shown(layout)} is negative")


def certainly_at_most(value: Int, limit: Int) -> bool:
    """Whether a value is proved to be no more than a limit."""
    lower, _ = bounds_of(add(limit, mul(value, -1)))
    return lower is not None and lower >= 0
