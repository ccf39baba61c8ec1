"""The instruction ``cvt`` between integers, floating-point numbers, and packed formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from .floats import finish
from .formats import F64, FORMATS, Format, decode, encode, flush, odd, quantize, round_integral, two_sum
from .forms import Compute, Form, Mode, form
from .integers import bits, halves, join_halves, view

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
_WIDE_INTEGERS = INTEGERS[1:4] + INTEGERS[5:]


def _limits(type: str) -> tuple[int, int]:
    width = int(type[1:])
    return (0, (1 << width) - 1) if type[0] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def _from_words(raw: Any, type: str, low: int, high: int) -> Any:
    """Return integers of a type clamped to ``[low, high]``, exactly for any two types."""
    values = view(raw, type)
    own_low, own_high = _limits(type)
    return np.clip(values, max(low, own_low), min(high, own_high))


def _integer_to_integer(mode: Mode) -> Compute:
    target, source = mode.types
    result = np.dtype(f"{'i' if target[0] == 's' else 'u'}{int(target[1:]) // 8}")

    def compute(raw: Any) -> Any:
        values = _from_words(raw, source, *_limits(target)) if mode.has("sat") else view(raw, source)
        return bits(values.astype(result))

    return compute


def _float_to_integer(mode: Mode) -> Compute:
    """Return ``cvt`` from floats to integers: round and clamp; a NaN becomes 0, or only the top bit if a type has 64 bits."""
    target, source = mode.types
    format, direction = FORMATS[source], mode.one_of("rni", "rzi", "rmi", "rpi")[:2]
    low, high = _limits(target)
    width = int(target[1:])
    nan = 1 << (width - 1) if source == "f64" or width == 64 else 0
    dtype = np.dtype(f"{'i' if target[0] == 's' else 'u'}{width // 8}")

    def compute(raw: Any) -> Any:
        if mode.has("ftz"):
            raw = flush(raw, format)
        whole = round_integral(decode(raw, format), direction)
        over, under, unordered = whole >= float(high + 1), whole < float(low), np.isnan(whole)
        inside = np.where(over | under | unordered, 0.0, whole)
        result = bits(inside.astype(dtype))
        unsigned = result.dtype.type
        result = np.where(over, unsigned(high), result)
        result = np.where(under, unsigned(low & ((1 << width) - 1)), result)
        return np.where(unordered, unsigned(nan), result)

    return compute


def exact_integers(raw: Any, type: str) -> Any:
    """Convert integers to float64. An integer that needs more than 53 bits is rounded to odd (see :func:`odd`)."""
    values = view(raw, type)
    if int(type[1:]) <= 32:
        return values.astype(np.float64)
    high = (values >> values.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (raw & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return odd(*two_sum(high, low))


def _integer_to_float(mode: Mode) -> Compute:
    target, source = mode.types
    format, direction = FORMATS[target], mode.direction

    def compute(raw: Any) -> Any:
        if format is F64 and source[1:] == "64":
            result = _wide_integer_to_double(raw, source, direction)
        else:
            result = quantize(exact_integers(raw, source), format, direction)
        return finish(encode(result, format), format, mode)

    return compute


def _wide_integer_to_double(raw: Any, type: str, direction: str) -> Any:
    values = view(raw, type)
    total, rest = two_sum(
        (values >> values.dtype.type(32)).astype(np.float64) * 2.0**32, (raw & np.uint64(0xFFFFFFFF)).astype(np.float64)
    )
    down = (rest < 0) & ((direction == "rm") | ((direction == "rz") & (total > 0)))
    up = (rest > 0) & ((direction == "rp") | ((direction == "rz") & (total < 0)))
    return np.where(down, np.nextafter(total, -np.inf), np.where(up, np.nextafter(total, np.inf), total))


def _float_to_float(mode: Mode) -> Compute:
    target, source = FORMATS[mode.types[0]], FORMATS[mode.types[1]]
    whole = mode.one_of("rni", "rzi", "rmi", "rpi")
    direction = mode.direction
    flushes = mode.has("ftz") and source.name in ("f32", "bf16") and target.name != "f16"  # F2F.F16.F32 has no .FTZ
    keeps_payload = F64 in (target, source) and not mode.has("sat")

    def compute(raw: Any) -> Any:
        if flushes:
            raw = flush(raw, source)
            if target is F64:  # FMUL.FTZ by one, which makes NaNs canonical, and F2F of that
                raw = np.where(np.isnan(decode(raw, source)), source.dtype.type(source.nan), raw)
        values = decode(raw, source)
        if whole:
            values = np.copysign(round_integral(values, whole[:2]), values)
        if mode.has("ftz") and source is F64:
            values = _without_tiny(values, direction)
        result = encode(values if target is F64 else _fit(values, target, direction, mode), target)
        if keeps_payload:
            result = _with_payload(result, target, raw, source)
        return finish(result, target, mode)

    return compute


def _without_tiny(values: Any, direction: str) -> Any:
    """Return values with zeros for small ones as in ``cvt.ftz.f32.f64``, by the bounds of ptxas 13.0 for sm_90."""
    smallest = FORMATS["f32"].min_normal
    nearest, away = smallest * (1 - 2.0**-25), smallest * (1 - 2.0**-24)
    if direction in ("rm", "rp"):
        bound = np.where(np.signbit(values) == (direction == "rm"), away, smallest)
    else:
        bound = np.full(1, nearest if direction == "rn" else smallest)
    return np.where(np.abs(values) < bound, np.copysign(0.0, values), values)


def _with_payload(result: Any, target: Format, raw: Any, source: Format) -> Any:
    """Return a result whose NaNs, to or from f64, have the sign and the upper bits of the operand's payload, and are quiet."""
    kept, had = target.precision - 1, source.precision - 1
    whole = raw.astype(np.uint64)
    sign = (whole >> np.uint64(source.bits - 1)) << np.uint64(target.bits - 1)
    payload = ((whole & np.uint64((1 << had) - 1)) << np.uint64(52 - had)) >> np.uint64(52 - kept)
    quiet = np.uint64((1 << (target.bits - 1)) - (1 << (kept - 1)))  # the exponent, and the first bit of the fraction
    return np.where(np.isnan(decode(raw, source)), (sign | quiet | payload).astype(target.dtype), result)


def _same(mode: Mode) -> Compute:
    """Return ``cvt.f32.f32`` and ``cvt.f64.f64`` without modifiers, which are moves."""
    return lambda raw: raw.copy()


def _widened_bfloat(mode: Mode) -> Compute:
    """Return ``cvt`` from bf16, which is the upper half of an f32, also for NaNs."""
    return lambda raw: raw.astype(np.uint32) << np.uint32(16)


def _tf32_away(mode: Mode) -> Compute:
    """Return ``cvt.rna.tf32.f32``: half a unit is added to the bits, and the low 13 are truncated; NaNs are only truncated."""

    def compute(raw: Any) -> Any:
        size = raw & np.uint32(0x7FFFFFFF)
        rounded = np.where(size < 0x7F800000, raw + np.uint32(0x1000), raw) & np.uint32(0xFFFFE000)
        if mode.has("satfinite"):
            past = rounded & np.uint32(0x7FFFFFFF) >= 0x7F800000
            rounded = np.where(past, rounded - np.uint32(0x2000), rounded)
        return rounded

    return compute


def _fit(values: Any, format: Any, direction: str, mode: Mode, chance: Any = None) -> Any:
    """Return values rounded to a format; with ``.satfinite``, the largest finite value instead of an overflow."""
    rounded = quantize(values, format, direction, chance=chance)
    if mode.has("satfinite"):
        rounded = np.where(np.isnan(rounded), rounded, np.clip(rounded, -format.max_finite, format.max_finite))
    return rounded


def _pair(mode: Mode) -> Compute:
    """Return ``cvt`` of two f32 to the halves of one register; the first operand is the upper half."""
    format, direction = FORMATS[mode.types[0].removesuffix("x2")], mode.direction

    def one(raw: Any) -> Any:
        return finish(encode(_fit(decode(raw, FORMATS["f32"]), format, direction, mode), format), format, mode)

    return lambda high, low: join_halves(one(low), one(high))


_BYTES = [range(16, 32), range(31, 15, -1), range(16), range(15, -1, -1)]
_NIBBLES = [(*range(8, 16), *range(24, 32)), (*range(31, 23, -1), *range(15, 7, -1))]
_NIBBLES += [(*range(8), *range(16, 24)), (*range(23, 15, -1), *range(7, -1, -1))]
_CHANCES: dict[str, list[Any]] = {
    "f16x2": [range(28, 15, -1), range(12, -1, -1)],
    "bf16x2": [range(31, 15, -1), range(15, -1, -1)],
    "e4m3x4": _BYTES,
    "e5m2x4": _BYTES,
    "e2m1x4": _NIBBLES,
}
"""The random bits of each operand of ``cvt.rs``, most significant first; those for four operands were measured on an sm_100."""


def _by_chance(mode: Mode) -> Compute:
    """Return ``cvt.rs`` of several packed f32, the first uppermost, with stochastic rounding."""
    wanted = mode.types[0]
    format, places = FORMATS[wanted[:-2]], _CHANCES[wanted]
    whole = np.dtype(f"u{format.bits * len(places) // 8}").type

    def compute(*raw: Any) -> Any:
        total: Any = whole(0)
        for values, taken in zip(raw, places, strict=False):
            chance = sum((raw[-1] >> np.uint32(bit) & np.uint32(1)) * 0.5 ** (n + 1) for n, bit in enumerate(taken))
            rounded = _fit(decode(values, FORMATS["f32"]), format, "rs", mode, chance)
            part = finish(encode(rounded, format), format, mode)
            total = (total << whole(format.bits)) | part.astype(whole)
        return total

    return compute


def _pair_of_bytes(mode: Mode) -> Compute:
    """Return ``cvt`` of two f16 of a register to two bytes."""
    format, source = FORMATS[mode.types[0].removesuffix("x2")], FORMATS[mode.types[1].removesuffix("x2")]

    def one(raw: Any) -> Any:
        return finish(encode(_fit(decode(raw, source), format, "rn", mode), format), format, mode)

    def compute(raw: Any) -> Any:
        low, high = halves(raw)
        return join_halves(one(low), one(high))

    return compute


def _from_bytes(mode: Mode) -> Compute:
    """Return ``cvt`` of two bytes to two f16."""
    format, source = FORMATS[mode.types[0].removesuffix("x2")], FORMATS[mode.types[1].removesuffix("x2")]

    def compute(raw: Any) -> Any:
        low, high = halves(raw, 8)
        parts = [finish(encode(decode(x, source), format), format, mode) for x in (low, high)]
        return join_halves(parts[0], parts[1])

    return compute


def _pair_of_nibbles(mode: Mode) -> Compute:
    """Return ``cvt`` of two f32 to the halves of one byte; the first operand is the upper half."""
    pair = _pair(mode)

    def compute(high: Any, low: Any) -> Any:
        both = pair(high, low)
        return ((both >> np.uint16(4)) | (both & np.uint16(0xF))).astype(np.uint8)

    return compute


def _from_nibbles(mode: Mode) -> Compute:
    """Return ``cvt`` of the halves of one byte to two f16."""
    bytes_in = _from_bytes(mode)
    return lambda raw: bytes_in(join_halves(raw & np.uint8(0xF), raw >> np.uint8(4)))


def _exponents(mode: Mode) -> Compute:
    """Return ``cvt`` of two values to powers of two: the exponents of f32 without the sign; 255 is the NaN."""
    upward, limit = mode.has("rp"), np.uint32(0xFE if mode.has("satfinite") else 0xFF)

    def one(raw: Any) -> Any:
        size = raw & np.uint32(0x7FFFFFFF)
        exponent, fraction = size >> np.uint32(23), size & np.uint32(0x7FFFFF)
        if upward:
            exponent = exponent + (np.where(exponent == 0, fraction > 0x400000, fraction != 0) & (exponent < 0xFF))
        code = np.minimum(exponent, limit)
        return np.where(size > 0x7F800000, np.uint32(0xFF), code).astype(np.uint8)

    def of_halves(raw: Any) -> Any:
        low, high = (part.astype(np.uint32) << np.uint32(16) for part in halves(raw))
        return join_halves(one(low), one(high))

    return of_halves if mode.type == "bf16x2" else lambda high, low: join_halves(one(low), one(high))


def _powers(mode: Mode) -> Compute:
    """Return ``cvt`` of two powers of two to two bf16."""

    def one(raw: Any) -> Any:
        words = np.where(raw == 0, np.uint16(0x40), raw.astype(np.uint16) << np.uint16(7))
        return np.where(raw == 0xFF, np.uint16(FORMATS["bf16"].nan), words)

    def compute(raw: Any) -> Any:
        low, high = halves(raw, 8)
        return join_halves(one(low), one(high))

    return compute


def _pack(mode: Mode) -> Compute:
    """Return ``cvt.pack``: two clamped integers, the first in the upper bits, below the low bits of a third."""
    wanted = mode.types[0]
    width, (low, high) = int(wanted[1:]), _limits(wanted)

    def one(raw: Any) -> Any:
        return np.clip(raw.view(np.int32), low, high).view(np.uint32) & np.uint32((1 << width) - 1)

    def compute(a: Any, b: Any, above: Any = None) -> Any:
        pair = (one(a) << np.uint32(width)) | one(b)
        return pair if above is None else pair | (above << np.uint32(2 * width))

    return compute


def _pairs(first: tuple[str, ...], second: tuple[str, ...]) -> str:
    return " ".join(f"{a}.{b}" for a in first for b in second)


def _narrowing() -> str:
    """Return the pairs of integer types for which clamping can have an effect."""
    pairs = []
    for target in INTEGERS:
        low, high = _limits(target)
        for source in INTEGERS:
            source_low, source_high = _limits(source)
            if source_low < low or source_high > high:
                pairs.append(f"{target}.{source}")
    return " ".join(pairs)


_WHOLE = "(.rni,.rzi,.rmi,.rpi)"

FORMS: tuple[Form, ...] = (
    form("cvt", _pairs(INTEGERS, INTEGERS), "t0 = t", _integer_to_integer),
    form("cvt.sat", _narrowing(), "t0 = t", _integer_to_integer),
    form(f"cvt{_WHOLE}{{.sat}}", _pairs(INTEGERS, ("f16", "f64")), "t0 = t", _float_to_integer),
    form(f"cvt{_WHOLE}", _pairs(_WIDE_INTEGERS, ("bf16",)), "t0 = t", _float_to_integer),
    form(f"cvt{_WHOLE}{{.ftz}}{{.sat}}", _pairs(INTEGERS, ("f32",)), "t0 = t", _float_to_integer),
    form("cvt(.rnd){.sat}", _pairs(("f16", "f64"), INTEGERS), "t0 = t", _integer_to_float),
    form("cvt(.rnd){.ftz}{.sat}", _pairs(("f32",), INTEGERS), "t0 = t", _integer_to_float),
    form("cvt(.rnd)", _pairs(("bf16",), _WIDE_INTEGERS), "t0 = t", _integer_to_float),
    form("cvt", "f32.f32 f64.f64", "t0 = t", _same),
    form("cvt{.ftz}{.sat}", "f32.f16 f64.f32", "t0 = t", _float_to_float),
    form("cvt.ftz{.sat}", "f32.f32", "t0 = t", _float_to_float),
    form("cvt.sat", "f32.f32 f64.f64", "t0 = t", _float_to_float),
    form("cvt{.rnd}", "f32.bf16", "t0 = t", _widened_bfloat),
    form("cvt{.rnd}.ftz", "f32.bf16", "t0 = t", _float_to_float),
    form("cvt{.rnd}", "f64.bf16", "t0 = t", _float_to_float),
    form("cvt{.sat}", "f16.f16 f64.f16", "t0 = t", _float_to_float),
    form(f"cvt{_WHOLE}{{.ftz}}{{.sat}}", "f32.f32", "t0 = t", _float_to_float),
    form(f"cvt{_WHOLE}{{.sat}}", "f16.f16 f64.f64", "t0 = t", _float_to_float),
    form(f"cvt{_WHOLE}", "bf16.bf16", "t0 = t", _float_to_float),
    form("cvt(.rnd){.ftz}{.sat}", "f16.f32 f32.f64", "t0 = t", _float_to_float),
    form("cvt(.rnd){.sat}", "f16.f64", "t0 = t", _float_to_float),
    form("cvt(.rnd)", "f16.bf16 bf16.f16 bf16.f64", "t0 = t", _float_to_float),
    form("cvt(.rnd){.ftz}", "bf16.f32", "t0 = t", _float_to_float),
    form("cvt(.rn,.rz){.relu}{.satfinite}", "f16.f32 bf16.f32", "t0 = t", _float_to_float),
    form("cvt(.rn,.rz){.relu}{.satfinite}", "f16x2.f32 bf16x2.f32", "t0 = t t", _pair),
    form("cvt.rs{.relu}{.satfinite}", "f16x2.f32 bf16x2.f32", "t0 = t t b32", _by_chance),
    form("cvt.rs.satfinite{.relu}", "e4m3x4.f32 e5m2x4.f32", "b32 = t* b32", _by_chance),
    form("cvt.rs.satfinite{.relu}", "e2m1x4.f32", "b16 = t* b32", _by_chance),
    form("cvt.rna{.satfinite}", "tf32.f32", "b32 = t", _tf32_away),
    form("cvt(.rn,.rz){.relu}{.satfinite}", "tf32.f32", "b32 = t", _float_to_float),
    form("cvt.rn.satfinite{.relu}", "e4m3x2.f32 e5m2x2.f32", "b16 = t t", _pair),
    form("cvt.rn.satfinite{.relu}", "e4m3x2.f16x2 e5m2x2.f16x2", "b16 = t", _pair_of_bytes),
    form("cvt.rn{.relu}", "f16x2.e4m3x2 f16x2.e5m2x2 f16x2.e2m3x2 f16x2.e3m2x2", "t0 = b16", _from_bytes),
    form("cvt.rn.satfinite{.relu}", "e2m3x2.f32 e3m2x2.f32", "b16 = t t", _pair),
    form("cvt.rn.satfinite{.relu}", "e2m1x2.f32", "b8 = t t", _pair_of_nibbles),
    form("cvt.rn{.relu}", "f16x2.e2m1x2", "t0 = b8", _from_nibbles),
    form("cvt(.rz,.rp){.satfinite}", "ue8m0x2.f32", "b16 = t t", _exponents),
    form("cvt(.rz,.rp){.satfinite}", "ue8m0x2.bf16x2", "b16 = t", _exponents),
    form("cvt.rn", "bf16x2.ue8m0x2", "t0 = b16", _powers),
    form("cvt.pack.sat", "u16.s32 s16.s32", "b32 = t t", _pack),
    form(
        "cvt.pack.sat",
        " ".join(f"{type}.s32.b32" for type in ("u8", "s8", "u4", "s4", "u2", "s2")),
        "b32 = s32 s32 b32",
        _pack,
    ),
)
