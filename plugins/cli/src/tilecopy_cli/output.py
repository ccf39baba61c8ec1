"""The output file of a job: refused before the work if it cannot be written, and replaced in one step when it is complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilecopy.files import check_writable, write_files
from tilecopy.validators import PATH

from tilecopy_core.errors import checked

from .errors import FileError, printable_name

Parts = Iterable[Any]
"""What is written, one after the other: bytes or flat byte arrays."""


@contextmanager
@checked(FileError, path=PATH)
def output_file(path: str | Path) -> Iterator[Callable[[Parts], None]]:
    """Check that a file can be written, and yield the function that writes it (:func:`tilecopy.files.write_files`).

    Raises:
        FileError: the path is ``-``, it cannot be written, or the writing fails (the file is then as it was).
    """
    name = printable_name(path)
    if os.fspath(path) == "-":
        raise FileError("-: standard output has the report; give the output the name of a file")
    with _errors(name):
        check_writable(path)
    unchanged = "; it is as it was" if Path(path).exists() else "; nothing was written"

    def write(parts: Parts) -> None:
        with _errors(name, unchanged):
            write_files({Path(path): parts})

    yield write


@contextmanager
def _errors(name: str, unchanged: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{name}: the output cannot be written: {error.strerror or error}{unchanged}") from None
