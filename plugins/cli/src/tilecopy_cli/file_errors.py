"""The error for a file that cannot be read or written, and a function that quotes unusual file names."""

from pathlib import PurePath

from tilecopy_core.errors import TilecopyError, short_repr


class FileError(TilecopyError):
    """Raised when a file cannot be read or written."""


def printable_name(name: object) -> str:
    """Return a file name as messages show it. A name with unprintable characters or blanks at either end is quoted."""
    text = str(name) if isinstance(name, (str, PurePath)) else short_repr(name)
    return text if text.isprintable() and text.strip() == text != "" else ascii(text)
