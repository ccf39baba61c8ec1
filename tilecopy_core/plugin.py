"""Everything that a variant imports: the contract, the checks, the partitions that variants share, the PTX builder.

``from tilecopy_core.plugin import ...`` is the one import of a plugin; first-party variants have no other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .description.checks import (
    Check,
    divides_threads,
    first_failure,
    fits_one_phase,
    mbarrier_of,
    no_replica,
    one_mbarrier,
    relaxed_to_global,
    scope_in,
    valid_copy,
    whole_byte_elements,
    why_not_asked,
)
from .description.request import (
    COMPLETIONS,
    RELAXED,
    Accept,
    CopyRequest,
    Decline,
    Option,
    Variant,
    Verdict,
    check_request,
)
from .description.scope import ActiveThreads, Scope, axis_index, by_thread
from .description.target import Target
from .errors import (
    ANY_INTEGER,
    FLAG,
    TEXT,
    Kind,
    P,
    RequestError,
    T,
    checked,
    instance_of,
    integer,
    integer_in,
    one_of,
    optional,
    shown,
    tuple_of,
)
from .errors.process_lock import LOCK
from .errors.records import frozen
from .integers import INT, Condition, Expr, Int, Symbol, bounds_of, divisor_of, is_int, is_multiple, key_of, symbols_of
from .integers.expr import evaluate as evaluate_within
from .integers.expr import same, substitute
from .layout import Axis, Iter, Pair, Swizzle, TCol, TileLayout, TLane, fuse, fuse_pairs, m, row_major, swizzle
from .layout.axes import laneid, tid_in_wg, tx, warpid, wid_in_wg
from .layout.dtypes import DType, dtype_of
from .layout.fragments import mma_fragment, tile_fragment
from .layout.notation import S
from .memory.buffers import Buffer, Region
from .memory.outside import Outside
from .ptx import MBARRIER_TX_LIMIT, Access, Address, HostBytes, PtxBuilder, Register, TensorMap, TensorPlace, masked
from .registry.hookspecs import VariantPlugin, hookimpl
from .variant_tools import tcgen05
from .variant_tools.chunk_partition import ChunkPartition, chunked
from .variant_tools.fragment_owners import Digit, digits_of, operands, owners, thread_axes, why_no_owners
from .variant_tools.round_loop import Masks, Places, Walk, asynchronously, at_edges, batches, choose, through_registers
from .variant_tools.vector_partition import (
    WIDTHS_BITS,
    Guard,
    Run,
    Side,
    VectorPartition,
    by_descending_stride,
    guards_of,
    orders_of,
    refine,
    sliced,
    synthesize,
    widest,
)


def _is_group(group: Any) -> bool:
    return isinstance(group, tuple) and len(group) > 1 and all(isinstance(it, Iter) for it in group)


_BY_SYMBOL = Kind(
    "values by Symbol", lambda value: isinstance(value, Mapping) and all(isinstance(key, Symbol) for key in value)
)
_RUNS = tuple_of(instance_of("a Run", Run))
_KINDS = {
    **dict.fromkeys(("value", "tid"), INT),
    **dict.fromkeys(("broadcasts_first", "ragged", "store"), FLAG),
    **dict.fromkeys(("operand", "rule", "words"), TEXT),
    **dict.fromkeys(("low", "high"), ANY_INTEGER),
    **dict.fromkeys(("replacements", "env"), _BY_SYMBOL),
    **dict.fromkeys(("iters", "sides"), tuple_of(instance_of("an Iter", Iter))),
    **dict.fromkeys(("pairs", "threads"), tuple_of(Kind("a pair of Iter", _is_group))),
    **dict.fromkeys(
        ("region", "regions", "leader", "fragment"), instance_of("a Region such as buffer[0:8, :]", Region)
    ),
    **dict.fromkeys(("inside", "edge"), Kind("a function of no argument", callable)),
    "factor": integer_in(1, 2**63 - 1),
    "request": instance_of("a CopyRequest", CopyRequest),
    "widths_bits": tuple_of(integer_in(1, 1024)),
    "runs": Kind("a tuple of Run, at least one", lambda runs: bool(_RUNS.fits(runs) and runs)),
    "also": Kind("a function of the number of elements", callable),
    "table": tuple_of(Kind("a check: a function of the request that gives a reason or None", callable)),
    "kinds": one_of("thread", "warp", "warpgroup", "cta", "cluster"),
    "layout": instance_of("a TileLayout", TileLayout),
    "shape": tuple_of(INT),
    "variant": instance_of("a Variant", Variant),
    "axes": tuple_of(instance_of("an Axis such as laneid", Axis)),
    "digits": tuple_of(instance_of("a Digit", Digit)),
    "cta_threads": integer_in(1, 1024),
    "ptx": instance_of("a PtxBuilder", PtxBuilder),
    "partition": instance_of("a VectorPartition", VectorPartition),
    "guards": tuple_of(instance_of("a Guard", Guard)),
    "scope": instance_of("a Scope such as warp()", Scope),
    "write": Kind("a function of a VectorPartition", callable),
    "types": instance_of("a class", type),
    "kind": instance_of("a Kind", Kind),
}
"""What a parameter of a name may be."""


def _checking(function: Callable[P, T]) -> Callable[P, T]:
    """A function that looks at its arguments; the core itself calls what is behind it, a thousand times for one kernel."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)]
    return checked(RequestError, **{name: kind for name, kind in _KINDS.items() if name in names})(function)


def evaluate(value: Int, env: Mapping[Symbol, Any]) -> Any:
    """The value for given symbols (each an int, an array or a symbolic integer).

    Raises:
        RequestError: a symbol of the expression is not in ``env``.
    """
    for found in symbols_of(value):
        if found not in env:
            raise RequestError(f"evaluate: env has no value for {found} of {value}: {shown(env)}")
    return evaluate_within(value, env)


a, many, maybe, whole = instance_of, tuple_of, optional, integer_in  # their names of before, which third parties use

# In the order of the table in docs/plugins.md.
__all__ = ["COMPLETIONS", "Accept", "CopyRequest", "Decline", "Option", "Variant", "Verdict"]
__all__ += ["LOCK", "VariantPlugin", "check_request", "hookimpl", "why_not_asked"]
__all__ += ["Check", "divides_threads", "first_failure", "no_replica", "scope_in", "valid_copy", "whole_byte_elements"]
__all__ += ["MBARRIER_TX_LIMIT", "RELAXED", "fits_one_phase", "mbarrier_of", "one_mbarrier", "relaxed_to_global"]
__all__ += ["Buffer", "DType", "Outside", "Region", "Target", "dtype_of"]
__all__ += ["Axis", "Iter", "Swizzle", "TCol", "TLane", "TileLayout", "fuse", "m", "row_major", "swizzle"]
__all__ += ["S", "laneid", "tid_in_wg", "tx", "warpid", "wid_in_wg"]
__all__ += ["Condition", "Expr", "Int", "bounds_of", "divisor_of", "evaluate", "is_int", "is_multiple", "key_of"]
__all__ += ["ActiveThreads", "Scope", "axis_index", "by_thread", "same", "substitute", "symbols_of"]
__all__ += ["Pair", "by_descending_stride", "fuse_pairs", "orders_of", "refine", "sliced"]
__all__ += ["WIDTHS_BITS", "Run", "Side", "VectorPartition", "synthesize", "widest"]
__all__ += ["ChunkPartition", "Guard", "Masks", "at_edges", "choose", "chunked", "guards_of", "masked"]
__all__ += ["Places", "Walk", "asynchronously", "batches", "through_registers"]
__all__ += ["Digit", "digits_of", "operands", "owners", "thread_axes", "why_no_owners", "mma_fragment", "tile_fragment"]
__all__ += ["FLAG", "TEXT", "Kind", "checked", "frozen", "integer", "shown"]
__all__ += ["a", "instance_of", "integer_in", "many", "maybe", "one_of", "optional", "tuple_of", "whole"]
__all__ += ["Access", "Address", "HostBytes", "PtxBuilder", "Register", "TensorMap", "TensorPlace", "tcgen05"]

_TAKE_ANYTHING = (dtype_of, frozen, integer, is_int, shown)
for _name in __all__:  # to a type checker they stay what they are behind the checks
    _function = globals()[_name]
    if inspect.isfunction(_function) and not hasattr(_function, "__wrapped__") and _function not in _TAKE_ANYTHING:
        globals()[_name] = _checking(_function)
