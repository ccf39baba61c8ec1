"""Index arithmetic and conditions drawn by Hypothesis, with the values that their symbols take."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import tilecopy as tc
from hypothesis import strategies as st

from tilecopy_core.integers import Condition
from tilecopy_core.integers.expr import (
    Symbol,
    evaluate,
    of_atom,
)

SYMBOLS = {
    Symbol("a", 0, 31): range(32),
    Symbol("b", 0, 90, 6): range(0, 91, 6),
    Symbol("c", 3, 5): range(3, 6),
    Symbol("d", -9, 4): range(-9, 5),
    Symbol("e", -40, -8, 8): range(-40, -7, 8),
}
INTEGERS = [of_atom(found) for found in SYMBOLS]
FIRST = next(iter(SYMBOLS))


ATOMS, FACTORS = st.sampled_from(INTEGERS), st.integers(1, 20)
LEAVES, RIGHT = st.one_of(st.integers(-40, 40), ATOMS), st.integers(-2, 6)


VALUES = st.tuples(*map(st.sampled_from, SYMBOLS.values()))


@cache
def among(*values: Any) -> st.SearchStrategy[Any]:
    """Return the strategy of some values, the same at each call: Hypothesis checks every new object, which takes longer than a draw."""
    return st.sampled_from(values)


@cache
@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tc.Int:
    """Random index arithmetic."""
    if depth == 0:
        return draw(LEAVES)
    left = draw(expressions(depth - 1))
    kind = draw(among("+", "-", "*", "//", "%", "^", "min", "max", "sym*"))
    if kind == "+":
        return left + draw(expressions(depth - 1))
    if kind == "-":
        return left - draw(expressions(depth - 1))
    if kind == "^":
        return left ^ draw(expressions(depth - 1))
    if kind in ("min", "max"):
        return (tc.minimum if kind == "min" else tc.maximum)(left, draw(expressions(depth - 1)))
    if kind == "sym*":
        return left * draw(ATOMS)
    number = draw(FACTORS) * (draw(among(1, 1, 1, -1)) if kind == "*" else 1)
    return left * number if kind == "*" else left // number if kind == "//" else left % number


@cache
@st.composite
def environments(draw: st.DrawFn) -> dict[Symbol, int]:
    """A value for each symbol, as declared."""
    return dict(zip(SYMBOLS, draw(VALUES), strict=True))


@cache
@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> tuple[Condition, Callable[[dict[Symbol, int]], bool]]:
    """A condition, and its truth as Python has it."""
    kind = draw(among("compare", "and", "or", "not")) if depth else "compare"
    if kind == "compare":
        name = draw(among("eq", "ne", "lt", "le", "gt", "ge"))
        compare, left, right = getattr(operator, name), draw(ATOMS), draw(RIGHT)
        return compare(left, right), lambda env: compare(evaluate(left, env), right)
    first, is_first = draw(conditions(depth - 1))
    if kind == "not":
        return ~first, lambda env: not is_first(env)
    second, is_second = draw(conditions(depth - 1))
    if kind == "and":
        return first & second, lambda env: is_first(env) and is_second(env)
    return first | second, lambda env: is_first(env) or is_second(env)
