"""The output file of a job: refused before the work where it cannot be written, and there whole or not at all.

What is written goes to a file without a name (``O_TMPFILE``) that is linked in at the end, so that nothing is left
behind whatever stops the program, SIGKILL too. An existing file is replaced in one step by one that was given its mode,
owner and extended attributes. Where that cannot be (the file has other hard links, it belongs to someone else, its directory
takes no new names) the file is written through, as ``cp`` and ``sort -o`` do: links, owner and ACL stay, at the price that a crash in
the middle leaves it half written.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from tilecopy_core.errors import PATH, checked

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
_NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
"""What kernels and file systems without ``O_TMPFILE`` answer (open(2))."""

_NOT_REPLACED = {errno.EPERM, errno.EACCES, errno.EBUSY}
"""What rename(2) answers of a file that may be written and not replaced: sticky directories, mounted files."""

_WRITE_BYTES = 1 << 24


@attrs.frozen
class _Place:
    """Where the output goes: what was asked, the file behind every symlink, and what is there now."""

    name: str
    path: Path
    old: os.stat_result | None


@contextmanager
@checked(FileError, path=PATH)
def output_file(path: str | Path) -> Iterator[Callable[[Parts], None]]:
    """Check that a file can be written; the function that is given writes it.

    Raises:
        FileError: it is no regular file, may not be written, or the writing fails (the file is then as it was).
    """
    place = _place(Path(path))
    folder, handle = place.path.parent, None
    kept = "; it is as it was" if place.old is not None else "; nothing was written"
    replaceable = place.old is None or (place.old.st_nlink == 1 and os.access(folder, os.W_OK | os.X_OK))
    try:
        if replaceable:
            with _errors(place.name, kept):
                handle = _unnamed_file(folder)

        def write(parts: Parts) -> None:
            with _errors(place.name, kept):
                if not (replaceable and _replace(place, handle, parts)):
                    _write_through(place.path, parts)

        yield write
    finally:
        if handle is not None:
            os.close(handle)


@contextmanager
def _errors(name: str, kept: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{name}: the output cannot be written: {error.strerror}{kept}") from None


def _place(path: Path) -> _Place:
    name, target = shown(path), Path(os.path.realpath(path))
    with _errors(name):
        try:
            old = target.stat()
        except FileNotFoundError:
            if not target.parent.is_dir():
                raise FileError(f"{name}: the directory {shown(target.parent)} does not exist") from None
            return _Place(name, target, None)
        kind = _KINDS.get(stat.S_IFMT(old.st_mode))
        if kind is not None:
            raise FileError(f"{name}: the output is {kind}; give the name of a file")
        # The system lets root write everything. Bits that keep its owner from writing a file are a wish to be kept.
        if not old.st_mode & (0o200 if old.st_uid == os.geteuid() else 0o222):
            raise FileError(f"{name}: the output cannot be written: its mode is {stat.S_IMODE(old.st_mode):04o}")
        os.close(os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        return _Place(name, target, old)


def _unnamed_file(folder: Path) -> int | None:
    """A file of that folder with no name; None where there is no such thing, and a named one can be made there."""
    try:
        if os.access("/proc/self/fd", os.X_OK):
            return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except (OSError, AttributeError) as error:  # only Linux has os.O_TMPFILE
        if isinstance(error, OSError) and error.errno not in _NO_TMPFILE:
            raise
    probe = _free_name(folder)
    os.close(_named_file(probe))
    probe.unlink()
    return None


def _named_file(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)


def _replace(place: _Place, unnamed: int | None, parts: Parts) -> bool:
    """Put a new file in the place of the old one, or of none; False where the old one must be written itself."""
    temporary, handle = _free_name(place.path.parent), unnamed
    try:
        if handle is None:
            handle = _named_file(temporary)
        _fill(handle, parts)
        if place.old is not None and not _made_alike(handle, place.path, place.old):
            return False
        os.fsync(handle)
        if unnamed is not None:
            if place.old is None:
                with suppress(OSError):  # someone else may have made it in the meantime
                    _link(unnamed, place.path)
                    return True
            try:
                _link(unnamed, temporary)
            except OSError:  # a file system that has unnamed files and gives them no name
                return _replace(place, None, parts)
        try:
            temporary.replace(place.path)
        except OSError as error:
            if place.old is None or error.errno not in _NOT_REPLACED:
                raise
            return False
        return True
    finally:
        temporary.unlink(missing_ok=True)
        if handle is not None and handle != unnamed:
            os.close(handle)


def _made_alike(handle: int, path: Path, old: os.stat_result) -> bool:
    """Give a new file the owner, the mode and (best effort) the extended attributes of an old one."""
    try:
        new = os.fstat(handle)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
    except OSError:
        return False
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(path):
                with suppress(OSError):
                    os.setxattr(handle, name, os.getxattr(path, name))
    return True


def _write_through(path: Path, parts: Parts) -> None:
    """Write an existing file itself; its room is reserved before a byte of it is changed."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        before, size = os.fstat(handle).st_size, sum(len(part) for part in parts)
        if size > before and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(handle, before, size - before)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # the file system reserves nothing
                    os.ftruncate(handle, before)
                    raise
        _fill(handle, parts)
        os.ftruncate(handle, size)
        os.fsync(handle)
    finally:
        os.close(handle)


def _fill(handle: int, parts: Parts) -> None:
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(handle, view[:_WRITE_BYTES]) :]


def _free_name(folder: Path) -> Path:
    return folder / f".tilecopy-{secrets.token_hex(8)}.npy"


def _link(handle: int, path: Path) -> None:
    """``linkat`` of an open file (open(2), O_TMPFILE); os.link uses it when it is given a directory."""
    folder = os.open("/proc/self/fd", os.O_PATH | os.O_CLOEXEC)
    try:
        os.link(str(handle), path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
