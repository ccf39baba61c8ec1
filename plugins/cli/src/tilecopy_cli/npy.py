"""Reading .npy files: every claim of a header is checked against the file before anything is allocated.

NumPy's own reader trusts the shape (it allocates first) and has no public function for headers of version 3.0; the
format is that of numpy.lib.format: magic, version, length, and a Python literal.
"""

from __future__ import annotations

import ast
import math
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np

from tilecopy_core.errors import FLAG, PATH, checked, instance_of
from tilecopy_core.errors import shown as value_shown

from .errors import FileError, shown

_MAGIC = b"\x93NUMPY"
_MAX_HEADER_BYTES = 1 << 16
"""Longer ones are refused: a literal is parsed in memory many times its length (np.load stops at 10,000)."""


@attrs.frozen(eq=False)
class NpyFile:
    """A .npy file in memory, or mapped into it.

    Attributes:
        header: its bytes up to the first element.
        array: C- or Fortran-contiguous.
        stamp: what identifies the state of the file that was read; see :func:`stamp_of`.
    """

    header: bytes
    array: Any
    stamp: tuple[int, ...]


@checked(FileError, status=instance_of("what os.stat gives", os.stat_result))
def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Device, inode, size and time of the last change: equal as long as nobody has written the file."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@checked(FileError, path=PATH, mapped=FLAG)
def read_npy(path: str | Path, *, mapped: bool = False) -> NpyFile:
    """Read a .npy file of plain elements, of any version, order and byte order.

    Args:
        path: of the file.
        mapped: leave the elements in the file, mapped into memory, for arrays that are larger than it; compare stamps
            when you are done.

    Raises:
        FileError: it is no regular file, is no .npy file, holds objects, claims more than it holds, or changed while
            it was read.
    """
    name = shown(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO would block
        with os.fdopen(handle, "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise FileError(f"{name}: not a .npy file but a device, FIFO or socket")
            header, array = _read(file, before.st_size, name, mapped)
            if stamp_of(os.fstat(file.fileno())) != stamp_of(before):
                raise FileError(f"{name}: the file changed while it was read")
    except FileNotFoundError:
        raise FileError(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise FileError(f"{name}: not a .npy file but a directory") from None
    except OSError as error:
        raise FileError(f"{name}: it cannot be read: {error.strerror or error}") from None
    return NpyFile(header, array, stamp_of(before))


def _read(file: BinaryIO, size_bytes: int, name: str, mapped: bool) -> tuple[bytes, Any]:
    header, fields = _header(file, name)
    dtype, shape = _dtype(fields["descr"], name), fields["shape"]
    claimed, there = math.prod(shape) * dtype.itemsize, size_bytes - len(header)
    if claimed > there:
        raise FileError(
            f"{name}: the header claims {_number(claimed)} bytes of elements (shape {value_shown(shape)}, {dtype}), "
            f"the file has {there}"
        )
    try:
        memory: Any
        if mapped and claimed:
            memory = np.memmap(file, np.uint8, "r", len(header), (claimed,))
        else:
            memory = np.empty(claimed, np.uint8)
            if file.readinto(memory.data) != claimed:  # type: ignore[attr-defined]
                raise FileError(f"{name}: the file ended while it was read")
        flat = memory.view(dtype)
        return header, flat.reshape(shape[::-1]).T if fields["fortran_order"] else flat.reshape(shape)
    except MemoryError:
        raise FileError(f"{name}: {claimed} bytes of elements do not fit into memory") from None
    except (ValueError, OverflowError) as error:  # more dimensions, or larger ones beside a zero, than NumPy has
        raise FileError(f"{name}: shape {value_shown(shape)} is not possible: {error}") from None


def _header(file: BinaryIO, name: str) -> tuple[bytes, dict[str, Any]]:
    start = file.read(8)
    if start[:6] != _MAGIC[: len(start)] or not start:
        raise FileError(f"{name}: not a .npy file (it does not begin with the bytes of one)")
    if len(start) < 8:
        raise FileError(f"{name}: not a whole .npy file (it ends in its header)")
    if (start[6], start[7]) not in ((1, 0), (2, 0), (3, 0)):
        raise FileError(f"{name}: .npy version {start[6]}.{start[7]} is not 1.0, 2.0 or 3.0")
    field = file.read(2 if start[6] == 1 else 4)
    length = int.from_bytes(field, "little")
    if length > _MAX_HEADER_BYTES:
        raise FileError(f"{name}: a header of {length} bytes is longer than the {_MAX_HEADER_BYTES} that are read")
    text = file.read(length)
    if len(text) < length or not length:
        raise FileError(f"{name}: not a whole .npy file (it ends in its header)")
    return start + field + text, _fields(text.decode("utf-8" if start[6] == 3 else "latin-1", "replace"), name)


def _fields(text: str, name: str) -> dict[str, Any]:
    fields = _literal(text)
    if fields is None:  # Python 2 wrote long integers as 10L
        fields = _literal(re.sub(r"(?<=\d)L\b", "", text))
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise FileError(f"{name}: its header is no dictionary of descr, fortran_order and shape")
    shape = fields["shape"]
    if type(shape) is not tuple or any(type(extent) is not int or extent < 0 for extent in shape):
        raise FileError(f"{name}: shape {value_shown(shape)} is no tuple of integers of at least 0")
    if type(fields["fortran_order"]) is not bool:
        raise FileError(f"{name}: fortran_order is neither True nor False")
    return fields


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _dtype(descr: Any, name: str) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(descr)
    except Exception:
        raise FileError(f"{name}: its header has no dtype that NumPy knows: {value_shown(descr)}") from None
    if dtype.hasobject or dtype.itemsize == 0 or dtype.subdtype is not None:
        raise FileError(f"{name}: not a .npy file of plain elements (dtype {value_shown(dtype)})")
    return dtype


def _number(value: int) -> str:
    return str(value) if value < 10**30 else "over 10**30"


def bytes_of(array: Any) -> Any:
    """The memory of a C- or Fortran-contiguous array as flat bytes, none copied."""
    return (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
