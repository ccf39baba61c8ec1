"""The notation for layouts: the objects ``S`` (shard) and ``R`` (replica)."""

from __future__ import annotations

from typing import Any

from ..errors import LayoutError, short_repr
from ..integers.expr import bounds_of, is_int_like, plain
from .axes import OnAxis, m
from .boxes import Iter
from .tile_layout import TileLayout, checked_extents, row_major


class _Bracket:
    """The objects ``S`` and ``R``: ``S[32, 8]``, ``S[(32, 8) : (1 @ laneid, 1)]``, ``R[4 : 32 @ TLane]``."""

    def __init__(self, letter: str) -> None:
        self._letter = letter

    def __repr__(self) -> str:
        return self._letter

    def __getitem__(self, key: Any) -> TileLayout:
        raw_extents, strides = key, None
        if isinstance(key, slice):
            if key.step is not None:
                raise LayoutError(
                    f"{self._letter}[...] must have the form extents : strides, got a third part {short_repr(key.step)}"
                )
            raw_extents, strides = (
                tuple(end) if isinstance(end, (tuple, list)) else (end,) for end in (key.start, key.stop)
            )
            if len(raw_extents) != len(strides):
                raise LayoutError(
                    f"{self._letter}[...] must have one stride per extent, got {len(raw_extents)} extents and {len(strides)} strides: {short_repr(raw_extents)} and {short_repr(strides)}"
                )
        elif self._letter == "R":
            raise LayoutError(f"R[...] must have a stride, as in R[4 : 32 @ TLane], got {short_repr(key)}")
        extents = checked_extents(raw_extents, f"{self._letter}[...]")
        if strides is None:
            return row_major_layout(extents)
        iters = [_iter(self._letter, e, s) for e, s in zip(extents, strides, strict=True)]
        return TileLayout.of(iters) if self._letter == "S" else TileLayout.of((), iters)


def row_major_layout(extents: tuple[int, ...]) -> TileLayout:
    """Return the row-major layout of valid extents. Raises LayoutError for a stride of 2**60 or more."""
    strides = row_major(extents)
    if strides:
        _iter("S", extents[0], strides[0])  # the largest stride
    return TileLayout.of(list(map(Iter, extents, strides)))


def _iter(letter: str, extent: int, stride: Any) -> Iter:
    stride, axis = (stride.value, stride.axis) if isinstance(stride, OnAxis) else (stride, m)
    if not is_int_like(stride := plain(stride)):
        raise LayoutError(f"a stride in {letter}[...] must be an integer or `integer @ axis`, got {short_repr(stride)}")
    if type(stride) is int and stride >= 2**60:
        raise LayoutError(f"a stride must be less than 2**60, got {short_repr(stride)} for extent {extent}")
    lower, _ = bounds_of(stride)
    if lower is not None and lower < 0:
        raise LayoutError(f"a stride must not be negative, got {short_repr(stride)} for extent {extent}")
    return Iter(extent, stride, axis)


S = _Bracket("S")
"""Shard iters: ``S[32, 8]`` (row-major over memory) or ``S[(extents) : (strides)]``."""
R = _Bracket("R")
"""Replica iters: ``R[extent : stride @ axis]``."""
