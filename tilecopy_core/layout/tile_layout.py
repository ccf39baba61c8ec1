"""Layouts: ``S[extents : strides] + R[extent : stride] + offset``, an optional swizzle, and operations on layouts.

A layout maps a logical coordinate to a set of places. The coordinate is flattened row-major, and the flat index is split
across the shard iters (last fastest). Then ``component * stride`` is added on each iter's axis, and the offset is added.
Each replica iter repeats the place ``extent`` times. A swizzle permutes the resulting memory address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import attrgetter, mul
from typing import Any, ClassVar, TypeVar

import attrs

from ..errors import LayoutError, short_repr
from ..errors.attrs_classes import frozen
from ..integers.expr import Expr, Int, is_int_like, key_of, plain
from .axes import Axis, OnAxis, m
from .boxes import Iter, Iters, Offset, add_offsets, box, cut, flat_run, fuse, surely_leaves
from .html import html_table
from .swizzle import Swizzle

_MOST_ELEMS = 1 << 62
"""The most elements of a shape, because index arithmetic has 64 bits."""
MOST_PLACES = 1 << 16
"""The most replicas that are listed."""
N = TypeVar("N", int, Int)


@frozen(init=False, repr=False)
class TileLayout:
    """A map from logical coordinates to positions along hardware axes: ``TileLayout(S[(32, 8) : (1 @ laneid, 1)])``.

    Attributes:
        shard: the iters that a coordinate is split across, last fastest.
        replica: the iters along which every place is repeated.
        swizzle: applied to the place on ``m`` afterwards, or None.
    """

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...]
    _offset: Offset = attrs.field(eq=key_of)
    swizzle: Swizzle | None

    reflects: ClassVar[tuple[str, ...]] = ("+",)
    __array_ufunc__ = None

    def __init__(self, spec: TileLayout) -> None:
        if not isinstance(spec, TileLayout):
            raise LayoutError(f"TileLayout: spec must be S[...] (+ R[...] + offset), got {short_repr(spec)}")
        self.__attrs_init__(spec.shard, spec.replica, spec._offset, spec.swizzle)

    @classmethod
    def of(
        cls,
        shard: Iters,
        replica: Iters = (),
        offset: Mapping[Axis, Int] | Offset = (),
        swizzle: Swizzle | None = None,
        *,
        names: Iterable[Axis] = (),
    ) -> TileLayout:
        """Return the layout with the given shard iters, replica iters, offset and swizzle.

        A thread axis of the offset or of ``names`` that no iter has gets an offset of 0: then only the thread at position 0 along it
        owns the elements.
        """
        pairs = offset if isinstance(offset, tuple) else tuple(offset.items())
        total = add_offsets((), pairs) if pairs else ()
        if threads := {axis for axis in (*names, *[axis for axis, _ in pairs]) if axis.kind != "memory"}:
            threads -= {it.axis for it in (*shard, *replica)} | {axis for axis, _ in total}
            total = tuple(sorted((*total, *[(axis, 0) for axis in threads]), key=lambda pair: pair[0].name))
        layout = cls.__new__(cls)
        layout.__attrs_init__(tuple(shard), tuple(replica), total, swizzle)
        return layout

    def __add__(self, other: Any) -> TileLayout:
        if isinstance(other, OnAxis):
            other = TileLayout.of((), (), ((other.axis, other.value),))
        elif is_int_like(other := plain(other)):
            other = TileLayout.of((), (), ((m, other),))
        if not isinstance(other, TileLayout):
            raise LayoutError(f"an offset must be an integer or `integer @ axis`, got {short_repr(other)}")
        if (self.shard and other.shard) or other.swizzle is not None or self.swizzle is not None:
            raise LayoutError(
                f"a sum of layouts must have one S[...] and no swizzle, got {self} and {other}: apply a swizzle to the sum"
            )
        return TileLayout.of(self.shard or other.shard, self.replica + other.replica, self._offset + other._offset)

    __radd__ = __add__

    def __repr__(self) -> str:
        parts = [_bracket("S", self.shard)] if self.shard or not self.replica else []
        parts += [_bracket("R", (it,)) for it in self.replica]
        offset = [(axis, f"{value}" if axis == m else f"{OnAxis(value, axis)}") for axis, value in self._offset]
        # a layout takes no minus: an offset on memory that subtracts stands in parentheses
        parts += [f"({text})" if axis == m and " - " in text else text for axis, text in offset]
        plain = f"TileLayout({' + '.join(parts)})"
        return plain if self.swizzle is None else f"SwizzledLayout(swizzle={self.swizzle}, layout={plain})"

    def with_iters(self, shard: Iters) -> TileLayout:
        """Return the layout with other shard iters. A thread axis that no longer has an iter gets an offset of 0."""
        return TileLayout.of(shard, self.replica, self._offset, self.swizzle, names=[it.axis for it in self.shard])

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [("shard", it.extent, it.stride, it.axis) for it in self.shard]
        rows += [("replica", it.extent, it.stride, it.axis) for it in self.replica]
        rows += [("offset", "", value, axis) for axis, value in self.offset.items()]
        rows += [("swizzle", self.swizzle, "", "")] if self.swizzle else []
        return html_table(rows, ("", "extent", "stride", "axis"))

    @property
    def unswizzled(self) -> TileLayout:
        """The layout without its swizzle."""
        return self if self.swizzle is None else TileLayout.of(self.shard, self.replica, self._offset)

    @property
    def offset(self) -> dict[str, Int]:
        """A dict from axis names to the nonzero offsets."""
        return {axis.name: value for axis, value in self._offset if isinstance(value, Expr) or value}

    def offset_on(self, axis: Axis) -> Int:
        """Return the offset along one axis."""
        return dict(self._offset).get(axis, 0) if self._offset else 0

    @property
    def strides(self) -> tuple[Int, ...]:
        """The stride of each shard iter, in elements."""
        return tuple([it.stride for it in self.shard])

    @property
    def size(self) -> int:
        """The number of logical elements."""
        return prod([it.extent for it in self.shard])

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of all iters and offsets, sorted by name. A layout without iters and offsets has only ``m``."""
        named = {it.axis for it in self.shard + self.replica}.union([axis for axis, _ in self._offset])
        return tuple(sorted(named, key=attrgetter("name"))) or (m,)

    def check_admits(self, shape: Sequence[int], what: str) -> tuple[int, ...]:
        """Return a shape as plain integers. Raises LayoutError if the shape does not have ``size`` elements."""
        shape = checked_extents(shape, f"{what}: shape")
        if prod(shape) != self.size:
            raise LayoutError(
                f"{what}: the shape {short_repr(shape)} must have {self.size} elements, as many as {self}, got {prod(shape)}"
            )
        return shape

    def apply(self, *coordinate: Int, shape: Sequence[int] | None = None) -> dict[str, Int]:
        """Return the position of a coordinate in replica 0, as ``{axis name: position}``.

        The coordinate is one flat index, one index per shard iter, or one per dimension of ``shape``, a shape of this layout's
        size; each may be symbolic. Raises :class:`LayoutError` where their number, the shape or a constant one does not fit.
        """
        if shape is None:
            got, rank = len(coordinate), len(self.shard)
            if got not in (1, rank):
                raise LayoutError(
                    f"a coordinate of {self} must be one flat index or have {rank} indices, got {got} indices: pass shape= to index another shape"
                )
            shape = (self.size,) if got == 1 else tuple(it.extent for it in self.shard)
        shape = self.check_admits(shape, "apply")
        if len(coordinate) != len(shape):
            raise LayoutError(
                f"a coordinate of the shape {shape} must have {len(shape)} indices, got {short_repr(coordinate)}"
            )
        flat: Int = 0
        for index, extent in zip(coordinate, shape, strict=True):
            if not is_int_like(index := plain(index)):
                raise LayoutError(f"an index of a coordinate must be an integer, got {short_repr(index)}")
            if surely_leaves(index, 1, extent):
                raise LayoutError(f"index {short_repr(index)} is out of bounds for extent {extent}")
            flat = flat * extent + index
        return self._apply_swizzle({axis.name: self.along(axis, flat) for axis in self.axes})

    def _apply_swizzle(self, place: dict[str, Int]) -> dict[str, Int]:
        return place if self.swizzle is None else {**place, m.name: self.swizzle.apply(place.get(m.name, 0))}

    def along(self, axis: Axis, index: Int) -> Int:
        """Return the position of a flat index along one axis, before the swizzle. The index is assumed to be in bounds."""
        return along(self.shard, axis, index, self.offset_on(axis))

    def places(self, *coordinate: Int, shape: Sequence[int] | None = None) -> list[dict[str, Int]]:
        """Return the positions of a coordinate in all replicas, one dict per replica; see :meth:`apply`."""
        places = [self.unswizzled.apply(*coordinate, shape=shape)]
        if prod(it.extent for it in self.replica) > MOST_PLACES:
            raise LayoutError(
                f"{self} must have at most {MOST_PLACES} replicas to list the positions of {short_repr(coordinate)}, got {prod(it.extent for it in self.replica)}"
            )
        for it in self.replica:
            on = it.axis.name
            places = [{**place, on: place[on] + step * it.stride} for place in places for step in range(it.extent)]
        return [self._apply_swizzle(place) for place in places]

    def reach(self, axis: Axis = m) -> Int:
        """Return the number of positions along an axis, counted from 0 and rounded up to whole swizzle blocks."""
        start, iters = self.offset_on(axis), self.shard + self.replica
        last = sum([it.stride * (it.extent - 1) for it in iters if it.axis == axis], start)
        block = self.swizzle.block_elems if self.swizzle is not None and axis == m else 1
        return (last // block + 1) * block

    def span(self, axis: Axis = m) -> int:
        """Return :meth:`reach` as a plain integer. Raises :class:`LayoutError` if a stride or offset on the axis is symbolic."""
        if not isinstance(axis, Axis):
            raise LayoutError(f"span: axis must be an Axis, such as m or laneid, got {short_repr(axis)}")
        reach = self.reach(axis)
        if isinstance(reach, Expr):
            raise LayoutError(f"the span of {self} along {axis} must be a constant, got {reach}")
        return reach

    def canonicalize(self) -> TileLayout:
        """Return the layout in canonical form: iters of extent 1 are removed, and contiguous neighbours are fused."""
        replica = tuple(it for it in self.replica if it.extent > 1)
        return TileLayout.of(fuse(self.shard), replica, self._offset, self.swizzle)

    def group(self, shape: Sequence[int]) -> tuple[TileLayout, tuple[int, ...]]:
        """Return ``(layout, separators)``: an equal layout whose iters each belong to one dimension of ``shape``.

        Dimension ``d`` has ``shard[separators[d] : separators[d + 1]]``; dimensions of extent 1 have no iters. Raises
        :class:`LayoutError` where the sizes differ, or an iter straddles two dimensions and cannot be split between them.
        """
        groups = self.by_dimension(self.check_admits(shape, "group"))
        separators = tuple(accumulate(map(len, groups), initial=0))
        return self.with_iters([it for owned in groups for it in owned]), separators

    def by_dimension(self, shape: tuple[int, ...]) -> list[list[Iter]]:
        """Return the layout's iters for each dimension of a shape, with contiguous iters fused. Raises LayoutError as :meth:`group` does."""
        if shape == tuple([it.extent for it in self.shard]):
            return [[it] if it.extent > 1 else [] for it in self.shard]
        pending = list(fuse(self.shard))
        groups: list[list[Iter]] = []
        for extent in reversed(shape):
            owned: list[Iter] = []
            needed = extent
            while needed > 1:
                it = pending.pop()
                if needed % it.extent == 0:
                    owned.append(it)
                    needed //= it.extent
                elif it.extent % needed == 0:
                    owned.append(Iter(needed, it.stride, it.axis))
                    pending.append(Iter(it.extent // needed, it.stride * needed, it.axis))
                    needed = 1
                else:
                    raise LayoutError(
                        f"{self} cannot be grouped by {shape}: the iter {it} straddles two dimensions, but "
                        f"neither of {it.extent} and {needed} divides the other"
                    )
            groups.append(owned[::-1])
        return groups[::-1]

    def slice(self, shape: Sequence[int], region: Sequence[Any]) -> TileLayout | None:
        """Return the layout of a box: ``slice(..).apply(c) == apply(c + start)`` for every ``c`` of the box.

        The region has a slice, ``(start, stop)`` or an index of each dimension of a shape of this layout's size; starts may be
        symbolic, extents may not. None when the box is not a layout (it starts or ends inside an iter), or that cannot be
        proved. Raises :class:`LayoutError` where the region is of another rank than the shape, is empty, or leaves it.
        """
        shape = self.check_admits(shape, "slice")
        if not isinstance(region, (tuple, list)):
            raise LayoutError(f"a region must be a tuple of one slice per dimension, got {short_repr(region)}")
        pairs = (slice(*part) if isinstance(part, (tuple, list)) and len(part) == 2 else part for part in region)
        starts, extents = box(shape, tuple(pairs))
        return self.box(shape, starts, checked_extents(extents, "slice"))

    def box(self, shape: tuple[int, ...], starts: Sequence[Int], extents: Sequence[int]) -> TileLayout | None:
        """Return the layout of a box. Unlike in :meth:`slice`, the box may reach past the array's edge."""
        try:
            parts = list(map(cut, self.by_dimension(shape), starts, extents))
        except LayoutError:  # an iter straddles dimensions
            parts = [None]
        if None in parts and (run := flat_run(shape, starts, extents)):  # one element, or a run, may still be a layout
            if run[1] == 1:
                at = 0 if surely_leaves(run[0], 1, self.size) else run[0]
                return TileLayout.of((), self.replica, {a: self.along(a, at) for a in self.axes}, self.swizzle)
            parts = [cut(fuse(self.shard), *run)]
        shard: list[Iter] = []
        offset = self._offset
        for part in parts:
            if part is None:
                return None
            shard += part[0]
            offset += part[1]
        return TileLayout.of(shard, self.replica, offset, self.swizzle, names=[it.axis for it in self.shard])

    def permute(self, order: Sequence[int]) -> TileLayout:
        """Return the layout with reordered shard iters. Raises LayoutError if ``order`` is not a permutation."""
        return self.with_iters([self.shard[dim] for dim in checked_order(order, len(self.shard), f"permute of {self}")])

    def reorder(self, shape: tuple[int, ...], order: Sequence[int]) -> TileLayout:
        """Reorder the dimensions of ``shape`` and return the layout. Raises LayoutError if an iter spans dimensions."""
        owned = self.by_dimension(shape)
        return self.with_iters([it for dim in order for it in owned[dim]])

    def tile_to(self, shape: Sequence[int], atom_shape: Sequence[int] | None = None) -> TileLayout:
        """Return this layout repeated in row-major order over a larger shape. Each repeat uses the next span of memory.

        ``atom_shape`` is this layout's own shape, by default its shard extents. Raises :class:`LayoutError` where the ranks
        differ, or a dimension of the atom does not divide the shape's.
        """
        shape = checked_extents(shape, "shape")
        atom = checked_extents([it.extent for it in self.shard] if atom_shape is None else atom_shape, "atom_shape")
        if len(atom) != len(shape) or any(big % small for big, small in zip(shape, atom, strict=True)):
            raise LayoutError(f"{self}: shape must be a multiple of atom_shape {atom}, got {short_repr(shape)}")
        groups = self.by_dimension(self.check_admits(atom, "tile_to, atom_shape"))
        counts = [big // small for big, small in zip(shape, atom, strict=True)]
        step = self.unswizzled.span()
        shard: list[Iter] = []
        for count, stride, iters in zip(counts, row_major(counts), groups, strict=True):
            shard += [Iter(count, stride * step), *iters]
        return TileLayout.of(fuse(shard), self.canonicalize().replica, self._offset, self.swizzle, names=self.axes)


Layout = TileLayout


def SwizzledLayout(swizzle: Swizzle, layout: TileLayout) -> TileLayout:
    """Return a layout with swizzled positions along the axis ``m``. Raises LayoutError if the layout already has a swizzle."""
    if not isinstance(swizzle, Swizzle):
        raise LayoutError(
            f"SwizzledLayout: swizzle must be a Swizzle, such as swizzle('128B', 'float16'), got {short_repr(swizzle)}"
        )
    if not isinstance(layout, TileLayout) or layout.swizzle is not None:
        raise LayoutError(f"SwizzledLayout: layout must be a TileLayout without a swizzle, got {short_repr(layout)}")
    return TileLayout.of(layout.shard, layout.replica, layout._offset, swizzle if swizzle.swizzle_len else None)


def _bracket(letter: str, iters: tuple[Iter, ...]) -> str:
    extents = tuple(it.extent for it in iters)
    plain = [it.stride for it in iters if it.axis == m and not isinstance(it.stride, Expr)]
    if letter == "S" and plain == list(row_major(extents)):
        return f"S[{', '.join(map(str, extents)) or '()'}]"
    strides = [str(it.stride) if it.axis == m else f"{OnAxis(it.stride, it.axis)}" for it in iters]
    if len(iters) == 1:
        return f"{letter}[{extents[0]} : {strides[0]}]"
    return f"{letter}[({', '.join(map(str, extents))}) : ({', '.join(strides)})]"


def along(iters: Iters, axis: Axis, index: Int, start: Int = 0) -> Int:
    """Return ``start`` plus the position of a flat index along an axis. The index is assumed to be in bounds."""
    place, inner = start, prod([it.extent for it in iters])
    for position, it in enumerate(iters):
        inner //= it.extent
        if it.axis == axis:
            digit = index // inner
            place = place + (digit % it.extent if position else digit) * it.stride
    return place


def checked_extents(extents: Any, what: str, least: int = 1) -> tuple[int, ...]:
    """Return extents as plain integers. Raises LayoutError if an extent is not an integer or is below ``least``."""
    values = tuple(map(plain, extents if isinstance(extents, (tuple, list)) else (extents,)))
    for extent in values:
        if type(extent) is not int:
            raise LayoutError(f"{what}: an extent must be a plain integer, got {short_repr(extent)}")
        if extent < least:
            raise LayoutError(f"{what}: every extent must be at least {least}, got {short_repr(values)}")
    if prod([extent or 1 for extent in values]) > _MOST_ELEMS:  # strides grow with the other extents where one is 0 too
        raise LayoutError(f"{what}: a shape must have at most 2**62 elements, got {short_repr(extents)}")
    return values


def checked_order(order: Any, rank: int, what: str) -> tuple[int, ...]:
    """Return a permutation of dimensions as plain integers. Raises :class:`LayoutError` if ``order`` is not a permutation."""
    dims = tuple(map(plain, order)) if isinstance(order, (tuple, list)) else (order,)
    if not {int}.issuperset(map(type, dims)) or sorted(dims) != list(range(rank)):
        raise LayoutError(
            f"{what}: {short_repr(order)} is not a permutation of {rank} dimensions: name each of 0 to {rank - 1} once"
        )
    return dims


def row_major(shape: Sequence[N]) -> tuple[N, ...]:
    """Return the strides, in elements, of a row-major array with the given shape."""
    return tuple(accumulate(reversed(shape), mul, initial=1))[-2::-1]  # the last one is the size
