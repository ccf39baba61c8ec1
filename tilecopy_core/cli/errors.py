"""What the command line adds to the errors of the core: files, and how they are named."""

from __future__ import annotations

from ..errors import TilecopyError


class FileError(TilecopyError):
    """A file cannot be read or written as asked."""


def shown(name: object) -> str:
    """A file's name for a message: as it is where it prints, else quoted with escapes."""
    text = str(name)
    return text if text.isprintable() else ascii(text)
