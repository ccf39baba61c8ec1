"""Arithmetic of PTX on single numbers, written from the ISA with Python's integers and fractions.

Where the ISA leaves bits open or hardware does otherwise, an H200 decides (driver 580.159, sm_90): NaNs of f64, fields of 64-bit
words, ``testp.normal`` of zeros, ``.ftz`` of conversions. It shares nothing with the emulator: the tests compare the two.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

from .single_instructions import width_of

INF, NAN = "inf", "nan"
FORMATS = {  # fraction bits, exponent bits, canonical NaN
    "f16": (10, 5, 0x7FFF),
    "bf16": (7, 8, 0x7FFF),
    "f32": (23, 8, 0x7FFFFFFF),
    "f64": (52, 11, 0xFFF8000000000000),
    "tf32": (10, 8, 0x7FFFE000),
    "e4m3": (3, 4, 0x7F),
    "e5m2": (2, 5, 0x7F),
    "e2m3": (3, 2, 0x1F),
    "e3m2": (2, 3, 0x1F),
    "e2m1": (1, 2, 0x7),
}
ALL_FINITE = ("e2m3", "e3m2", "e2m1")


class Float:
    """A decoded number: sign, and a fraction, INF or NAN."""

    def __init__(self, sign: int, size: Fraction | str) -> None:
        self.sign, self.size = sign, size

    @property
    def nan(self) -> bool:
        return self.size == NAN

    @property
    def inf(self) -> bool:
        return self.size == INF

    @property
    def value(self):
        return math.inf * (-1 if self.sign else 1) if self.inf else (-self.size if self.sign else self.size)


def decode(bits: int, type: str) -> Float:
    fraction_bits, exponent_bits, _ = FORMATS[type]
    if type == "tf32":
        return decode(bits, "f32")
    if type in ALL_FINITE:  # the bits above are not looked at
        bits &= (2 << (fraction_bits + exponent_bits)) - 1
    sign = bits >> (fraction_bits + exponent_bits)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    top, bias = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    if type == "e4m3" and exponent == top and fraction == 7:
        return Float(sign, NAN)
    if type != "e4m3" and type not in ALL_FINITE and exponent == top:
        return Float(sign, NAN if fraction else INF)
    if exponent == 0:
        return Float(sign, Fraction(fraction) * Fraction(2) ** (1 - bias - fraction_bits))
    return Float(sign, Fraction(fraction + (1 << fraction_bits)) * Fraction(2) ** (exponent - bias - fraction_bits))


def whole(size: Fraction, sign: int, direction: str | Fraction) -> int:
    """A positive number of a sign rounded to an integer; by chance where the direction is what is added before the cut."""
    low, rest = divmod(size, 1)
    if isinstance(direction, Fraction):
        return low + (rest + direction >= 1)
    if direction == "rn":
        return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2))
    if direction == "rna":
        return low + (rest >= Fraction(1, 2))
    away = (direction == "rm" and sign) or (direction == "rp" and not sign)
    return low + (1 if away and rest else 0)


def encode(
    number: Float, type: str, direction: str | Fraction = "rn", *, finite: bool = False, ftz: bool = False
) -> int:
    fraction_bits, exponent_bits, nan = FORMATS[type]
    if number.nan:
        return nan
    base = "f32" if type == "tf32" else type
    all_fraction_bits = FORMATS[base][0]
    top, bias = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    largest = 0x7E if type == "e4m3" else nan if type in ALL_FINITE else (top << fraction_bits) - 1
    scale = all_fraction_bits - fraction_bits
    sign_bit = number.sign << (all_fraction_bits + exponent_bits)
    infinity = None if type in ("e4m3", *ALL_FINITE) else top << fraction_bits
    if number.inf:
        return (largest if finite or infinity is None else infinity) << scale | sign_bit
    size = number.size
    if size == 0:
        return sign_bit
    exponent = 1 - bias
    if ftz and size < Fraction(2) ** exponent:  # tiny also after rounding with no bound on exponents
        while size < Fraction(2) ** exponent:
            exponent -= 1
        units = whole(size / Fraction(2) ** (exponent - fraction_bits), number.sign, direction)
        reached = units * Fraction(2) ** (exponent - fraction_bits)
        return (1 << fraction_bits if reached >= Fraction(2) ** (1 - bias) else 0) << scale | sign_bit
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1 if size < Fraction(2) ** (exponent + 32) else 31
    units = whole(size / Fraction(2) ** (exponent - fraction_bits), number.sign, direction)
    bits = units if exponent == 1 - bias else units + ((exponent + bias - 1) << fraction_bits)
    if bits > largest:
        to_finite = direction == "rz" or (direction == "rm" and not number.sign) or (direction == "rp" and number.sign)
        bits = largest if finite or to_finite or infinity is None else infinity
    return bits << scale | sign_bit


def flush(bits: int, type: str) -> int:
    fraction_bits, exponent_bits, _ = FORMATS[type]
    if bits >> fraction_bits & ((1 << exponent_bits) - 1) == 0:
        return bits >> (fraction_bits + exponent_bits) << (fraction_bits + exponent_bits)
    return bits


def of_value(value: Fraction, zero_sign: int) -> Float:
    return Float(zero_sign if value == 0 else int(value < 0), abs(value))


def add(a: Float, b: Float, direction: str) -> Float:
    if a.nan or b.nan or (a.inf and b.inf and a.sign != b.sign):
        return Float(0, NAN)
    if a.inf or b.inf:
        return a if a.inf else b
    zero_sign = a.sign if a.sign == b.sign else int(direction == "rm")
    return of_value(a.value + b.value, zero_sign)


def multiply(a: Float, b: Float) -> Float:
    sign = a.sign ^ b.sign
    if a.nan or b.nan or (a.inf and b.size == 0) or (b.inf and a.size == 0):
        return Float(0, NAN)
    return Float(sign, INF if a.inf or b.inf else a.size * b.size)


def divide(a: Float, b: Float) -> Float:
    sign = a.sign ^ b.sign
    if a.nan or b.nan or (a.inf and b.inf) or (a.size == 0 and b.size == 0):
        return Float(0, NAN)
    if a.inf or b.size == 0:
        return Float(sign, INF)
    return Float(sign, Fraction(0) if b.inf else a.size / b.size)


def root(a: Float) -> Float:
    if a.nan or a.size == 0 or (a.inf and not a.sign):
        return a
    if a.sign:
        return Float(0, NAN)
    context = Context(prec=200, Emin=-99999, Emax=99999)
    exact = context.divide(Decimal(a.size.numerator), Decimal(a.size.denominator))
    found = Fraction(exact.sqrt(context))
    scaled = Fraction(math.isqrt(a.size.numerator * a.size.denominator), a.size.denominator)
    return Float(0, scaled if scaled * scaled == a.size else found)


def float_operation(name: str, type: str, modifiers: frozenset, operands: list[int]) -> int:
    direction = next((d for d in ("rz", "rm", "rp") if d in modifiers), "rn")
    if "ftz" in modifiers:
        operands = [flush(x, type) for x in operands]
    x = [decode(bits, type) for bits in operands]
    if name == "sub" and not x[1].nan:
        x[1] = Float(1 - x[1].sign, x[1].size)
    if name in ("add", "sub"):
        result = add(x[0], x[1], direction)
    elif name == "mul":
        result = multiply(x[0], x[1])
    elif "oob" in modifiers and 0x7FF7 in (operands[0] & 0x7FFF, operands[1] & 0x7FFF):
        return 0
    elif name in ("fma", "mad"):
        result = add(multiply(x[0], x[1]), x[2], direction)
    elif name in ("div", "rcp"):
        result = divide(x[0], x[1]) if name == "div" else divide(Float(0, Fraction(1)), x[0])
    else:
        result = root(x[0])
    if result.nan and type == "f64":
        quiet = [bits | 1 << 51 for bits, number in zip(operands, x, strict=True) if number.nan]
        if name in ("fma", "mad") and x[1].nan:  # the second factor's goes before the addend's, as on an H200
            return operands[1] | 1 << 51
        if quiet:  # of two NaNs a division gives the first, the other units give the last
            return quiet[0] if name == "div" else quiet[-1]
        return FORMATS[type][2]
    return finish(encode(result, type, direction, ftz="ftz" in modifiers), type, modifiers)


def finish(bits: int, type: str, modifiers: frozenset) -> int:
    number = decode(bits, type)
    if "sat" in modifiers:
        if number.nan or number.sign:
            return 0
        return min(bits, encode(Float(0, Fraction(1)), type))
    if "relu" in modifiers and number.sign and not number.nan:
        return 0
    return bits


def extreme(name: str, type: str, modifiers: frozenset, operands: list[int]) -> int:
    if "ftz" in modifiers:
        operands = [flush(x, type) for x in operands]
    width = width_of(type)
    signs = 0
    if "xorsign" in modifiers:
        signs = (operands[0] ^ operands[1]) >> (width - 1) << (width - 1)
        operands = [x & ~(1 << (width - 1)) for x in operands]
    numbers = [(bits, decode(bits, type)) for bits in operands]
    if type == "f64" and all(n.nan for _, n in numbers):
        return operands[1] | 1 << 51
    if any(n.nan for _, n in numbers) and ("NaN" in modifiers or all(n.nan for _, n in numbers)):
        return FORMATS[type][2]
    candidates = [(n.value, 0 if n.sign else 1, bits) for bits, n in numbers if not n.nan]
    return (max if name == "max" else min)(candidates)[2] | signs


def compare(name: str, type: str, modifiers: frozenset, a: int, b: int) -> bool:
    names = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
    if type in FORMATS:
        if "ftz" in modifiers:
            a, b = flush(a, type), flush(b, type)
        x, y = decode(a, type), decode(b, type)
        if name in ("num", "nan"):
            return (x.nan or y.nan) == (name == "nan")
        if x.nan or y.nan:
            return name in ("equ", "neu", "ltu", "leu", "gtu", "geu")
        left, right = x.value, y.value
        name = name[:2]
    else:
        left, right = signed(a, type), signed(b, type)
        name = names.get(name, name)
    return {
        "eq": left == right,
        "ne": left != right,
        "lt": left < right,
        "le": left <= right,
        "gt": left > right,
        "ge": left >= right,
    }[name]


def signed(bits: int, type: str) -> int:
    width = width_of(type)
    return bits - (1 << width) if type[0] == "s" and bits >> (width - 1) else bits


COMPARISONS = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "lo",
    "ls",
    "hi",
    "hs",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
)


def truth(name: str, type: str, modifiers: frozenset, operands: list[int]) -> tuple[bool, bool]:
    kind = next(part for part in COMPARISONS if part in modifiers)
    result = compare(kind, type, modifiers, operands[0], operands[1])
    both = []
    third = bool(operands[2]) if len(operands) > 2 else None
    for found in (result, not result):
        combined = found
        if "and" in modifiers:
            combined = found and third
        elif "or" in modifiers:
            combined = found or third
        elif "xor" in modifiers:
            combined = found != third
        both.append(bool(combined))
    return both[0], both[1]


def integer(name: str, type: str, modifiers: frozenset, operands: list[int]) -> list[int]:
    """Integer instructions whose operands are all of one type (but for shift counts)."""
    width = width_of(type)
    mask = (1 << width) - 1
    a, *rest = operands
    x = [signed(bits, type) for bits in operands]

    def clamp(value: int) -> int:
        return max(-(1 << (width - 1)), min((1 << (width - 1)) - 1, value))

    def product(p: int, q: int) -> int:
        if "wide" in modifiers:
            return p * q
        return p * q >> width if "hi" in modifiers else p * q

    if name in ("add", "sub"):
        value = x[0] + x[1] if name == "add" else x[0] - x[1]
        value = clamp(value) if "sat" in modifiers else value
        if "cc" in modifiers:
            carry = (operands[0] + operands[1]) >> width if name == "add" else int(operands[0] < operands[1])
            return [value & mask, carry if name == "add" else (0xFFFFFFFF if carry else 0)]
        return [value & mask]
    if name in ("addc", "subc", "madc"):
        carry = operands[-1] & 1
        if name == "madc":
            total = (product(x[0], x[1]) & mask) + operands[2] + carry
        else:
            total = operands[0] + operands[1] + carry if name == "addc" else operands[0] - operands[1] - carry
        out = total >> width & 1 if name != "subc" else (0xFFFFFFFF if total < 0 else 0)
        return [total & mask, out] if "cc" in modifiers else [total & mask]
    if name == "mul":
        return [product(x[0], x[1]) & (mask if "wide" not in modifiers else (1 << 2 * width) - 1)]
    if name == "mad":
        if "wide" in modifiers:
            return [(x[0] * x[1] + operands[2]) & ((1 << 2 * width) - 1)]
        if "sat" in modifiers:
            return [clamp(product(x[0], x[1]) + x[2]) & mask]
        if "cc" in modifiers:
            total = (product(x[0], x[1]) & mask) + operands[2]
            return [total & mask, total >> width]
        return [(product(x[0], x[1]) + x[2]) & mask]
    if name in ("mul24", "mad24"):

        def low24(bits: int) -> int:
            bits &= 0xFFFFFF
            return bits - (1 << 24) if type == "s32" and bits >> 23 else bits

        value = low24(operands[0]) * low24(operands[1]) >> (16 if "hi" in modifiers else 0)
        value &= 0xFFFFFFFF
        if name == "mad24":
            total = signed(value, type) + x[2]
            value = clamp(total) if "sat" in modifiers else total
        return [value & mask]
    if name == "sad":
        return [(operands[2] + abs(x[0] - x[1])) & mask]
    if name in ("div", "rem"):
        quotient = abs(x[0]) // abs(x[1]) * (1 if (x[0] < 0) == (x[1] < 0) else -1)
        return [(quotient if name == "div" else x[0] - quotient * x[1]) & mask]
    if name in ("abs", "neg"):
        return [(abs(x[0]) if name == "abs" else -x[0]) & mask]
    if name in ("min", "max"):
        value = (min if name == "min" else max)(x)
        return [(max(value, 0) if "relu" in modifiers else value) & mask]
    if name in ("and", "or", "xor"):
        return [{"and": a & rest[0], "or": a | rest[0], "xor": a ^ rest[0]}[name]] if rest else [a]
    if name == "not":
        return [~a & mask]
    if name == "cnot":
        return [int(a == 0)]
    if name == "shl":
        return [a << rest[0] & mask if rest[0] < width else 0]
    if name == "shr":
        return [x[0] >> min(rest[0], width) & mask]
    if name == "popc":
        return [bin(a).count("1")]
    if name == "clz":
        return [width - a.bit_length()]
    if name == "brev":
        return [int(f"{a:0{width}b}"[::-1], 2)]
    if name == "bfind":
        value = ~x[0] if x[0] < 0 else x[0]
        top = value.bit_length() - 1
        return [0xFFFFFFFF if top < 0 else (width - 1 - top if "shiftamt" in modifiers else top)]
    if name == "bfe":
        start, length = (x if width == 64 else x & 0xFF for x in rest)
        sign = 0 if type[0] == "u" or length == 0 else a >> min(start + length - 1, width - 1) & 1
        bit = [(a >> start + i & 1) if i < length and start + i < width else sign for i in range(width)]
        return [sum(b << i for i, b in enumerate(bit))]
    if name == "bfi":
        b, start, length = operands[1], *(x if width == 64 else x & 0xFF for x in operands[2:])
        for i in range(min(length, width)):
            if start + i < width:
                b = b & ~(1 << start + i) | (a >> i & 1) << start + i
        return [b]
    raise AssertionError(name)


def bits32(name: str, types: tuple[str, ...], modifiers: frozenset, operands: list[int]) -> list[int]:
    """The instructions of 32-bit words that are not in :func:`integer`."""
    a, b, c = (*operands, 0, 0)[:3]
    if name == "lop3":
        table = operands[3]
        word = sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))
        if "or" in modifiers or "and" in modifiers:
            return [word, int(word != 0 or operands[4]) if "or" in modifiers else int(word != 0 and operands[4])]
        return [word]
    if name == "shf":
        count = c & 31 if "wrap" in modifiers else min(c, 32)
        both = b << 32 | a
        return [(both << count >> 32 if "l" in modifiers else both >> count) & 0xFFFFFFFF]
    if name == "szext":
        n = b & 31 if "wrap" in modifiers else min(b, 32)
        low = a & ((1 << n) - 1)
        return [(low - (1 << n) if types[0] == "s32" and n and low >> n - 1 else low) & 0xFFFFFFFF]
    if name == "bmsk":
        at, count = (a & 31, b & 31) if "wrap" in modifiers else (min(a, 32), min(b, 32))
        return [((1 << count) - 1) << at & 0xFFFFFFFF]
    if name == "prmt":
        by = list(a.to_bytes(4, "little") + b.to_bytes(4, "little"))
        n = c & 3
        tables = {
            "f4e": [n, n + 1, n + 2, n + 3],
            "b4e": [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
            "rc8": [n] * 4,
            "ecl": [max(n, i) for i in range(4)],
            "ecr": [min(n, i) for i in range(4)],
            "rc16": [0, 1, 0, 1] if n % 2 == 0 else [2, 3, 2, 3],
        }
        kind = next((k for k in tables if k in modifiers), "")
        if kind:
            return [int.from_bytes(bytes(by[i] for i in tables[kind]), "little")]
        out = []
        for i in range(4):
            s = c >> 4 * i & 15
            byte = by[s & 7]
            out.append((0xFF if byte & 0x80 else 0) if s & 8 else byte)
        return [int.from_bytes(bytes(out), "little")]
    parts, first = (4, 0) if name == "dp4a" else (2, 2 if "hi" in modifiers else 0)
    total = c
    for i in range(parts):
        each = 32 // parts
        p = signed(a >> i * each & ((1 << each) - 1), f"{types[0][0]}{each}")
        q = signed(b >> (first + i) * 8 & 0xFF, f"{types[1][0]}8")
        total += p * q
    return [total & 0xFFFFFFFF]


def by_chance(wanted: str, modifiers: frozenset, operands: list[int]) -> int:
    """``cvt.rs``: what each operand takes of the random bits, written as text, the heaviest first."""
    one, found = wanted[:-2], 0
    width = 4 if one == "e2m1" else width_of(one)
    bits = f"{operands[-1]:032b}"
    high, low = bits[:16], bits[16:]
    if one == "e2m1":  # bytes 3 and 1, and bytes 2 and 0
        high, low = bits[:8] + bits[16:24], bits[8:16] + bits[24:]
    if wanted.endswith("x4"):
        taken = [high[::-1], high, low[::-1], low]
    else:
        taken = [high[3:], low[3:]] if one == "f16" else [high, low]
    for bits_here, operand in zip(taken, operands, strict=False):
        chance = Fraction(int(bits_here, 2), 1 << len(bits_here))
        part = encode(decode(operand, "f32"), one, chance, finite="satfinite" in modifiers)
        found = found << width | finish(part, one, modifiers)
    return found


def convert(types: tuple[str, ...], modifiers: frozenset, operands: list[int]) -> list[int]:
    if "pack" in modifiers:
        return [pack(types[0], operands)]
    wanted, held = types
    if "ue8m0x2" in types:
        return [powers(wanted, held, modifiers, operands)]
    if "rs" in modifiers:
        return [by_chance(wanted, modifiers, operands)]
    direction = next((d for d in ("rz", "rm", "rp", "rna") if d in modifiers), "rn")
    to_whole = next((d for d in ("rni", "rzi", "rmi", "rpi") if d in modifiers), "")
    finite = "satfinite" in modifiers
    if wanted.endswith("x2") and held == "f32":
        one = wanted.removesuffix("x2")
        high, low = (finish(encode(decode(x, "f32"), one, direction, finite=finite), one, modifiers) for x in operands)
        return [high << (4 if one == "e2m1" else width_of(one)) | low]
    if wanted.endswith("x2") and held.endswith("x2"):
        one, other = wanted.removesuffix("x2"), held.removesuffix("x2")
        each = 4 if other == "e2m1" else width_of(other)
        parts = [operands[0] >> i * each & ((1 << each) - 1) for i in (0, 1)]
        low, high = (finish(encode(decode(x, other), one, "rn", finite=finite), one, modifiers) for x in parts)
        return [high << width_of(one) | low]
    bits = operands[0]
    if held not in FORMATS and wanted not in FORMATS:
        value, width = signed(bits, held), width_of(wanted)
        if "sat" in modifiers:
            low, high = (0, (1 << width) - 1) if wanted[0] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
            value = max(low, min(high, value))
        return [value & ((1 << width) - 1)]
    if held not in FORMATS:
        value = signed(bits, held)
        return [finish(encode(Float(int(value < 0), Fraction(abs(value))), wanted, direction), wanted, modifiers)]
    if "ftz" in modifiers and held == "f32" and wanted != "f16":
        bits = flush(bits, held)
        if wanted == "f64" and decode(bits, held).nan:
            bits = FORMATS[held][2]
    number = decode(bits, held)
    if wanted not in FORMATS:
        width = width_of(wanted)
        low, high = (0, (1 << width) - 1) if wanted[0] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
        if number.nan:
            return [1 << (width - 1) if held == "f64" or width == 64 else 0]
        if number.inf:
            value = low if number.sign else high
        else:
            value = whole(number.size, number.sign, to_whole[:2]) * (-1 if number.sign else 1)
        return [max(low, min(high, value)) & ((1 << width) - 1)]
    if to_whole and not number.nan and not number.inf:
        number = Float(number.sign, Fraction(whole(number.size, number.sign, to_whole[:2])))
    if wanted == held and wanted != "f16" and not to_whole and not modifiers:
        return [bits]
    if wanted == "f32" and held == "bf16" and "ftz" not in modifiers:
        return [bits << 16]
    if "f64" in (wanted, held) and number.nan and "sat" not in modifiers:
        fraction = f"{bits & ((1 << FORMATS[held][0]) - 1):0{FORMATS[held][0]}b}".ljust(52, "0")[: FORMATS[wanted][0]]
        return [int(f"{number.sign}{'1' * FORMATS[wanted][1]}1{fraction[1:]}", 2)]
    if wanted == "tf32" and direction == "rna" and number.nan:
        bits &= 0xFFFFE000
        return [bits - 0x2000 if finite else bits]
    if wanted == "tf32" and finite and number.inf and direction == "rna":
        return [(bits & 0xFFFFE000) - 0x2000]
    ftz = "ftz" in modifiers and wanted == "f32"
    if ftz and held == "f64" and number.size == Fraction(2) ** -126 * (1 - Fraction(2) ** -24):
        ftz = direction != (
            "rm" if number.sign else "rp"
        )  # exactly here what is rounded away from zero is not yet tiny
    return [finish(encode(number, wanted, direction, finite=finite, ftz=ftz), wanted, modifiers)]


def pack(type: str, operands: list[int]) -> int:
    width = int(type[1:])
    least, most = (0, (1 << width) - 1) if type[0] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    bits = "".join(f"{max(least, min(most, signed(x, 's32'))) & ((1 << width) - 1):0{width}b}" for x in operands[:2])
    above = f"{operands[2]:032b}" if operands[2:] else ""
    return int((above + bits)[-32:], 2)


def powers(wanted: str, held: str, modifiers: frozenset, operands: list[int]) -> int:
    """Pairs of powers of two between 2**-127 and 2**127, from magnitudes and to bf16."""
    if held == "ue8m0x2":
        found = [operands[0] >> 8 * i & 0xFF for i in (1, 0)]
        high, low = (encode(Float(0, NAN if x == 255 else Fraction(2) ** (x - 127)), "bf16") for x in found)
        return high << 16 | low
    parts = operands if held == "f32" else [operands[0] >> 16, operands[0] & 0xFFFF]
    found = []
    for number in (decode(x, held.removesuffix("x2")) for x in parts):
        if number.nan:
            found.append(255)
            continue
        exponent = -127
        while not number.inf and Fraction(2) ** exponent < number.size and exponent < 128:
            exponent += 1
        if "rz" in modifiers and not number.inf and exponent > -127 and Fraction(2) ** exponent != number.size:
            exponent -= 1
        found.append(min(255 if number.inf else exponent + 127, 254 if "satfinite" in modifiers else 255))
    return found[0] << 8 | found[1]


def fns(mask: int, base: int, offset: int) -> int:
    at, step = base, 1 if offset > 0 else -1
    if offset == 0:
        return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
    left = abs(offset)
    while 0 <= at < 32:
        left -= mask >> at & 1
        if left == 0:
            return at
        at += step
    return 0xFFFFFFFF


def halves(x: int) -> tuple[int, int]:
    return x & 0xFFFF, x >> 16


VIDEO = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset")


def video(
    name: str, types: tuple[str, ...], modifiers: frozenset, operands: list[int], marks: dict | None = None
) -> int:
    """A scalar video instruction, as the pseudocode of the PTX ISA; ``marks``: of operands, such as ``-b2``."""
    marks = marks or {}
    result, of_a, of_b = ("u32", *types) if name == "vset" else types

    def part(position: int, type: str) -> int:
        mark = marks.get(position, "").lstrip("-")
        width = {"b": 8, "h": 16}.get(mark[:1], 32)
        return signed(operands[position - 1] >> int(mark[1:] or 0) * width & ((1 << width) - 1), f"{type[0]}{width}")

    def clamp(value: int, is_signed: bool, width: int) -> int:
        low = -(1 << (width - 1)) if is_signed else 0
        return max(low, min(value, low + (1 << width) - 1))

    a, b = part(1, of_a), part(2, of_b)
    if name == "vmad":
        minus = [marks.get(position, "")[:1] == "-" for position in range(4)]
        is_signed = "s32" in (of_a, of_b) or minus[1] != minus[2] or minus[3]
        c = signed(operands[2], "s32") if is_signed else operands[2]
        value = a * b * (-1 if minus[1] != minus[2] else 1) + c * (-1 if minus[3] else 1) + ("po" in modifiers)
        value >>= 7 if "shr7" in modifiers else 15 if "shr15" in modifiers else 0
        return (clamp(value, is_signed, 32) if "sat" in modifiers else value) & 0xFFFFFFFF
    if name in ("vshl", "vshr"):
        b = min(b, 32) if "clamp" in modifiers else b & 31
    value = {
        "vadd": lambda: a + b, "vsub": lambda: a - b, "vabsdiff": lambda: abs(a - b), "vmin": lambda: min(a, b), "vmax": lambda: max(a, b),
        "vshl": lambda: ((a << b) + (1 << 33)) % (1 << 34) - (1 << 33), "vshr": lambda: a >> b,
        "vset": lambda: int({"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[min(modifiers - {"add", "min", "max"})]),
    }[name]()  # fmt: skip
    into = marks.get(0, "")
    width = {"b": 8, "h": 16}.get(into[:1], 32)
    if "sat" in modifiers:
        value = clamp(value, result == "s32", width)
    c = signed(operands[2], result) if len(operands) > 2 else 0
    value = (
        value + c
        if "add" in modifiers
        else min(value, c)
        if "min" in modifiers
        else max(value, c)
        if "max" in modifiers
        else value
    )
    if into:
        shift, mask = int(into[1:]) * width, (1 << width) - 1
        value = (value & mask) << shift | c & ~(mask << shift)
    return value & 0xFFFFFFFF


def evaluate(name: str, types: tuple[str, ...], modifiers: frozenset, operands: list[int]) -> list[int]:
    """The results of an instruction that is exact."""
    type = types[-1]
    if name == "fns":
        return [fns(operands[0], operands[1], signed(operands[2], "s32"))]
    if name == "cvt":
        return convert(types, modifiers, operands)
    if name in ("add", "sub", "fma") and len(types) == 2:
        wide = [encode(decode(x, type), "f32") for x in operands[:-1]]
        return [float_operation(name, "f32", modifiers, [*wide, operands[-1]])]
    if name == "selp":
        return [operands[0] if operands[2] else operands[1]]
    if name == "slct":
        if type == "s32":
            return [operands[0] if signed(operands[2], "s32") >= 0 else operands[1]]
        number = decode(flush(operands[2], "f32") if "ftz" in modifiers else operands[2], "f32")
        return [operands[0] if not number.nan and number.value >= 0 else operands[1]]
    if name in ("setp", "set") and type.endswith("x2"):
        one = type.removesuffix("x2")
        found = [
            truth(name, one, modifiers, [a, b, *operands[2:]])[0]
            for a, b in zip(halves(operands[0]), halves(operands[1]), strict=True)
        ]
        if name == "setp":
            return [int(x) for x in found]
        result = types[0].removesuffix("x2")
        true = encode(Float(0, Fraction(1)), result) if result in FORMATS else 0xFFFF
        return [(true if found[0] else 0) | (true if found[1] else 0) << 16]
    if name == "setp":
        return [int(x) for x in truth(name, type, modifiers, operands)]
    if name == "set":
        result = types[0]
        true = encode(Float(0, Fraction(1)), result) if result in FORMATS else (1 << width_of(result)) - 1
        return [true if truth(name, type, modifiers, operands)[0] else 0]
    if type.endswith("x2"):
        one = type.removesuffix("x2")
        each = width_of(one)
        parts = [[x >> i * each & ((1 << each) - 1) for x in operands] for i in (0, 1)]
        low, high = (evaluate(name, (one,), modifiers, part)[0] for part in parts)
        return [high << each | low]
    if name in VIDEO:
        return [video(name, types, modifiers, operands)]
    if name in ("lop3", "shf", "szext", "bmsk", "prmt", "dp4a", "dp2a"):
        return bits32(name, types, modifiers, operands)
    if type == "pred":
        return [integer(name, "b1" if False else "u8", modifiers, operands)[0] & 1]
    if type not in FORMATS:
        return integer(name, type, modifiers, operands)
    width = width_of(type)
    if name in ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"):
        return [float_operation(name, type, modifiers, operands)]
    if name in ("min", "max"):
        return [extreme(name, type, modifiers, operands)]
    top = 1 << (width - 1)
    if name in ("neg", "abs"):
        bits = flush(operands[0], type) if "ftz" in modifiers else operands[0]
        if decode(bits, type).nan:
            return [bits | 1 << 51 if type == "f64" else FORMATS[type][2]]
        return [bits ^ top if name == "neg" else bits & ~top]
    if name == "copysign":
        return [operands[0] & top | operands[1] & ~top]
    assert name == "testp"
    number = decode(operands[0], type)
    fraction_bits, exponent_bits, _ = FORMATS[type]
    exponent = operands[0] >> fraction_bits & ((1 << exponent_bits) - 1)
    plain = not number.nan and not number.inf
    kind = next(iter(modifiers))
    return [
        int(
            {
                "finite": plain,
                "infinite": number.inf,
                "number": not number.nan,
                "notanumber": number.nan,
                "normal": plain and (exponent != 0 or number.size == 0),
                "subnormal": exponent == 0 and number.size != 0,
            }[kind]
        )
    ]


def reduced(bits: int) -> float:
    """The angle whose sine and cosine hardware gives: a turn's part of the f32 product with 1 / 2 pi, rounded towards zero."""
    x, factor = decode(bits, "f32"), decode(0x3E22F983, "f32")
    turns = decode(encode(multiply(x, factor), "f32", "rz"), "f32").value
    return 2 * math.pi * float(abs(turns) % 1) * (-1 if x.sign else 1)


def approximation(name: str, operands: list[float]) -> float:
    """The true value of a function that hardware only approximates, as near as a double gets."""
    x = operands[0]
    try:
        return {
            "ex2": lambda: 2.0**x,
            "lg2": lambda: math.log2(x) if x else -math.inf,
            "sin": lambda: math.sin(x),
            "cos": lambda: math.cos(x),
            "tanh": lambda: math.tanh(x),
            "rcp": lambda: 1.0 / x if x else math.copysign(math.inf, x),
            "sqrt": lambda: math.sqrt(x) if x else x,
            "rsqrt": lambda: 1.0 / math.sqrt(x) if x else math.copysign(math.inf, x),
        }[name]()
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan
