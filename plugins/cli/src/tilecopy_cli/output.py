"""The output file of a job. The file is checked before the job starts, and replaced in one step at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilecopy.atomic_files import check_writable, write_files
from tilecopy.validators import PATH

from tilecopy_core.errors import checked

from .file_errors import FileError, printable_name


@contextmanager
@checked(FileError, path=PATH)
def output_file(path: str | Path) -> Iterator[Callable[[Iterable[Any]], None]]:
    """Check that a file can be written. Yield a function that writes it with :func:`tilecopy.atomic_files.write_files`.

    Raises:
        FileError: the path is ``-``, it cannot be written, or writing fails (the file is then unchanged).
    """
    name = printable_name(path)
    if os.fspath(path) == "-":
        raise FileError("-: the output must be a file, because the report goes to standard output: pass a file name")
    with _errors(name):
        check_writable(path)
    unchanged = "; the file is unchanged" if Path(path).exists() else "; nothing was written"

    def write(parts: Iterable[Any]) -> None:
        with _errors(name, unchanged):
            write_files({Path(path): parts})

    yield write


@contextmanager
def _errors(name: str, unchanged: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{name}: the output cannot be written: {error.strerror or error}{unchanged}") from None
