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
            "axes (0, 0) is not a permutation of 2 dimensions (0 to 1; the array's shape is (4, 6))",
        ),
        (
            lambda: run((1, 0, 2)),
            tc.RequestError,
            "axes (1, 0, 2) is not a permutation of 2 dimensions (0 to 1; the array's shape is (4, 6))",
        ),
        (
            lambda: run(5),
            tc.RequestError,
            "axes must be a permutation such as (0, 2, 3, 1), or a pattern such as 'b c h w -> b h w c', got 5",
        ),
        (
            lambda: run("a b -> b c"),
            tc.RequestError,
            "axes: pattern 'a b -> b c': axis 'c' is not on the left (spaces separate axes); only '1' can be new",
        ),
        (
            lambda: run("a a -> a"),
            tc.RequestError,
            "axes: pattern 'a a -> a': axis 'a' appears twice; repeats and diagonals are not supported",
        ),
        (
            lambda: run("a b c -> b a c"),
            tc.RequestError,
            "axes: pattern 'a b c -> b a c': the left side must have 2 dimensions for shape (4, 6), got 3",
        ),
        (
            lambda: run("a b -> b a", a=5),
            tc.RequestError,
            "axes: pattern 'a b -> b a': the axis lengths must multiply to the dimension's 4 elements, got a=5",
        ),
        (
            lambda: run("a b -> b a", q=5),
            tc.RequestError,
            "axes: pattern 'a b -> b a': q=5: the pattern has no axis named 'q'; its axes are a, b",
        ),
        (
            lambda: run("a b -> b a", order="C"),
            tc.RequestError,
            "axes: pattern 'a b -> b a': order='C': the pattern has no axis named 'order'; its axes are a, b",
        ),
        (
            lambda: run("a (b c) -> c a b", c=4),
            tc.RequestError,
            "axes: pattern 'a (b c) -> c a b': the product of known lengths must divide 6 elements, got 4",
        ),
        (lambda: run("(a b -> b a"), tc.RequestError, "axes: pattern '(a b -> b a': '(' was never closed"),
        (
            lambda: run((1, 0), p=3),
            tc.RequestError,
            "axes must be a pattern if axis lengths ('p') are passed, got (1, 0): omit the axis lengths",
        ),
        (
            lambda: run((1, 0), out=ARRAY.reshape(6, 4)),
            tc.RequestError,
            "out must not overlap the array, because relayout cannot work in place: pass another array",
        ),
        (
            lambda: run((1, 0), out=np.zeros((4, 6), np.float32)),
            tc.RequestError,
            "out must have the result's shape (6, 4) for an array of shape (4, 6), got (4, 6)",
        ),
        (
            lambda: run((1, 0), out=np.zeros((6, 4), np.int32)),
            tc.RequestError,
            "out must have the array's dtype float32, got int32: relayout does not convert dtypes",
        ),
        (
            lambda: run((1, 0), out=[[0.0] * 4] * 6),
            tc.RequestError,
            "out must be a NumPy array, or an array with DLPack or __cuda_array_interface__, got list [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]; convert it first with np.asarray(a)",
        ),
        (
            lambda: run((1, 0), executor="gpu"),
            tc.RequestError,
            "relayout: executor must be cuda or emulator, got 'gpu'",
        ),
        (
            lambda: relayout([[1, 2]], (1, 0)),
            tc.RequestError,
            "array must be a NumPy array, or an array with DLPack or __cuda_array_interface__, got list [[1, 2]]; convert it first with np.asarray(a)",
        ),
        (
            lambda: relayout(np.array([["a", None]]), (1, 0)),
            tc.RequestError,
            "array must have a dtype of at least one byte without Python objects, got object",
        ),
    ],
)
def test_what_is_said(refused: Callable[[], Any], error: type[tc.TilecopyError], message: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == message
