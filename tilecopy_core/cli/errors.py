"""What the command line adds to the errors of the core: files, exit statuses, near misses."""

from __future__ import annotations

from ..errors import LayoutError, RequestError, TargetError, TilecopyError

DONE, FAILED, WRONG_USAGE = 0, 1, 2
"""Exit statuses: it was done; it was understood and failed; it was asked wrongly."""


class FileError(TilecopyError):
    """A file cannot be read or written as asked."""


def status_of(error: TilecopyError) -> int:
    """Wrong usage where the words alone are at fault (a layout, a target, a request without meaning), else a failure."""
    return WRONG_USAGE if isinstance(error, (LayoutError, RequestError, TargetError)) else FAILED


def shown(name: object) -> str:
    """A file's name for a message: as it is where it prints, else quoted with escapes."""
    text = str(name)
    return text if text.isprintable() else ascii(text)
