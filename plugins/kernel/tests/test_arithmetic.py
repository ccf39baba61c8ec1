"""Drawn arithmetic in kernels against Python and NumPy: on the emulator, and as the driver's compiler makes it on a GPU.

What a compiler makes of a minimum of a minimum was wrong once (docs/design.md); the emulator, which runs the text, cannot see that.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.integers import Symbol

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


WHOLE = [0, 1, -1, 2047, 2049, -2051, 65519, 65520, 70000, 2**24 + 1, 2**25 + 2**17 + 1, -(2**31) + 1]
NUMBERS_OF = {
    "float64": [1 + 2**-11 + 2**-40, 1 + 2**-11, 1 + 2**-8 + 2**-40, 65519.999999999, 2**-25 * (1 + 2**-40), 1e300, -0.0, float("nan")],
    "float32": [1 + 2**-11, 1 + 2**-8 + 2**-20, 65520.0, 2**-25, float("inf"), -1e-45, 3.4e38],
    "int32": WHOLE,
    "uint16": [0, 255, 257, 2049, 65535],
    "int64": [*WHOLE, 2**60 + 2**52 + 1, 2**60 + 2**52, -(2**62) - 1],
    "uint64": [0, 2**63 + 2**55 + 1, 2**64 - 1, 257],
}  # fmt: skip


@pytest.mark.parametrize("wanted", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("source", NUMBERS_OF)
def test_numbers_become_floats_by_one_rounding(where: tuple[str, str], source: str, wanted: str) -> None:
    executor, target = where
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numpy = np.dtype(getattr(ml_dtypes, wanted, None) or wanted)
    given = np.array(NUMBERS_OF[source], source)
    k = tc.KernelBuilder("casts", threads=32)
    a, b, c = k.param("A", given.shape, source), k.param("B", given.shape, wanted), k.param("C", given.shape, "float32")
    i = k.thread_id()
    with k.if_(i < len(given)):
        value = k.cast(k.load(a[i]), wanted)
        k.store(b[i], value)
        k.store(c[i], k.cast(value, "float32"))
    stored, seen = np.zeros(given.shape, numpy), np.zeros(given.shape, np.float32)
    k.build(target=target, grid=1)(given, stored, seen, executor=executor)
    with np.errstate(all="ignore"):
        exact = [once(each, wanted) for each in given.tolist()]
    assert np.array_equal(stored.astype(np.float64), exact, equal_nan=True)
    assert np.array_equal(seen.astype(np.float64), exact, equal_nan=True)


def once(number: float, wanted: str) -> float:
    """A number rounded to the nearest float of a type, ties to even, by exact arithmetic."""
    bits, least, largest = {"float16": (11, -24, 65504), "bfloat16": (8, -133, 3.3895313892515355e38), "float32": (24, -149, 3.4028234663852886e38)}[wanted]  # fmt: skip
    if not math.isfinite(number) or not number:
        return float(number)
    exact = Fraction(number)
    unit = max(math.floor(math.log2(abs(exact))) - bits + 1, least)
    while abs(exact) >= Fraction(2) ** (unit + bits):  # the logarithm of a float is not exact
        unit += 1
    found = math.copysign(float(round(abs(exact) / Fraction(2) ** unit) * Fraction(2) ** unit), number)
    return found if abs(found) <= largest else math.copysign(float("inf"), found)


def test_sums_of_16_bit_floats_are_rounded_where_they_are_cast() -> None:
    """They compute in float32: a sum of theirs is one of them again once it is stored, or seen as another type."""
    k = tc.KernelBuilder("sums", threads=1)
    a, b, c = k.param("A", (2,), "float16"), k.param("B", (1,), "float32"), k.param("C", (1,), "int32")
    total = k.load(a[0]) + k.load(a[1])
    k.store(b[0], k.cast(total, "float32"))
    k.store(c[0], k.cast(total * 2, "int32"))
    single, whole = np.zeros(1, np.float32), np.zeros(1, np.int32)
    k.build(target="sm_80", grid=1)(np.array([2048, 1], np.float16), single, whole, executor="emulator")
    assert (single[0], whole[0]) == (2048, 4096)  # 4098 lies between 4096 and 4100


def test_constants_of_16_bits_are_rounded_too() -> None:
    k = tc.KernelBuilder("constants", threads=1)
    a, b = k.param("A", (1,), "float16"), k.param("B", (2,), "int32")
    value = k.load(a[0])
    for place, condition in enumerate((value == 2049, value == k.cast(k.block_id() + 2049, "float16"))):
        with k.if_(condition):
            k.store(b[place], 1)
    found = np.zeros(2, np.int32)
    k.build(target="sm_80", grid=1)(np.array([2048], np.float16), found, executor="emulator")
    assert found.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_constants_are_rounded_once(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = [-0.0, 0.1, -1e-45, 2049, 65503.999, 1 + 2**-8 + 2**-40, -(2**-133), 3, -7.5]
    numbers += [] if dtype == "float16" else [2**60 + 2**52 + 1, 2**60 + 2**36 + 1, -(2**100) - 1]
    k = tc.KernelBuilder("constants", threads=1)
    b = k.param("B", (len(numbers),), dtype)
    for place, number in enumerate(numbers):
        k.store(b[place], number)
    found = np.ones(len(numbers), getattr(ml_dtypes, dtype, None) or dtype)
    k.build(target="sm_80", grid=1)(found, executor="emulator")
    exact = [once(number, dtype) for number in numbers]
    assert found.astype(np.float64).tolist() == exact and np.array_equal(np.signbit(found), np.signbit(exact))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex64"])
def test_what_does_not_compute_is_not_compared(dtype: str) -> None:
    k = tc.KernelBuilder("k", threads=1)
    a = k.param("A", (2,), dtype)
    with pytest.raises(tc.RequestError, match=mentions(dtype)):
        k.load(a[0]) < k.load(a[1])
