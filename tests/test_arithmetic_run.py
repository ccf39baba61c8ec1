"""Drawn arithmetic in kernels against Python and NumPy: on the emulator, and as the driver's compiler makes it on a GPU.

What a compiler makes of a minimum of a minimum was wrong once (docs/design.md); the emulator, which runs the text, cannot see that.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilecopy_core as tc
from tilecopy_core.expr import Symbol

THREADS, EACH = 32, 24
KERNELS = {"emulator": 20, "cuda": 100}
RANGES = [(0, 31), (0, 90), (3, 5), (-9, 4), (-1000, 1000), (0, 2**31 - 1), (-(2**31), 2**31 - 1)]
NUMBERS = [0, 7, -13]
SYMBOLS = [Symbol(f"s{number}", *bounds) for number, bounds in enumerate(RANGES)]


def drawn(rng: random.Random, kinds: str, leaves: list[Any], depth: int) -> Any:
    """A tree of random operations: a leaf, or a tuple of the operation and its operands."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice(leaves)
    kind, left = rng.choice(kinds.split()), drawn(rng, kinds, leaves, depth - 1)
    if kind == "neg":
        return kind, left
    return kind, left, rng.randint(1, 20) if kind in ("//", "%", "*k") else drawn(rng, kinds, leaves, depth - 1)


def computed(tree: Any, operations: dict[str, Callable[..., Any]], leaf: Callable[[Any], Any]) -> Any:
    """What a tree is, in whatever the leaves stand for."""
    if not isinstance(tree, tuple):
        return leaf(tree)
    return operations[tree[0]](*(computed(each, operations, leaf) for each in tree[1:]))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "*k": lambda a, b: a * -b,
    "//": operator.floordiv,
    "%": operator.mod,
    "^": operator.xor,
    "neg": lambda a: a * -1,
    "min": tc.minimum,
    "max": tc.maximum,
}


@pytest.fixture(params=["emulator", "cuda"])
def where(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An executor and the target to build for."""
    return request.param, request.getfixturevalue("gpu") if request.param == "cuda" else "sm_90a"


def test_integers_are_what_they_say(where: tuple[str, str]) -> None:
    executor, target = where
    for seed in range(KERNELS[executor]):
        rng = random.Random(seed)
        k = tc.KernelBuilder("integers", threads=THREADS)
        parameters = [k.param(f"A{number}", (THREADS,), "int32") for number in range(len(SYMBOLS))]
        out, thread = k.param("O", (EACH, THREADS), "int64"), k.thread_id()
        indices: dict[Any, Any] = {
            found: k.index(k.load(parameter[thread]), lower=found.lower, upper=found.upper)
            for found, parameter in zip(SYMBOLS, parameters, strict=True)
        }
        values = {
            f: np.array([rng.randint(*bounds) for _ in range(THREADS)])
            for f, bounds in zip(SYMBOLS, RANGES, strict=True)
        }
        wanted = np.zeros((EACH, THREADS), np.int64)
        for row in range(EACH):
            tree = drawn(rng, "+ - neg *k // % ^ min max min max", [*SYMBOLS, *NUMBERS], rng.randint(2, 4))
            k.store(out[row, thread], k.cast(computed(tree, OPERATIONS, lambda leaf: indices.get(leaf, leaf)), "int64"))
            arrays = OPERATIONS | {"min": np.minimum, "max": np.maximum}
            wanted[row] = computed(tree, arrays, lambda leaf: values.get(leaf, leaf))
        found = np.zeros_like(wanted)
        k.build(target=target, grid=1)(*(v.astype(np.int32) for v in values.values()), found, executor=executor)
        assert np.array_equal(found, wanted), (seed, np.argwhere(found != wanted)[0])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "float32"])
def test_values_are_what_numpy_computes(where: tuple[str, str], dtype: str) -> None:
    """Integers wrap around; of floats, sums and products of small whole numbers are exact."""
    executor, target = where
    for seed in range(KERNELS[executor] // 5):
        rng, info = random.Random(seed), None if dtype == "float32" else np.iinfo(dtype)
        names = ["a", "b", "c", "d"]
        k = tc.KernelBuilder("values", threads=THREADS)
        parameters = {name: k.param(name.upper(), (THREADS,), dtype) for name in names}
        out, thread = k.param("O", (EACH, THREADS), dtype), k.thread_id()
        loaded = {name: k.load(parameter[thread]) for name, parameter in parameters.items()}
        low, high = (-8, 8) if info is None else (int(info.min), int(info.max))
        arrays = {
            name: np.array([rng.choice([low, high, rng.randint(low, high), rng.randint(max(low, -9), 9)]) for _ in range(THREADS)], dtype)
            for name in names
        }  # fmt: skip
        wanted = np.zeros((EACH, THREADS), dtype)
        for row in range(EACH):
            tree = drawn(rng, "+ - neg * min max min max neg", names, rng.randint(2, 3))
            kinds = OPERATIONS | {"neg": operator.neg}
            values = kinds | {"min": lambda a, b: a.min(b), "max": lambda a, b: a.max(b)}
            k.store(out[row, thread], computed(tree, values, loaded.__getitem__))
            with np.errstate(all="ignore"):
                wanted[row] = computed(tree, kinds | {"min": np.minimum, "max": np.maximum}, arrays.__getitem__)
        found = np.zeros_like(wanted)
        k.build(target=target, grid=1)(*arrays.values(), found, executor=executor)
        assert np.array_equal(found, wanted), (seed, np.argwhere(found != wanted)[0])
