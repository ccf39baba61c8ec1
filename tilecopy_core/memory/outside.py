"""What a copy does with elements outside its operands' shapes: leave the destination as it is, or fill it."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, Literal

import attrs
import numpy as np

from ..errors import RequestError, shown
from ..layout.dtypes import DType

RULE = 'outside is "zero", a number that the dtype holds exactly, its infinity or NaN, or "keep"'


@attrs.frozen
class Outside:
    """What stands for source elements outside their array; destination elements outside are never written.

    Attributes:
        kind: ``"fill"``, or ``"keep"``: the destination stays as it is where the source has nothing.
        words: the fill as 32-bit words, as many as repeat; () for ``"keep"``.
        text: as it was asked for.
    """

    kind: Literal["fill", "keep"]
    words: tuple[int, ...]
    text: str = attrs.field(eq=False)

    def __str__(self) -> str:
        return self.text

    @property
    def is_zero(self) -> bool:
        """Whether the fill is nothing but zero bits."""
        return self.kind == "fill" and not any(self.words)


def outside_of(value: Any, dtype: DType) -> Outside | None:
    """What a caller's ``outside=`` means for elements of a dtype; None is none.

    Raises:
        RequestError: neither ``"zero"``, ``"keep"`` nor a number, or a number that the dtype does not hold exactly.
    """
    if value is None or isinstance(value, Outside):
        return value
    if isinstance(value, str):
        if value == "keep":
            return Outside("keep", (), "keep")
        if value != "zero":
            raise RequestError(f"{RULE}; found {shown(value)}")
    number = 0 if isinstance(value, str) else _plain(value)
    bits = _bits(number, dtype)
    if bits is None:
        raise RequestError(f"outside={shown(value)}: {dtype} does not hold that exactly; {RULE}")
    width = max(dtype.bits, 8)
    while width < 32:
        bits |= bits << width
        width *= 2
    words = tuple(bits >> at & 0xFFFFFFFF for at in range(0, width, 32))
    return Outside("fill", words[:1] if len(set(words)) == 1 else words, "zero" if value == "zero" else repr(number))


def _plain(value: Any) -> bool | int | float | complex:
    """A number of Python, NumPy or ml_dtypes as Python's.

    Raises:
        RequestError: it is none, or no Python number is equal to it.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    try:
        if isinstance(value, (complex, np.complexfloating)):
            return complex(value)
        number = float(value)
    except Exception:  # an object's own
        raise RequestError(f"{RULE}; found {shown(value)}") from None
    if not math.isnan(number) and not number == value:
        raise RequestError(f"outside={shown(value)} is no number that a double holds; {RULE}")
    return number


def _bits(number: bool | int | float | complex, dtype: DType) -> int | None:
    """The bits of an element that is this number, or None where the dtype has none."""
    if isinstance(number, bool) != (dtype.kind == "b") and not (dtype.kind == "b" and number in (0, 1)):
        return None
    if dtype.kind == "c":
        part = DType("float32" if dtype.bits == 64 else "float64", dtype.bits // 2, "f")
        halves = [_bits(half, part) for half in (complex(number).real, complex(number).imag)]
        if isinstance(number, int):
            halves[0] = _bits(number, part)
        return None if halves[0] is None or halves[1] is None else halves[0] | halves[1] << part.bits
    if isinstance(number, complex):
        return None
    if dtype.kind in "iub":
        return _integer_bits(number, dtype)
    if number == 0 and math.copysign(1, number) > 0 and dtype.name != "float8_e8m0fnu":
        return 0  # true of every other format, and needs no ml_dtypes
    return _float_bits(number, dtype)


def _integer_bits(number: bool | int | float, dtype: DType) -> int | None:
    if isinstance(number, float):
        if not number.is_integer() or (number == 0 and math.copysign(1, number) < 0):
            return None
        number = int(number)
    values = 1 << dtype.bits
    low = -values // 2 if dtype.kind == "i" else 0
    return int(number) & values - 1 if low <= number < low + values else None


def _float_bits(number: int | float, dtype: DType) -> int | None:
    try:
        wide = float(number)
    except OverflowError:
        return None
    if not math.isnan(wide) and wide != number:
        return None
    with np.errstate(all="ignore"):
        element = np.array(wide, np.float64).astype(dtype.numpy())
        back = float(element.astype(np.float64))
    same = math.isnan(back) if math.isnan(wide) else back == wide and math.copysign(1, back) == math.copysign(1, wide)
    return int.from_bytes(element.tobytes(), "little") & (1 << dtype.bits) - 1 if same else None
