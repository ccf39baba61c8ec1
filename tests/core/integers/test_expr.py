"""Symbolic integers: every simplification agrees with Python's integers, every proof holds."""

from __future__ import annotations

import copy
import operator
import pickle
import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy.kernel.active_threads import conjuncts
from tilecopy_test_helpers.drawn_integers import FIRST, SYMBOLS, conditions, environments, expressions
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples

from tilecopy_core.integers import Condition
from tilecopy_core.integers.expr import (
    OPERATIONS,
    Symbol,
    bounds_of,
    divisor_of,
    evaluate,
    fits,
    is_multiple,
    of_atom,
    possible_bits,
    structural_equal,
    substitute,
)
from tilecopy_core.layout import S, laneid
from tilecopy_core.ptx import index as lowering


@given(expressions(), st.lists(environments(), min_size=1, max_size=8))
def test_bounds_divisor_and_bits_hold_for_every_value(expr: tc.Int, found: list[dict[Symbol, int]]) -> None:
    lower, upper = bounds_of(expr)
    bits, divisor = possible_bits(expr), divisor_of(expr)
    for env in found:
        value = evaluate(expr, env)
        assert lower is None or lower <= value
        assert upper is None or value <= upper
        assert bits is None or value & ~bits == 0
        assert value % divisor == 0 if divisor else value == 0


@given(expressions(), expressions(), environments(), st.integers(1, 24))
def test_operators_agree_with_integers(left: tc.Int, right: tc.Int, env: dict[Symbol, int], number: int) -> None:
    a, b = evaluate(left, env), evaluate(right, env)
    assert evaluate(left + right, env) == a + b
    assert evaluate(left - right, env) == a - b
    assert evaluate(left * right, env) == a * b
    assert evaluate(left ^ right, env) == a ^ b
    assert evaluate(tc.minimum(left, right), env) == min(a, b) and evaluate(tc.maximum(left, right), env) == max(a, b)
    assert evaluate(left // number, env) == a // number
    assert evaluate(left % number, env) == a % number


def test_printed_integers_and_conditions_are_what_they_print() -> None:
    """The text of 12,000 drawn integers, and of comparisons of them, evaluated by Python."""
    drawn, names = random.Random(4), {found: range(-40, 41) for found in ("a", "b", "c")}
    symbols = {name: Symbol(name, -40, 40) for name in names}

    def integer(depth: int) -> tc.Int:
        if depth == 0:
            return drawn.choice([*map(of_atom, symbols.values()), drawn.randint(-9, 9)])
        left, right, number = integer(depth - 1), integer(drawn.randrange(depth)), drawn.randint(1, 9)
        op = drawn.choice(["+", "-", "*", "//", "%", "^", "n*", "min", "max"])
        if op in ("//", "%"):
            return left // number if op == "//" else left % number
        if op in ("min", "max"):
            return (tc.minimum if op == "min" else tc.maximum)(left, right)
        right = number * drawn.choice([-1, 1]) if op == "n*" else right
        return {"+": operator.add, "-": operator.sub, "^": operator.xor}.get(op, operator.mul)(left, right)

    def condition(depth: int) -> Any:
        if depth == 0:
            compare = drawn.choice([operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge])
            return compare(integer(2), of_atom(drawn.choice([*symbols.values()])) + 1)
        first, second = condition(depth - 1), condition(drawn.randrange(depth))
        return {"&": first & second, "|": first | second, "~": ~first}[drawn.choice("&|~")]

    for turn in range(12_000):
        values = {name: drawn.choice(choices) for name, choices in names.items()}
        env = {found: values[name] for name, found in symbols.items()}
        printed = integer(turn % 4)
        assert eval(str(printed), {"min": min} | values) == evaluate(printed, env), printed
        if turn % 8 == 0:
            told = condition(turn // 8 % 3)
            assert eval(str(told), {"min": min} | values) == told.evaluate(lambda part, env=env: evaluate(part, env))
    assert str(128 * (of_atom(symbols["a"]) % 2)) == "128*((a)%2)"


def test_an_integer_along_an_axis_prints_whole() -> None:
    n = tc.symbol("n")
    assert str((n + 1) @ laneid) == "(n + 1) @ laneid" and str((n * 3) @ laneid) == "3*n @ laneid"
    assert (
        str(S[(4, 8) : ((n + 1) @ laneid, 1)] + (n - 1) @ laneid)
        == "TileLayout(S[(4, 8) : ((n + 1) @ laneid, 1)] + (n - 1) @ laneid)"
    )


def test_quotients_and_remainders_of_every_small_sum() -> None:
    """All of them, not a sample: ranges inside one block, across blocks, and below zero."""
    for found, values in SYMBOLS.items():
        for factor in (-3, -1, 1, 2, 6):
            for const in (-50, -7, 0, 3, 29):
                expr = of_atom(found) * factor + const
                for by in (1, 2, 3, 4, 8, 12, 50):
                    quotient, remainder = expr // by, expr % by
                    again, halves = (expr % 24) % by, (expr // 3) // by
                    low, high = bounds_of(quotient)
                    for value in values:
                        number, env = value * factor + const, {found: value}
                        assert evaluate(quotient, env) == number // by
                        assert evaluate(remainder, env) == number % by
                        assert evaluate(again, env) == number % 24 % by
                        assert evaluate(halves, env) == number // 3 // by
                        assert low <= number // by <= high


SHAPES = ((1, 0), (-1, 8), (2, 1), (3, 0))
"""Factor and constant of the operands of a small pair."""


def proofs_hold(expr: tc.Int, values: np.ndarray) -> None:
    """What is proved of an integer, against all its values."""
    lower, upper = bounds_of(expr)
    bits, divisor = possible_bits(expr), divisor_of(expr)
    assert lower is None or lower <= values.min(), expr
    assert upper is None or upper >= values.max(), expr
    assert bits is None or not (values & ~bits).any(), expr
    assert not (values % divisor).any() if divisor else not values.any(), expr


def test_every_small_pair() -> None:
    """Sums, products and exclusive ors of two small integers, and quotients of them: every value of every pair."""
    found = [
        Symbol("p", 0, 3),
        Symbol("q", -3, 2),
        Symbol("r", 0, 24, 12),
        Symbol("s", 2, 6, 2),
        Symbol("t", 0, 40, 20),
        Symbol("u", 0, 2),
    ]
    values = {each: np.arange(each.lower, each.upper + 1, each.multiple_of) for each in found}
    operands = [(each, of_atom(each) * factor + const) for each in found for factor, const in SHAPES]
    for (first, left), (second, right) in product(operands, repeat=2):
        along = values[second] if second is first else values[second][:, None]
        env = {first: values[first], second: along}
        a, b = (np.broadcast_arrays(evaluate(each, env), along * values[first])[0] for each in (left, right))
        operators = [(each, each) for each in (operator.add, operator.sub, operator.mul, operator.xor)]
        for compute, expected in [*operators, (tc.minimum, np.minimum), (tc.maximum, np.maximum)]:
            expr, wanted = compute(left, right), expected(a, b)
            assert (evaluate(expr, env) == wanted).all(), (compute, left, right)
            proofs_hold(expr, wanted)
        for by in (4, 5, 8, 16):
            quotient, remainder, again = (left + right) // by, (left + right) % by, (left + right) % 24 % by
            assert (evaluate(quotient, env) == (a + b) // by).all()
            assert (evaluate(remainder, env) == (a + b) % by).all()
            assert (evaluate(again, env) == (a + b) % 24 % by).all()
            proofs_hold(quotient, (a + b) // by)
            proofs_hold(remainder, (a + b) % by)


def test_the_lesser_of_two_is_decided_where_it_can_be() -> None:
    n, m = tc.symbol("n", upper=8, multiple_of=4), tc.symbol("m", lower=8, upper=64, multiple_of=16)
    assert (
        structural_equal(tc.minimum(n, m), n)
        and structural_equal(tc.maximum(m, n), m)
        and structural_equal(tc.minimum(n, n), n)
    )
    assert tc.minimum(3, 5) == 3 and tc.maximum(3, 5) == 5
    start = tc.minimum(m * 8, 200)
    assert bounds_of(start) == (64, 200) and divisor_of(start) == 8 and structural_equal(start, tc.minimum(200, m * 8))
    assert structural_equal(tc.minimum(m * 8, tc.symbol("free") * 0 + 200), start) and repr(start) == "min(8*m, 200)"
    unbounded = tc.symbol("unbounded", lower=None)
    assert bounds_of(tc.minimum(unbounded, 5)) == (None, 5) and bounds_of(tc.maximum(unbounded, 5)) == (5, None)
    for call in (tc.minimum, tc.maximum):
        with pytest.raises(tc.RequestError, match=mentions("2.5")):
            call(n, 2.5)


def test_what_divides_is_all_that_divides() -> None:
    """What is proved of divisors decides how wide vectors are."""
    row, word = tc.symbol("row", multiple_of=16), tc.symbol("word", multiple_of=4)
    assert divisor_of(row * 3 + 32) == 16 and divisor_of(row * 3 + 8) == 8
    assert divisor_of(row // 4) == 4 and divisor_of(row * word) == 64
    assert is_multiple(row, 8) and is_multiple(row, 16) and not is_multiple(row, 32) and not is_multiple(row + 4, 8)
    assert is_multiple(0, 16) and is_multiple(48, 16) and not is_multiple(8, 16)
    assert structural_equal((word * 2 + tc.symbol("n") * 0 + row + 3) % 8, 3)
    other = tc.symbol("other")
    assert structural_equal((word * 2 + other * 3) % 8, other * 3 % 8)


def test_a_product_without_an_upper_bound() -> None:
    size, step = tc.symbol("size", lower=2), tc.symbol("step", lower=3)
    assert bounds_of(size * step) == (6, None)
    for name in ("before", "zafter"):  # on either side of the product, whose factors are sorted
        assert bounds_of(size * tc.symbol(name, lower=-3)) == (None, None)


@pytest.mark.parametrize("bits", [32, 64])
def test_fits_to_the_last_value(bits: int) -> None:
    edge = 1 << bits - 1
    assert fits(edge - 1, bits) and not fits(edge, bits)
    assert fits(-edge, bits) and not fits(-edge - 1, bits)
    assert fits(tc.symbol("n", lower=-edge, upper=edge - 1), bits)
    assert not fits(tc.symbol("n", upper=edge), bits) and not fits(tc.symbol("n"), bits)
    assert not fits(tc.symbol("n", lower=-edge - 1, upper=0), bits)


def test_possible_bits_are_few() -> None:
    """What is not needed for a proof costs an exclusive or at run time."""
    narrow, even = of_atom(Symbol("a", 0, 20)), of_atom(Symbol("b", 0, 90, 6))
    assert possible_bits(narrow) == 31
    assert possible_bits(narrow * 3) == 63
    assert possible_bits(narrow * 32 + 3) == 31 * 32 + 3
    assert possible_bits(even) == 126
    assert possible_bits(even + 1) == 127
    assert repr((narrow * 8) ^ 5) == "8*a + 5"


@given(expressions(), environments())
def test_substitution_is_evaluation(expr: tc.Int, env: dict[Symbol, int]) -> None:
    assert substitute(expr, env) == evaluate(expr, env)


def test_thread_splits_simplify_away() -> None:
    tid, turn = tc.symbol("tid", upper=127), tc.symbol("round", upper=7)
    flat = (turn * 128 + tid) * 8
    assert repr(flat // 8) == "128*round + tid"
    assert repr(flat // 1024) == "round"
    assert flat % 8 == 0
    assert repr(flat % 1024) == "8*tid"
    group, lane = tc.symbol("group"), tc.symbol("lane", upper=31)
    assert repr((group * 32 + lane) // 64) == "(group)//2" and repr((group * 32 + lane + 32) // 64) == "(group + 1)//2"
    assert repr((group * 32 + lane) % 64) == "32*((group)%2) + lane" and repr((group * 32 + lane) // 16) != "2*group"
    wide = tc.symbol("wide", upper=1000)
    assert structural_equal(wide % 24 % 8, wide % 8)
    assert structural_equal(wide // 3 // 5, wide // 15)


@given(expressions(2), expressions(1), environments(), st.integers(2, 12), st.sampled_from([-2, 1, 3]))
def test_what_is_without_its_remainder(
    left: tc.Int, other: tc.Int, env: dict[Symbol, int], by: int, factor: int
) -> None:
    rest = factor * (left - left % by) + other
    a, b = evaluate(left, env), evaluate(other, env)
    value, (low, high) = factor * (a - a % by) + b, bounds_of(rest)
    assert evaluate(rest, env) == value and (low is None or low <= value) and (high is None or value <= high)
    assert evaluate(rest // by, env) == value // by and evaluate(rest % by, env) == value % by
    assert structural_equal(rest + factor * (left % by), factor * left + other), "and the remainder cancels"


@pytest.mark.parametrize(("found", "values"), SYMBOLS.items())
@pytest.mark.parametrize("by", [2, 3, 7, 32])
def test_bounds_without_the_remainder_are_exact(found: Symbol, values: range, by: int) -> None:
    for each in (of_atom(found), of_atom(found) + 5, 3 * of_atom(found) - 2):
        wanted = [evaluate(each, {found: value}) // by * by for value in values]
        rest = each - each % by
        assert bounds_of(rest) == (min(wanted), max(wanted)) and bounds_of(-rest) == (-max(wanted), -min(wanted))
        assert structural_equal(rest // by, each // by) and structural_equal((by - rest) % by, 0)


def test_the_first_thread_of_a_warp_has_exact_bounds() -> None:
    k = tc.KernelBuilder("copy", threads=128)
    tid = k.thread_id()
    for first in (tid - tid % 32, tid - k.lane_id()):
        assert bounds_of(first) == (0, 96) and bounds_of(-first) == (-96, 0)
        assert (
            structural_equal(first // 32, tid // 32)
            and structural_equal((first + 31) // 16, 2 * (tid // 32) + 1)
            and structural_equal(first % 32, 0)
        )
    tile, rows = k.shared((32,), "float32"), k.param("A", (4, 32), "float32")
    k.warp.copy(tile[:], rows[(tid - tid % 32) // 32, :])


def test_a_comparison_is_a_condition_without_truth() -> None:
    tid = tc.symbol("tid", upper=31)
    assert repr(tid < 4) == "tid < 4"
    assert structural_equal(tid + 1, 1 + tid)
    assert not structural_equal(tid, tid + 1)
    for misuse in (
        lambda: bool(tid < 4),
        lambda: bool(tid == 4),
        lambda: bool(tid != 4),
        lambda: tid == 5 or tid == 6,
        lambda: tid == 5 and tid < 3,
        lambda: not (tid == 5),
        lambda: 0 < tid < 5,
        lambda: tid in [1, 2],
        lambda: bool(tid),
    ):
        with pytest.raises(tc.RequestError, match="if_"):
            misuse()
    for other in (1.5, "4", None, True):
        with pytest.raises(tc.RequestError, match=mentions("tid")):
            tid == other


@examples(200)
@given(conditions(), st.lists(environments(), min_size=8, max_size=8))
def test_conditions_are_true_where_python_says(
    case: tuple[Condition, Callable[[dict[Symbol, int]], bool]], found: list[dict[Symbol, int]]
) -> None:
    condition, truth = case
    for env in [*found, *({**found[0], FIRST: value} for value in range(-1, 8))]:
        wanted = truth(env)
        assert condition.evaluate(lambda part, env=env: evaluate(part, env)) == wanted
        parts = [each.evaluate(lambda part, env=env: evaluate(part, env)) for each in conjuncts(condition)]
        assert all(parts) == wanted, list(conjuncts(condition))


def test_a_symbol_is_not_its_name() -> None:
    one, other = tc.symbol("n", upper=7), tc.symbol("n", upper=7)
    assert not structural_equal(one, other)
    assert not structural_equal(one - other, 0)
    assert bounds_of(one - other) == (-7, 7)


def test_the_sign_of_a_difference_survives_an_exclusive_or() -> None:
    """``((a ^ b) - 5) ^ 8`` is -13 at a = b = 0; a mask of bits that forgets the sign makes it 3."""
    a, b = Symbol("a", 0, 7), Symbol("b", 0, 7)
    expr = ((of_atom(a) ^ of_atom(b)) - 5) ^ 8
    assert evaluate(expr, {a: 0, b: 0}) == (0 - 5) ^ 8 == -13


@given(expressions(), expressions(), environments())
def test_pickles_and_copies_keep_meaning_and_identity(left: tc.Int, right: tc.Int, env: dict[Symbol, int]) -> None:
    made, other, values = pickle.loads(pickle.dumps((left, right, env)))
    assert evaluate(made, values) == evaluate(left, env)
    assert structural_equal(made, other) == structural_equal(left, right)
    assert evaluate(copy.deepcopy((left, env))[0], env) == evaluate(left, env) if isinstance(left, int) else True


def test_misuse_is_named() -> None:
    tid = tc.symbol("tid", upper=31)
    with pytest.raises(tc.RequestError, match=mentions("tid")):
        tid // 0
    with pytest.raises(tc.RequestError, match=mentions("tid")):
        tid % tid
    with pytest.raises(tc.RequestError, match=mentions("tid")):
        range(tid)


def test_an_exclusive_or_with_nothing_or_itself_is_no_exclusive_or() -> None:
    """Whatever the bounds: of the index of a CTA in a grid that is not known, or of what may be negative."""
    for n in (tc.symbol("n"), tc.symbol("n", lower=None), tc.symbol("n", upper=8) - 3):
        assert structural_equal(n ^ 0, n) and structural_equal(0 ^ n, n) and n ^ n == 0
        assert structural_equal((n * 2 + 1) ^ (n * 2 + 1) ^ n, n)


def test_every_operation_has_its_instructions() -> None:
    assert {op for op, rule in OPERATIONS.items() if not rule.instruction} <= lowering._LOWERED.keys()
