"""Scalar and packed floating-point arithmetic in f16, bf16, f32 and f64, in every rounding mode.

Formats up to 32 bits are computed in float64 with rounding to odd, so that there is only one further rounding
(:mod:`.formats`). Quotients and roots need no rounding to odd, because float64 distinguishes every quotient or root of
24-bit numbers from numbers of 25 bits. f64 is in :mod:`.double`.

The NaN of a result depends on the hardware: f32 and narrower formats return a fixed NaN, and f64 returns that of an operand
(:func:`propagate_nan`). This was measured on an H200 (driver 580.159, sm_90), and read in the SASS of ptxas 13.0 for sm_90.

Functions for which the ISA gives only an error bound (``.approx``, ``.full``) are computed in float64 and rounded once. The
result is within the bound, but the last bits may differ from a GPU's. Their forms are marked ``approximate``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import double
from .formats import F64, FORMATS, OUTSIDE, Format, decode, encode, flush, odd_sum, quantize
from .forms import Compute, Form, Mode, form
from .integers import elementwise

QUIET = np.uint64(1 << 51)
"""The quiet bit of a NaN in f64."""

Operation = Callable[..., Any]
"""A function of float64 values and a rounding direction; it rounds to odd unless it computes in f64."""

_EXACT: dict[str, Operation] = {
    "add": odd_sum,
    "sub": lambda a, b, direction: odd_sum(a, -b, direction),
    "mul": lambda a, b, direction: a * b,
    "fma": lambda a, b, c, direction: odd_sum(a * b, c, direction),
    "div": lambda a, b, direction: a / b,
    "rcp": lambda a, direction: 1.0 / a,
    "sqrt": lambda a, direction: np.sqrt(a),
}
_DOUBLE: dict[str, Operation] = {
    "add": double.add,
    "sub": lambda a, b, direction: double.add(a, -b, direction),
    "mul": double.multiply,
    "fma": double.fma,
    "div": double.divide,
    "rcp": lambda a, direction: double.divide(np.ones(1), a, direction),
    "sqrt": double.square_root,
}
_SINGLE: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": np.sqrt,
}
"""The operations of NumPy in float32, for rounding to nearest, which is the common case."""


def finish(raw: Any, format: Format, mode: Mode) -> Any:
    """Return a result's bit pattern with ``.sat`` and ``.relu`` applied, if the instruction has these modifiers."""
    if not mode.modifiers & {"sat", "relu"}:
        return raw
    sign = raw >> format.dtype.type(format.bits - 1) != 0
    if mode.has("sat"):
        one = encode(np.ones(1), format)
        zero = format.dtype.type(0)
        raw = np.where(sign | (raw == format.nan), zero, np.minimum(raw, one))
    if mode.has("relu"):
        raw = np.where(sign & (raw != format.nan), format.dtype.type(0), raw)
    return raw


def _canonical(values: Any, raw: Any, format: Format) -> Any:
    """Return bits with the NaN of the format for every NaN."""
    nan = np.isnan(values)
    return np.where(nan, format.dtype.type(format.nan), raw) if nan.any() else raw


_TINY = np.float32(FORMATS["f32"].min_normal)
_BELOW, _HALF = np.uint64((1 << 29) - 1), np.uint64(1 << 28)
"""The mask of the 29 bits that float64 has more than float32, and of the first of them."""


def _fused_to_nearest(a: Any, b: Any, c: Any) -> Any | None:
    """Return ``a * b + c`` of float32 values; None if it was rounded twice.

    The product is exact in float64. Its sum is rounded there, and the second rounding gives the same unless that sum is half way
    between two values of float32: by its bits, or (for subnormal results) anywhere.
    """
    total = np.multiply(a, b, dtype=np.float64)
    total = np.add(total, c, out=total if total.shape == np.broadcast_shapes(total.shape, c.shape) else None)
    rounded = total.astype(np.float32)
    small = np.abs(rounded) <= _TINY
    if small.any() and total[small].any():
        return None
    bits = total.view(np.uint64)
    bits &= _BELOW
    return None if (bits == _HALF).any() else rounded


def propagate_nan(result: Any, sources: Sequence[Any]) -> Any:
    """Return the bit patterns of f64 results. If sources are NaNs, the result is the last NaN source as a quiet NaN.

    This is how DADD, DMUL and DFMA behave. The operands of DADD are the first and the third of DFMA, and those of DMUL the
    first and the second; in both, the second operand wins. With all three of DFMA, the
    second wins, then the third (measured on an H200).
    """
    words = np.broadcast_to(result, np.broadcast_shapes(result.shape, *(x.shape for x in sources)))
    for raw in sources:
        words = np.where(np.isnan(raw.view(np.float64)), raw | QUIET, words)
    return words


def arithmetic(name: str) -> Callable[[Mode], Compute]:
    """Return a function that builds a correctly rounded operation, such as ``add``, for a :class:`Mode`."""

    def build(mode: Mode) -> Compute:
        format, direction = FORMATS[mode.type], mode.direction
        ftz = mode.has("ftz")
        nearest = mode.type == "f32" and direction == "rn" and not ftz
        single = _SINGLE.get(name) if nearest else None
        fused = nearest and name == "fma"

        def compute(*raw: Any) -> Any:
            if ftz:
                raw = tuple(flush(x, format) for x in raw)
            if single is not None:
                rounded = single(*(x.view(np.float32) for x in raw))
                return finish(_canonical(rounded, rounded.view(np.uint32), format), format, mode)
            if fused:
                rounded = _fused_to_nearest(*(x.view(np.float32) for x in raw))
                if rounded is not None:
                    return finish(_canonical(rounded, rounded.view(np.uint32), format), format, mode)
            values = [decode(x, format) for x in raw]
            if format is F64:
                result = encode(_DOUBLE[name](*values, direction), format)
                if name == "div":  # a subroutine, where the first NaN wins
                    raw = raw[::-1]
                elif len(raw) == 3:
                    raw = (raw[0], raw[2], raw[1])
                return finish(propagate_nan(result, raw), format, mode)
            exact = _EXACT[name](*values, direction)
            if nearest:
                rounded = exact.astype(np.float32)
                return finish(_canonical(rounded, rounded.view(np.uint32), format), format, mode)
            return finish(encode(quantize(exact, format, direction, ftz=ftz), format), format, mode)

        return compute

    return build


def _fma_oob(mode: Mode) -> Compute:
    """Return ``fma.oob``: zero where a factor is the NaN fill of tensor copies, of either sign, for any addend."""
    compute = arithmetic("fma")(mode)

    def guard(a: Any, b: Any, c: Any) -> Any:
        outside = (a & 0x7FFF == OUTSIDE) | (b & 0x7FFF == OUTSIDE)
        return np.where(outside, FORMATS[mode.type].dtype.type(0), compute(a, b, c))

    return guard


def mixed_precision(name: str) -> Callable[[Mode], Compute]:
    """Return a function that builds a mixed-precision operation with f32 arithmetic, for example ``add.f32.f16``."""

    def build(mode: Mode) -> Compute:
        narrow = FORMATS[mode.type]
        compute = arithmetic(name)(Mode(("f32",), mode.modifiers))

        def widen(raw: Any) -> Any:
            return decode(raw, narrow).astype(np.float32).view(np.uint32)

        return lambda *raw: compute(*(widen(x) for x in raw[:-1]), raw[-1])

    return build


def approximation(function: Callable[..., Any]) -> Callable[[Mode], Compute]:
    """Return a function that builds an operation such as ``ex2.approx``. It computes in float64 and rounds to nearest.

    16-bit results are truncated from f32. An H200 agrees in all bits of 16-bit ``ex2``; its ``tanh`` is less precise.
    """

    def build(mode: Mode) -> Compute:
        format = FORMATS[mode.type]

        def compute(*raw: Any) -> Any:
            if mode.has("ftz"):
                raw = tuple(flush(x, format) for x in raw)
            values = function(*(decode(x, format) for x in raw))
            if format.bits == 16:
                wide = quantize(values, FORMATS["f32"], "rn")
                values = np.where(np.abs(wide) > format.max_finite, wide * np.inf, wide)
            direction = "rz" if format.bits == 16 else "rn"
            rounded = values if format is F64 else quantize(values, format, direction, ftz=mode.has("ftz"))
            result = encode(rounded, format)
            return finish(propagate_nan(result, raw) if format is F64 else result, format, mode)

        return compute

    return build


def _of_upper_word(function: Callable[..., Any]) -> Callable[[Mode], Compute]:
    """Return ``.approx.ftz.f64``, which uses the upper 32 bits of the operand, and sets only those of the result."""

    def build(mode: Mode) -> Compute:
        upper = np.uint64(0xFFFFFFFF00000000)

        def compute(raw: Any) -> Any:
            values = function(decode(flush(raw & upper, F64), F64))
            words = flush(encode(values, F64) & upper, F64)
            return np.where(np.isnan(values), np.uint64(0x7FFFFFFF00000000), words)

        return compute

    return build


def _divide_approximately(full: bool) -> Callable[..., Any]:
    """Return ``div.approx``, a product with a reciprocal that underflows past 2**126, or ``div.full``, which scales first."""

    def function(a: Any, b: Any) -> Any:
        if full:
            return a / b
        huge = (np.abs(b) > 2.0**126) & np.isfinite(b)
        outside = np.where(np.isinf(a), np.nan, np.copysign(0.0, a) * np.copysign(1.0, b))
        return np.where(huge & ~np.isnan(a), outside, a / b)

    return function


def _sign_change(function: Callable[[Any, Format], Any]) -> Callable[[Mode], Compute]:
    """Return ``neg`` and ``abs``, which change the sign; a NaN becomes that of the format, because they are sums with -0."""

    def build(mode: Mode) -> Compute:
        format = FORMATS[mode.type]

        def compute(raw: Any) -> Any:
            if mode.has("ftz"):
                raw = flush(raw, format)
            result = function(raw, format)
            return propagate_nan(result, [raw]) if format is F64 else _canonical(decode(raw, format), result, format)

        return compute

    return build


def _sign_bit(format: Format) -> Any:
    return format.dtype.type(1 << (format.bits - 1))


def extreme(largest: bool) -> Callable[[Mode], Compute]:
    """Return a function that builds ``min`` or ``max``, where -0 < +0. Without ``.NaN``, NaN operands are ignored."""

    def build(mode: Mode) -> Compute:
        format = FORMATS[mode.type]
        sign = _sign_bit(format)
        signed = np.dtype(f"i{format.bits // 8}")

        def order(raw: Any) -> Any:
            """Convert floating-point bit patterns to integers that compare in the same order as the values."""
            return np.where(raw & sign != 0, (~raw ^ sign).view(signed), raw.view(signed))

        def pair(a: Any, b: Any) -> Any:
            signs = (a ^ b) & sign
            if mode.has("xorsign"):
                a, b = a & ~sign, b & ~sign
            a_nan, b_nan = np.isnan(decode(a, format)), np.isnan(decode(b, format))
            first = order(a) >= order(b) if largest else order(a) <= order(b)
            result = np.where(b_nan | (first & ~a_nan), a, b)
            if mode.has("xorsign"):
                result = result | signs
            nan = (a_nan | b_nan) if mode.has("NaN") else (a_nan & b_nan)
            # f64 is a comparison and a selection; if both operands are NaNs, the result is the second as a quiet NaN
            return np.where(nan, b | QUIET if format is F64 else format.dtype.type(format.nan), result)

        def compute(*raw: Any) -> Any:
            if mode.has("ftz"):
                raw = tuple(flush(x, format) for x in raw)
            winner = pair(raw[0], raw[1])
            return winner if len(raw) == 2 else pair(winner, raw[2])

        return compute

    return build


def _copy_sign(mode: Mode) -> Compute:
    sign = _sign_bit(FORMATS[mode.type])
    return lambda a, b: (a & sign) | (b & ~sign)


def _test(mode: Mode) -> Compute:
    """Return ``testp``, which tests the class of a number; zeros are normal."""
    kind = mode.one_of("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    smallest = FORMATS[mode.type].min_normal

    def compute(raw: Any) -> Any:
        x = decode(raw, FORMATS[mode.type])
        tests: dict[str, Callable[[Any], Any]] = {
            "finite": np.isfinite,
            "infinite": np.isinf,
            "number": lambda v: ~np.isnan(v),
            "notanumber": np.isnan,
            "normal": lambda v: np.isfinite(v) & ((v == 0) | (np.abs(v) >= smallest)),
            "subnormal": lambda v: (v != 0) & (np.abs(v) < smallest),
        }
        return tests[kind](x)

    return compute


def _power_of_two(x: Any) -> Any:
    """Return ``ex2`` for 16-bit types, of the operand truncated to 23 fraction bits (as measured on an H200)."""
    return np.exp2(np.trunc(np.clip(x, -1024.0, 1024.0) * 2.0**23) * 2.0**-23)


def _of_turns(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``sin`` or ``cos`` of turns, from one f32 product (SASS: FMUL.RZ), so that large operands lose all precision."""

    def compute(x: Any) -> Any:
        turns = quantize(x * float(np.float32(1 / (2 * np.pi))), FORMATS["f32"], "rz", ftz=True)
        return function(2 * np.pi * np.where(np.isfinite(turns), np.fmod(turns, 1.0), np.nan))

    return compute


_APPROXIMATE: dict[str, Callable[..., Any]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": _of_turns(np.sin),
    "cos": _of_turns(np.cos),
    "tanh": np.tanh,
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


def _single_precision() -> list[Form]:
    forms: list[Form] = []
    for name in ("add", "sub", "mul"):
        forms += [
            form(f"{name}{{.rnd}}{{.ftz}}{{.sat}}", "f32", "t = t t", arithmetic(name)),
            form(f"{name}{{.rnd}}", "f64", "t = t t", arithmetic(name)),
            form(f"{name}{{.rnd}}{{.ftz}}", "f32x2", "t = t t", elementwise(arithmetic(name))),
            form(f"{name}{{.rn}}{{.ftz}}{{.sat}}", "f16 f16x2", "t = t t", elementwise(arithmetic(name))),
            form(f"{name}{{.rn}}", "bf16 bf16x2", "t = t t", elementwise(arithmetic(name))),
        ]
    forms += [
        form("add{.rnd}{.sat}", "f32.f16 f32.bf16", "f32 = t f32", mixed_precision("add")),
        form("sub{.rnd}{.sat}", "f32.f16 f32.bf16", "f32 = t f32", mixed_precision("sub")),
        form("fma(.rnd){.sat}", "f32.f16 f32.bf16", "f32 = t t f32", mixed_precision("fma")),
    ]
    for name in ("fma", "mad"):
        forms += [
            form(f"{name}(.rnd){{.ftz}}{{.sat}}", "f32", "t = t t t", arithmetic("fma")),
            form(f"{name}(.rnd)", "f64", "t = t t t", arithmetic("fma")),
        ]
    forms += [
        form("fma(.rnd){.ftz}", "f32x2", "t = t t t", elementwise(arithmetic("fma"))),
        form("fma.rn{.ftz}{.sat,.relu}", "f16 f16x2", "t = t t t", elementwise(arithmetic("fma"))),
        form("fma.rn{.relu}", "bf16 bf16x2", "t = t t t", elementwise(arithmetic("fma"))),
        form("fma.rn.oob{.relu}", "f16 bf16 f16x2 bf16x2", "t = t t t", elementwise(_fma_oob)),
        form("div(.rnd){.ftz}", "f32", "t = t t", arithmetic("div")),
        form("div(.rnd)", "f64", "t = t t", arithmetic("div")),
        form("rcp(.rnd){.ftz}", "f32", "t = t", arithmetic("rcp")),
        form("rcp(.rnd)", "f64", "t = t", arithmetic("rcp")),
        form("sqrt(.rnd){.ftz}", "f32", "t = t", arithmetic("sqrt")),
        form("sqrt(.rnd)", "f64", "t = t", arithmetic("sqrt")),
    ]
    return forms


def _approximate() -> list[Form]:
    def one(pattern: str, types: str, function: Callable[..., Any], roles: str = "t = t") -> Form:
        return form(pattern, types, roles, elementwise(approximation(function)), approximate=True)

    forms = [
        one("div.approx{.ftz}", "f32", _divide_approximately(full=False), "t = t t"),
        one("div.full{.ftz}", "f32", _divide_approximately(full=True), "t = t t"),
        one("ex2.approx", "f16 f16x2", _power_of_two),
        one("ex2.approx.ftz", "bf16 bf16x2", _power_of_two),
        one("tanh.approx", "f16 bf16 f32 f16x2 bf16x2", np.tanh),
    ]
    forms += [
        form("rcp.approx.ftz", "f64", "t = t", _of_upper_word(_APPROXIMATE["rcp"]), approximate=True),
        form("rsqrt.approx.ftz", "f64", "t = t", _of_upper_word(_APPROXIMATE["rsqrt"]), approximate=True),
        form("rsqrt.approx", "f64", "t = t", approximation(double.inverse_root), approximate=True),
    ]
    forms += [
        one(f"{name}.approx{{.ftz}}", "f32", _APPROXIMATE[name])
        for name in ("ex2", "lg2", "sin", "cos", "rcp", "sqrt", "rsqrt")
    ]
    return forms


def _signs_and_extremes() -> list[Form]:
    forms: list[Form] = []
    for name, function in (("neg", lambda raw, f: raw ^ _sign_bit(f)), ("abs", lambda raw, f: raw & ~_sign_bit(f))):
        build = elementwise(_sign_change(function))
        forms += [
            form(f"{name}{{.ftz}}", "f32 f16 f16x2", "t = t", build),
            form(name, "f64 bf16 bf16x2", "t = t", build),
        ]
    for name, largest in (("min", False), ("max", True)):
        build = elementwise(extreme(largest))
        forms += [form(f"{name}{{.ftz}}{{.NaN}}", "f32", "t = t t t", build), form(name, "f64", "t = t t", build)]
        for both in ("", ".xorsign.abs"):
            forms.append(form(f"{name}{{.ftz}}{{.NaN}}{both}", "f32 f16 f16x2", "t = t t", build))
            forms.append(form(f"{name}{{.NaN}}{both}", "bf16 bf16x2", "t = t t", build))
    return forms


FORMS: tuple[Form, ...] = (
    *_single_precision(),
    *_approximate(),
    *_signs_and_extremes(),
    form("copysign", "f32 f64", "t = t t", _copy_sign),
    form("testp(.finite,.infinite,.number,.notanumber,.normal,.subnormal)", "f32 f64", "pred = t", _test),
)
