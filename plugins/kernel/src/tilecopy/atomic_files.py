"""Functions that write files atomically: a failure leaves the old files, and no reader sees a partly written file."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

__all__ = ["check_writable", "write_files"]

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


def check_writable(path: str | Path) -> None:
    """Raise OSError if :func:`write_files` cannot write the file at ``path``. The file is not changed.

    Raises:
        OSError: the path does not name a regular file, the file is read-only, or its directory is missing or cannot be
            written.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"the directory {target.parent} does not exist") from None
    else:
        if (kind := _KINDS.get(stat.S_IFMT(mode))) is not None:
            raise FileExistsError(errno.EEXIST, f"the path must name a regular file, got {kind}")
        if not mode & stat.S_IWUSR or not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, f"the file must be writable, got mode {stat.S_IMODE(mode):04o}")
    probe = _temporary_name(target)
    probe.touch(exist_ok=False)
    probe.unlink()


def write_files(contents: Mapping[Path, Iterable[Any]]) -> None:
    """Write every file under a temporary name in the same folder, then rename every temporary file to its final name.

    A symbolic link stays a link: the file that it points to is replaced. An existing file keeps its permission bits. On Windows, a
    file that another process has open cannot be replaced.

    Args:
        contents: path -> the parts of the file, as bytes or flat byte arrays, written one after the other.

    Raises:
        OSError: :func:`check_writable` fails for a path, or writing fails; no file is changed then.
    """
    with ExitStack() as cleanup:
        replacements = []
        for path, parts in contents.items():
            check_writable(path)
            target = Path(os.path.realpath(path))
            temporary = _temporary_name(target)
            cleanup.callback(temporary.unlink, missing_ok=True)
            with temporary.open("xb") as file:
                if target.exists():
                    shutil.copymode(target, temporary)
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            replacements.append((temporary, target))
        for temporary, target in replacements:
            temporary.replace(target)


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".tilecopy-{secrets.token_hex(8)}.tmp")
