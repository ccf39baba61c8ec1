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
from .boxes import Iter, Offset, Pair, box, fuse, fuse_pairs, leaving, surely_leaves
from .dtypes import DTYPE_ALIASES, DTYPES, DType, dtype_of
from .fragments import mma_fragment, tile_fragment
from .html import html_table
from .notation import R, S
from .strided import StridedLayout
from .swizzle import Swizzle, swizzle
from .tile import Layout, SwizzledLayout, TileLayout, along, checked_extents, row_major

__all__ = ["AXES", "DTYPES", "DTYPE_ALIASES", "DType", "Axis", "Iter", "Layout", "Offset", "OnAxis", "Pair", "R", "S"]
__all__ += ["StridedLayout", "Swizzle", "SwizzledLayout", "TCol", "TLane", "TileLayout", "along", "box", "bx", "by"]
__all__ += ["bz", "cbx", "cby", "cbz", "checked_extents", "dtype_of", "fuse", "fuse_pairs", "html_table", "laneid"]
__all__ += ["leaving", "m", "mma_fragment", "row_major", "surely_leaves", "swizzle", "tid_in_wg", "tile_fragment"]
__all__ += ["tx", "warpid", "wgid", "wid_in_wg"]
