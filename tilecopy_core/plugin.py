"""Everything that a variant imports: the contract, the checks, the partitions that variants share, the PTX builder.

``from tilecopy_core.plugin import ...`` is the one import of a plugin; first-party variants have no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import checks, expr, layout, partition
from .checks import Check
from .dtypes import DType, dtype_of
from .errors import FLAG, TEXT, Kind, RequestError, a, checked, many, shown, whole
from .expr import INT, Condition, Expr, Int, Symbol, is_int, same
from .hookspecs import VariantPlugin, hookimpl
from .layout import Axis, Iter, Swizzle, TCol, TileLayout, TLane, m, swizzle
from .memory import Buffer, Region
from .partition import WIDTHS_BITS, Pair, Run, Side, VectorPartition
from .ptx import MBARRIER_TX_LIMIT, Access, Address, PtxBuilder, Register, tcgen05
from .request import COMPLETIONS, Accept, CopyRequest, Decline, Option, Variant, Verdict
from .rounds import Walk, batches
from .scope import ActiveThreads, Scope, axis_index, by_thread
from .target import Target

_REQUEST = a("a CopyRequest", CopyRequest)
_BY_SYMBOL = Kind(
    "values by Symbol", lambda value: isinstance(value, Mapping) and all(isinstance(key, Symbol) for key in value)
)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(it, Iter) for it in pair)


_PAIRS = many(Kind("a pair of Iter", _is_pair))
_RUN = a("a Run", Run)
_RUNS = Kind("a tuple of Run, at least one", lambda runs: bool(many(_RUN).fits(runs) and runs))
_REGION = a("a Region such as buffer[0:8, :]", Region)
_ITERS = many(a("an Iter", Iter))
_WIDTHS = many(whole(1, 1024))

# What the core calls a thousand times for one kernel looks at its arguments here, at the door.
bounds_of = checked(value=INT)(expr.bounds_of)
divisor_of = checked(value=INT)(expr.divisor_of)
is_multiple = checked(value=INT, factor=whole(1, 2**63 - 1))(expr.is_multiple)
substitute = checked(value=INT, replacements=_BY_SYMBOL)(expr.substitute)
symbols_of = checked(value=INT)(expr.symbols_of)
fuse = checked(iters=_ITERS)(layout.fuse)
fuse_pairs = checked(pairs=_PAIRS)(partition.fuse_pairs)
by_descending_stride = checked(pairs=_PAIRS, broadcasts_first=FLAG)(partition.by_descending_stride)
orders_of = checked(pairs=_PAIRS)(partition.orders_of)
refine = checked(first=_ITERS, second=_ITERS)(partition.refine)
sliced = checked(operand=TEXT, region=_REGION)(partition.sliced)
synthesize = checked(request=_REQUEST, leader=_REGION, widths_bits=_WIDTHS)(partition.synthesize)
widest = checked(runs=_RUNS, widths_bits=_WIDTHS, also=Kind("a function of the number of elements", callable))(
    partition.widest
)
divides_threads = checked(request=_REQUEST)(checks.divides_threads)
first_failure = checked(
    request=_REQUEST,
    table=many(Kind("a check: a function of the request that gives a reason or None", callable)),
)(checks.first_failure)
no_replica = checked(request=_REQUEST)(checks.no_replica)
scope_in = checked(kinds=TEXT)(checks.scope_in)
valid_copy = checked(request=_REQUEST)(checks.valid_copy)
whole_byte_elements = checked(request=_REQUEST)(checks.whole_byte_elements)


@checked(value=INT, env=_BY_SYMBOL)
def evaluate(value: Int, env: Mapping[Symbol, Any]) -> Any:
    """The value for given symbols (each an int, an array or a symbolic integer).

    Raises:
        RequestError: a symbol of the expression is not in ``env``.
    """
    for found in expr.symbols_of(value):
        if found not in env:
            raise RequestError(f"evaluate: env has no value for {found} of {value}: {shown(env)}")
    return expr.evaluate(value, env)


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
    "Expr",
    "Int",
    "Iter",
    "Option",
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
    "axis_index",
    "batches",
    "bounds_of",
    "by_descending_stride",
    "by_thread",
    "divides_threads",
    "divisor_of",
    "dtype_of",
    "evaluate",
    "first_failure",
    "fuse",
    "fuse_pairs",
    "hookimpl",
    "is_int",
    "is_multiple",
    "m",
    "no_replica",
    "orders_of",
    "refine",
    "same",
    "scope_in",
    "sliced",
    "substitute",
    "swizzle",
    "symbols_of",
    "synthesize",
    "tcgen05",
    "valid_copy",
    "whole_byte_elements",
    "widest",
]
