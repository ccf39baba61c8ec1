"""The disk cache of built modules: PTX text that was assembled once is machine code in the next process.

The files are cuda.core's ``FileStreamProgramCache``: written beside their place and moved there in one step, the least
recently read ones dropped past a limit, and any number of processes at once. What is added here: a key of everything that
the machine code depends on, a digest before each value (what does not match it is dropped and made anew, never loaded),
and that no trouble with files, nor a library that is missing, ever reaches a launch.

The extra ``tilecopy-cuda[cache]`` brings the libraries (cuda-core, platformdirs); without them there is no disk cache.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from tilecopy.errors import CacheError

from tilecopy_core.registry import LOCK, __version__, warn_outside

VARIABLES = ("TILECOPY_CACHE", "TILECOPY_CACHE_DIR", "TILECOPY_CACHE_LIMIT_MIB")
INSTALL = "from a checkout: pip install 'plugins/cuda[cache]'"
DEFAULT_LIMIT_MIB = 256
"""Some ten thousand kernels: one is 5 to 50 KB."""
_MODULES = "modules"
"""The folder of ours inside the one that is set, so that nothing else in that one is ever touched."""
_FORMAT = b"tilecopy module 1"
_DIGEST_BYTES = hashlib.sha256().digest_size
_WRITE_ATTEMPTS = 8
"""A clear in another process may take an empty folder away between its making and the write into it."""


class CacheWarning(UserWarning):
    """The disk cache cannot be used, or not be written."""


# ----------------------------------------------------------------------------------------------------------- settings


@attrs.frozen
class CacheSettings:
    """What the environment says.

    Attributes:
        folder: where the modules are, or None where there is no place for them.
        limit_bytes: the most that the files may hold together.
        off: why the environment turns the cache off, or "".
        wrong: what is wrong with the environment, or "".
    """

    folder: Path | None
    limit_bytes: int = DEFAULT_LIMIT_MIB << 20
    off: str = ""
    wrong: str = ""


def cache_settings(environ: Mapping[str, str]) -> CacheSettings:
    """The settings of an environment.

    Args:
        environ: ``TILECOPY_CACHE`` (``0`` turns the cache off), ``TILECOPY_CACHE_DIR`` (the folder, by default the
            platform's for caches), ``TILECOPY_CACHE_LIMIT_MIB`` (a positive integer).
    """
    off = "TILECOPY_CACHE=0" if environ.get("TILECOPY_CACHE", "").strip() == "0" else ""
    folder, wrong = _folder(environ.get("TILECOPY_CACHE_DIR", ""))
    limit = environ.get("TILECOPY_CACHE_LIMIT_MIB", "") or str(DEFAULT_LIMIT_MIB)
    mib = int(limit) if limit.isascii() and limit.isdecimal() and len(limit) < 10 else 0
    if mib < 1:
        wrong = f"TILECOPY_CACHE_LIMIT_MIB={limit!r} is not a positive integer of MiB"
    return CacheSettings(folder, mib << 20, off, wrong)


def _folder(given: str) -> tuple[Path | None, str]:
    """The folder of the modules, else what stands against it."""
    try:
        if given:
            return Path(given).expanduser().absolute() / _MODULES, ""
        with LOCK:
            import platformdirs
    except ImportError:
        return None, f"platformdirs is not installed: {INSTALL}, or set TILECOPY_CACHE_DIR"
    except (OSError, RuntimeError) as error:
        return None, f"TILECOPY_CACHE_DIR={given!r}: {error}"
    found = platformdirs.user_cache_path("tilecopy", appauthor=False)
    if not found.is_absolute():  # a user without a home
        return None, f"no folder for caches is known ({found}); set TILECOPY_CACHE_DIR"
    return found / _MODULES, ""


# --------------------------------------------------------------------------------------------------------------- keys


def module_key(ptx: str, target: object, *, driver: str, assembler: str) -> bytes:
    """The key of machine code: a digest of all that it depends on, name and version of the assembler too."""
    digest = hashlib.sha256(_FORMAT)
    for part in (ptx, str(target), driver, assembler, __version__):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def sealed(key: bytes, code: bytes) -> bytes:
    """Machine code behind a digest of itself and its key."""
    return hashlib.sha256(_FORMAT + key + code).digest() + code


def unsealed(key: bytes, value: bytes) -> bytes | None:
    """The machine code of what :func:`sealed` gave for that key; None where a byte of it is another."""
    code = value[_DIGEST_BYTES:]
    return code if code and value == sealed(key, code) else None


# -------------------------------------------------------------------------------------------------------------- cache


@attrs.frozen
class CacheInfo:
    """What there is.

    Attributes:
        on: whether launches use it.
        why_off: why they do not, or "".
        folder: where the modules are, or "".
        entries, bytes: how many there are, and what all files hold together.
        limit_bytes: the most that they may hold.
    """

    on: bool
    why_off: str
    folder: str
    entries: int
    bytes: int
    limit_bytes: int


class ModuleCache:
    """Machine code by key, kept on disk; safe for many threads and processes.

    :meth:`get`, :meth:`put` and :meth:`discard` raise nothing: with trouble there is no entry, and one
    :class:`CacheWarning` says why.

    Args:
        environ: where the settings are looked up, at each use.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._values: tuple[str | None, ...] | None = None
        self._settings = CacheSettings(None)
        self._reader: Any = None
        self._writer: Any = None
        self._why_off = ""
        self._warned = False

    # ------------------------------------------------------------------------------------------------- for launches

    @property
    def on(self) -> bool:
        """Whether launches use it; where something keeps them from it that was not asked for, one warning says what."""
        self._open()
        if self._why_off:
            self._warn(f"is off: {self._why_off}")
        return not self._why_off

    def get(self, key: bytes) -> bytes | None:
        """The machine code of a key, or None; what was truncated or altered is dropped."""
        if not self.on:
            return None
        try:
            assert self._settings.folder is not None  # or it would be off
            _trusted_entry(self._settings.folder, self._reader._path_for_key(key))
            value = self._reader.get(key)
        except FileNotFoundError:
            return None
        except Exception as error:
            self._warn(f"cannot be read: {error}")
            return None
        if value is None:
            return None
        code = unsealed(key, value)
        if code is None:
            self.discard(key)
        return code

    def put(self, key: bytes, code: bytes) -> None:
        """Keep machine code, where that is possible."""
        if not self.on or self._writer is False:
            return
        try:
            if self._writer is None:  # it counts what there is: nothing that a process which only reads should pay
                self._writer = _files(self._settings)
            _write(self._writer, key, sealed(key, code))
        except Exception as error:
            self._writer = False
            self._warn(f"cannot be written: {error}")

    def discard(self, key: bytes) -> None:
        """Drop what was kept for a key."""
        if self.on:
            with suppress(Exception):  # it has gone, or cannot go
                del self._reader[key]

    # --------------------------------------------------------------------------------------------------- for people

    def info(self) -> CacheInfo:
        """What there is, counted now."""
        self._open()
        folder = self._settings.folder
        sizes = list(_sizes(folder))
        return CacheInfo(
            on=not self._why_off,
            why_off=self._why_off,
            folder=str(folder or ""),
            entries=sum(is_entry for is_entry, _ in sizes),
            bytes=sum(size for _, size in sizes),
            limit_bytes=self._settings.limit_bytes,
        )

    def clear(self) -> CacheInfo:
        """Remove every entry, also where ``TILECOPY_CACHE=0`` keeps launches from using them; what there was.

        Raises:
            CacheError: the folder cannot be used, or a file not be removed; the message says why.
        """
        before, settings = self.info(), self._settings
        if settings.folder is None or settings.wrong:
            raise CacheError(f"no module cache to clear: {settings.wrong}")
        if not settings.folder.exists():
            return before
        try:
            _trusted(settings.folder)
            _files(settings, bounded=False).clear()
        except Exception as error:
            raise CacheError(f"the module cache in {settings.folder} cannot be cleared: {error}") from error
        return before

    # ------------------------------------------------------------------------------------------------------- inside

    def _open(self) -> None:
        """Follow the environment, where it has changed."""
        values = tuple(self._environ.get(name) for name in VARIABLES)
        if values == self._values:
            return
        settings = cache_settings(self._environ)
        reader, why = None, settings.off or settings.wrong
        # What was asked for, or a library that was never installed, is nothing to warn of.
        silent = settings.folder is None or settings.off != ""
        if settings.folder is not None and not why:
            try:
                settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _trusted(settings.folder)
                reader = _files(settings, bounded=False)
            except ImportError:
                why, silent = f"cuda.core with a program cache (1.0 or newer) is not installed: {INSTALL}", True
            except Exception as error:
                why = f"{settings.folder} cannot be used: {error}"
        self._settings, self._reader, self._writer = settings, reader, None
        self._why_off, self._warned = why, silent
        self._values = values

    def _warn(self, what: str) -> None:
        """One line for a process and its settings, at the first caller outside this package."""
        if self._warned:
            return
        self._warned = True
        line = f"the module cache {what} (TILECOPY_CACHE=0 turns it off)"
        warn_outside(" ".join(line.split()), CacheWarning)


def _files(settings: CacheSettings, *, bounded: bool = True) -> Any:
    with LOCK:
        from cuda.core.utils import FileStreamProgramCache

    return FileStreamProgramCache(settings.folder, max_size_bytes=settings.limit_bytes if bounded else None)


def _write(files: Any, key: bytes, value: bytes) -> None:
    for _ in range(_WRITE_ATTEMPTS):
        try:
            files[key] = value
            return
        except (FileNotFoundError, FileExistsError):  # somebody is clearing the cache; this entry is made again
            continue


def _trusted(path: Path, *, reached: bool = True) -> None:
    """Refuse what others may have written, or put there, for this user to run.

    Args:
        path: a folder, or a file.
        reached: whether others get at it, so that they may write it where its mode lets them.

    Raises:
        CacheError: it belongs to another user, or others may write it.
    """
    if not hasattr(os, "geteuid"):  # Windows: the folder of the user's own profile
        return
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise CacheError(f"it belongs to another user (uid {found.st_uid})")
    for bit, who, letter in ((stat.S_IWOTH, "everybody", "o"), (stat.S_IWGRP, "its group", "g")):
        if reached and found.st_mode & bit:
            raise CacheError(f"{who} may write there (mode {stat.S_IMODE(found.st_mode):o}); chmod {letter}-w")


def _trusted_entry(folder: Path, path: Path) -> None:
    """Refuse an entry of a trusted folder that others may have written; cuda.core's folders have the modes of the umask.

    Raises:
        CacheError: it is no regular file, or it or a folder above is not trusted.
        FileNotFoundError: there is none.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise CacheError(f"{path} is no regular file")
    reached = bool(folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH))
    for each in (path, path.parent, path.parent.parent):
        try:
            _trusted(each, reached=reached)
        except CacheError as error:
            raise CacheError(f"{each}: {error}") from None


def _sizes(folder: Path | None) -> Iterator[tuple[bool, int]]:
    """Of each file in a folder, whether it is an entry, and its bytes; others may be removing them."""
    if folder is None:
        return
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield Path(root).name != "tmp", Path(root, name).lstat().st_size
