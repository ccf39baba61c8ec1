"""Views of memory with another order of dimensions, another shape, layout or element type.

This module computes shapes and layouts; the buffer checks the memory and its alignment.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from ..errors import LayoutError, short_repr
from ..errors.attrs_classes import frozen
from ..integers.expr import Expr, Int, bounds_of, is_multiple, mul, structural_equal
from ..layout import Axis, Iter, StridedLayout, Swizzle, TCol, TileLayout, m, row_major

AnyLayout: TypeAlias = "TileLayout | StridedLayout"
ELEMENT_AXES = (m, TCol)
"""Axes along which a stride counts elements."""


def rescale_layout(
    layout: AnyLayout, shape: tuple[Any, ...], old_bits: int, new_bits: int
) -> tuple[AnyLayout, tuple[Any, ...]]:
    """Return the layout of a view with another element width, and the shape of the view.

    The last contiguous dimension gets more or fewer elements; the others do not change. Raises LayoutError if no
    dimension is contiguous, or if a stride, extent, offset or swizzle chunk is not a multiple of a new element.
    """
    if new_bits == old_bits:
        return layout, shape
    if max(new_bits, old_bits) % min(new_bits, old_bits):
        raise LayoutError(f"one element width must be a multiple of the other, got {old_bits} and {new_bits} bits")
    scale = _Scale(max(1, old_bits // new_bits), max(1, new_bits // old_bits))
    if isinstance(layout, StridedLayout):
        dim = _contiguous_dimension([[Iter(1, stride)] for stride in layout.strides])
        shape = (*shape[:dim], scale.of(shape[dim], f"the contiguous extent of dimension {dim}"), *shape[dim + 1 :])
        strides = tuple(1 if d == dim else scale.of(stride, "the stride") for d, stride in enumerate(layout.strides))
        return StridedLayout(shape, strides), shape
    owned = layout.by_dimension(shape)
    dim = _contiguous_dimension(owned, may_be_new=scale.more > 1)
    last = owned[dim].pop() if owned[dim] else Iter(1, 1, TCol if TCol in layout.axes else m)
    extent = scale.of(last.extent, f"the contiguous extent of dimension {dim}")
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
    return rescaled_layout, (*shape[:dim], scale.of(shape[dim], f"the extent of dimension {dim}"), *shape[dim + 1 :])


def _contiguous_dimension(owned: list[list[Iter]], *, may_be_new: bool = False) -> int:
    for dim in reversed(range(len(owned))):
        if owned[dim]:
            last = owned[dim][-1]
            if last.axis in ELEMENT_AXES and structural_equal(last.stride, 1):
                return dim
        elif may_be_new:
            return dim
    raise LayoutError(
        f"a view with another element width needs a contiguous dimension (stride 1), got strides {short_repr([[it.stride for it in iters] for iters in owned])}"
    )


@frozen
class _Scale:
    """A ratio of element widths: ``more`` new elements take the bits of ``fewer`` old ones; one of the two is 1."""

    more: int
    fewer: int

    def of(self, value: Int, what: str, axis: Axis = m) -> Int:
        """Convert a number of elements to the new element width. A number of threads or lanes is unchanged."""
        if axis not in ELEMENT_AXES:
            return value
        if not is_multiple(value, self.fewer):
            raise LayoutError(
                f"{what} must be proved to be a multiple of {self.fewer}, the number of old elements per new element, got {value}"
            )
        return mul(value, self.more) // self.fewer

    def of_iter(self, it: Iter) -> Iter:
        return Iter(it.extent, self.of(it.stride, "the stride", it.axis), it.axis)

    def of_swizzle(self, swizzle: Swizzle) -> Swizzle:
        chunk_elems, rest = divmod(swizzle.chunk_elems * self.more, self.fewer)
        if rest or chunk_elems & (chunk_elems - 1):
            raise LayoutError(
                f"a new element must fit into the {swizzle.chunk_elems} old elements that {swizzle} keeps contiguous, got a new element as wide as {self.fewer} old elements"
            )
        return Swizzle(chunk_elems.bit_length() - 1, swizzle.swizzle_len, swizzle.atom_len)


def reshape_layout(layout: AnyLayout, shape: tuple[Int, ...], wanted: tuple[Int, ...]) -> AnyLayout:
    """Return the layout for another shape that has the same elements in the same row-major order.

    Raises LayoutError if the number of elements differs, or if an array with symbolic extents is not row-major.
    """
    if isinstance(layout, TileLayout):
        if not all(isinstance(extent, int) for extent in wanted):
            raise LayoutError(f"the new shape must have plain integers like the old shape {shape}, got {wanted}")
        if prod(wanted) != layout.size:
            raise LayoutError(
                f"the new shape {wanted} must have {layout.size} elements, as many as the layout, got {prod(wanted)}: pass the view's layout as layout="
            )
        return layout
    if not structural_equal(layout.strides, row_major(shape)):
        raise LayoutError(
            f"the layout must be row-major for a view with another shape, got {layout}: pass the view's layout as layout="
        )
    if not structural_equal(prod(wanted), prod(shape)):
        raise LayoutError(
            f"the new shape {wanted} must have as many elements as {shape}, but the symbolic sizes do not prove it: pass the view's layout as layout="
        )
    return StridedLayout(wanted, row_major(wanted))


def check_begins_inside(layout: AnyLayout, what: str) -> None:
    """Raise :class:`LayoutError` if an offset may be negative, because the layout must not begin before the buffer."""
    for axis, offset in layout.offset.items():
        lower, _ = bounds_of(offset)
        if lower is None or lower < 0:
            reaches = f" with lower bound {lower}" if isinstance(offset, Expr) else ""
            raise LayoutError(
                f"{what}: the offset along {axis} of {short_repr(layout)} must not be negative, got {offset}{reaches}"
            )
