"""Layouts: where each element of a tile lives."""

from .axes import (
    AXES,
    Axis,
    OnAxis,
    TCol,
    TLane,
    bx,
    by,
    bz,
    cbx,
    cby,
    cbz,
    laneid,
    m,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)
from .boxes import Iter, Offset, box, fuse, leaving, surely_leaves
from .notation import R, S
from .strided import StridedLayout
from .swizzle import Swizzle, swizzle
from .tile import Layout, SwizzledLayout, TileLayout, checked_extents, row_major

__all__ = [
    "AXES",
    "Axis",
    "Iter",
    "Layout",
    "Offset",
    "OnAxis",
    "R",
    "S",
    "StridedLayout",
    "Swizzle",
    "SwizzledLayout",
    "TCol",
    "TLane",
    "TileLayout",
    "box",
    "bx",
    "by",
    "bz",
    "cbx",
    "cby",
    "cbz",
    "checked_extents",
    "fuse",
    "laneid",
    "leaving",
    "m",
    "row_major",
    "surely_leaves",
    "swizzle",
    "tid_in_wg",
    "tx",
    "warpid",
    "wgid",
    "wid_in_wg",
]
