"""Everything that a variant imports: the contract, the checks, the partitions that variants share, the PTX builder.

``from tilecopy_core.plugin import ...`` is the one import of a plugin; first-party variants have no other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from . import checks, chunks, expr, fragments, layout, partition, request, rounds
from .checks import Check
from .chunks import ChunkPartition
from .conditions import Condition
from .dtypes import DType, dtype_of
from .errors import (
    ANY_INTEGER,
    FLAG,
    TEXT,
    Kind,
    P,
    RequestError,
    T,
    a,
    checked,
    integer,
    many,
    maybe,
    one_of,
    shown,
    whole,
)
from .expr import INT, Expr, Int, Symbol, is_int, same
from .fragments import Digit
from .hookspecs import VariantPlugin, hookimpl
from .layout import Axis, Iter, Pair, Swizzle, TCol, TileLayout, TLane, m, swizzle
from .memory import Buffer, Region
from .outside import Outside
from .partition import WIDTHS_BITS, Guard, Run, Side, VectorPartition
from .ptx import MBARRIER_TX_LIMIT, Access, Address, PtxBuilder, Register, masked, tcgen05
from .request import COMPLETIONS, RELAXED, Accept, CopyRequest, Decline, Option, Variant, Verdict
from .rounds import Masks, Places, Walk, batches
from .scope import ActiveThreads, Scope, axis_index, by_thread
from .target import Target


def _is_group(group: Any) -> bool:
    return isinstance(group, tuple) and len(group) > 1 and all(isinstance(it, Iter) for it in group)


_REQUEST = a("a CopyRequest", CopyRequest)
_BY_SYMBOL = Kind(
    "values by Symbol", lambda value: isinstance(value, Mapping) and all(isinstance(key, Symbol) for key in value)
)
_REGION = a("a Region such as buffer[0:8, :]", Region)
_RUNS = many(a("a Run", Run))
_PARTITION = a("a VectorPartition", VectorPartition)
_KINDS = {
    "value": INT,
    "factor": whole(1, 2**63 - 1),
    "replacements": _BY_SYMBOL,
    "env": _BY_SYMBOL,
    "iters": many(a("an Iter", Iter)),
    "sides": many(a("an Iter", Iter)),
    "pairs": many(Kind("a pair of Iter", _is_group)),
    "threads": many(Kind("a pair of Iter", _is_group)),
    "broadcasts_first": FLAG,
    "operand": TEXT,
    "region": _REGION,
    "regions": _REGION,
    "leader": _REGION,
    "fragment": _REGION,
    "request": _REQUEST,
    "widths_bits": many(whole(1, 1024)),
    "ragged": FLAG,
    "runs": Kind("a tuple of Run, at least one", lambda runs: bool(_RUNS.fits(runs) and runs)),
    "also": Kind("a function of the number of elements", callable),
    "table": many(Kind("a check: a function of the request that gives a reason or None", callable)),
    "kinds": one_of("thread", "warp", "warpgroup", "cta", "cluster"),
    "layout": a("a TileLayout", TileLayout),
    "shape": many(INT),
    "variant": a("a Variant", Variant),
    "axes": many(a("an Axis such as laneid", Axis)),
    "digits": many(a("a Digit", Digit)),
    "tid": INT,
    "cta_threads": whole(1, 1024),
    "store": FLAG,
    "ptx": a("a PtxBuilder", PtxBuilder),
    "partition": _PARTITION,
    "guards": many(a("a Guard", Guard)),
    "scope": a("a Scope such as warp()", Scope),
    "write": Kind("a function of a VectorPartition", callable),
    "inside": Kind("a function of no argument", callable),
    "rule": TEXT,
    "types": a("a class", type),
    "words": TEXT,
    "kind": a("a Kind", Kind),
    "low": ANY_INTEGER,
    "high": ANY_INTEGER,
    "edge": Kind("a function of no argument", callable),
}
"""What a parameter of a name may be."""


def _door(function: Callable[P, T]) -> Callable[P, T]:
    """A function that looks at its arguments; the core itself calls what is behind it, a thousand times for one kernel."""
    names = inspect.signature(function).parameters
    return checked(RequestError, **{name: kind for name, kind in _KINDS.items() if name in names})(function)


divides_threads = _door(checks.divides_threads)
first_failure = _door(checks.first_failure)
check_request = _door(request.check_request)
fits_one_phase = _door(checks.fits_one_phase)
mbarrier_of = _door(checks.mbarrier_of)
no_replica = _door(checks.no_replica)
relaxed_to_global = _door(checks.relaxed_to_global)
one_mbarrier = _door(checks.one_mbarrier)
scope_in = _door(checks.scope_in)
valid_copy = _door(checks.valid_copy)
why_not_asked = _door(checks.why_not_asked)
whole_byte_elements = _door(checks.whole_byte_elements)
chunked = _door(chunks.chunked)
bounds_of = _door(expr.bounds_of)
divisor_of = _door(expr.divisor_of)
is_multiple = _door(expr.is_multiple)
key_of = _door(expr.key_of)
substitute = _door(expr.substitute)
symbols_of = _door(expr.symbols_of)
digits_of = _door(fragments.digits_of)
operands = _door(fragments.operands)
owners = _door(fragments.owners)
thread_axes = _door(fragments.thread_axes)
why_no_owners = _door(fragments.why_no_owners)
fuse = _door(layout.fuse)
row_major = _door(layout.row_major)
by_descending_stride = _door(partition.by_descending_stride)
fuse_pairs = _door(layout.fuse_pairs)
guards_of = _door(partition.guards_of)
orders_of = _door(partition.orders_of)
refine = _door(partition.refine)
sliced = _door(partition.sliced)
synthesize = _door(partition.synthesize)
widest = _door(partition.widest)
asynchronously = _door(rounds.asynchronously)
at_edges = _door(rounds.at_edges)
choose = _door(rounds.choose)
through_registers = _door(rounds.through_registers)


a = _door(a)
many = _door(many)
maybe = _door(maybe)
one_of = _door(one_of)
whole = _door(whole)


@_door
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
    "FLAG",
    "MBARRIER_TX_LIMIT",
    "RELAXED",
    "TEXT",
    "WIDTHS_BITS",
    "Accept",
    "Access",
    "ActiveThreads",
    "Address",
    "Axis",
    "Buffer",
    "Check",
    "ChunkPartition",
    "Condition",
    "CopyRequest",
    "DType",
    "Decline",
    "Digit",
    "Expr",
    "Guard",
    "Int",
    "Iter",
    "Kind",
    "Masks",
    "Option",
    "Outside",
    "Pair",
    "Places",
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
    "a",
    "asynchronously",
    "at_edges",
    "axis_index",
    "batches",
    "bounds_of",
    "by_descending_stride",
    "by_thread",
    "checked",
    "choose",
    "check_request",
    "chunked",
    "digits_of",
    "divides_threads",
    "divisor_of",
    "dtype_of",
    "evaluate",
    "first_failure",
    "fits_one_phase",
    "fuse",
    "fuse_pairs",
    "guards_of",
    "hookimpl",
    "integer",
    "key_of",
    "is_int",
    "is_multiple",
    "m",
    "many",
    "masked",
    "maybe",
    "mbarrier_of",
    "no_replica",
    "one_mbarrier",
    "one_of",
    "operands",
    "orders_of",
    "owners",
    "refine",
    "relaxed_to_global",
    "row_major",
    "same",
    "scope_in",
    "shown",
    "sliced",
    "substitute",
    "swizzle",
    "symbols_of",
    "synthesize",
    "tcgen05",
    "thread_axes",
    "through_registers",
    "valid_copy",
    "whole",
    "whole_byte_elements",
    "why_no_owners",
    "why_not_asked",
    "widest",
]
