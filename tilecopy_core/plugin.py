"""Everything that a variant imports: the contract, the checks, the partitions that variants share, the PTX builder.

``from tilecopy_core.plugin import ...`` is the one import of a plugin; first-party variants have no other.
"""

from __future__ import annotations

from .checks import (
    Check,
    divides_threads,
    first_failure,
    no_replica,
    scope_in,
    valid_copy,
    whole_byte_elements,
)
from .dtypes import DType, dtype_of
from .expr import (
    Condition,
    Expr,
    Int,
    bounds_of,
    divisor_of,
    evaluate,
    is_int,
    is_multiple,
    same,
    substitute,
    symbols_of,
)
from .fragments import Digit, digits_of, operands, owners, thread_axes, why_no_owners
from .hookspecs import VariantPlugin, hookimpl
from .layout import Axis, Iter, Swizzle, TCol, TileLayout, TLane, fuse, m, swizzle
from .memory import Buffer, Region
from .outside import Outside
from .partition import (
    WIDTHS_BITS,
    Guard,
    Pair,
    Run,
    Side,
    VectorPartition,
    by_descending_stride,
    fuse_pairs,
    guards_of,
    orders_of,
    refine,
    sliced,
    synthesize,
    widest,
)
from .ptx import MBARRIER_TX_LIMIT, Access, Address, PtxBuilder, Register, masked, tcgen05
from .request import COMPLETIONS, Accept, CopyRequest, Decline, Option, Variant, Verdict
from .rounds import Masks, Walk, asynchronously, at_edges, batches, choose, through_registers
from .scope import ActiveThreads, Scope, axis_index, by_thread
from .target import Target

__all__ = [
    "COMPLETIONS",
    "MBARRIER_TX_LIMIT",
    "WIDTHS_BITS",
    "Accept",
    "Access",
    "ActiveThreads",
    "Address",
    "Axis",
    "Buffer",
    "Check",
    "Condition",
    "CopyRequest",
    "DType",
    "Decline",
    "Digit",
    "Expr",
    "Guard",
    "Int",
    "Iter",
    "Masks",
    "Option",
    "Outside",
    "Pair",
    "PtxBuilder",
    "Region",
    "Register",
    "Run",
    "Scope",
    "Side",
    "Swizzle",
    "TCol",
    "TLane",
    "Target",
    "TileLayout",
    "Variant",
    "VariantPlugin",
    "VectorPartition",
    "Verdict",
    "Walk",
    "asynchronously",
    "at_edges",
    "axis_index",
    "batches",
    "bounds_of",
    "by_descending_stride",
    "by_thread",
    "choose",
    "digits_of",
    "divides_threads",
    "divisor_of",
    "dtype_of",
    "evaluate",
    "first_failure",
    "fuse",
    "fuse_pairs",
    "guards_of",
    "hookimpl",
    "is_int",
    "is_multiple",
    "m",
    "masked",
    "no_replica",
    "operands",
    "orders_of",
    "owners",
    "refine",
    "same",
    "scope_in",
    "sliced",
    "substitute",
    "swizzle",
    "symbols_of",
    "synthesize",
    "tcgen05",
    "thread_axes",
    "through_registers",
    "valid_copy",
    "whole_byte_elements",
    "why_no_owners",
    "widest",
]
