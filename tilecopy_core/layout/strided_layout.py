"""The layout of an array whose extents are known only at launch: one stride per dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import attrs

from ..errors import LayoutError
from ..errors.attrs_classes import frozen
from ..integers.expr import Expr, Int, add, bounds_of, key_of, mul, structural_equal
from .axes import Axis, m
from .boxes import Iter
from .html import html_table
from .tile_layout import TileLayout


def _magnitude(stride: Int) -> Int:
    """Return the absolute value of a stride, or its upper bound if the sign is not known."""
    lower, upper = bounds_of(stride)
    if lower is not None and lower >= 0:
        return stride
    if upper is not None and upper <= 0:
        return mul(stride, -1)
    return 2**60 if lower is None or upper is None else max(-lower, upper)


@frozen(repr=False)
class StridedLayout:
    """A layout with one stride per dimension that maps coordinates to element offsets. The shape may be symbolic.

    A tile of it has fixed extents, so :meth:`box` returns an ordinary :class:`TileLayout`. Iters are split and fused only
    there, because that needs known extents.
    """

    shape: tuple[Int, ...] = attrs.field(eq=key_of)
    strides: tuple[Int, ...] = attrs.field(eq=key_of)

    swizzle: ClassVar[None] = None
    replica: ClassVar[tuple[Iter, ...]] = ()
    axes: ClassVar[tuple[Axis, ...]] = (m,)
    offset: ClassVar[Mapping[str, Int]] = MappingProxyType({})

    def __repr__(self) -> str:
        extents, strides = (", ".join(map(str, values)) for values in (self.shape, self.strides))
        one = len(self.shape) == 1
        return f"StridedLayout({extents} : {strides})" if one else f"StridedLayout(({extents}) : ({strides}))"

    def _repr_html_(self) -> str:
        return html_table(zip(self.shape, self.strides, strict=True), ("extent", "stride"))

    @property
    def unswizzled(self) -> StridedLayout:
        """The layout without its swizzle. A strided layout has no swizzle, so this is the layout itself."""
        return self

    def check_admits(self, shape: Sequence[Int], what: str) -> None:
        """Raise :class:`LayoutError` if ``shape`` differs from the layout's shape."""
        if not structural_equal(tuple(shape), self.shape):
            raise LayoutError(f"{what}: the shape must be {self.shape}, the shape of {self}, got {tuple(shape)}")

    def offset_of(self, coordinate: Sequence[Int]) -> Int:
        """Return the element offset of a coordinate."""
        return sum([mul(index, stride) for index, stride in zip(coordinate, self.strides, strict=True)])

    def apply(self, *coordinate: Int, shape: Sequence[Int] | None = None) -> dict[str, Int]:
        """Return the element offset of a coordinate (one index per dimension) as ``{"m": offset}``."""
        if shape is not None:
            self.check_admits(shape, "apply")
        if len(coordinate) != len(self.strides):
            raise LayoutError(f"a coordinate of {self} must have {len(self.strides)} indices, got {len(coordinate)}")
        return {m.name: self.offset_of(coordinate)}

    def box(self, shape: Sequence[Int], starts: Sequence[Int], extents: Sequence[int]) -> TileLayout:
        """Return the layout of a box. The arguments are not checked."""
        iters = [Iter(extent, stride) for extent, stride in zip(extents, self.strides, strict=True) if extent > 1]
        return TileLayout.of(iters, (), {m: self.offset_of(starts)})

    def reorder(self, shape: Sequence[Int], order: Sequence[int]) -> StridedLayout:
        """Return the layout with its dimensions in the given order."""
        return StridedLayout(tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order))

    def reach(self, axis: Axis = m) -> Int:
        """Return the number of elements that the layout spans along an axis, including gaps. An empty shape spans 0."""
        if axis != m:
            return 1
        if any(isinstance(extent, int) and not extent for extent in self.shape):
            return 0
        steps = [
            mul(add(extent, -1), _magnitude(stride)) for extent, stride in zip(self.shape, self.strides, strict=True)
        ]
        return add(sum(steps), 1)

    def span(self, axis: Axis = m) -> int:
        """Return :meth:`reach` as a plain integer. Raises :class:`LayoutError` if the value is symbolic."""
        reach = self.reach(axis)
        if isinstance(reach, Expr):
            raise LayoutError(f"the span of {self} must be a constant, got {reach}")
        return reach
