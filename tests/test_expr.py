"""Symbolic integers: every simplification agrees with Python's integers, every proof holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilecopy_core as tc
from tilecopy_core.expr import as_expr, bounds_of, divisor_of, evaluate, possible_bits, split_terms, substitute

SYMBOLS = {
    "a": (tc.symbol("a", upper=31), range(32)),
    "b": (tc.symbol("b", upper=90, multiple_of=6), range(0, 91, 6)),
    "c": (tc.symbol("c", lower=3, upper=5), range(3, 6)),
}


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tc.Int:
    """Random index arithmetic."""
    if depth == 0:
        return draw(st.one_of(st.integers(0, 40), st.sampled_from([s for s, _ in SYMBOLS.values()])))
    left = draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["+", "*", "//", "%", "^", "sym*"]))
    if kind == "+":
        return left + draw(expressions(depth - 1))
    if kind == "^":
        return left ^ draw(expressions(depth - 1))
    if kind == "sym*":
        return left * draw(st.sampled_from([s for s, _ in SYMBOLS.values()]))
    number = draw(st.integers(1, 20))
    return {"*": left * number, "//": left // number, "%": left % number}[kind]


@st.composite
def environments(draw: st.DrawFn) -> dict[str, int]:
    """A value for each symbol, as declared."""
    return {name: draw(st.sampled_from(list(values))) for name, (_, values) in SYMBOLS.items()}


@given(expressions(), st.lists(environments(), min_size=1, max_size=8))
def test_bounds_divisor_and_bits_hold_for_every_value(expr: tc.Int, found: list[dict[str, int]]) -> None:
    lower, upper = bounds_of(expr)
    bits, divisor = possible_bits(expr), divisor_of(expr)
    for env in found:
        value = evaluate(expr, env)
        assert lower is None or lower <= value
        assert upper is None or value <= upper
        assert bits is None or value & ~bits == 0
        assert value % divisor == 0 if divisor else value == 0


@given(expressions(), expressions(), environments(), st.integers(1, 24))
def test_operators_agree_with_integers(left: tc.Int, right: tc.Int, env: dict[str, int], number: int) -> None:
    a, b = evaluate(left, env), evaluate(right, env)
    assert evaluate(left + right, env) == a + b
    assert evaluate(left - right, env) == a - b
    assert evaluate(left * right, env) == a * b
    assert evaluate(left ^ right, env) == a ^ b
    assert evaluate(left // number, env) == a // number
    assert evaluate(left % number, env) == a % number


@given(expressions(), environments())
def test_substitution_is_evaluation(expr: tc.Int, env: dict[str, int]) -> None:
    assert as_expr(substitute(expr, env)).const == evaluate(expr, env)
    without, only, whole = split_terms(expr, "a")
    if whole:
        assert evaluate(without, env) + evaluate(only, env) == evaluate(expr, env)


def test_thread_splits_simplify_away() -> None:
    tid, turn = tc.symbol("tid", upper=127), tc.symbol("round", upper=7)
    flat = (turn * 128 + tid) * 8
    assert repr(flat // 8) == "128*round + tid"
    assert repr(flat // 1024) == "round"
    assert flat % 8 == 0
    assert repr(flat % 1024) == "8*tid"


def test_comparison_is_a_condition_and_structural_in_a_boolean_context() -> None:
    tid = tc.symbol("tid", upper=31)
    assert isinstance(tid < 4, object) and repr(tid < 4) == "tid < 4"
    assert bool(tid + 1 == 1 + tid)
    assert not bool(tid == tid + 1)
    with pytest.raises(tc.RequestError, match="if_"):
        bool(tid < 4)


def test_misuse_is_named() -> None:
    tid = tc.symbol("tid", upper=31)
    with pytest.raises(tc.RequestError, match="positive constant"):
        tid // 0
    with pytest.raises(tc.RequestError, match="positive constant"):
        tid % tid
    with pytest.raises(tc.RequestError, match="known only when the kernel runs"):
        range(tid)
