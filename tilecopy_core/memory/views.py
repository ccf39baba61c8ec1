"""Views: the same memory through another order of its dimensions, another shape, layout or element type.

Everything here works on shapes and layouts; the memory, its address and its alignment are the buffer's business.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from ..errors import LayoutError, short_repr
from ..errors.records import frozen
from ..integers.expr import Expr, Int, bounds_of, is_multiple, mul, structural_equal
from ..layout import Axis, Iter, StridedLayout, Swizzle, TCol, TileLayout, m, row_major

AnyLayout: TypeAlias = "TileLayout | StridedLayout"
ELEMENT_AXES = (m, TCol)
"""Axes along which a stride counts elements."""


def permute_layout(layout: AnyLayout, shape: tuple[Any, ...], order: tuple[int, ...]) -> AnyLayout:
    """Return the layout for the dimensions in another order; a LayoutError where an iter of it belongs to two of them."""
    if isinstance(layout, StridedLayout):
        return layout.permute(order)
    owned = layout.by_dimension(shape)
    return layout.with_iters([it for dim in order for it in owned[dim]])


def rescale_layout(
    layout: AnyLayout, shape: tuple[Any, ...], old_bits: int, new_bits: int
) -> tuple[AnyLayout, tuple[Any, ...]]:
    """Return layout and shape of the same bits as elements of another width.

    The last dimension that is contiguous has more elements, or fewer; the others stay. Raises LayoutError where no
    dimension is contiguous, or a stride, extent, offset or swizzle chunk splits a new element.
    """
    if new_bits == old_bits:
        return layout, shape
    if max(new_bits, old_bits) % min(new_bits, old_bits):
        raise LayoutError(
            f"the widths of both element types must divide each other, got {old_bits} and {new_bits} bits"
        )
    scale = _Scale(max(1, old_bits // new_bits), max(1, new_bits // old_bits))
    if isinstance(layout, StridedLayout):
        dim = _contiguous_dimension([[Iter(1, stride)] for stride in layout.strides])
        shape = (*shape[:dim], scale.of(shape[dim], f"dimension {dim}: its contiguous extent"), *shape[dim + 1 :])
        strides = tuple(1 if d == dim else scale.of(stride, "the stride") for d, stride in enumerate(layout.strides))
        return StridedLayout(shape, strides), shape
    owned = layout.by_dimension(shape)
    dim = _contiguous_dimension(owned, may_be_new=scale.more > 1)
    last = owned[dim].pop() if owned[dim] else Iter(1, 1, TCol if TCol in layout.axes else m)
    extent = scale.of(last.extent, f"dimension {dim}: its contiguous extent")
    assert isinstance(extent, int)
    shard = [[scale.of_iter(it) for it in iters] for iters in owned]
    if extent > 1:
        shard[dim].append(Iter(extent, 1, last.axis))
    rescaled_layout = TileLayout.of(
        [it for iters in shard for it in iters],
        [scale.of_iter(it) for it in layout.replica],
        {axis: scale.of(layout.offset_on(axis), "the offset", axis) for axis in layout.axes},
        None if layout.swizzle is None else scale.of_swizzle(layout.swizzle),
    )
    return rescaled_layout, (*shape[:dim], scale.of(shape[dim], f"dimension {dim}: its extent"), *shape[dim + 1 :])


def _contiguous_dimension(owned: list[list[Iter]], *, may_be_new: bool = False) -> int:
    for dim in reversed(range(len(owned))):
        if owned[dim]:
            last = owned[dim][-1]
            if last.axis in ELEMENT_AXES and structural_equal(last.stride, 1):
                return dim
        elif may_be_new:
            return dim
    raise LayoutError("no dimension is contiguous (stride 1), so no elements lie side by side")


@frozen
class _Scale:
    """From elements of one width to those of another: ``more`` new ones for each ``fewer`` old ones; one of the two is 1."""

    more: int
    fewer: int

    def of(self, value: Int, what: str, axis: Axis = m) -> Int:
        """Return a number of elements; along an axis that counts something else it stays."""
        if axis not in ELEMENT_AXES:
            return value
        if not is_multiple(value, self.fewer):
            raise LayoutError(
                f"{what} {value} is not proved to be a multiple of {self.fewer} elements, which one new element takes"
            )
        return mul(value, self.more) // self.fewer

    def of_iter(self, it: Iter) -> Iter:
        return Iter(it.extent, self.of(it.stride, "the stride", it.axis), it.axis)

    def of_swizzle(self, swizzle: Swizzle) -> Swizzle:
        chunk_elems, rest = divmod(swizzle.chunk_elems * self.more, self.fewer)
        if rest or chunk_elems & (chunk_elems - 1):
            raise LayoutError(
                f"{swizzle} keeps {swizzle.chunk_elems} elements together, a new element takes {self.fewer}"
            )
        return Swizzle(chunk_elems.bit_length() - 1, swizzle.swizzle_len, swizzle.atom_len)


def reshape_layout(layout: AnyLayout, shape: tuple[Int, ...], wanted: tuple[Int, ...]) -> AnyLayout:
    """Return the layout of the same elements, row-major order kept, in another shape.

    Raises LayoutError for a shape of another number of elements, or symbolic extents whose array is not row-major.
    """
    if isinstance(layout, TileLayout):
        if not all(isinstance(extent, int) for extent in wanted):
            raise LayoutError(f"the shape {wanted} has a size known at launch, the elements {shape} have none")
        if prod(wanted) != layout.size:
            raise LayoutError(f"the shape {wanted} has {prod(wanted)} elements, it has {layout.size}; give layout= too")
        return layout
    if not structural_equal(layout.strides, row_major(shape)):
        raise LayoutError(f"{layout} is not row-major: give layout= too for another shape")
    if not structural_equal(prod(wanted), prod(shape)):
        raise LayoutError(f"the shape {wanted} is not proved to have the elements of {shape}; give layout= too")
    return StridedLayout(wanted, row_major(wanted))


def check_begins_inside(layout: AnyLayout, what: str) -> None:
    """Raise :class:`LayoutError` for an offset that can be negative: before the buffer's start there is nothing."""
    for axis, offset in layout.offset.items():
        lower, _ = bounds_of(offset)
        if lower is None or lower < 0:
            reaches = f", which reaches down to {lower}" if isinstance(offset, Expr) else ""
            raise LayoutError(f"{what}: the offset {offset}{reaches} along {axis} of {short_repr(layout)} is negative")
