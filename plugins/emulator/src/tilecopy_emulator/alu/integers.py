"""The integer, logic and bit instructions. A signed value is passed as the unsigned integer with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .forms import Compute, Form, Mode, UndefinedResultError, form, plain

_INTEGERS = "u16 u32 u64 s16 s32 s64"
_BITS = "b16 b32 b64"


def view(raw: Any, type: str) -> Any:
    """Return unsigned integers reinterpreted as integers of a PTX type. The bits do not change."""
    return raw.view(f"{'i' if type[0] == 's' else 'u'}{int(type[1:]) // 8}")


def bits(values: Any) -> Any:
    """Return integers reinterpreted as unsigned integers. The bits do not change."""
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "i" else values


def _widen(raw: Any, type: str) -> Any:
    """Return integers of up to 32 bits as 64-bit integers."""
    return view(raw, type).astype("i8" if type[0] == "s" else "u8")


def _cut(values: Any, width: int) -> Any:
    """Return the low bits of 64-bit integers."""
    return bits(values).astype(f"u{width // 8}")


def _clamp(values: Any, type: str) -> Any:
    """Return 64-bit integers clamped to the range of a narrower type."""
    limits = np.iinfo(f"{'i' if type[0] == 's' else 'u'}{int(type[1:]) // 8}")
    return _cut(np.clip(values, limits.min, limits.max), int(type[1:]))


def _sum(sign: int) -> Callable[[Mode], Compute]:
    def build(mode: Mode) -> Compute:
        if mode.has("sat"):
            return lambda a, b: _clamp(_widen(a, mode.type) + sign * _widen(b, mode.type), mode.type)
        return (lambda a, b: a + b) if sign > 0 else (lambda a, b: a - b)

    return build


def high_half(a: Any, b: Any, type: str) -> Any:
    """Return the upper half of the product of two integers."""
    width = int(type[1:])
    if width <= 32:
        return _cut((_widen(a, type) * _widen(b, type)) >> width, width)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a_low, a_high, b_low, b_high = a & low, a >> half, b & low, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & low)
    result = a_high * b_high + (middle >> half) + (other >> half)
    if type[0] == "s":  # in the unsigned product, a negative factor is 2**64 too large
        zero = np.uint64(0)
        result = result - np.where(view(a, "s64") < 0, b, zero) - np.where(view(b, "s64") < 0, a, zero)
    return result


def _product(mode: Mode, a: Any, b: Any) -> Any:
    if mode.has("wide"):
        width = int(mode.type[1:]) * 2
        return _cut(_widen(a, mode.type) * _widen(b, mode.type), width)
    return high_half(a, b, mode.type) if mode.has("hi") else a * b


def _multiply_add(mode: Mode) -> Compute:
    if mode.has("sat"):
        return lambda a, b, c: _clamp(_widen(high_half(a, b, mode.type), mode.type) + _widen(c, mode.type), mode.type)
    return lambda a, b, c: _product(mode, a, b) + c


def _product24(mode: Mode, a: Any, b: Any) -> Any:
    """Return the low 32 bits, or with ``hi`` bits 16 to 47, of the product of the low 24 bits."""
    if mode.type == "s32":
        x, y = (((v.astype(np.int64) & 0xFFFFFF) ^ 0x800000) - 0x800000 for v in (a, b))
    else:
        x, y = ((v & np.uint32(0xFFFFFF)).astype(np.int64) for v in (a, b))
    return _cut((x * y) >> (16 if mode.has("hi") else 0), 32)


def _multiply_add24(mode: Mode) -> Compute:
    if mode.has("sat"):
        return lambda a, b, c: _clamp(_widen(_product24(mode, a, b), mode.type) + _widen(c, mode.type), mode.type)
    return lambda a, b, c: _product24(mode, a, b) + c


def _divide(remainder: bool) -> Callable[[Mode], Compute]:
    """Return division towards zero, or its remainder, which has the dividend's sign."""

    def build(mode: Mode) -> Compute:
        def compute(a: Any, b: Any) -> Any:
            a, b = np.broadcast_arrays(a, b)
            if not b.all():
                raise UndefinedResultError("integer division by zero", b == 0)
            if mode.type[0] == "u":
                return a % b if remainder else a // b
            zero = np.zeros_like(a)
            a_negative, b_negative = view(a, mode.type) < 0, view(b, mode.type) < 0
            size_a, size_b = np.where(a_negative, zero - a, a), np.where(b_negative, zero - b, b)
            if remainder:
                rest = size_a % size_b
                return np.where(a_negative, zero - rest, rest)
            quotient = size_a // size_b
            return np.where(a_negative != b_negative, zero - quotient, quotient)

        return compute

    return build


def _difference(mode: Mode) -> Compute:
    def compute(a: Any, b: Any, c: Any) -> Any:
        return c + np.where(view(a, mode.type) < view(b, mode.type), b - a, a - b)

    return compute


def extreme(largest: bool) -> Callable[[Mode], Compute]:
    """Return a function that builds the integer ``min`` or ``max`` for a :class:`Mode`."""

    def build(mode: Mode) -> Compute:
        chosen = np.maximum if largest else np.minimum

        def compute(a: Any, b: Any) -> Any:
            winner = chosen(view(a, mode.type), view(b, mode.type))
            return bits(np.maximum(winner, 0).astype(winner.dtype) if mode.has("relu") else winner)

        return compute

    return build


def halves(raw: Any, width: int = 16) -> tuple[Any, Any]:
    """Return the lower halves and the upper halves of packed registers."""
    narrow = f"u{width // 8}"
    return raw.astype(narrow), (raw >> raw.dtype.type(width)).astype(narrow)


def join_halves(low: Any, high: Any) -> Any:
    """Pack lower and upper halves into registers. This is the inverse of :func:`halves`."""
    width = low.dtype.itemsize * 8
    wide = np.dtype(f"u{width // 4}")
    return low.astype(wide) | (high.astype(wide) << wide.type(width))


def elementwise(build: Callable[[Mode], Compute]) -> Callable[[Mode], Compute]:
    """Extend ``build`` to packed ``x2`` types. The two elements of a packed register are computed separately."""

    def build_packed(mode: Mode) -> Compute:
        if not mode.type.endswith("x2"):
            return build(mode)
        types = tuple(type.removesuffix("x2") for type in mode.types)
        compute = build(Mode(types, mode.modifiers))
        width = int(types[-1].lstrip("bfsu"))

        def both(*raw: Any) -> Any:
            parts = [halves(x, width) for x in raw]
            return join_halves(compute(*(p[0] for p in parts)), compute(*(p[1] for p in parts)))

        return both

    return build_packed


def _wide_sum(a: Any, b: Any, carry: Any) -> tuple[Any, Any]:
    """Return ``a + b + carry`` and the carry out."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


def _add_carry(mode: Mode) -> Compute:
    def compute(a: Any, b: Any, carry: Any | None = None) -> Any:
        total, out = _wide_sum(a, b, np.zeros(1, bool) if carry is None else carry)
        return (total, out) if mode.has("cc") else total

    return compute


def _subtract_carry(mode: Mode) -> Compute:
    """Return ``a + ~b + carry``; the flag is the carry of this sum, so it is set without a borrow (as by ptxas)."""

    def compute(a: Any, b: Any, carry: Any | None = None) -> Any:
        total, out = _wide_sum(a, ~b, np.ones(1, bool) if carry is None else carry)
        return (total, out) if mode.has("cc") else total

    return compute


def _multiply_add_carry(mode: Mode) -> Compute:
    def compute(a: Any, b: Any, c: Any, carry: Any | None = None) -> Any:
        total, out = _wide_sum(_product(mode, a, b), c, np.zeros(1, bool) if carry is None else carry)
        return (total, out) if mode.has("cc") else total

    return compute


def _shift_left(a: Any, by: Any) -> Any:
    width = a.dtype.itemsize * 8
    inside = np.minimum(by, np.uint32(width - 1)).astype(a.dtype)
    return np.where(by >= width, a.dtype.type(0), a << inside)


def _shift_right(mode: Mode) -> Compute:
    def compute(a: Any, by: Any) -> Any:
        width = a.dtype.itemsize * 8
        inside = np.minimum(by, np.uint32(width - 1))
        if mode.type[0] == "s":
            signed = view(a, mode.type)
            return bits(signed >> inside.astype(signed.dtype))
        return np.where(by >= width, a.dtype.type(0), a >> inside.astype(a.dtype))

    return compute


def _funnel(mode: Mode) -> Compute:
    def compute(low: Any, high: Any, by: Any) -> Any:
        count = (by & np.uint32(31) if mode.has("wrap") else np.minimum(by, np.uint32(32))).astype(np.uint64)
        both = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
        if mode.has("l"):  # the upper word of both words << count
            return (both >> (np.uint64(32) - count)).astype(np.uint32)
        return (both >> count).astype(np.uint32)

    return compute


def _lop3(a: Any, b: Any, c: Any, table: Any) -> Any:
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
    code = int(table.flat[0])
    for number in range(8):
        if code >> number & 1:
            result |= (a if number & 4 else ~a) & (b if number & 2 else ~b) & (c if number & 1 else ~c)
    return result


def _lop3_predicate(mode: Mode) -> Compute:
    """Return ``lop3.or`` and ``.and``, with a second result: whether the first is nonzero, combined with a predicate."""

    def compute(a: Any, b: Any, c: Any, table: Any, q: Any) -> Any:
        result = _lop3(a, b, c, table)
        return result, (result != 0) | q if mode.has("or") else (result != 0) & q

    return compute


def _count_ones(a: Any) -> Any:
    """Return the number of set bits, summed over pairs, nibbles, bytes, then all bytes at once."""
    wide = a.astype(np.uint64)
    wide = wide - ((wide >> np.uint64(1)) & np.uint64(0x5555555555555555))
    wide = (wide & np.uint64(0x3333333333333333)) + ((wide >> np.uint64(2)) & np.uint64(0x3333333333333333))
    wide = (wide + (wide >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((wide * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint32)


def _leading_zeros(a: Any) -> Any:
    width = a.dtype.itemsize * 8
    filled = a
    for step in (1, 2, 4, 8, 16, 32):
        if step < width:
            filled = filled | (filled >> a.dtype.type(step))
    return np.uint32(width) - _count_ones(filled)


def _find(mode: Mode) -> Compute:
    def compute(a: Any) -> Any:
        significant = np.where(view(a, mode.type) < 0, ~a, a) if mode.type[0] == "s" else a
        zeros, width = _leading_zeros(significant), a.dtype.itemsize * 8
        position = zeros if mode.has("shiftamt") else np.uint32(width - 1) - zeros
        return np.where(zeros == width, np.uint32(0xFFFFFFFF), position)

    return compute


def _reverse(a: Any) -> Any:
    width = a.dtype.itemsize * 8
    result = np.zeros_like(a)
    for position in range(width):
        bit = (a >> a.dtype.type(position)) & a.dtype.type(1)
        result |= bit << a.dtype.type(width - 1 - position)
    return result


def _field(raw: Any, width: int) -> Any:
    """Return the start or the length of a bit field.

    The ISA uses their low 8 bits, and so do BFE and BFI of 32 bits. Those of 64 bits are shifts in SASS (sm_90, ptxas
    13.0; confirmed on an H200), which use all 32 bits and saturate. ptxas rejects constants above 255.
    """
    return (raw if width == 64 else raw & np.uint32(0xFF)).astype(np.int64)


def _extract(mode: Mode) -> Compute:
    """Return ``bfe``: bits ``[start, start + length)``; a signed field is extended by its top bit, or by bit 31 or 63 if it ends past it."""

    def compute(a: Any, start: Any, length: Any) -> Any:
        width = a.dtype.itemsize * 8
        at, count = _field(start, width), _field(length, width)
        inside = np.minimum(count, width)
        one = np.uint64(1)
        mask = np.where(inside >= 64, ~np.uint64(0), (one << (inside % 64).astype(np.uint64)) - one)
        big = a.astype(np.uint64)
        moved = np.where(at >= width, np.uint64(0), big >> np.minimum(at, 63).astype(np.uint64))
        result = moved & mask
        if mode.type[0] == "s":
            top = np.minimum(at + count - 1, width - 1)
            sign = (big >> np.maximum(top, 0).astype(np.uint64)) & one
            present = np.clip(width - at, 0, None)  # bits of the field that are inside the word
            kept = np.minimum(inside, present)
            high = np.where(kept >= 64, np.uint64(0), ~((one << (kept % 64).astype(np.uint64)) - one))
            result = np.where((sign != 0) & (count > 0), result | high, result)
        return result.astype(a.dtype)

    return compute


def _insert(field: Any, background: Any, start: Any, length: Any) -> Any:
    """Return ``bfi``: the background with the low ``length`` bits of a word at ``start``."""
    width = field.dtype.itemsize * 8
    at, count = _field(start, width), _field(length, width)
    one = np.uint64(1)
    low = np.where(count >= 64, ~np.uint64(0), (one << (count % 64).astype(np.uint64)) - one)
    shift = np.minimum(at, 63).astype(np.uint64)
    mask = np.where(at >= width, np.uint64(0), low << shift)
    big = background.astype(np.uint64)
    return ((big & ~mask) | ((field.astype(np.uint64) << shift) & mask)).astype(field.dtype)


def _extend_sign(mode: Mode) -> Compute:
    """Return ``szext``: the low ``n`` bits, extended by zero or by their sign."""

    def compute(a: Any, position: Any) -> Any:
        n = (position & np.uint32(31) if mode.has("wrap") else np.minimum(position, 32)).astype(np.int64)
        mask = (np.int64(1) << n) - 1
        low = a.astype(np.int64) & mask
        if mode.type == "s32":
            sign = np.where(n > 0, (low >> np.maximum(n - 1, 0)) & 1, 0)
            low = np.where(sign != 0, low | ~mask, low)
        return _cut(low, 32)

    return compute


def _bit_mask(mode: Mode) -> Compute:
    """Return ``bmsk``: ``length`` ones from bit ``start``."""

    def compute(start: Any, length: Any) -> Any:
        if mode.has("wrap"):
            at, count = start & np.uint32(31), length & np.uint32(31)
        else:
            at, count = np.minimum(start, np.uint32(32)), np.minimum(length, np.uint32(32))
        one = np.uint64(1)
        return (((one << count.astype(np.uint64)) - one) << at.astype(np.uint64)).astype(np.uint32)

    return compute


def _permute(mode: Mode) -> Compute:
    kind = mode.one_of("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")

    def compute(a: Any, b: Any, control: Any) -> Any:
        both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
        chosen = control.astype(np.int64)
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, control.shape), np.uint32)
        for position in range(4):
            selector = (chosen >> (4 * position)) & 0xF if not kind else _selector(kind, chosen & 3, position)
            byte = (both >> ((selector & 7) * 8).astype(np.uint64)).astype(np.uint32) & np.uint32(0xFF)
            if not kind:
                sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
                byte = np.where(selector & 8, sign, byte)
            result |= byte << np.uint32(8 * position)
        return result

    return compute


def _selector(kind: str, control: Any, position: int) -> Any:
    """Return the number of the byte that a special mode of ``prmt`` selects for a position."""
    if kind == "f4e":
        return control + position
    if kind == "b4e":
        return (control - position) & 7
    if kind == "rc8":
        return control
    if kind == "ecl":
        return np.maximum(control, position)
    if kind == "ecr":
        return np.minimum(control, position)
    return (control & 1) * 2 + position % 2


def _dot(parts: int) -> Callable[[Mode], Compute]:
    """Return ``dp4a`` or ``dp2a``: sums of products of bytes (or of halves and bytes) and a 32-bit word."""

    def build(mode: Mode) -> Compute:
        a_type, b_type = mode.types

        def element(raw: Any, index: int, width: int, type: str) -> Any:
            value = (raw >> np.uint32(index * width)).astype(np.int64) & ((1 << width) - 1)
            return np.where(value >> (width - 1) & 1, value - (1 << width), value) if type == "s32" else value

        def compute(a: Any, b: Any, c: Any) -> Any:
            first = 2 if mode.has("hi") else 0
            total = c.astype(np.int64)
            for index in range(parts):
                total = total + element(a, index, 32 // parts, a_type) * element(b, first + index, 8, b_type)
            return _cut(total, 32)

        return compute

    return build


def _carry_forms() -> list[Form]:
    types = "u32 s32 u64 s64"
    return [
        form("add.cc", types, "t cc = t t", _add_carry),
        form("addc", types, "t = t t cc", _add_carry),
        form("addc.cc", types, "t cc = t t cc", _add_carry),
        form("sub.cc", types, "t cc = t t", _subtract_carry),
        form("subc", types, "t = t t cc", _subtract_carry),
        form("subc.cc", types, "t cc = t t cc", _subtract_carry),
        form("mad(.hi,.lo).cc", types, "t cc = t t t", _multiply_add_carry),
        form("madc(.hi,.lo)", types, "t = t t t cc", _multiply_add_carry),
        form("madc(.hi,.lo).cc", types, "t cc = t t t cc", _multiply_add_carry),
    ]


def _nth_set(mask: Any, base: Any, offset: Any) -> Any:
    """Return ``fns``: the position of the n-th set bit, from a position upwards or (negative) downwards; all ones if there is none."""
    shape = np.broadcast_shapes(mask.shape, base.shape, offset.shape)
    mask, start = (np.broadcast_to(x, shape).astype(np.int64) for x in (mask, base))
    wanted = np.broadcast_to(offset.view(np.int32), shape).astype(np.int64)
    undefined = (start > 31) | (wanted == -(1 << 31))
    if undefined.any():
        got = f"got a base of {start[undefined][0]} and an offset of {wanted[undefined][0]}"
        raise UndefinedResultError(f"fns must have a base up to 31 and an offset above -2147483648, {got}", undefined)
    position, remaining = np.full(shape, -1, np.int64), np.maximum(np.abs(wanted), 1)
    for distance in range(32):
        place = start + distance * np.sign(wanted)
        here = (place >= 0) & (place < 32) & ((mask >> (place & 31)) & 1 != 0) & ((wanted != 0) | (distance == 0))
        remaining = remaining - here
        position = np.where(here & (remaining == 0) & (position < 0), place, position)
    return position.astype(np.uint32)


FORMS: tuple[Form, ...] = (
    form("fns", "b32", "t = t t s32", plain(_nth_set)),
    form("add", f"{_INTEGERS} u16x2 s16x2", "t = t t", elementwise(_sum(1))),
    form("add.sat", "s32", "t = t t", _sum(1)),
    form("sub", _INTEGERS, "t = t t", _sum(-1)),
    form("sub.sat", "s32", "t = t t", _sum(-1)),
    form("mul(.hi,.lo)", _INTEGERS, "t = t t", lambda mode: lambda a, b: _product(mode, a, b)),
    form("mul.wide", "u16 u32 s16 s32", "w = t t", lambda mode: lambda a, b: _product(mode, a, b)),
    form("mad(.hi,.lo)", _INTEGERS, "t = t t t", _multiply_add),
    form("mad.wide", "u16 u32 s16 s32", "w = t t w", _multiply_add),
    form("mad.hi.sat", "s32", "t = t t t", _multiply_add),
    form("mul24(.hi,.lo)", "u32 s32", "t = t t", lambda mode: lambda a, b: _product24(mode, a, b)),
    form("mad24(.hi,.lo)", "u32 s32", "t = t t t", _multiply_add24),
    form("mad24.hi.sat", "s32", "t = t t t", _multiply_add24),
    form("sad", _INTEGERS, "t = t t t", _difference),
    form("div", _INTEGERS, "t = t t", _divide(remainder=False)),
    form("rem", _INTEGERS, "t = t t", _divide(remainder=True)),
    form("abs", "s16 s32 s64", "t = t", lambda mode: lambda a: np.where(view(a, mode.type) < 0, -a, a)),
    form("neg", "s16 s32 s64", "t = t", plain(lambda a: np.zeros_like(a) - a)),
    form("min", f"{_INTEGERS} u16x2 s16x2", "t = t t", elementwise(extreme(largest=False))),
    form("max", f"{_INTEGERS} u16x2 s16x2", "t = t t", elementwise(extreme(largest=True))),
    form("min.relu", "s32 s16x2", "t = t t", elementwise(extreme(largest=False))),
    form("max.relu", "s32 s16x2", "t = t t", elementwise(extreme(largest=True))),
    *_carry_forms(),
    form("and", f"{_BITS} pred", "t = t t", plain(lambda a, b: a & b)),
    form("or", f"{_BITS} pred", "t = t t", plain(lambda a, b: a | b)),
    form("xor", f"{_BITS} pred", "t = t t", plain(lambda a, b: a ^ b)),
    form("not", f"{_BITS} pred", "t = t", plain(lambda a: ~a)),
    form("cnot", _BITS, "t = t", plain(lambda a: (a == 0).astype(a.dtype))),
    form("lop3", "b32", "t = t t t u32!", plain(_lop3)),
    form("lop3(.or,.and)", "b32", "t pred = t t t u32! pred", _lop3_predicate),
    form("shl", _BITS, "t = t u32", plain(_shift_left)),
    form("shr", f"{_BITS} {_INTEGERS}", "t = t u32", _shift_right),
    form("shf(.l,.r)(.clamp,.wrap)", "b32", "t = t t u32", _funnel),
    form("popc", "b32 b64", "u32 = t", plain(_count_ones)),
    form("clz", "b32 b64", "u32 = t", plain(_leading_zeros)),
    form("bfind{.shiftamt}", "u32 u64 s32 s64", "u32 = t", _find),
    form("brev", "b32 b64", "t = t", plain(_reverse)),
    form("bfe", "u32 u64 s32 s64", "t = t u32 u32", _extract),
    form("bfi", "b32 b64", "t = t t u32 u32", plain(_insert)),
    form("szext(.clamp,.wrap)", "u32 s32", "t = t u32", _extend_sign),
    form("bmsk(.clamp,.wrap)", "b32", "t = u32 u32", _bit_mask),
    form("prmt{.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", "b32", "t = t t u32", _permute),
    form("dp4a", "u32.u32 u32.s32 s32.u32 s32.s32", "u32 = u32 u32 u32", _dot(4)),
    form("dp2a(.lo,.hi)", "u32.u32 u32.s32 s32.u32 s32.s32", "u32 = u32 u32 u32", _dot(2)),
)
