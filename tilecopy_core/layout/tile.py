"""Tile layouts: ``S[extents : strides] + R[extent : stride] + offset``, and their algebra.

A layout maps a logical coordinate to a set of places (docs/design.md, "Layout"): flatten the coordinate row-major,
split the flat index across the shard iters (last fastest), add ``component * stride`` on each iter's axis, add the
offset; each replica iter then repeats the place ``extent`` times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import attrs

from ..errors import LayoutError
from ..expr import Int, as_expr, bounds_of, divisor_of, is_int, is_multiple, same
from .axes import Axis, OnAxis, m


@attrs.frozen(repr=False)
class Iter:
    """``extent`` steps of ``stride`` elements along ``axis``."""

    extent: int
    stride: Int
    axis: Axis = m

    def __repr__(self) -> str:
        return f"{self.extent}:{self.stride}{'' if self.axis == m else f' @ {self.axis}'}"


@attrs.frozen(repr=False)
class Spec:
    """What ``S[...]``, ``R[...]``, ``+ offset`` and ``+ offset @ axis`` add up to; :class:`TileLayout` takes one."""

    shard: tuple[Iter, ...] = ()
    replica: tuple[Iter, ...] = ()
    offset: tuple[tuple[Axis, Int], ...] = ()

    def __add__(self, other: Any) -> Spec:
        if isinstance(other, Spec):
            if self.shard and other.shard:
                raise LayoutError(f"a layout has one S[...]; found {self} and {other}")
            return Spec(
                self.shard or other.shard, self.replica + other.replica, _add_offsets(self.offset, other.offset)
            )
        return evolve_offset(self, other)

    __radd__ = __add__

    def __repr__(self) -> str:
        parts = [_bracket("S", self.shard)] if self.shard else []
        parts += [_bracket("R", (it,)) for it in self.replica]
        parts += [str(value) if axis == m else f"{value} @ {axis}" for axis, value in self.offset]
        return " + ".join(parts)


def evolve_offset(spec: Spec, offset: Any) -> Spec:
    """The spec with an integer (on ``m``) or ``value @ axis`` added to its offset."""
    if isinstance(offset, OnAxis):
        added: tuple[tuple[Axis, Int], ...] = ((offset.axis, offset.value),)
    elif is_int(offset):
        added = ((m, offset),)
    else:
        raise LayoutError(f"an offset is an integer or `integer @ axis`, not {offset!r}")
    return attrs.evolve(spec, offset=_add_offsets(spec.offset, added))


def _add_offsets(
    left: tuple[tuple[Axis, Int], ...], right: tuple[tuple[Axis, Int], ...]
) -> tuple[tuple[Axis, Int], ...]:
    total: dict[Axis, Int] = dict(left)
    for axis, value in right:
        total[axis] = total.get(axis, 0) + value
    ordered = sorted(total.items(), key=lambda item: item[0].name)
    return tuple((axis, value) for axis, value in ordered if not same(value, 0))


def _bracket(letter: str, iters: tuple[Iter, ...]) -> str:
    extents = tuple(it.extent for it in iters)
    if letter == "S" and [it.stride for it in iters] == list(row_major(extents)) and all(it.axis == m for it in iters):
        return f"S[{', '.join(map(str, extents))}]"
    strides = [str(it.stride) if it.axis == m else f"{it.stride} @ {it.axis}" for it in iters]
    if len(iters) == 1:
        return f"{letter}[{extents[0]} : {strides[0]}]"
    return f"{letter}[({', '.join(map(str, extents))}) : ({', '.join(strides)})]"


class _Bracket:
    """The objects ``S`` and ``R``: ``S[32, 8]``, ``S[(32, 8) : (1 @ laneid, 1)]``, ``R[4 : 32 @ TLane]``."""

    def __init__(self, letter: str) -> None:
        self._letter = letter

    def __repr__(self) -> str:
        return self._letter

    def __getitem__(self, key: Any) -> Spec:
        if isinstance(key, slice):
            if key.step is not None:
                raise LayoutError(f"{self._letter}[...] takes extents : strides and no third part")
            extents, strides = _as_tuple(key.start), _as_tuple(key.stop)
        else:
            extents = _as_tuple(key)
            if self._letter == "R":
                raise LayoutError("R[...] needs a stride, as in R[4 : 32 @ TLane]")
            strides = row_major(_checked_extents(extents))
        if len(extents) != len(strides):
            raise LayoutError(
                f"{self._letter}[...] has {len(extents)} extents and {len(strides)} strides; they go in pairs"
            )
        iters = tuple(_iter(self._letter, e, s) for e, s in zip(_checked_extents(extents), strides, strict=True))
        return Spec(shard=iters) if self._letter == "S" else Spec(replica=iters)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _checked_extents(extents: Sequence[Any]) -> tuple[int, ...]:
    for extent in extents:
        if not hasattr(extent, "__index__") or isinstance(extent, bool) or (is_int(extent) and as_expr(extent).terms):
            raise LayoutError(f"an extent is a plain integer, not {extent!r}")
        if int(extent) < 1:
            raise LayoutError(f"an extent is at least 1, not {extent}")
    return tuple(int(extent) for extent in extents)


def _iter(letter: str, extent: int, stride: Any) -> Iter:
    axis = m
    if isinstance(stride, OnAxis):
        stride, axis = stride.value, stride.axis
    if not is_int(stride):
        raise LayoutError(f"a stride in {letter}[...] is an integer or `integer @ axis`, not {stride!r}")
    lower, _ = bounds_of(stride)
    if lower is not None and lower < 0:
        raise LayoutError(f"a stride is not negative; found {stride} for extent {extent}")
    return Iter(extent, stride, axis)


S = _Bracket("S")
"""Shard iters: ``S[32, 8]`` (row-major over memory) or ``S[(extents) : (strides)]``."""
R = _Bracket("R")
"""Replica iters: ``R[extent : stride @ axis]``."""


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major array of a shape."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


@attrs.frozen(init=False, repr=False)
class TileLayout:
    """A map from logical coordinates to places on hardware axes.

    Attributes:
        shard: the iters that a coordinate is split across, last fastest.
        replica: the iters along which every place is repeated.
    """

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...]
    _offset: tuple[tuple[Axis, Int], ...]

    def __init__(self, spec: Spec) -> None:
        if not isinstance(spec, Spec):
            raise LayoutError(f"TileLayout takes S[...] (+ R[...] + offset), not {spec!r}")
        self.__attrs_init__(spec.shard, spec.replica, spec.offset)

    def __repr__(self) -> str:
        return f"TileLayout({self.spec})"

    @classmethod
    def of(
        cls,
        shard: Sequence[Iter],
        replica: Sequence[Iter] = (),
        offset: Mapping[Axis, Int] | tuple[tuple[Axis, Int], ...] = (),
    ) -> TileLayout:
        """A layout from its parts."""
        pairs = tuple(offset.items()) if isinstance(offset, Mapping) else offset
        return cls(Spec(tuple(shard), tuple(replica), _add_offsets((), pairs)))

    @property
    def spec(self) -> Spec:
        """The ``S[...] + R[...] + offset`` that makes this layout."""
        return Spec(self.shard, self.replica, self._offset)

    @property
    def offset(self) -> dict[str, Int]:
        """Offset per axis name; axes at 0 are left out."""
        return {axis.name: value for axis, value in self._offset}

    def offset_on(self, axis: Axis) -> Int:
        """The offset along one axis."""
        return next((value for on, value in self._offset if on == axis), 0)

    @property
    def size(self) -> int:
        """Number of logical elements."""
        return prod(it.extent for it in self.shard)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis that a shard iter, a replica iter or the offset names, by name; ``m`` when there is none."""
        named = {it.axis for it in self.shard + self.replica} | {axis for axis, _ in self._offset}
        return tuple(sorted(named, key=lambda axis: axis.name)) or (m,)

    def check_admits(self, shape: Sequence[int], what: str) -> None:
        """Raise :class:`LayoutError` unless the shape has as many elements as the layout."""
        if prod(shape) != self.size:
            raise LayoutError(
                f"{what}: the layout {self} has {self.size} elements, the shape {tuple(shape)} has {prod(shape)}"
            )

    # ------------------------------------------------------------------------------------------- evaluation

    def flatten(self, coordinate: Sequence[Int], shape: Sequence[int] | None = None) -> Int:
        """Row-major flat index of a coordinate; see :meth:`apply` for the arguments."""
        if shape is None:
            if len(coordinate) == 1:
                shape = (self.size,)
            elif len(coordinate) == len(self.shard):
                shape = tuple(it.extent for it in self.shard)
            else:
                raise LayoutError(
                    f"{len(coordinate)} coordinates for {self}: give one flat index, {len(self.shard)} coordinates, "
                    "or shape=..."
                )
        self.check_admits(shape, "apply")
        if len(coordinate) != len(shape):
            raise LayoutError(f"{len(coordinate)} coordinates for the shape {tuple(shape)}")
        flat: Int = 0
        for index, extent in zip(coordinate, shape, strict=True):
            lower, upper = bounds_of(index)
            if (upper is not None and upper < 0) or (lower is not None and lower >= extent):
                raise LayoutError(f"coordinate {index} is outside its extent {extent}")
            flat = flat * extent + index
        return flat

    def apply(self, *coordinate: Int, shape: Sequence[int] | None = None) -> dict[str, Int]:
        """The place of a coordinate (of replica 0), as ``{axis name: element offset}``.

        Args:
            coordinate: one flat index, one index per shard iter, or one per dimension of ``shape``; each an int or
                a symbolic integer.
            shape: any shape of this layout's size.

        Raises:
            LayoutError: the number of coordinates, the shape or a constant coordinate does not fit.
        """
        index = self.flatten(coordinate, shape)
        place: dict[str, Int] = {axis.name: self.offset_on(axis) for axis in self.axes}
        inner = self.size
        for position, it in enumerate(self.shard):
            inner //= it.extent
            digit = index // inner
            if position:
                digit = digit % it.extent
            place[it.axis.name] = place[it.axis.name] + digit * it.stride
        return place

    def places(self, *coordinate: Int, shape: Sequence[int] | None = None) -> list[dict[str, Int]]:
        """Every place of a coordinate: :meth:`apply` once for each combination of the replica iters."""
        first = self.apply(*coordinate, shape=shape)
        result = []
        for steps in product(*(range(it.extent) for it in self.replica)):
            place = dict(first)
            for step, it in zip(steps, self.replica, strict=True):
                place[it.axis.name] = place[it.axis.name] + step * it.stride
            result.append(place)
        return result

    def span(self, axis: Axis = m) -> int:
        """Number of elements along an axis from place 0 to the last place that the layout reaches, inclusive.

        Raises:
            LayoutError: a stride or offset on that axis is symbolic.
        """
        last: Int = self.offset_on(axis)
        for it in self.shard + self.replica:
            if it.axis == axis:
                last = last + (it.extent - 1) * it.stride
        if as_expr(last).terms:
            raise LayoutError(f"the span of {self} along {axis} is symbolic: {last}")
        return as_expr(last).const + 1

    # ------------------------------------------------------------------------------------------- algebra

    def canonicalize(self) -> TileLayout:
        """Drop iters of extent 1 and fuse neighbours ``(e1, s1), (e2, s2)`` on one axis with ``s1 == e2 * s2``."""
        replica = tuple(it for it in self.replica if it.extent > 1)
        return TileLayout.of(fuse(self.shard), replica, self._offset)

    def group(self, shape: Sequence[int]) -> tuple[TileLayout, tuple[int, ...]]:
        """Refine the iters so that each belongs to one dimension of a shape.

        Returns:
            The equal layout, and ``len(shape) + 1`` separators: dimension ``d`` owns
            ``shard[separators[d] : separators[d + 1]]``. Dimensions of extent 1 own none.

        Raises:
            LayoutError: the sizes differ, or an iter straddles two dimensions and cannot be split between them.
        """
        self.check_admits(shape, "group")
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
                        f"{self} cannot be grouped by {tuple(shape)}: the iter {it} straddles two dimensions and "
                        f"neither {it.extent} nor {needed} divides the other"
                    )
            groups.append(list(reversed(owned)))
        groups.reverse()
        separators = [0]
        for owned in groups:
            separators.append(separators[-1] + len(owned))
        return TileLayout.of([it for owned in groups for it in owned], self.replica, self._offset), tuple(separators)

    def slice(self, shape: Sequence[int], region: Sequence[Any]) -> TileLayout | None:
        """The layout of a box: ``slice(..).apply(c) == apply(c + start)`` for every ``c`` of the box.

        Args:
            shape: a shape of this layout's size.
            region: for each dimension ``slice(start, stop)`` or ``(start, stop)``; starts may be symbolic, the
                extent ``stop - start`` may not.

        Returns:
            None when the box is not a layout (it starts or ends inside an iter), or that cannot be proved.

        Raises:
            LayoutError: the region does not have the rank of the shape, is empty, or leaves it.
        """
        starts, extents = box(shape, region)
        try:
            grouped, separators = self.group(shape)
        except LayoutError:
            return None
        shard: list[Iter] = []
        offset = self._offset
        for dim, (start, extent) in enumerate(zip(starts, extents, strict=True)):
            cut = _cut(fuse(grouped.shard[separators[dim] : separators[dim + 1]]), start, extent)
            if cut is None:
                return None
            iters, added = cut
            shard += iters
            offset = _add_offsets(offset, added)
        return TileLayout.of(shard, self.replica, offset)

    def permute(self, order: Sequence[int]) -> TileLayout:
        """The layout with its shard iters in another order (an order of the logical dimensions).

        Raises:
            LayoutError: ``order`` is not a permutation of the iters.
        """
        if sorted(order) != list(range(len(self.shard))):
            raise LayoutError(f"{tuple(order)} is not a permutation of the {len(self.shard)} iters of {self}")
        return TileLayout.of([self.shard[i] for i in order], self.replica, self._offset)

    def tile_to(self, shape: Sequence[int], atom_shape: Sequence[int] | None = None) -> TileLayout:
        """Repeat this layout over a larger shape, the copies row-major, each in the next span of memory.

        Args:
            shape: the larger shape.
            atom_shape: this layout's own shape, by default its shard extents.

        Raises:
            LayoutError: the ranks differ, or a dimension of the atom does not divide the shape's.
        """
        atom = tuple(atom_shape) if atom_shape is not None else tuple(it.extent for it in self.shard)
        if len(atom) != len(shape) or any(big % small for big, small in zip(shape, atom, strict=True)):
            raise LayoutError(f"{self} of shape {atom} does not tile {tuple(shape)}")
        grouped, separators = self.group(atom)
        counts = [big // small for big, small in zip(shape, atom, strict=True)]
        step = self.span()
        shard: list[Iter] = []
        for dim, stride in enumerate(row_major(counts)):
            shard.append(Iter(counts[dim], stride * step))
            shard += grouped.shard[separators[dim] : separators[dim + 1]]
        return TileLayout.of(shard, self.replica, self._offset).canonicalize()


def fuse(iters: Sequence[Iter]) -> tuple[Iter, ...]:
    """Iters without those of extent 1, neighbours that continue each other fused."""
    fused: list[Iter] = []
    for it in iters:
        if it.extent == 1:
            continue
        last = fused[-1] if fused else None
        if last is not None and last.axis == it.axis and same(last.stride, it.extent * it.stride):
            fused[-1] = Iter(last.extent * it.extent, it.stride, it.axis)
        else:
            fused.append(it)
    return tuple(fused)


def box(shape: Sequence[int], region: Sequence[Any]) -> tuple[tuple[Int, ...], tuple[int, ...]]:
    """Starts and extents of a region of a shape, checked.

    Raises:
        LayoutError: wrong rank, an extent that is symbolic or below 1, or a box that is certainly outside.
    """
    if len(region) != len(shape):
        raise LayoutError(f"a region of {len(region)} dimensions in the shape {tuple(shape)}")
    starts, extents = [], []
    for dim, (part, size) in enumerate(zip(region, shape, strict=True)):
        start, stop = (part.start, part.stop) if isinstance(part, slice) else part
        start, stop = (0 if start is None else start), (size if stop is None else stop)
        if not (is_int(start) and is_int(stop)):
            raise LayoutError(f"dimension {dim}: a region is made of integers, not {start!r}:{stop!r}")
        extent = stop - start
        if as_expr(extent).terms:
            raise LayoutError(
                f"dimension {dim}: the extent of {start} : {stop} is symbolic ({extent}); it must be fixed"
            )
        extent = as_expr(extent).const
        if extent < 1:
            raise LayoutError(f"dimension {dim}: the region {start} : {stop} is empty (extent {extent})")
        lower, upper = bounds_of(start)
        if (
            (lower is not None and lower + extent > size)
            or (upper is not None and upper < 0)
            or (not as_expr(start).terms and lower is not None and lower < 0)
        ):
            raise LayoutError(f"dimension {dim}: the region {start} : {stop} is outside the extent {size}")
        starts.append(start)
        extents.append(extent)
    return tuple(starts), tuple(extents)


def _cut(iters: Sequence[Iter], start: Int, extent: int) -> tuple[list[Iter], tuple[tuple[Axis, Int], ...]] | None:
    """The iters of one dimension cut to ``[start, start + extent)``, and what the start adds to the offset."""
    if not iters:
        return [], ()
    first, rest = iters[0], iters[1:]
    inner = prod(it.extent for it in rest)
    if is_multiple(start, inner) and extent % inner == 0:
        cut = [Iter(extent // inner, first.stride, first.axis), *rest]
        return cut, ((first.axis, start // inner * first.stride),)
    quotient = start // inner
    within = start - quotient * inner
    _, upper = bounds_of(within)
    if upper is None or upper + extent > inner:
        if as_expr(start).terms and divisor_of(start):
            # a start that is a multiple of d stays within [0, inner - d] of its block when d divides inner
            step = divisor_of(start)
            if inner % step == 0 and extent <= step:
                within = start % inner
                upper = inner - step
        if upper is None or upper + extent > inner:
            return None
    deeper = _cut(rest, within, extent)
    if deeper is None:
        return None
    return deeper[0], ((first.axis, quotient * first.stride), *deeper[1])
