"""Float64 arithmetic in every rounding mode.

To nearest, NumPy's operations are those of IEEE 754. The other directions adjust that result by one unit in the last
place, by the sign of the rounding error. The error is computed exactly (Dekker, Knuth) if the exponents permit, else
lane by lane with integers. ``fma`` is computed like this in every direction.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from .formats import odd, two_sum

_SAFE_LOW, _SAFE_HIGH = -400, 400
"""The range of operand exponents in which the error-free transformations neither overflow nor underflow."""


def add(a: Any, b: Any, direction: str) -> Any:
    """Return ``a + b`` in rounding mode ``direction``."""
    if direction == "rn":
        return a + b
    total, rest = two_sum(a, b)
    zero = (total == 0) & (rest == 0)
    result = _round_toward(total, rest, direction)
    if direction == "rm":
        result = np.where(zero & (np.signbit(a) | np.signbit(b)), -0.0, result)
    return _exactly(result, "add", (a, b), direction, np.isinf(total))


def multiply(a: Any, b: Any, direction: str) -> Any:
    """Return ``a * b`` in rounding mode ``direction``."""
    product, rest, unsafe = _two_product(a, b)
    if direction == "rn":
        return product
    return _exactly(_round_toward(product, rest, direction), "mul", (a, b), direction, unsafe)


def fma(a: Any, b: Any, c: Any, direction: str) -> Any:
    """Return ``a * b + c``, rounded once, in rounding mode ``direction``."""
    product, low, unsafe = _two_product(a, b)
    unsafe = unsafe | ((c != 0) & _outside(c))
    small, rest = two_sum(c, low)
    high, middle = two_sum(product, small)
    tail = odd(*two_sum(rest, middle))
    result = high + tail
    if direction != "rn":
        total, error = two_sum(high, tail)
        result = _round_toward(total, error, direction)
        if direction == "rm":
            result = np.where((total == 0) & (np.signbit(product) | np.signbit(c)), -0.0, result)
    result = np.where(np.isfinite(product) & np.isfinite(c), result, product + c)
    result = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, result)
    exact_zero = (product == 0) & np.isfinite(a) & np.isfinite(b) & ((a == 0) | (b == 0))
    result = np.where(exact_zero, add(product, c, direction), result)
    return _exactly(result, "fma", (a, b, c), direction, unsafe & ~exact_zero)


def divide(a: Any, b: Any, direction: str) -> Any:
    """Return ``a / b`` in rounding mode ``direction``."""
    quotient = a / b
    if direction == "rn":
        return quotient
    product, low, unsafe = _two_product(quotient, b)
    rest = (a - product) - low
    rest = np.where(np.signbit(b), -rest, rest)
    unsafe = (unsafe | _outside(a) | _outside(b)) & (a != 0) & (b != 0)
    return _exactly(_round_toward(quotient, rest, direction), "div", (a, b), direction, unsafe)


def square_root(a: Any, direction: str) -> Any:
    """Return the square root of ``a`` in rounding mode ``direction``."""
    root = np.sqrt(a)
    if direction == "rn":
        return root
    product, low, unsafe = _two_product(root, root)
    rest = (a - product) - low
    return _exactly(_round_toward(root, rest, direction), "sqrt", (a,), direction, unsafe & (a > 0))


def inverse_root(a: Any) -> Any:
    """Return ``1 / sqrt(a)``, rounded to the nearest float64."""
    small, exponent = np.frexp(a)
    odd_exponent = exponent & 1
    inside = np.isfinite(a) & (a > 0)
    x = np.where(inside, np.ldexp(small, odd_exponent), 1.0)
    root = 1.0 / np.sqrt(x)
    square, square_low, _ = _two_product(root, root)
    product, product_low, _ = _two_product(x, square)
    lack = ((1.0 - product) - product_low) - x * square_low
    correction = root * (lack * (0.5 + 0.375 * lack))  # the second term decides near ties
    inverse = np.ldexp(root + correction, -((exponent - odd_exponent) // 2))
    return np.where(inside, inverse, 1.0 / np.sqrt(a))


def _outside(x: Any) -> Any:
    """Return True where an exponent is outside the range of the transformations (never for infinities and NaNs)."""
    _, exponent = np.frexp(x)
    return np.isfinite(x) & ((exponent < _SAFE_LOW) | (exponent > _SAFE_HIGH))


def _two_product(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return the product, its rounding error, and True where the error may be inexact."""
    product = a * b
    unsafe = (_outside(a) | _outside(b)) & np.isfinite(a) & np.isfinite(b)
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    low = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, low, unsafe


def _split(a: Any) -> tuple[Any, Any]:
    """Return the upper 26 bits of a significand, and the rest."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _round_toward(nearest: Any, rest: Any, direction: str) -> Any:
    """Return a result rounded in a direction from the result to nearest; ``rest`` is the rounding error."""
    if direction == "rn":
        return nearest
    down = {"rm": rest < 0, "rp": np.zeros_like(rest, bool), "rz": (rest < 0) & (nearest > 0)}[direction]
    up = {"rp": rest > 0, "rm": np.zeros_like(rest, bool), "rz": (rest > 0) & (nearest < 0)}[direction]
    result = np.where(down, np.nextafter(nearest, -np.inf), nearest)
    return np.where(up, np.nextafter(nearest, np.inf), result)


def _exactly(result: Any, operation: str, operands: tuple[Any, ...], direction: str, where: Any) -> Any:
    """Return ``result`` with the lanes of ``where`` computed again, exactly, one by one."""
    shape = np.broadcast_shapes(result.shape, *(x.shape for x in operands))
    result, where = np.broadcast_to(result, shape), np.broadcast_to(where, shape)
    operands = tuple(np.broadcast_to(x, shape) for x in operands)
    for operand in operands:
        where = where & np.isfinite(operand)
    if not where.any():
        return result
    result = np.array(result)
    for place in zip(*np.nonzero(where), strict=True):
        exact, nudge = _exact(operation, [Fraction(float(x[place])) for x in operands])
        if exact or nudge:
            result[place] = _round(exact, nudge, direction)
        elif operation == "fma":
            result[place] = -0.0 if direction == "rm" else 0.0
    return result


def _exact(operation: str, x: list[Fraction]) -> tuple[Fraction, bool]:
    """Return the exact result, or for a root a slightly smaller number with many more bits, and whether it is inexact."""
    if operation == "add":
        return x[0] + x[1], False
    if operation == "mul":
        return x[0] * x[1], False
    if operation == "fma":
        return x[0] * x[1] + x[2], False
    if operation == "div":
        return x[0] / x[1], False
    scale = 4 ** (200 if x[0] >= 1 else 1300)
    numerator = x[0].numerator * scale // x[0].denominator
    root = isqrt(numerator)
    return Fraction(root, isqrt(scale)), root * root != numerator or (x[0] * scale).denominator != 1


def _round(exact: Fraction, inexact: bool, direction: str) -> float:
    """Return a fraction rounded to float64; ``inexact``: the true value is slightly larger than the fraction."""
    sign, size = (-1 if exact < 0 else 1), abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, -1022) - 52)
    whole, rest = divmod(size, quantum)
    half = quantum / 2
    up = {
        "rn": rest > half or (rest == half and (bool(whole & 1) or inexact)),
        "rz": False,
        "rm": sign < 0 and (rest > 0 or inexact),
        "rp": sign > 0 and (rest > 0 or inexact),
    }[direction]
    value = (whole + up) * quantum
    if value >= Fraction(2) ** 1024:
        away = direction == "rn" or (direction == "rp" and sign > 0) or (direction == "rm" and sign < 0)
        return sign * (float("inf") if away else float(np.finfo(np.float64).max))
    return float(np.copysign(float(value), sign))
