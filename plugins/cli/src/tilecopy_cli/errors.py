"""What the command line adds to the errors of the core: files, and how they are named."""

from __future__ import annotations

from pathlib import PurePath

from tilecopy_core.errors import TilecopyError, short_repr


class FileError(TilecopyError):
    """A file cannot be read or written as asked."""


def printable_name(name: object) -> str:
    """Return a file's name for a message: unchanged if it prints and has no blank ends, else quoted with escapes."""
    text = str(name) if isinstance(name, (str, PurePath)) else short_repr(name)
    return text if text.isprintable() and text.strip() == text != "" else ascii(text)
