"""What conditions and loops prove of a start: nothing that does not hold for every value."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy.kernel import bounds
from tilecopy_test_helpers.drawn_integers import FIRST, conditions, environments
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples

from tilecopy_core.integers import Condition, Symbol, bounds_of, evaluate, of_atom

SMALL = [Symbol("x", 0, 9), Symbol("y", -3, 6), Symbol("z", 0, 12, 4)]
GRID = dict(
    zip(
        SMALL, np.meshgrid(*(np.arange(s.lower, s.upper + 1, s.multiple_of) for s in SMALL), indexing="ij"), strict=True
    )
)
"""Every value of all three together."""


@st.composite
def affine(draw: st.DrawFn) -> tc.Int:
    """A sum of the three, or of quotients of them."""
    total: Any = draw(st.integers(-9, 9))
    for each in SMALL:
        coefficient = draw(st.sampled_from([-4, -2, -1, 0, 0, 1, 2, 3]))
        part = of_atom(each)
        if draw(st.integers(0, 4)) == 0:
            part = (part + draw(st.integers(0, 3))) // draw(st.sampled_from([2, 3, 4]))
        if draw(st.integers(0, 6)) == 0:
            part = tc.minimum(part, draw(st.one_of(st.integers(-2, 4), st.sampled_from([of_atom(s) for s in SMALL]))))
        total = total + part * coefficient
    return total


def value(expr: tc.Int) -> np.ndarray:
    return np.broadcast_to(evaluate(expr, GRID), GRID[SMALL[0]].shape)


@examples(200)
@given(conditions(), st.lists(environments(), min_size=8, max_size=8))
def test_one_alternative_of_what_is_known_holds(
    case: tuple[Condition, Callable[[dict[Symbol, int]], bool]], found: list[dict[Symbol, int]]
) -> None:
    condition, truth = case
    for env in [*found, *({**found[0], FIRST: number} for number in range(-1, 8))]:
        known = bounds.facts_from(condition, negated=not truth(env))
        assert any(all(evaluate(fact, env) >= 0 for fact in facts) for facts in known), known


@given(affine())
def test_what_a_fact_implies_holds_where_it_does(fact: tc.Int) -> None:
    holds = value(fact) >= 0
    for each in (bounds.normalize(fact), *bounds.derive(fact)):
        assert (value(each)[holds] >= 0).all(), each
    assert ((value(bounds.normalize(fact)) >= 0) == holds).all(), "nothing is lost either"
    for each in bounds.atom_facts([fact]):
        assert (value(each) >= 0).all(), each
    for found, closer in bounds.symbol_bounds([fact]).items():
        lower, upper = bounds_of(closer)
        own = GRID[found][holds]
        assert lower is None or (own >= lower).all()
        assert upper is None or (own <= upper).all()


@examples(300)
@given(st.lists(affine(), min_size=1, max_size=3), affine())
def test_what_facts_prove_holds_where_they_do(facts: list[tc.Int], goal: tc.Int) -> None:
    holds = np.logical_and.reduce([value(fact) >= 0 for fact in facts])
    found = [each for fact in facts for each in bounds.derive(fact)]
    left, (near,) = bounds.narrow(found, goal)
    if bounds.proves(found, goal) or bounds.proves(left, near):
        assert (value(goal)[holds] >= 0).all(), (facts, goal)
    if bounds.contradict(found):
        assert not holds.any(), facts


def test_what_must_be_proved_is() -> None:
    x, y, n = tc.symbol("x"), tc.symbol("y"), tc.symbol("n")
    assert bounds.proves((n - x - 1,), n - x - 1) and bounds.proves((n - x - 1, x - y), n - y - 1)
    assert bounds.proves((n - 8 * x - 8,), n - 8 * x - 8) and not bounds.proves((n - x - 1,), n - x - 2)
    assert bounds.proves(bounds.derive((n // 4) - x - 1), n - 4 * x - 4)
    assert not bounds.proves(bounds.derive((n // 4) - x - 1), n - 4 * x - 5)
    assert bounds.contradict((x - y - 1, y - x)) and not bounds.contradict((x - y, y - x))


@pytest.mark.parametrize(("dtype", "most"), [("int32", 2**31 - 1), ("uint32", 2**32 - 1)])
def test_an_integer_that_its_type_may_not_hold_is_found_once_the_grid_is_known(dtype: str, most: int) -> None:
    k = tc.KernelBuilder("numbers", threads=32)
    b, n, block = k.param("B", (8,), dtype), k.scalar("n", upper=2**30), k.block_id("x")
    with k.if_((k.thread_id() == 0) & (n < 2**30 - 1)):
        k.store(b[block], block * 2**30 + n)
    kernel, found = k.build(target="sm_80"), np.zeros(8, dtype)
    blocks = (most + 1) >> 30
    kernel(found, 2**30 - 2, grid=blocks, executor="emulator")
    assert found[:blocks].tolist() == [block * 2**30 + 2**30 - 2 for block in range(blocks)]
    with pytest.raises(tc.LaunchError, match=mentions("n", dtype, most, 1)):
        kernel(found, 0, grid=blocks + 1, executor="emulator")


def test_a_value_is_compared_with_an_integer_that_its_type_holds() -> None:
    """5 is not 2**32 + 5: what 32 bits would cut is refused once the scalar is known."""
    k = tc.KernelBuilder("k", threads=1)
    n = k.scalar("n", "int64", upper=2**40)
    a, b = k.param("A", (1,), "int32"), k.param("B", (5,), "int32")
    value = k.load(a[0])
    more = [Condition("==", n, value), ~Condition(">=", value, n)]
    for place, condition in enumerate((value == n, value < n, n + value.max(0) > 7, *more)):
        with k.if_(condition):
            k.store(b[place], 1)
    kernel, found = k.build(target="sm_80", grid=1), np.zeros(5, np.int32)
    kernel(5, np.array([5], np.int32), found, executor="emulator")
    assert found.tolist() == [1, 0, 1, 1, 0]
    with pytest.raises(tc.LaunchError, match=mentions("n", "int32")):
        kernel(2**32 + 5, np.array([5], np.int32), found, executor="emulator")


def test_the_threads_index_is_that_of_a_cta_of_this_size() -> None:
    """One of a smaller CTA would prove too much: 64 threads would read 64 elements of 32."""
    small, large = tc.KernelBuilder("small", threads=32), tc.KernelBuilder("large", threads=128)
    k = tc.KernelBuilder("k", threads=64)
    a = k.param("A", (64,), "int32")
    for use in (lambda t: k.load(a[t]), lambda t: k.if_(t < 16), lambda t: k.range(t % 4)):
        use(large.thread_id() % 64)
        with pytest.raises(tc.RequestError, match=mentions(32, "k", 64)):
            use(small.thread_id())


@pytest.mark.parametrize("written", ["value == n", "n == value", "~(n == value)", "(n == value) & (n > 0)"])
def test_each_comparison_of_a_value_with_an_integer_is_looked_at(written: str) -> None:
    k = tc.KernelBuilder("k", threads=1)
    n, a, b = k.scalar("n", "int64", upper=2**40), k.param("A", (1,), "int32"), k.param("B", (1,), "int32")
    value = k.load(a[0])
    left, right = (value, n) if written.startswith("value") else (n, value)
    condition = Condition("==", left, right)
    condition = ~condition if written.startswith("~") else condition & (n > 0) if "&" in written else condition
    with k.if_(condition):
        k.store(b[0], 1)
    with pytest.raises(tc.LaunchError, match=mentions("n", "int32")):
        k.build(target="sm_80", grid=1)(2**32 + 5, np.zeros(1, np.int32), np.zeros(1, np.int32), executor="emulator")


def test_values_that_many_others_use_are_looked_at_once() -> None:
    """A sorting network, of which each result is in two of the next, takes no longer than its operations."""
    k = tc.KernelBuilder("network", threads=32)
    n, a, b = k.scalar("n", upper=2**30), k.param("A", (32,), "int32"), k.param("B", (32,), "int32")
    value = k.load(a[k.thread_id()])
    for _ in range(60):
        value = value.max(n) + value.min(0)
    k.store(b[k.thread_id()], value)
    with k.if_(value > 0):
        k.store(b[0], value)
    assert "selp" in k.build(target="sm_80", grid=1).ptx


def past_64_bits(k: tc.KernelBuilder, w: Any, out: tc.Buffer) -> dict[str, Callable[[], Any]]:
    """Where the value of an integer matters, and not its low bits alone."""
    return {
        "comparison": lambda: k.if_(w * 16 < 64),
        "both sides": lambda: k.if_(w <= (w - 5) * 65536),
        "minimum": lambda: k.store(out[0], tc.minimum(w * 16, 3)),
        "quotient": lambda: k.store(out[0], w * 4 // 3),
        "remainder": lambda: k.store(out[0], w * 4 % 3),
        "store": lambda: k.store(out[0], w * 16),
        "count": lambda: k.range(w * 16),
        "value": lambda: k.if_(k.load(out[0]) == w * 16),
        "region": lambda: k.load(out[tc.minimum(w * 16, 3)]),
    }


@pytest.mark.parametrize("name", past_64_bits(*[None] * 3))  # type: ignore[arg-type]
def test_integers_past_64_bits_are_refused_where_their_value_matters(name: str) -> None:
    def build(upper: int) -> tc.BuiltKernel:
        k = tc.KernelBuilder("far", threads=1)
        w, out = k.scalar("w", "int64", lower=0, upper=upper), k.param("O", (4,), "int64")
        found = past_64_bits(k, w, out)[name]()
        with found if hasattr(found, "__enter__") else nullcontext():
            k.store(out[1], 1)
        return k.build(target="sm_80", grid=1)

    assert build(2**40)
    with pytest.raises(tc.TilecopyError, match="64"):
        build(2**62)


def test_a_value_of_too_many_operations_says_what_to_do() -> None:
    k = tc.KernelBuilder("deep", threads=1)
    a = k.param("A", (2,), "int32")
    value = k.load(a[0])
    for _ in range(5000):
        value = value + 1
    k.store(a[1], value)
    with pytest.raises(tc.RequestError, match=mentions("deep")):
        k.build(target="sm_80", grid=1)


@pytest.mark.parametrize("split", [0, 4, 8])
def test_each_alternative_of_a_condition_is_held_against_the_launch(split: int) -> None:
    """Whichever of two alternatives holds, the index must stay inside."""
    k = tc.KernelBuilder("k", threads=32)
    a, n = k.param("A", (4,), "int32"), k.scalar("n", upper=10)
    with k.if_((n < split) | (n >= split)):
        k.store(a[n], 1)
    kernel = k.build(target="sm_80", grid=1)
    kernel.check_bounds((1, 1, 1), {"n": 3})
    for number in (4, 10):
        with pytest.raises(tc.LayoutError, match=mentions(number)):
            kernel.check_bounds((1, 1, 1), {"n": number})
