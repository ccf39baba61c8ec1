"""The output file of a job: refused before the work where it cannot be written, and replaced in one step when it is whole.

Where an existing file cannot be replaced by one with its mode and owner (it has other hard links, it belongs to someone
else, its directory takes no new names) it is written through, as ``cp`` and ``sort -o`` do: links and owner stay, at the
price that a crash in the middle leaves it half written.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilecopy.paths import PATH

from tilecopy_core.errors import checked

from .errors import FileError, shown

Parts = Sequence[Any]
"""What is written, one after the other: bytes or flat byte arrays."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


@contextmanager
@checked(FileError, path=PATH)
def output_file(path: str | Path) -> Iterator[Callable[[Parts], None]]:
    """Check that a file can be written; the function that is given writes it.

    Raises:
        FileError: it is no regular file (``-`` is none), may not be written, or the writing fails (the file is then as it was).
    """
    name, target = shown(path), Path(os.path.realpath(path))
    if os.fspath(path) == "-":
        raise FileError(
            "-: the output is not written to standard output, which has the report; give the name of a file"
        )
    with _errors(name):
        old = _status(name, target)
    kept = "; it is as it was" if old is not None else "; nothing was written"
    replaceable = old is None or (old.st_nlink == 1 and os.access(target.parent, os.W_OK | os.X_OK))
    if replaceable:
        with _errors(name, kept):
            probe = _free_name(target)
            probe.touch(exist_ok=False)
            probe.unlink()

    def write(parts: Parts) -> None:
        with _errors(name, kept):
            if not (replaceable and _replace(target, old, parts)):
                _write_through(target, parts)

    yield write


@contextmanager
def _errors(name: str, kept: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{name}: the output cannot be written: {error.strerror}{kept}") from None


def _status(name: str, target: Path) -> os.stat_result | None:
    """What is there now and may be written; None where nothing is, and a file can be made."""
    try:
        old = target.stat()
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise FileError(f"{name}: the directory {shown(target.parent)} does not exist") from None
        return None
    kind = _KINDS.get(stat.S_IFMT(old.st_mode))
    if kind is not None:
        raise FileError(f"{name}: the output is {kind}; give the name of a file")
    # The system lets root write everything. Bits that keep its owner from writing a file are a wish to be kept.
    if not old.st_mode & (0o200 if old.st_uid == os.geteuid() else 0o222):
        raise FileError(f"{name}: the output cannot be written: its mode is {stat.S_IMODE(old.st_mode):04o}")
    os.close(os.open(target, os.O_WRONLY | os.O_NONBLOCK))
    return old


def _replace(target: Path, old: os.stat_result | None, parts: Parts) -> bool:
    """Put a new file in the place of the old one, or of none; False where the old one must be written itself."""
    temporary = _free_name(target)
    try:
        with temporary.open("xb") as file:
            if old is not None and not _made_alike(file.fileno(), old):
                return False
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        try:
            temporary.replace(target)
        except OSError:  # of a file in a sticky directory, or a mounted one
            if old is None:
                raise
            return False
        return True
    finally:
        temporary.unlink(missing_ok=True)


def _made_alike(handle: int, old: os.stat_result) -> bool:
    """Give a new file the owner and the mode of an old one, before anything is in it that others may not read."""
    try:
        new = os.fstat(handle)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
    except OSError:
        return False
    return True


def _write_through(target: Path, parts: Parts) -> None:
    """Write an existing file itself; its room is reserved before a byte of it is changed."""
    size = sum(len(part) for part in parts)
    with os.fdopen(os.open(target, os.O_WRONLY), "wb") as file:
        before = os.fstat(file.fileno()).st_size
        if size > before and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), before, size - before)
            except OSError:
                file.truncate(before)
                raise
        for part in parts:
            file.write(part)
        file.truncate(size)
        os.fsync(file.fileno())


def _free_name(target: Path) -> Path:
    return target.with_name(f".tilecopy-{secrets.token_hex(8)}.npy")
