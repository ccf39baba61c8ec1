"""What a relayout says when it refuses something, whole: the only place where its wording is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_relayout import relayout

ARRAY = np.arange(24, dtype=np.float32).reshape(4, 6)


def run(*arguments: Any, **options: Any) -> None:
    relayout(ARRAY, *arguments, **({"executor": "emulator"} | options))


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (
            lambda: run((0, 0)),
            tc.RequestError,
            "axes (0, 0): not each of the array's 2 dimensions once (0 to 1; its shape is (4, 6))",
        ),
        (
            lambda: run((1, 0, 2)),
            tc.RequestError,
            "axes (1, 0, 2): not each of the array's 2 dimensions once (0 to 1; its shape is (4, 6))",
        ),
        (
            lambda: run(5),
            tc.RequestError,
            "axes 5: a permutation such as (0, 2, 3, 1), or a pattern such as 'b c h w -> b h w c'",
        ),
        (
            lambda: run("a b -> b c"),
            tc.RequestError,
            "axes: pattern 'a b -> b c': 'c' is not on the left; a relayout makes no new dimension but '1'",
        ),
        (
            lambda: run("a a -> a"),
            tc.RequestError,
            "axes: pattern 'a a -> a': 'a' stands there twice; a relayout neither repeats nor picks diagonals",
        ),
        (
            lambda: run("a b c -> b a c"),
            tc.RequestError,
            "axes: pattern 'a b c -> b a c': its left side has 3 dimensions, the array has 2: (4, 6)",
        ),
        (
            lambda: run("a b -> b a", a=5),
            tc.RequestError,
            "axes: pattern 'a b -> b a': the dimension has 4 elements, not a=5",
        ),
        (
            lambda: run("a b -> b a", q=5),
            tc.RequestError,
            "axes: pattern 'a b -> b a': the size q=5 is of no name in it",
        ),
        (
            lambda: run("a (b c) -> c a b", c=4),
            tc.RequestError,
            "axes: pattern 'a (b c) -> c a b': a dimension of 6 elements does not divide by 4",
        ),
        (lambda: run("(a b -> b a"), tc.RequestError, "axes: pattern '(a b -> b a': a '(' that nothing closes"),
        (lambda: run((1, 0), p=3), tc.RequestError, "'p': sizes belong to a pattern; axes (1, 0) is a permutation"),
        (
            lambda: run((1, 0), out=ARRAY.reshape(6, 4)),
            tc.RequestError,
            "out overlaps the array; a relayout is never done in place: pass other memory, or no out",
        ),
        (
            lambda: run((1, 0), out=np.zeros((4, 6), np.float32)),
            tc.RequestError,
            "out has the shape (4, 6), the result has (6, 4), of an array of (4, 6)",
        ),
        (
            lambda: run((1, 0), out=np.zeros((6, 4), np.int32)),
            tc.RequestError,
            "out has the dtype int32, the array float32; a relayout converts nothing",
        ),
        (
            lambda: run((1, 0), out=[[0.0] * 4] * 6),
            tc.RequestError,
            "out must be an array (NumPy, or one with DLPack or __cuda_array_interface__), got list [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]; make an array first, a = np.asarray(a)",
        ),
        (
            lambda: run((1, 0), executor="gpu"),
            tc.RequestError,
            "executor='gpu': a relayout runs on 'cuda' or 'emulator'",
        ),
        (
            lambda: relayout([[1, 2]], (1, 0)),
            tc.RequestError,
            "array must be an array (NumPy, or one with DLPack or __cuda_array_interface__), got list [[1, 2]]; make an array first, a = np.asarray(a)",
        ),
        (
            lambda: relayout(np.array([["a", None]]), (1, 0)),
            tc.RequestError,
            "array: elements of dtype object are not bytes that can be moved",
        ),
    ],
)
def test_what_is_said(refused: Callable[[], Any], error: type[tc.TilecopyError], message: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == message
