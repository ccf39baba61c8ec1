"""Headers of .npy files: read without NumPy's dtypes where only the size of an element matters, and written in any version."""

from __future__ import annotations

import ast
import io
import re
from contextlib import suppress
from typing import Any, BinaryIO

import attrs
import numpy as np

from tilecopy_core.errors import short_repr

from .errors import FileError

_MAX_BYTES = 1 << 16
"""Longer ones are refused: a literal is parsed in memory many times its length (np.load stops at 10,000)."""
_VERSIONS = {(1, 0): (2, "latin1"), (2, 0): (4, "latin1"), (3, 0): (4, "utf8")}
"""Bytes of the header's length, and the encoding of its text."""
_SCALAR = re.compile(r"np\.u?int(?:8|16|32|64)\((-?\d+)\)|(?<=\d)L\b")
"""Integers as NumPy 2 and Python 2 write them: ``np.int64(3)`` and ``3L``."""
_ITEMSIZES = {"bfloat16": 2} | dict.fromkeys(("int2", "uint2", "int4", "uint4", "float4_e2m1fn"), 1)
"""Bytes of dtypes of ml_dtypes, each of which NumPy gives whole bytes, by the name that may stand for them."""
_ALIGN = 64
UNREADABLE = "not a .npy file that NumPy reads"


@attrs.frozen
class Header:
    """The fields of the header of a .npy file.

    Attributes:
        descr: the dtype as it is written there.
        dtype: a dtype of NumPy with the same size, ``V1`` for the float8 types that NumPy does not know.
        fortran_order: whether the first dimension changes fastest.
        shape: extents.
    """

    descr: Any
    dtype: np.dtype[Any]
    fortran_order: bool
    shape: tuple[int, ...]


def read_header(file: BinaryIO, name: str) -> Header:
    """Read the header of a file, which is then at the first element.

    Raises:
        FileError: it is not the header of a .npy file, or of a version or dtype that is not known.
    """
    magic = file.read(np.lib.format.MAGIC_LEN)
    if magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        raise FileError(f"{name}: an archive such as .npz; unzip it, and pass its members, which are .npy files")
    if magic[:-2] != np.lib.format.MAGIC_PREFIX or len(magic) < np.lib.format.MAGIC_LEN:
        raise FileError(f"{name}: {UNREADABLE}: it does not begin with {np.lib.format.MAGIC_PREFIX!r}")
    version = magic[-2], magic[-1]
    if version not in _VERSIONS:
        raise FileError(
            f"{name}: {UNREADABLE}: version {version[0]}.{version[1]} of .npy files is not known; the versions are 1.0 to 3.0"
        )
    length_bytes, encoding = _VERSIONS[version]
    length = int.from_bytes(file.read(length_bytes), "little")
    if length > _MAX_BYTES:
        raise FileError(f"{name}: a header of {length} bytes is longer than the {_MAX_BYTES} that are read")
    raw = file.read(length)
    if len(raw) < length:
        raise FileError(f"{name}: {UNREADABLE}: the file ends inside its header of {length} bytes")
    try:
        text = raw.decode(encoding).strip()
        fields = ast.literal_eval(_SCALAR.sub(r"\1", text))
    except Exception:  # Python's parser raises anything
        raise FileError(
            f"{name}: {UNREADABLE}: its header is not a literal: {short_repr(raw.decode('latin1').strip())}"
        ) from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise FileError(
            f"{name}: {UNREADABLE}: its header must have the keys descr, fortran_order and shape, got {short_repr(fields)}"
        )
    shape, fortran_order, descr = fields["shape"], fields["fortran_order"], fields["descr"]
    if not isinstance(shape, tuple) or any(type(extent) is not int or extent < 0 for extent in shape):
        raise FileError(
            f"{name}: {UNREADABLE}: its shape must be a tuple of integers of at least 0, got {short_repr(shape)}"
        )
    if not isinstance(fortran_order, bool):
        raise FileError(
            f"{name}: {UNREADABLE}: its fortran_order must be True or False, got {short_repr(fortran_order)}"
        )
    for readable in (descr, _as_bytes(descr)):
        with suppress(Exception):  # NumPy's dtypes raise anything
            return Header(descr, np.lib.format.descr_to_dtype(readable), fortran_order, shape)
    raise FileError(
        f"{name}: {UNREADABLE}: NumPy does not know the dtype {short_repr(descr)}; save a view of it, such as a.view('V2')"
    )


def _as_bytes(descr: Any) -> Any:
    """A description in which elements that NumPy does not know are bytes: float8 types (``<f1``), and names of ml_dtypes."""
    if isinstance(descr, list):
        return [(field[0], _as_bytes(field[1]), *field[2:]) for field in descr]
    if not isinstance(descr, str):
        return descr
    if descr.lstrip("<>|=") == "f1" or descr.startswith("float8_"):
        return "|V1"
    return f"|V{_ITEMSIZES[descr]}" if descr in _ITEMSIZES else descr


def header_of(descr: Any, shape: tuple[int, ...]) -> bytes:
    """Return the header of a C-contiguous file, of the lowest version that can say it."""
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
