"""The argument ``outside=``. For elements out of bounds, a copy writes a fill value or keeps the destination."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, Literal

import attrs

from ..errors import RequestError, did_you_mean, short_repr
from ..errors.attrs_classes import frozen
from ..errors.lazy_numpy import np
from ..layout.dtypes import DType

RULE = 'outside must be "zero", "keep", or a number (including infinity and NaN) that the dtype represents exactly'


@frozen
class Outside:
    """A frozen record of ``outside=``, the replacement for source elements out of bounds.

    Attributes:
        kind: ``"fill"``, or ``"keep"`` to leave the destination unchanged where the source is out of bounds.
        words: the fill value as 32-bit words that repeat; () for ``"keep"``.
        text: the argument as text.
    """

    kind: Literal["fill", "keep"]
    words: tuple[int, ...]
    text: str = attrs.field(eq=False)

    def __str__(self) -> str:
        return self.text

    @property
    def is_zero(self) -> bool:
        """True if the fill value has only zero bits."""
        return self.kind == "fill" and not any(self.words)


def outside_of(value: Any, dtype: DType) -> Outside | None:
    """Convert an ``outside=`` argument to a record. None stays None. Raises RequestError for an invalid value."""
    if value is None or isinstance(value, Outside):
        return value
    if isinstance(value, str):
        if value == "keep":
            return Outside("keep", (), "keep")
        if value != "zero":
            raise RequestError(f"{RULE}, got {short_repr(value)}{did_you_mean(value, ('zero', 'keep'))}")
    number = 0 if isinstance(value, str) else _plain(value)
    bits = _bits(number, dtype)
    if bits is None:
        raise RequestError(f"outside={short_repr(value)} cannot be represented exactly in {dtype}; {RULE}")
    width = max(dtype.bits, 8)
    while width < 32:
        bits |= bits << width
        width *= 2
    words = tuple(bits >> at & 0xFFFFFFFF for at in range(0, width, 32))
    return Outside("fill", words[:1] if len(set(words)) == 1 else words, "zero" if value == "zero" else repr(number))


def _plain(value: Any) -> bool | int | float | complex:
    """Return a number of Python, NumPy or ml_dtypes as a Python number. Raises RequestError if no Python number equals it."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    try:
        if isinstance(value, (complex, np.complexfloating)):
            return complex(value)
        number = float(value)
    except Exception:  # an object's own
        raise RequestError(f"{RULE}, got {short_repr(value)}") from None
    if not math.isnan(number) and not number == value:
        raise RequestError(f"outside={short_repr(value)} cannot be represented exactly as a double; {RULE}")
    return number


def _bits(number: bool | int | float | complex, dtype: DType) -> int | None:
    """Return the bits of a number as an element of a dtype, or None if the dtype cannot represent it."""
    kind = {"b": bool, "c": complex, "f": float}.get(dtype.kind, int)
    if type(number) in (bool, complex) and type(number) is not kind:
        return None
    if not number and "-" not in repr(number) and dtype.name != "float8_e8m0fnu":
        return 0  # true of every other format, and needs no ml_dtypes
    try:
        with np.errstate(all="ignore"):
            element = np.array(kind(number)).astype(dtype.numpy())
        value = kind(element[()])
        exact = number == value or np.isnan(number)
        same_signs = repr(complex(number)) == repr(complex(value))  # of zeros too; there is one NaN
    except (OverflowError, TypeError, ValueError):  # an infinity or NaN as an integer, or an integer past all others
        return None
    return int.from_bytes(element.tobytes(), "little") & (1 << dtype.bits) - 1 if exact and same_signs else None
