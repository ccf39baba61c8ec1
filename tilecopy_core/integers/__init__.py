"""Integers that are known only at run time, and conditions on them."""

from .conditions import Condition, RunTime
from .expr import (
    INT,
    Atom,
    Expr,
    Int,
    Symbol,
    add,
    bounds_of,
    constant_of,
    divisor_of,
    evaluate,
    fits,
    floordiv,
    is_int_like,
    is_multiple,
    key_of,
    maximum,
    minimum,
    mul,
    of_atom,
    plain,
    sub,
    substitute,
    sum_of,
    symbols_in_order,
    symbols_of,
    terms_of,
)

__all__ = ["Atom", "Condition", "Expr", "INT", "Int", "RunTime", "Symbol", "add", "bounds_of", "constant_of"]
__all__ += ["divisor_of", "evaluate", "fits", "floordiv", "is_int_like", "is_multiple", "key_of", "maximum", "minimum"]
__all__ += ["mul", "of_atom", "plain", "sub", "substitute", "sum_of", "symbols_in_order", "symbols_of"]
__all__ += ["terms_of"]
