"""Layouts map each element of a tile to a position in memory, a thread or a CTA."""

from .axes import AXES, Axis, TCol, TLane, laneid, m
from .boxes import Iter, Pair, box, fuse, fuse_pairs, leaving, surely_leaves
from .dtypes import DTYPE_ALIASES, DTYPES, DType, dtype_of
from .html import html_table
from .notation import R, S
from .strided_layout import StridedLayout
from .swizzle import Swizzle, swizzle
from .tile_layout import Layout, SwizzledLayout, TileLayout, along, checked_extents, checked_order, row_major

__all__ = ["AXES", "DTYPES", "DTYPE_ALIASES", "DType", "Axis", "Iter", "Layout", "Pair", "R", "S", "StridedLayout"]
__all__ += ["Swizzle", "SwizzledLayout", "TCol", "TLane", "TileLayout", "along", "box", "checked_extents"]
__all__ += ["checked_order", "dtype_of", "fuse", "fuse_pairs", "html_table", "laneid", "leaving", "m", "row_major"]
__all__ += ["surely_leaves", "swizzle"]
