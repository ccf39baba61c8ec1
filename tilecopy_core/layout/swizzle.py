"""Swizzles: an exclusive-or permutation of element addresses, applied after a tile layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any

import attrs

from ..errors import LayoutError
from ..expr import Int
from .axes import Axis, m
from .tile import TileLayout


@attrs.frozen
class Swizzle:
    """``a -> a ^ (bits [M+S, M+S+B) of a, moved to [M, M+B))`` on element addresses, with ``S >= B``.

    Attributes:
        per_element: M, log2 of the elements that stay together (no vector may be longer).
        swizzle_len: B, how many bits are exchanged; 0 is no swizzle.
        atom_len: S, how far above them the bits that are XOR-ed in lie.
    """

    per_element: int
    swizzle_len: int
    atom_len: int

    def __attrs_post_init__(self) -> None:
        if self.per_element < 0 or self.swizzle_len < 0 or self.atom_len < self.swizzle_len:
            raise LayoutError(f"{self}: per_element and swizzle_len are at least 0, atom_len at least swizzle_len")

    @property
    def chunk_elems(self) -> int:
        """Elements that stay contiguous: ``2**per_element``."""
        return int(2**self.per_element)

    @property
    def period_elems(self) -> int:
        """Adding a multiple of this to an address adds the same to the swizzled address."""
        return int(2 ** (self.per_element + self.atom_len + self.swizzle_len))

    def apply(self, address: Any) -> Any:
        """The swizzled element address; of an int, an array of ints or a symbolic integer."""
        if self.swizzle_len == 0:
            return address
        chosen = address // 2 ** (self.per_element + self.atom_len) % 2**self.swizzle_len
        return address ^ (chosen * self.chunk_elems)


def swizzle(mode: str, dtype: Any) -> Swizzle:
    """The swizzle of a mode (``"none"``, ``"32B"``, ``"64B"``, ``"128B"``) for elements of a dtype.

    ``M = log2(128 / bits)``, ``B = 1, 2, 3``, ``S = 3`` (docs/design.md, "Swizzle").

    Raises:
        LayoutError: an unknown mode, or elements that do not divide 128 bits.
    """
    from ..dtypes import dtype_of

    modes = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
    if mode not in modes:
        raise LayoutError(f"swizzle mode {mode!r} is unknown; the modes are {', '.join(modes)}")
    bits = dtype_of(dtype).bits
    if 128 % bits:
        raise LayoutError(f"a {mode} swizzle needs elements that divide 128 bits; {dtype} has {bits}")
    return Swizzle(int(log2(128 // bits)), modes[mode], 3)


@attrs.frozen
class SwizzledLayout:
    """A tile layout whose memory address is swizzled: ``swizzle.apply(layout.apply(...))`` on the ``m`` axis."""

    swizzle: Swizzle
    layout: TileLayout

    @property
    def size(self) -> int:
        """Number of logical elements."""
        return self.layout.size

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the inner layout."""
        return self.layout.axes

    @property
    def replica(self) -> tuple[Any, ...]:
        """The replica iters of the inner layout."""
        return self.layout.replica

    def check_admits(self, shape: Sequence[int], what: str) -> None:
        """Raise :class:`LayoutError` unless the shape has as many elements as the layout."""
        self.layout.check_admits(shape, what)

    def apply(self, *coordinate: Int, shape: Sequence[int] | None = None) -> dict[str, Int]:
        """As :meth:`TileLayout.apply`, the ``m`` component swizzled."""
        place = self.layout.apply(*coordinate, shape=shape)
        return {**place, m.name: self.swizzle.apply(place.get(m.name, 0))}

    def span(self, axis: Axis = m) -> int:
        """Elements from place 0 to the last reachable place: the inner span, rounded up to what the XOR can reach."""
        inner = self.layout.span(axis)
        reach = int(2 ** (self.swizzle.per_element + self.swizzle.swizzle_len)) if axis == m else 1
        return -(-inner // reach) * reach

    def canonicalize(self) -> SwizzledLayout:
        """The same with its inner layout canonical."""
        return SwizzledLayout(self.swizzle, self.layout.canonicalize())

    def slice(self, shape: Sequence[int], region: Sequence[Any]) -> SwizzledLayout | None:
        """The layout of a box: the start goes into the address before the swizzle. None as for a tile layout."""
        inner = self.layout.slice(shape, region)
        return None if inner is None else SwizzledLayout(self.swizzle, inner)

    def permute(self, order: Sequence[int]) -> SwizzledLayout:
        """The same with the inner layout's iters in another order."""
        return SwizzledLayout(self.swizzle, self.layout.permute(order))

    def group(self, shape: Sequence[int]) -> tuple[SwizzledLayout, tuple[int, ...]]:
        """As :meth:`TileLayout.group`."""
        grouped, separators = self.layout.group(shape)
        return SwizzledLayout(self.swizzle, grouped), separators

    def tile_to(self, shape: Sequence[int], atom_shape: Sequence[int] | None = None) -> SwizzledLayout:
        """As :meth:`TileLayout.tile_to`."""
        return SwizzledLayout(self.swizzle, self.layout.tile_to(shape, atom_shape))


Layout = TileLayout | SwizzledLayout


def split_swizzle(layout: Layout) -> tuple[Swizzle | None, TileLayout]:
    """The swizzle (None where there is none) and the tile layout under it."""
    if isinstance(layout, SwizzledLayout):
        return (layout.swizzle if layout.swizzle.swizzle_len else None), layout.layout
    return None, layout
