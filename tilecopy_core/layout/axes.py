"""The axes along which strides run: memory, threads and CTAs."""

from __future__ import annotations

from typing import Any

import attrs

from ..errors import TEXT, LayoutError, one_of, short_repr
from ..errors.attrs_classes import frozen
from ..integers.expr import Int, constant_of, is_int_like, key_of, plain, terms_of


@frozen(repr=False)
class Axis:
    """A frozen record of a named axis along which a stride runs, such as memory or the lanes of a warp.

    ``kind`` is ``"memory"``, ``"thread"`` (positions in a CTA) or ``"cta"`` (positions of CTAs). A thread or CTA axis
    counts the instances of the scope ``finer`` inside one of ``coarser``.
    """

    name: str = attrs.field(validator=TEXT)
    kind: str = attrs.field(validator=one_of("memory", "thread", "cta"))
    finer: str = attrs.field(default="", validator=TEXT)
    coarser: str = attrs.field(default="", validator=TEXT)

    __array_ufunc__ = None

    def __eq__(self, other: object) -> bool:
        if self is other:  # nearly always one of the axes below
            return True
        if not isinstance(other, Axis):
            return NotImplemented
        return self.name == other.name and attrs.astuple(self) == attrs.astuple(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name

    def __matmul__(self, other: Any) -> OnAxis:
        raise LayoutError(
            f"a stride along an axis must be written `integer @ axis`, got {self.name} @ {short_repr(other)}"
        )

    def __rmatmul__(self, stride: Any) -> OnAxis:
        """Return ``stride @ axis``: a stride (or offset) along this axis."""
        if not is_int_like(stride := plain(stride)):
            raise LayoutError(f"a stride along {self.name} must be an integer, got {short_repr(stride)}")
        return OnAxis(stride, self)


@frozen(repr=False)
class OnAxis:
    """A frozen record of a stride or an offset along an axis, written ``stride @ axis``."""

    value: Int = attrs.field(eq=key_of)
    axis: Axis

    def __repr__(self) -> str:
        several = len(terms_of(self.value)) + bool(constant_of(self.value)) > 1  # @ binds as * does
        return f"({self.value}) @ {self.axis}" if several else f"{self.value} @ {self.axis}"


m, TLane, TCol = [Axis(name, "memory") for name in ("m", "TLane", "TCol")]
laneid = Axis("laneid", "thread", "thread", "warp")
warpid = Axis("warpid", "thread", "warp", "cta")
wid_in_wg = Axis("wid_in_wg", "thread", "warp", "warpgroup")
wgid = Axis("wgid", "thread", "warpgroup", "cta")
tid_in_wg = Axis("tid_in_wg", "thread", "thread", "warpgroup")
tx = Axis("tx", "thread", "thread", "cta")
cbx, cby, cbz = [Axis(name, "cta", "cta", "cluster") for name in ("cbx", "cby", "cbz")]
bx, by, bz = [Axis(name, "cta", "cta", "grid") for name in ("bx", "by", "bz")]

_ALL = (m, TLane, TCol, laneid, warpid, wid_in_wg, wgid, tid_in_wg, tx, cbx, cby, cbz, bx, by, bz)
AXES: dict[str, Axis] = {axis.name: axis for axis in _ALL}
"""Every axis by name."""
