"""Layouts: where each element of a tile lives."""

from .axes import AXES, Axis, OnAxis, TCol, TLane, bx, by, bz, cbx, cby, cbz, laneid, m, tid_in_wg, tx, warpid, wgid, wid_in_wg
from .swizzle import Layout, Swizzle, SwizzledLayout, split_swizzle, swizzle
from .tile import Iter, R, S, Spec, TileLayout, box, fuse, row_major

__all__ = [
    "AXES",
    "Axis",
    "Iter",
    "Layout",
    "OnAxis",
    "R",
    "S",
    "Spec",
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
    "fuse",
    "laneid",
    "m",
    "row_major",
    "split_swizzle",
    "swizzle",
    "tid_in_wg",
    "tx",
    "warpid",
    "wgid",
    "wid_in_wg",
]
