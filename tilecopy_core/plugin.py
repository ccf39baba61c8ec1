"""The public names for authors of variants: record, hooks, requests, checks, integers, layouts and the PTX builder.

A variant imports these names, and what it chooses of a library of partitions; of the core it needs nothing else.
"""

from __future__ import annotations

import sys
from opcode import opmap
from typing import NoReturn

from .description import ActiveThreads, CopyRequest, Scope, Target, Variant, check_request
from .description.record_checks import why_not_asked
from .description.request import COMPLETIONS, Accept, Decline, Option, Verdict, valid_copy
from .errors import short_repr
from .errors.attrs_classes import frozen
from .errors.fork_lock import LOCK
from .integers import Condition, Expr, Int, Symbol, bounds_of, divisor_of, evaluate, is_int_like, is_multiple, key_of
from .integers.expr import structural_equal, substitute, symbols_of
from .layout import Axis, Iter, Pair, Swizzle, TCol, TileLayout, TLane, fuse_pairs, m, row_major, swizzle
from .layout.axes import laneid, tid_in_wg, tx, warpid, wid_in_wg
from .layout.dtypes import DType, dtype_of
from .layout.notation import S
from .memory.buffers import Buffer, Region
from .memory.out_of_bounds import Outside
from .ptx import Access, Address, PtxBuilder, Register, TensorPlace
from .registry.hookspecs import VariantPlugin, hookimpl
from .registry.renamed import RENAMED, needed_change

# In the order of the table in docs/plugins.md.
__all__ = ["COMPLETIONS", "Accept", "CopyRequest", "Decline", "Option", "Variant", "Verdict"]
__all__ += ["LOCK", "VariantPlugin", "check_request", "hookimpl", "valid_copy", "why_not_asked"]
__all__ += ["Buffer", "DType", "Outside", "Region", "Target", "dtype_of"]
__all__ += ["Axis", "Iter", "Swizzle", "TCol", "TLane", "TileLayout", "m", "row_major", "swizzle"]
__all__ += ["S", "laneid", "tid_in_wg", "tx", "warpid", "wid_in_wg"]
__all__ += ["Condition", "Expr", "Int", "Symbol", "bounds_of", "divisor_of", "evaluate", "is_int_like", "is_multiple"]
__all__ += ["key_of", "structural_equal", "substitute", "symbols_of"]
__all__ += ["ActiveThreads", "Scope", "Pair", "fuse_pairs", "frozen", "short_repr"]
__all__ += ["Access", "Address", "PtxBuilder", "Register", "TensorPlace"]


def __getattr__(name: str) -> NoReturn:
    """Raise AttributeError; for a name of version 0.1 the message says what to write instead.

    A ``from`` import drops that message, so that it gets an ImportError. hasattr() and getattr() with a default see neither.
    """
    change = f"; {needed_change(name)}" if name in RENAMED else ""
    message = f"module {__name__!r} has no attribute {name!r}{change}"
    caller = sys._getframe(1)
    if change and caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]:
        raise ImportError(message, name=__name__)
    raise AttributeError(message, name=name, obj=sys.modules[__name__])
