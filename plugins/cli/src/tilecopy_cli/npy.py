"""A reader of .npy files that checks the size in the header against the file before it allocates memory."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np
from tilecopy.validators import PATH

from tilecopy_core.errors import FLAG, checked, instance_of, short_repr
from tilecopy_core.registry import short_error

from .file_errors import FileError, printable_name
from .npy_header import UNREADABLE, read_header

_SPAN_BYTES = 1 << 18
"""The most bytes of one read where the elements of a box are not contiguous in the file."""


@attrs.frozen(eq=False)
class NpyFile:
    """A frozen record of a .npy file. ``array`` has all elements, and :meth:`read` reads one box.

    Attributes:
        path: of the file.
        header: its bytes up to the first element.
        array: the elements, C- or Fortran-contiguous. Use only shape, strides and dtype if the file is mapped: if the file
            has shrunk, reading an element past its end stops the process (SIGBUS).
        descr: the dtype as the header writes it, which NumPy may not know.
        rest_bytes: bytes after the array, which are not read.
        stamp: identifies the state of the file that was read; see :func:`file_signature`.
    """

    path: Path
    header: bytes
    array: Any
    descr: Any
    rest_bytes: int
    stamp: tuple[int, ...]

    def read(self, offset_bytes: int, shape: Sequence[int], strides_bytes: Sequence[int], dtype: Any) -> Any:
        """Return a box of the file's elements as a new array.

        Args:
            offset_bytes: of the box's first element, from the first element of the file.
            shape: extents of the box.
            strides_bytes: strides in the file, none negative.
            dtype: of the elements of the box.

        Raises:
            FileError: the file changed since it was opened, or it ends before the box does.
        """
        box = np.empty(tuple(shape), dtype)
        with _reading(self.path), self.path.open("rb", buffering=0) as file:
            self.check_unchanged()
            order = sorted(range(box.ndim), key=lambda dim: -strides_bytes[dim])
            strides = [strides_bytes[dim] for dim in order]
            if box.size:
                _read_box(file, len(self.header) + offset_bytes, box.transpose(order), strides)
        return box

    @property
    def left_out(self) -> str:
        """The report's text about uncopied bytes after the array, or "" if the file ends with the array."""
        return f"; the {self.rest_bytes} bytes after the array were not copied" if self.rest_bytes else ""

    def check_unchanged(self) -> None:
        """Check that the file has not changed since it was opened.

        Raises:
            FileError: its size or the time of its last change differs.
        """
        with _reading(self.path):
            if file_signature(self.path.stat()) != self.stamp:
                raise FileError(f"{printable_name(self.path)}: the file changed while it was read")


@checked(FileError, status=instance_of("an os.stat_result", os.stat_result))
def file_signature(status: os.stat_result) -> tuple[int, ...]:
    """Return a file's device, inode, size and modification time. The tuple changes when the file is written."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@checked(FileError, path=PATH, mapped=FLAG)
def read_npy(path: str | Path, *, mapped: bool = False) -> NpyFile:
    """Read a .npy file of any format version, memory order and byte order. Its elements must not be Python objects.

    Args:
        path: of the file.
        mapped: leave the elements in the file, for arrays that are larger than memory; see :meth:`NpyFile.read`.

    Raises:
        FileError: it is not a regular file or not a .npy file, its elements are objects, it is shorter than its header
            declares, or it changed while it was read.
    """
    path = Path(path)
    with _reading(path):
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a FIFO would block
        handle = os.open(path, flags)
        with os.fdopen(handle, "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise FileError(f"{printable_name(path)}: must be a .npy file, got a device, FIFO or socket")
            npy = _read(file, path, before.st_size, printable_name(path), mapped)
            npy = attrs.evolve(npy, stamp=file_signature(before))
            npy.check_unchanged()
    return npy


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the system's errors about a file into a FileError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise FileError(f"{printable_name(path)}: no such file") from None
    except IsADirectoryError:
        raise FileError(f"{printable_name(path)}: must be a .npy file, got a directory") from None
    except OSError as error:
        raise FileError(f"{printable_name(path)}: cannot be read: {error.strerror or error}") from None


def _read_box(file: BinaryIO, offset_bytes: int, box: Any, strides_bytes: Sequence[int]) -> None:
    """Fill an array from an unbuffered file in reads of at most ``_SPAN_BYTES``, which include the bytes between the elements.

    The dimensions of ``box`` are in descending order of their strides in the file.
    """
    if box.ndim == 0:
        box, strides_bytes = box.reshape(1), (box.itemsize,)
    row_bytes = box.itemsize + sum((n - 1) * stride for n, stride in zip(box.shape[1:], strides_bytes[1:], strict=True))
    stride = strides_bytes[0]
    if row_bytes > _SPAN_BYTES and box.ndim > 1:
        for index in range(len(box)):
            _read_box(file, offset_bytes + index * stride, box[index], strides_bytes[1:])
        return
    rows = 1 + max(0, _SPAN_BYTES - row_bytes) // max(1, stride)
    for first in range(0, len(box), rows):
        part = box[first : first + rows]
        span_bytes = (len(part) - 1) * stride + row_bytes
        file.seek(offset_bytes + first * stride)
        span = file.read(span_bytes)
        if len(span) < span_bytes:
            raise FileError(
                f"{printable_name(file.name)}: the file became shorter while it was read: expected {span_bytes} bytes, got {len(span)}"
            )
        part[...] = np.ndarray(part.shape, part.dtype, span, 0, tuple(strides_bytes))


def _read(file: BinaryIO, path: str | Path, size_bytes: int, name: str, mapped: bool) -> NpyFile:
    header = read_header(file, name)
    header_bytes, shape, dtype = file.tell(), header.shape, header.dtype
    if dtype.hasobject or dtype.itemsize == 0 or dtype.subdtype is not None:
        raise FileError(f"{name}: elements must be plain values without Python objects, got dtype {short_repr(dtype)}")
    claimed, available = math.prod(shape) * dtype.itemsize, size_bytes - header_bytes
    if claimed > available:
        number = str(claimed) if claimed < 10**30 else "over 10**30"
        raise FileError(
            f"{name}: the header declares {number} bytes of elements (shape {short_repr(shape)}, {dtype}), but the file has {available} bytes after the header"
        )
    order: Any = "F" if header.fortran_order else "C"
    array: Any
    try:
        if mapped and claimed:
            array = np.memmap(path, dtype, "r", header_bytes, shape, order)
        else:
            array = np.empty(shape, dtype, order)
            memory = np.fromfile(file, np.uint8, claimed)
            if memory.size < claimed:
                raise FileError(
                    f"{name}: the file became shorter while it was read: expected {claimed} bytes, got {memory.size}"
                )
            array = np.ndarray(shape, dtype, memory, order=order) if claimed else array
    except (MemoryError, ValueError) as error:  # more dimensions than NumPy has, or a size beyond its integers
        raise FileError(f"{name}: {UNREADABLE}: shape {short_repr(shape)}: {short_error(error)}") from None
    file.seek(0)
    return NpyFile(Path(path), file.read(header_bytes), array, header.descr, available - claimed, ())


def bytes_of(array: Any) -> Any:
    """Return the memory of a C- or Fortran-contiguous array as a flat view of bytes."""
    return (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
