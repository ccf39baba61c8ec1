"""The axes that a stride can run along: memory axes and the thread hierarchy."""

from __future__ import annotations

from typing import Any

import attrs

from ..errors import TEXT, LayoutError, one_of, shown
from ..integers.expr import Int, constant_of, is_int, key_of, plain, terms_of


@attrs.frozen(repr=False, cache_hash=True)
class Axis:
    """A named hardware resource that a stride can run along.

    Attributes:
        name: how it prints, and its key in what ``layout.apply`` returns.
        kind: ``"memory"``, ``"thread"`` (places inside a CTA) or ``"cta"`` (places of CTAs).
        finer: the scope whose instances are counted.
        coarser: the scope inside which they are counted.
    """

    name: str = attrs.field(validator=TEXT)
    kind: str = attrs.field(validator=one_of("memory", "thread", "cta"))
    finer: str = attrs.field(default="", validator=TEXT)
    coarser: str = attrs.field(default="", validator=TEXT)

    __array_ufunc__ = None

    def __repr__(self) -> str:
        return self.name

    def __matmul__(self, other: Any) -> OnAxis:
        raise LayoutError(f"{self.name} @ {shown(other)}: a stride along an axis is written `integer @ axis`")

    def __rmatmul__(self, stride: Any) -> OnAxis:
        """``stride @ axis``: a stride (or offset) along this axis."""
        if not is_int(stride := plain(stride)):
            raise LayoutError(f"a stride along {self.name} is an integer, not {shown(stride)}")
        return OnAxis(stride, self)


@attrs.frozen(repr=False)
class OnAxis:
    """A stride or an offset along an axis, as written ``stride @ axis``."""

    value: Int = attrs.field(eq=key_of)
    axis: Axis

    def __repr__(self) -> str:
        several = len(terms_of(self.value)) + bool(constant_of(self.value)) > 1  # @ binds as * does
        return f"({self.value}) @ {self.axis}" if several else f"{self.value} @ {self.axis}"


m = Axis("m", "memory")
TLane = Axis("TLane", "memory")
TCol = Axis("TCol", "memory")
laneid = Axis("laneid", "thread", "thread", "warp")
warpid = Axis("warpid", "thread", "warp", "cta")
wid_in_wg = Axis("wid_in_wg", "thread", "warp", "warpgroup")
wgid = Axis("wgid", "thread", "warpgroup", "cta")
tid_in_wg = Axis("tid_in_wg", "thread", "thread", "warpgroup")
tx = Axis("tx", "thread", "thread", "cta")
cbx = Axis("cbx", "cta", "cta", "cluster")
cby = Axis("cby", "cta", "cta", "cluster")
cbz = Axis("cbz", "cta", "cta", "cluster")
bx = Axis("bx", "cta", "cta", "grid")
by = Axis("by", "cta", "cta", "grid")
bz = Axis("bz", "cta", "cta", "grid")

AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (m, TLane, TCol, laneid, warpid, wid_in_wg, wgid, tid_in_wg, tx, cbx, cby, cbz, bx, by, bz)
}
"""Every axis by name."""
