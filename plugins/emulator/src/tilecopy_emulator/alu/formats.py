"""Floating-point formats, and correct rounding to each format in every rounding mode.

All values of the formats up to 32 bits are float64 values, and so are their products. A sum of two such values is
kept as a float64 *rounded to odd* (:func:`odd`): the last bit shows whether the sum is inexact. Rounding that
to a format of at most 51 bits of precision gives the same result as rounding the exact sum, in every direction.
Source: S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums" (2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np


@attrs.frozen
class Format:
    """A binary floating-point format.

    ``name``: PTX type; ``bits``: width; ``precision``: bits of a normal significand, with the leading one;
    ``min_exponent``: exponent of the smallest normal number; ``max_finite``: the largest finite value; ``nan``: the
    bits of the NaN of arithmetic results.
    """

    name: str
    bits: int
    precision: int
    min_exponent: int
    max_finite: float
    nan: int

    @property
    def dtype(self) -> Any:
        """The unsigned NumPy integer type that holds the bit pattern of one value."""
        return np.dtype(f"u{max(8, self.bits) // 8}")

    @property
    def min_normal(self) -> float:
        """The smallest positive normal value of the format."""
        return float(np.ldexp(1.0, self.min_exponent))


F16 = Format("f16", 16, 11, -14, 65504.0, 0x7FFF)
BF16 = Format("bf16", 16, 8, -126, float(np.ldexp(255.0, 120)), 0x7FFF)
F32 = Format("f32", 32, 24, -126, float(np.finfo(np.float32).max), 0x7FFFFFFF)
TF32 = Format("tf32", 32, 11, -126, float(np.ldexp(2047.0, 117)), 0x7FFFE000)
F64 = Format("f64", 64, 53, -1022, float(np.finfo(np.float64).max), 0xFFF8000000000000)
E4M3 = Format("e4m3", 8, 4, -6, 448.0, 0x7F)
E5M2 = Format("e5m2", 8, 3, -14, 57344.0, 0x7F)
E2M3 = Format("e2m3", 6, 4, 0, 7.5, 0x1F)
E3M2 = Format("e3m2", 6, 3, -2, 28.0, 0x1F)
E2M1 = Format("e2m1", 4, 2, 0, 6.0, 0x7)
OUTSIDE = 0x7FF7
"""The 16 bits that a tensor copy with NaN fill repeats in floats of any type; ``fma.oob`` treats it as zero (measured on an H200)."""
FORMATS = {f.name: f for f in (F16, BF16, F32, TF32, F64, E4M3, E5M2, E2M3, E3M2, E2M1)}
"""The formats by name. Formats of 4 and 6 bits have no NaN; their largest value takes its place."""

_ROUND: dict[str, Callable[[Any], Any]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def round_integral(values: Any, direction: str) -> Any:
    """Round float64 values to whole numbers. The rounding mode is ``rn``, ``rz``, ``rm``, ``rp`` or ``rna``."""
    return _ROUND[direction](values)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``a + b`` rounded to float64, and the exact rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def odd(total: Any, left_out: Any) -> Any:
    """Round ``total + left_out`` to odd: an inexact sum becomes the adjacent float64 whose last bit is 1."""
    raw = total.view(np.int64)
    inexact = (left_out != 0) & np.isfinite(total) & (raw & 1 == 0)
    away = (total > 0) == (left_out > 0)
    return np.where(inexact, raw + np.where(away, 1, -1), raw).view(np.float64)


def odd_sum(a: Any, b: Any, direction: str) -> Any:
    """Return ``a + b`` rounded to odd. The sign of a zero sum depends on the rounding mode ``direction``."""
    total, left_out = two_sum(a, b)
    if direction == "rm":
        total = np.where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)
    return odd(total, left_out)


def quantize(values: Any, format: Format, direction: str, *, ftz: bool = False, chance: Any = None) -> Any:
    """Return float64 values rounded to a format. Overflow gives infinity or the largest value, as in IEEE 754.

    With ``chance``, fractions of a unit in the last place, these are added to the magnitudes before truncation (``.rs``).

    With ``ftz``, a value below the smallest normal number *after rounding to the full precision* becomes zero: a
    result that rounds up to the smallest normal number stays (like constants that ptxas folds).
    """
    _, exponent = np.frexp(values)
    quantum = (exponent if ftz else np.maximum(exponent, format.min_exponent + 1)) - format.precision
    scaled = np.ldexp(values, -quantum)
    whole = _ROUND[direction](scaled) if chance is None else np.copysign(np.floor(np.abs(scaled) + chance), scaled)
    rounded = np.ldexp(whole, quantum)
    if ftz:
        rounded = np.where(np.abs(rounded) < format.min_normal, np.copysign(0.0, values), rounded)
    over = (np.abs(rounded) > format.max_finite) & np.isfinite(values)
    if not over.any():
        return rounded
    to_largest = {"rz": True, "rm": values > 0, "rp": values < 0}.get(direction, False)
    return np.where(over, np.copysign(np.where(to_largest, format.max_finite, np.inf), values), rounded)


def decode(raw: Any, format: Format) -> Any:
    """Return the float64 values of bit patterns in a format."""
    if format.bits == 64:
        return raw.view(np.float64)
    if format.bits == 32:
        return raw.view(np.float32).astype(np.float64)
    if format is BF16:
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if format is F16:
        return raw.view(np.float16).astype(np.float64)
    return _SMALL[format.name][raw & format.dtype.type((1 << format.bits) - 1)]


def encode(values: Any, format: Format) -> Any:
    """Return the bit patterns of float64 values that the format represents exactly. A NaN becomes the canonical NaN."""
    nan = np.isnan(values)
    if format is F64:
        return np.where(nan, format.dtype.type(format.nan), values.view(np.uint64))
    if format.bits == 32:
        raw = values.astype(np.float32).view(np.uint32)
    elif format is BF16:
        raw = (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    elif format is F16:
        raw = values.astype(np.float16).view(np.uint16)
    else:
        known = _SMALL[format.name][: 1 << (format.bits - 1)]
        sign = np.signbit(values).astype(np.uint8) << np.uint8(format.bits - 1)
        raw = np.searchsorted(known[~np.isnan(known)], np.abs(values)).astype(np.uint8) | sign
    return np.where(nan, format.dtype.type(format.nan), raw)


def flush(raw: Any, format: Format) -> Any:
    """Apply ``.ftz``: replace each subnormal number by a zero of the same sign."""
    sign = format.dtype.type(1 << (format.bits - 1))
    exponents = format.dtype.type(((1 << (format.bits - 1)) - 1) & ~((1 << (format.precision - 1)) - 1))
    return np.where(raw & exponents == 0, raw & sign, raw)


def _small_values(format: Format) -> Any:
    mantissa_bits, sign = format.precision - 1, 1 << (format.bits - 1)
    raw = np.arange(2 * sign)
    exponent, fraction = (raw & (sign - 1)) >> mantissa_bits, raw & ((1 << mantissa_bits) - 1)
    scale = np.maximum(exponent, 1) + format.min_exponent - 1 - mantissa_bits
    significand = fraction + np.where(exponent > 0, 1 << mantissa_bits, 0)
    values = np.ldexp(significand.astype(np.float64), scale)
    if format is E5M2:
        values = np.where(exponent == 31, np.where(fraction == 0, np.inf, np.nan), values)
    elif format is E4M3:
        values = np.where(raw & 0x7F == 0x7F, np.nan, values)
    return np.where(raw & sign, -values, values)


_SMALL = {format.name: _small_values(format) for format in (E4M3, E5M2, E2M3, E3M2, E2M1)}
