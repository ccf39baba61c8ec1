"""A reader and a writer of the headers of .npy files. Both also accept dtypes of the package ml_dtypes."""

from __future__ import annotations

import ast
import io
import re
from contextlib import suppress
from typing import Any, BinaryIO

import attrs
import numpy as np

from tilecopy_core.errors import short_repr

from .file_errors import FileError

_MAX_BYTES = 1 << 16
"""The longest header that is read, because parsing takes memory of many times its length (np.load stops at 10,000)."""
_VERSIONS = {(1, 0): (2, "latin1"), (2, 0): (4, "latin1"), (3, 0): (4, "utf8")}
"""The version of a header -> the bytes of its length field and the encoding of its text."""
_SCALAR = re.compile(r"np\.u?int(?:8|16|32|64)\((-?\d+)\)|(?<=\d)L\b")
"""Integers as NumPy 2 and Python 2 write them: ``np.int64(3)`` and ``3L``."""
_ITEMSIZES = {"bfloat16": 2} | dict.fromkeys(("int2", "uint2", "int4", "uint4", "float4_e2m1fn"), 1)
"""The name of a dtype of ml_dtypes -> the bytes of an element in a NumPy array."""
_ALIGN = 64
UNREADABLE = "the file is not a valid .npy file"


@attrs.frozen
class Header:
    """A frozen record of the fields in a .npy file's header.

    Attributes:
        descr: the dtype as the header writes it.
        dtype: a dtype of NumPy with the same size, ``V1`` for the float8 types that NumPy does not know.
        fortran_order: True if the first dimension changes fastest.
        shape: extents.
    """

    descr: Any
    dtype: np.dtype[Any]
    fortran_order: bool
    shape: tuple[int, ...]


def read_header(file: BinaryIO, name: str) -> Header:
    """Read and return a file's header. Afterwards the file is positioned at the first element."""
    magic = file.read(np.lib.format.MAGIC_LEN)
    if magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        raise FileError(
            f"{name}: must be a .npy file, got an archive such as .npz: unzip it and pass a .npy file from it"
        )
    if magic[:-2] != np.lib.format.MAGIC_PREFIX or len(magic) < np.lib.format.MAGIC_LEN:
        raise FileError(f"{name}: {UNREADABLE}: it must begin with {np.lib.format.MAGIC_PREFIX!r}, got {magic[:-2]!r}")
    version = magic[-2], magic[-1]
    if version not in _VERSIONS:
        raise FileError(f"{name}: {UNREADABLE}: its version must be 1.0, 2.0 or 3.0, got {version[0]}.{version[1]}")
    length_bytes, encoding = _VERSIONS[version]
    length = int.from_bytes(file.read(length_bytes), "little")
    if length > _MAX_BYTES:
        raise FileError(f"{name}: the header must have at most {_MAX_BYTES} bytes, got {length}")
    raw = file.read(length)
    if len(raw) < length:
        raise FileError(f"{name}: {UNREADABLE}: its header must have {length} bytes, got {len(raw)}")
    try:
        text = raw.decode(encoding).strip()
        fields = ast.literal_eval(_SCALAR.sub(r"\1", text))
    except Exception:  # Python's parser raises anything
        raise _invalid(name, f"the header must be a dict, got {short_repr(raw.decode('latin1').strip())}") from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise _invalid(name, f"the header must have the keys descr, fortran_order and shape, got {short_repr(fields)}")
    shape, fortran_order, descr = fields["shape"], fields["fortran_order"], fields["descr"]
    if not isinstance(shape, tuple) or any(type(extent) is not int or extent < 0 for extent in shape):
        raise _invalid(name, f"the shape must be a tuple of non-negative integers, got {short_repr(shape)}")
    if not isinstance(fortran_order, bool):
        raise _invalid(name, f"fortran_order must be True or False, got {short_repr(fortran_order)}")
    for readable in (descr, _as_bytes(descr)):
        with suppress(Exception):  # NumPy's dtypes raise anything
            return Header(descr, np.lib.format.descr_to_dtype(readable), fortran_order, shape)
    raise FileError(
        f"{name}: {UNREADABLE}: NumPy does not know the dtype {short_repr(descr)}; save a view such as a.view('V2')"
    )


def _invalid(name: str, why: str) -> FileError:
    return FileError(f"{name}: {UNREADABLE}: {why}")


def _as_bytes(descr: Any) -> Any:
    """Return a dtype description with raw bytes for the types NumPy does not know: float8 (``<f1``) and names of ml_dtypes."""
    if isinstance(descr, list):
        return [(field[0], _as_bytes(field[1]), *field[2:]) for field in descr]
    if not isinstance(descr, str):
        return descr
    if descr.lstrip("<>|=") == "f1" or descr.startswith("float8_"):
        return "|V1"
    return f"|V{_ITEMSIZES[descr]}" if descr in _ITEMSIZES else descr


def header_of(descr: Any, shape: tuple[int, ...]) -> bytes:
    """Return the .npy header of a C-contiguous array, in the lowest format version that can express the header."""
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    for write in (np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0):
        written = io.BytesIO()
        try:
            write(written, fields)
        except ValueError:  # it is longer, or a name is not Latin-1
            continue
        return written.getvalue()
    text = repr(fields).encode("utf8")
    padding = b" " * (-(np.lib.format.MAGIC_LEN + 4 + len(text) + 1) % _ALIGN) + b"\n"
    return np.lib.format.magic(3, 0) + (len(text) + len(padding)).to_bytes(4, "little") + text + padding
