"""Patterns, against einops and in their messages."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import RequestError
from tilecopy_relayout import relayout
from tilecopy_relayout.axes import rearrangement
from tilecopy_relayout.patterns import TAKEN
from tilecopy_test_helpers.mentions import mentions


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, tuple[int, ...], dict[str, int]]:
    """A pattern, a shape that fits it, and sizes that suffice."""
    names = [f"n{index}" for index in range(draw(st.integers(0, 6)))]
    extents = {name: draw(st.integers(1, 4)) for name in names}

    def side(names: list[str]) -> tuple[list[str], list[tuple[str, ...]]]:
        words, groups = [], []
        rest = list(names)
        while rest or draw(st.booleans()):
            count = draw(st.integers(0, min(3, len(rest))))
            group, rest = rest[:count], rest[count:]
            ones = ["1"] * draw(st.integers(0, 1))
            words.append(group[0] if count == 1 and not ones else f"({' '.join(group + ones)})")
            groups.append(tuple(group))
        return words, groups

    left, groups = side(names)
    right, _ = side(draw(st.permutations(names)))
    shape = tuple(int(np.prod([extents[name] for name in group], dtype=int)) for group in groups)
    sizes = {}
    for group in groups:
        known = group if draw(st.booleans()) else group[1:]
        sizes |= {name: extents[name] for name in known}
    return f"{' '.join(left)} -> {' '.join(right)}", shape, sizes


def moved_by(pattern: str, array: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
    found = rearrangement(pattern, array.shape, sizes)
    return array.reshape(found.extents).transpose(found.order).reshape(found.shape)


@given(asked())
def test_patterns_mean_what_they_mean_in_einops(case: tuple[str, tuple[int, ...], dict[str, int]]) -> None:
    einops = pytest.importorskip("einops")
    pattern, shape, sizes = case
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    expected = einops.rearrange(array, pattern, **sizes)
    found = moved_by(pattern, array, sizes)
    assert found.shape == expected.shape and (found == expected).all()
    back, all_sizes = rearrangement(pattern, shape, sizes).inverse()
    assert (moved_by(back, found, all_sizes) == array).all()
    batched, all_sizes = rearrangement(pattern, shape, sizes).pattern(batch="batch")
    assert (moved_by(batched, np.stack([array, array + 1]), all_sizes) == np.stack([found, found + 1])).all()


@pytest.mark.parametrize(
    ("pattern", "shape"),
    [("a ... -> ... a", (2, 3, 4)), ("... a b -> (...) b a", (2, 3, 4, 5)), ("a ... -> a ...", (2,))],
)
def test_an_ellipsis_is_all_other_dimensions(pattern: str, shape: tuple[int, ...]) -> None:
    einops = pytest.importorskip("einops")
    array = np.arange(np.prod(shape)).reshape(shape)
    assert (moved_by(pattern, array, {}) == einops.rearrange(array, pattern)).all()


def test_strides_of_a_split_and_of_a_merge() -> None:
    found = rearrangement("b (h p) -> (p b) h", (5, 12), {"p": 3})
    assert (found.extents, found.order, found.shape) == ((5, 4, 3), (2, 0, 1), (15, 4))
    assert found.source_strides((100, -2)) == (100, -6, -2)
    assert found.destination_strides((7, 1)) == (7, 1, 35)  # b, h, p


@pytest.mark.parametrize(
    ("axes", "order"),
    [((2, 0, 1), (2, 0, 1)), ([-1, 0, 1], (2, 0, 1)), ("2,0, 1", (2, 0, 1)), (np.arange(3), (0, 1, 2))],
)
def test_permutations(axes: object, order: tuple[int, ...]) -> None:
    assert rearrangement(axes, (4, 5, 6)).order == order


WRONG = [
    ("a b -> b c", (2, 3), {}, ("c",), 9),
    ("a b c -> b a", (2, 3, 4), {}, ("c",), 4),
    ("a a -> a", (2, 2), {}, ("a",), 2),
    ("a (b c) -> a b c", (2, 6), {}, ("b", "c", 6), 3),
    (
        "a (b out) -> a b out",
        (2, 6),
        {},
        (),
        3,
    ),
    ("a (b c) -> a b c", (2, 6), {"c": 4}, (6, 4), 2),
    ("a (b c) -> a b c", (2, 6), {"c": 2, "b": 2}, (6, "b", "c"), 2),
    ("a b -> b a", (2, 3), {"a": 5}, ("a", 5), 0),
    ("a b -> b a", (2, 3), {"q": 5}, ("q", 5), 0),
    ("a b -> b a", (2, 3), {"a": True}, ("a", True), 0),
    ("a b -> b a", (2, 3), {"a": -2}, ("a", -2), 0),
    ("a b -> b a", (2, 3, 4), {}, (3,), 0),
    ("a b ... -> b a ...", (2,), {}, (2, 1), 0),
    ("a 1 -> 1 a", (2, 3), {}, (3,), 2),
    ("a 3 -> 3 a", (2, 3), {}, (3,), 2),
    ("a (b (c)) -> a b c", (2, 3), {}, (), 5),
    ("a b) -> a b", (2, 3), {}, (")",), 3),
    ("(a b -> a b", (2, 3), {}, ("(",), 0),
    ("a + b -> b a", (2, 3), {}, ("+",), 2),
    ("a b -> b -> a", (2, 3), {}, ("->",), 9),
    ("a b, b a", (2, 3), {}, ("->",), 8),
    ("a (b ...) -> a b ...", (2, 3), {}, ("...",), 5),
    ("a ... -> a", (2, 3), {}, ("...",), 2),
]


def test_the_arguments_of_relayout_are_no_sizes() -> None:
    assert set(TAKEN) == inspect.signature(relayout).parameters.keys() - {"sizes"}


@pytest.mark.parametrize(("pattern", "shape", "sizes", "message", "at"), WRONG, ids=[case[0] for case in WRONG])
def test_a_refusal_points_at_the_place(
    pattern: str, shape: tuple[int, ...], sizes: dict[str, int], message: tuple[object, ...], at: int
) -> None:
    with pytest.raises(RequestError) as caught:
        rearrangement(pattern, shape, sizes)
    said, shown, caret = str(caught.value).split("\n")
    assert mentions(*message).search(said) and shown == f"  {pattern}" and caret == f"  {' ' * at}^"


@pytest.mark.parametrize("axes", [(0, 0), (0, 1, 2), (0,), (0, 2), "0,0", (-3, 0)])
def test_what_is_no_permutation(axes: object) -> None:
    with pytest.raises(RequestError, match=mentions(2, "axes")):
        rearrangement(axes, (4, 5))


@pytest.mark.parametrize("axes", [5, None, (0.0, 1.0), (True, False), ("a", "b"), np.eye(2)])
def test_what_is_neither(axes: object) -> None:
    with pytest.raises(RequestError, match=mentions("b", "axes")):
        rearrangement(axes, (4, 5))


def test_sizes_belong_to_patterns() -> None:
    with pytest.raises(RequestError, match=mentions("p")):
        rearrangement((1, 0), (4, 5), {"p": 2})


@pytest.mark.parametrize("pattern", ["a b -> b a{}", "{}a b -> b a", "a b ->{} b a"])
def test_blanks_take_no_time(pattern: str) -> None:
    assert rearrangement(pattern.format(" " * 200_000), (2, 3)).shape == (3, 2)
