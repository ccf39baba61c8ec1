"""Every conversion of ``k.cast``, with every rounding and both kinds of saturation, against exact arithmetic."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy.assemblers import assemble

ml_dtypes = pytest.importorskip("ml_dtypes")

INTEGERS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]
FLOATS = [*FLOAT8, "float16", "bfloat16", "float32", "float64"]
TYPES = INTEGERS + FLOATS
PAIRS = [pair for pair in itertools.product(TYPES, TYPES) if pair[0] != pair[1]]
ROUNDINGS = ["nearest", "zero", "up", "down"]
THREADS = 128

LIMITS = {name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in INTEGERS}
FORMATS = {
    "float8_e4m3fn": (4, -9, 448.0),
    "float8_e5m2": (3, -16, 57344.0),
    "float16": (11, -24, 65504.0),
    "bfloat16": (8, -133, 3.3895313892515355e38),
    "float32": (24, -149, 3.4028234663852886e38),
    "float64": (53, -1074, 1.7976931348623157e308),
}
"""Bits of the significand, the exponent of the smallest value, and the largest finite value."""


def numpy_type(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def requests(wanted: str) -> list[tuple[str, bool | None]]:
    """The ways in which a value may be converted to a type."""
    if wanted in FLOAT8:
        return [("nearest", True), ("nearest", False)]
    return list(itertools.product(ROUNDINGS, (None, True, False)))


def whole(number: Fraction, rounding: str) -> int:
    """A number rounded to an integer."""
    if rounding == "nearest":
        return round(number)
    if rounding == "zero":
        return math.trunc(number)
    return math.ceil(number) if rounding == "up" else math.floor(number)


def to_float(number: Any, source: str, wanted: str, rounding: str, saturate: bool | None) -> float:
    """What a number is as a float of a type."""
    bits, smallest, largest = FORMATS[wanted]
    overflow = math.nan if wanted == "float8_e4m3fn" else math.inf
    narrower = source in INTEGERS or FORMATS[source][2] > largest
    if isinstance(number, float) and (math.isnan(number) or math.isinf(number)):
        if math.isnan(number):
            return number
        return math.copysign(largest if saturate and narrower else overflow, number)
    if not number:
        return float(number)
    exact = Fraction(number)
    size = exact.numerator.bit_length() - exact.denominator.bit_length()
    unit = Fraction(2) ** max(size - (abs(exact) < Fraction(2) ** size) - bits + 1, smallest)
    rounded = whole(exact / unit, rounding) * unit
    if abs(rounded) <= largest:
        return math.copysign(float(rounded), number)
    toward = {"zero": True, "up": number < 0, "down": number > 0}.get(rounding, False)
    return math.copysign(largest if saturate or toward else overflow, number)


def to_integer(number: Any, source: str, wanted: str, rounding: str, saturate: bool | None) -> int:
    """What a number is as an integer of a type: converted to its own width, or without saturation to 32 bits at least, and cut."""
    low, high = LIMITS[wanted]
    bits = int(wanted.lstrip("uint"))
    width = bits if saturate else max(bits, 32)
    least, most = (0, 2**width - 1) if low == 0 else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    if source in INTEGERS:
        number = min(max(number, low), high) if saturate else number
    elif math.isnan(number):
        number = 2 ** (width - 1) if source == "float64" or width == 64 else 0
    elif math.isinf(number):
        number = most if number > 0 else least
    else:
        truncates = rounding == "nearest" and saturate is None
        number = min(max(whole(Fraction(number), "zero" if truncates else rounding), least), most)
    return (number - low) % 2**bits + low


def samples(source: str) -> Any:
    """Values of a type: all of 8 bits, else limits, halfway cases, subnormals and special values of every type, and random bits."""
    dtype = numpy_type(source)
    bits = np.dtype(f"u{dtype.itemsize}")
    if dtype.itemsize == 1:
        return np.arange(256, dtype=bits).view(dtype)
    rng = random.Random(source)
    drawn = np.array([rng.getrandbits(8 * dtype.itemsize) for _ in range(64)], bits).view(dtype)
    integers = {limit + step for limits in LIMITS.values() for limit in limits for step in (-1, 0, 1)}
    integers |= {
        0,
        1,
        -1,
        2,
        3,
        447,
        448,
        464,
        465,
        2049,
        2051,
        61440,
        65519,
        65520,
        2**24 + 1,
        2**25 + 2**17 + 1,
        2**60 + 2**52 + 1,
    }
    if source in INTEGERS:
        low, high = LIMITS[source]
        return np.concatenate([np.array(sorted(n for n in integers if low <= n <= high), dtype), drawn])
    numbers = [float(number) for number in integers] + [0.5, 1.5, 2.5, 127.5, 128.5, 254.5, 255.5, 0.1, 1e-300, 1e300]
    for significand, smallest, largest in FORMATS.values():
        least, last = math.ldexp(1.0, smallest), largest - largest / 2**significand
        numbers += [least, least / 2, least * 1.5, least * 2.5, least * 2 ** (significand - 1), largest, last]
        numbers += [1 + 2.0**-significand, 1 + 3 * 2.0**-significand, largest * (1 + 2.0 ** -(significand + 1))]
    numbers += [
        near for number in numbers for near in (math.nextafter(number, -math.inf), math.nextafter(number, math.inf))
    ]
    numbers += [0.0, math.inf, math.nan]
    with np.errstate(all="ignore"):
        return np.concatenate([np.array([*numbers, *(-n for n in numbers)]).astype(np.float64).astype(dtype), drawn])


def casts(source: str, values: int, wanted: list[str]) -> tc.KernelBuilder:
    """A kernel that converts each of some values to types, in every way."""
    k = tc.KernelBuilder(f"from_{source}", threads=THREADS)
    inputs = k.param("A", (values,), source)
    outputs = {name: k.param(f"to_{name}", (len(requests(name)), values), name) for name in wanted}
    i = k.block_id() * THREADS + k.thread_id()
    with k.if_(i < values):
        value = k.load(inputs[i])
        for name, output in outputs.items():
            for row, (rounding, saturate) in enumerate(requests(name)):
                k.store(output[row, i], k.cast(value, name, rounding, saturate))
    return k


@pytest.fixture(params=["emulator", "cuda"])
def where(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An executor and the target to build for."""
    return request.param, request.getfixturevalue("gpu") if request.param == "cuda" else "sm_90a"


@pytest.mark.parametrize("source", TYPES)
def test_casts_are_exact_arithmetic_rounded_once(where: tuple[str, str], source: str) -> None:
    executor, target = where
    values = samples(source)
    wanted = [name for name in TYPES if name != source]
    results = {name: np.zeros((len(requests(name)), len(values)), numpy_type(name)) for name in wanted}
    kernel = casts(source, len(values), wanted).build(target=target, grid=-(-len(values) // THREADS))
    kernel(values, *results.values(), executor=executor)
    numbers = values.astype(np.float64).tolist() if source in FLOATS else values.tolist()
    for name in wanted:
        convert = to_integer if name in INTEGERS else to_float
        stored = results[name] if name in INTEGERS else results[name].astype(np.float64)
        for (rounding, saturate), row in zip(requests(name), stored, strict=True):
            expected = np.array([convert(n, source, name, rounding, saturate) for n in numbers], stored.dtype)
            same = (row == expected) & (np.signbit(row) == np.signbit(expected)) | (row != row) & (expected != expected)
            wrong = np.flatnonzero(~same)[:1].tolist()
            assert not wrong, (source, name, rounding, saturate, values[wrong], row[wrong], expected[wrong])


HAS_FLOAT8 = {"sm_80": False, "sm_89": True, "sm_90": True, "sm_100": True}


@pytest.mark.parametrize(("target", "has_float8"), HAS_FLOAT8.items())
def test_casts_assemble(target: str, has_float8: bool) -> None:
    for source in TYPES if has_float8 else [name for name in TYPES if name not in FLOAT8]:
        k = tc.KernelBuilder("casts", threads=32)
        value = k.load(k.param("A", (32,), source)[k.thread_id()])
        for name in TYPES:
            if name == source or (name in FLOAT8 and not has_float8):
                continue
            ways = requests(name)
            if name == "bfloat16" and target in ("sm_80", "sm_89") and letter(source, name) != "=":
                ways = [way for way in ways if way[0] in ("nearest", "zero")]
            output = k.param(f"to_{name}", (len(ways), 32), name)
            for row, (rounding, saturate) in enumerate(ways):
                k.store(output[row, k.thread_id()], k.cast(value, name, rounding, saturate))
        kernel = k.build(target=target, grid=1)
        assemble(kernel.ptx, kernel.target, "ptxas")


def one_cast(source: str, wanted: str, target: str, **how: Any) -> tc.BuiltKernel:
    k = tc.KernelBuilder("cast", threads=1)
    a, b = k.param("A", (1,), source), k.param("B", (1,), wanted)
    k.store(b[0], k.cast(k.load(a[0]), wanted, **how))
    return k.build(target=target, grid=1)


@pytest.mark.parametrize(
    ("source", "wanted", "target", "how", "needs"),
    [
        ("float32", "float8_e4m3fn", "sm_86", {"saturate": True}, "sm_89"),
        ("float8_e5m2", "float32", "sm_80", {}, "sm_89"),
        ("float32", "bfloat16", "sm_75", {}, "sm_80"),
        ("float32", "bfloat16", "sm_89", {"round": "up"}, "sm_90"),
    ],
)
def test_targets_without_a_conversion_are_refused(source: str, wanted: str, target: str, how: Any, needs: str) -> None:
    with pytest.raises(tc.TargetError, match=needs):
        one_cast(source, wanted, target, **how)
    assert str(one_cast(source, wanted, needs, **how).target) == needs


@pytest.mark.parametrize(
    ("wanted", "how", "named"),
    [
        ("float8_e4m3fn", {}, "saturate"),
        ("float8_e5m2", {"round": "zero", "saturate": True}, "zero"),
        ("float8_e5m2", {"round": "nearest"}, "saturate"),
        ("float8_e8m0fnu", {"saturate": True}, "float8_e8m0fnu"),
        ("int4", {}, "int4"),
        ("bool", {}, "bool"),
        ("int8", {"round": "away"}, "away"),
        ("int8", {"round": None}, "round"),
        ("int8", {"saturate": 1}, "saturate"),
        ("int8", {"saturate": "yes"}, "saturate"),
    ],
)
def test_casts_that_do_not_exist_are_refused(wanted: str, how: Any, named: str) -> None:
    k = tc.KernelBuilder("cast", threads=1)
    value = k.load(k.param("A", (1,), "float32")[0])
    with pytest.raises(tc.RequestError, match=named):
        k.cast(value, wanted, **how)


def test_numbers_and_symbolic_integers_are_converted_too() -> None:
    k = tc.KernelBuilder("numbers", threads=2)
    a, b, c = k.param("A", (2,), "int8"), k.param("B", (2,), "float8_e4m3fn"), k.param("C", (3,), "uint8")
    i = k.thread_id()
    k.store(a[i], k.cast(i * 1000 - 500, "int8", saturate=True))
    k.store(b[i], k.cast(i * 1000 + 9, "float8_e4m3fn", saturate=False))
    with k.if_(i == 0):
        k.store(c[0], k.cast(2.5, "uint8", "up"))
        k.store(c[1], k.cast(-3, "uint8", saturate=True))
        k.store(c[2], k.cast(k.cast(500.0, "float8_e5m2", saturate=True), "uint8", saturate=True))
    bytes_, halves, numbers = np.zeros(2, np.int8), np.zeros(2, ml_dtypes.float8_e4m3fn), np.zeros(3, np.uint8)
    k.build(target="sm_90", grid=1)(bytes_, halves, numbers, executor="emulator")
    assert bytes_.tolist() == [-128, 127] and numbers.tolist() == [3, 0, 255]
    assert float(halves[0]) == 9 and np.isnan(float(halves[1]))


def letter(source: str, wanted: str) -> str:
    """How the table in docs/reference.md marks a conversion."""
    if source == wanted:
        return "="
    if wanted in FLOAT8:
        return "e"
    if wanted in INTEGERS:
        if source in FLOATS:
            return "t" if int(wanted.lstrip("uint")) < 32 else "T"
        low, high = LIMITS[source]
        return "=" if LIMITS[wanted][0] <= low and high <= LIMITS[wanted][1] else "w"
    bits, smallest, largest = FORMATS[wanted]
    if source in INTEGERS:
        low, high = LIMITS[source]
        return "R" if high > largest else "r" if (high - low).bit_length() - (low < 0) > bits else "="
    if FORMATS[source][2] > largest:
        return "R"
    return "=" if FORMATS[source][0] <= bits and FORMATS[source][1] >= smallest else "r"


PAGE = Path(__file__).parents[3] / "docs" / "reference.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the repository's docs are not here")
def test_the_table_of_conversions_is_complete() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    start = next(number for number, row in enumerate(rows) if row[0] == "from, to")
    assert rows[start][1:] == TYPES
    table = {row[0]: row[1:] for row in rows[start + 2 : start + 2 + len(TYPES)]}
    assert table == {source: [letter(source, wanted) for wanted in TYPES] for source in TYPES}


def test_inline_ptx_gets_the_bits_of_a_float8() -> None:
    k = tc.KernelBuilder("bits", threads=1)
    a, b = k.param("A", (1,), "float8_e5m2"), k.param("B", (1,), "uint32")
    k.inline_ptx("st.global.u32 {0}, {1};", b[0], k.load(a[0]))
    found = np.zeros(1, np.uint32)
    k.build(target="sm_80", grid=1)(np.array([1.5], ml_dtypes.float8_e5m2), found, executor="emulator")
    assert found[0] == 0x3E


def test_arithmetic_on_float8_is_refused_with_the_type_that_has_it() -> None:
    k = tc.KernelBuilder("sum", threads=1)
    value = k.load(k.param("A", (1,), "float8_e5m2")[0])
    with pytest.raises(tc.RequestError, match="float32"):
        value + value
    assert str(k.cast(value, "float32") + 1)
