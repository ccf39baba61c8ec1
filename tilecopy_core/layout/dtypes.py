"""Element types, with their widths and NumPy dtypes."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import attrs

from ..errors import FLAG, TEXT, RequestError, did_you_mean, integer_in, one_of, short_repr
from ..errors.attrs_classes import frozen
from ..errors.fork_lock import LOCK
from ..errors.lazy_numpy import np


@frozen(repr=False)
class DType:
    """A frozen record of an element type: its NumPy name, its width in bits, and its kind.

    ``kind`` is ``"f"`` float, ``"i"`` signed, ``"u"`` unsigned, ``"b"`` bool or ``"c"`` complex. An ``extended`` type
    needs ml_dtypes, because NumPy does not have it.
    """

    name: str = attrs.field(validator=TEXT)
    bits: int = attrs.field(validator=integer_in(1, 128))
    kind: str = attrs.field(validator=one_of("f", "i", "u", "b", "c"))
    extended: bool = attrs.field(default=False, validator=FLAG)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType({self.name!r})"

    @property
    def bytes(self) -> int:
        """The width in bytes, at least 1: a 4-bit element counts as 1 byte."""
        return max(1, self.bits // 8)

    def numpy(self) -> np.dtype[Any]:
        """Return the NumPy dtype. Raises :class:`RequestError` if ml_dtypes is needed but not installed."""
        return _numpy_of(self.name) if self.extended else np.dtype(self.name)


@cache
def _numpy_of(name: str) -> np.dtype[Any]:
    """Return a dtype of ml_dtypes, imported under the lock."""
    try:
        with LOCK:
            import ml_dtypes
    except ImportError as error:
        raise RequestError(f"ml_dtypes must be installed for {name} arrays: pip install ml_dtypes") from error
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


_PLAIN = {
    "bool": (8, "b"),
    **{f"{sign}int{bits}": (bits, sign or "i") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_PLAIN |= {f"float{bits}": (bits, "f") for bits in (16, 32, 64)} | {f"complex{bits}": (bits, "c") for bits in (64, 128)}
_FLOAT8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
_EXTENDED = {"bfloat16": (16, "f"), **{f"float8_{form}": (8, "f") for form in _FLOAT8}}
_EXTENDED |= {name: (4, name[0]) for name in ("float4_e2m1fn", "int4", "uint4")}
DTYPES: dict[str, DType] = {
    name: DType(name, bits, kind, extended=name in _EXTENDED) for name, (bits, kind) in (_PLAIN | _EXTENDED).items()
}
"""Every element type by name."""


DTYPE_ALIASES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
"""Short names of element types, which are accepted too."""
_OTHER_NAMES = {
    **dict.fromkeys(("half", "fp16"), "float16"),
    **dict.fromkeys(("float", "fp32"), "float32"),
    **dict.fromkeys(("double", "fp64"), "float64"),
    **dict.fromkeys(("fp8", "float8", "e4m3"), "float8_e4m3fn"),
    "e5m2": "float8_e5m2",
    "fp4": "float4_e2m1fn",
    "byte": "uint8",
    "int": "int32",
    "long": "int64",
}
"""Names of element types in other projects, for hints in messages."""


def dtype_of(value: Any) -> DType:
    """Return the element type for a name, a NumPy dtype or scalar type, or a framework's dtype.

    ``f16``, ``bf16``, ``f32`` and ``f64`` are names too. Raises :class:`RequestError` if the element type is unknown,
    or its bytes are not in the GPU's order.
    """
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) and not value.startswith(">") else None
    if name is None:
        if value is None:
            raise RequestError("dtype must be an element type such as 'float16', got None")
        is_array = isinstance(value, (np.ndarray, np.generic))
        try:
            if is_array:
                raise TypeError  # NumPy takes an array for its dtype
            dtype = np.dtype(value)
        except Exception:  # whatever NumPy makes of it
            name = ""
            with suppress(Exception):  # whatever cannot be printed is not a dtype
                name = str(value).rsplit(".", 1)[-1]  # torch.float16 prints "torch.float16"
        else:
            if not dtype.isnative:
                raise RequestError(
                    f"dtype must be little-endian like the GPU, got {dtype.str!r}: convert the array with "
                    "a.astype(a.dtype.newbyteorder('='))"
                )
            name = dtype.name
    name = DTYPE_ALIASES.get(name, name)
    if name not in DTYPES:
        meant = f"; did you mean {_OTHER_NAMES[name]!r}?" if name in _OTHER_NAMES else did_you_mean(name, DTYPES)
        raise RequestError(f"dtype {short_repr(value)} is unknown{meant}; the element types are {', '.join(DTYPES)}")
    return DTYPES[name]
