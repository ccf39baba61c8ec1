"""The installed distributions on ``sys.path``. If several folders have the same distribution, the first folder wins."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from importlib import invalidate_caches
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PluginError
from ..errors.attrs_classes import frozen
from ..errors.fork_lock import LOCK
from ..errors.lazy_regex import pattern

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoints

    _Copy = tuple[str, str, Distribution | None]  # location, version, metadata unless they are in a folder

_FOLDER_NAME = pattern(
    r"(?P<name>[^-]+(?:-[^-\d][^-]*)*?)(?:-(?P<version>\d[^-]*)(?:-py[\d.]+)?)?\.(?:dist|egg)-info", re.I
)
"""The folder or file of a distribution's metadata; an ``.egg-info`` of a source tree has no version."""
_NAME = pattern(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""A name that a distribution can have (PEP 508); pip renames what it is about to delete to ``~ame``."""
_VERSION = pattern(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<phase>alpha|a|beta|b|preview|pre|rc|c|post|rev|r)[-_.]?(?P<number>\d*))?(?P<rest>[^+]*)(?P<local>.*)",
    re.I,
)
_PHASES = {"dev": -4, "alpha": -3, "a": -3, "beta": -2, "b": -2, "": 0, "post": 1, "rev": 1, "r": 1}
"""The order of a version's phases (PEP 440); other words are release candidates, -1."""
_HEADER = pattern(r"^(name|version|requires-dist):(.*)$", re.I | re.M)


@frozen(eq=False)
class Installed:
    """A frozen record of an installed distribution.

    Attributes:
        name: the name in its metadata, or that of its folder if the metadata cannot be read.
        version: the version in its metadata or its folder's name, or "0" if neither has one.
        requirements: what it requires (PEP 508).
        location: the folder or file of its metadata, or "" if another package's metadata finder provides it.
        metadata: the standard library's view of it.
        other_versions: versions of the same name in the same folder, which an installer left behind.
        shadowed: locations of the same name further along ``sys.path``, which are not used.
    """

    name: str
    version: str
    requirements: tuple[str, ...]
    location: str
    metadata: Distribution
    other_versions: tuple[str, ...] = ()
    shadowed: tuple[str, ...] = ()

    @cached_property
    def entry_points(self) -> EntryPoints:
        """The distribution's entry points. Raises an error of the standard library if the metadata is unreadable."""
        return self.metadata.entry_points


def distributions(*, declaring: str = "") -> list[Installed]:
    """Return the installed distributions, one per name.

    Along ``sys.path`` the first folder that has the name wins. Within a folder the highest version wins. They are read again after
    ``sys.path``, a folder on it or the metadata finders have changed, and after :func:`forget_distributions`.

    Args:
        declaring: only those whose ``entry_points.txt`` has this text, in any case of its letters; reading the metadata of all takes much longer.

    Raises:
        PluginError: a metadata finder of this process raised.
    """
    path = tuple(entry for entry in sys.path if isinstance(entry, str))
    return list(_read(declaring, path, tuple(map(_modification_ns, path)), tuple(map(id, sys.meta_path))))


def forget_distributions() -> None:
    """Clear the cache of installed distributions. Call it after a change that keeps a folder's modification time."""
    invalidate_caches()
    _read.cache_clear()


def _modification_ns(entry: str) -> int:
    """Return the modification time of an entry of ``sys.path``, or 0 if it does not exist."""
    with suppress(OSError, ValueError):
        return os.stat(entry or ".").st_mtime_ns  # noqa: PTH116 - in a tenth of a Path's time
    return 0


@lru_cache(maxsize=4)
def _read(
    declaring: str, path: tuple[str, ...], times_ns: tuple[int, ...], finders: tuple[int, ...]
) -> list[Installed]:
    """Return the distributions on a path, cached for the modification times of its folders and the metadata finders."""
    with LOCK:
        from importlib.metadata import Distribution

    copies: dict[str, list[_Copy]] = {}
    for folder_name, location, metadata in _metadata_on(path):
        match = _FOLDER_NAME.fullmatch(folder_name)
        name = match["name"] if match else _header(metadata or Distribution.at(location)).get("name", [""])[0]
        if _NAME.fullmatch(name):
            version = (match["version"] if match else None) or "0"
            copies.setdefault(canonical(name), []).append((location, version, metadata))
    declares = partial(_declares, declaring)
    return [_chosen(name, versions) for name, versions in copies.items() if any(map(declares, versions))]


def _metadata_on(path: tuple[str, ...]) -> Iterator[tuple[str, str, Distribution | None]]:
    """Yield name and location of each folder of metadata on a path, and the metadata itself if it is elsewhere."""
    for finder in sys.meta_path:  # folders are listed here, in less time than the standard library takes
        for entries in zip(path, strict=True) if finder is PathFinder else [path]:
            names = _names_in(entries[0]) if finder is PathFinder else None
            folder = str(Path(entries[0])) + os.sep if names and Path(entries[0]) != Path() else ""
            yield from ((name, folder + name, None) for name in names or ())
            for metadata in _metadata_of(finder, list(entries)) if names is None else ():
                info = getattr(metadata, "_path", None)
                yield getattr(info, "name", ""), str(info or ""), metadata


def _metadata_of(finder: Any, path: list[str]) -> list[Distribution]:
    """Return the distributions that a finder of ``sys.meta_path`` lists on a path."""
    from importlib.metadata import DistributionFinder

    try:
        find = getattr(finder, "find_distributions", None)
        return list(find(DistributionFinder.Context(path=path))) if find else []
    except Exception as error:
        kind = finder if isinstance(finder, type) else type(finder)
        name = f"the metadata finder {kind.__module__}.{kind.__qualname__} of sys.meta_path"
        raise PluginError(f"{name} cannot list the installed packages: {type(error).__name__}: {error}") from error


def _names_in(folder: str) -> list[str] | None:
    """Return the names of metadata in a folder, or None for an egg and for what cannot be listed."""
    with suppress(OSError, ValueError):
        names = os.listdir(folder or ".")  # noqa: PTH208 - names alone
        return None if folder.lower().endswith(".egg") else [name for name in names if name.lower().endswith("-info")]
    return None


def _declares(text: str, copy: _Copy) -> bool:
    """Return whether ``entry_points.txt`` has a text, which is in lower case. A plain file need not be decoded."""
    location, _, metadata = copy
    if metadata is not None:
        return text in text_of(metadata, "entry_points.txt").lower()
    try:
        with open(f"{location}/entry_points.txt", "rb") as file:  # noqa: PTH123 - in half of a Path's time
            return text.encode() in file.read().replace(b"\0", b"").lower()  # UTF-16 has zero bytes between letters
    except OSError:
        return not text


def _chosen(name: str, copies: list[_Copy]) -> Installed:
    """Return the effective distribution of a name: the highest version in the first folder."""
    from importlib.metadata import Distribution

    copies = list({copy[0] or id(copy[2]): copy for copy in copies}.values())
    here = [copy for copy in copies if _folder(copy) == _folder(copies[0])]
    location, version, metadata = here[0] if len(here) == 1 else max(here, key=lambda copy: version_order(copy[1]))
    metadata = metadata or Distribution.at(location)
    fields = _header(metadata)
    requirements = fields.get("requires-dist", [])
    if fields and not requirements:
        with suppress(UnicodeDecodeError):
            requirements = metadata.requires or []  # of an egg: in a file of their own
    return Installed(
        fields.get("name", [""])[0] or name,
        fields.get("version", [""])[0] or version,
        tuple(requirements),
        location,
        metadata,
        tuple(v for path, v, _ in here if path != location),
        tuple(copy[0] for copy in copies if copy not in here),
    )


def _folder(copy: _Copy) -> str:
    return os.path.normcase(os.path.dirname(copy[0]))  # noqa: PTH120 - in a tenth of a Path's time


def _header(metadata: Distribution) -> dict[str, list[str]]:
    """Return three fields of the metadata's header, because parsing all metadata takes twenty times as long."""
    text = text_of(metadata, "METADATA") or text_of(metadata, "PKG-INFO")
    fields: dict[str, list[str]] = {}
    for field, value in _HEADER.findall(text.partition("\n\n")[0]):
        fields.setdefault(field.lower(), []).append(value.strip())
    return fields


def text_of(metadata: Distribution, name: str) -> str:
    """Return the text of a file in a distribution's metadata. Return "" if the file is missing or unreadable."""
    try:
        return metadata.read_text(name) or ""
    except UnicodeDecodeError as error:
        utf_16 = error.object.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\0" in error.object  # by Windows tools
        return error.object.decode("utf-16" if utf_16 else "utf-8", errors="replace")
    except Exception:  # unreadable: somebody else's
        return ""


def canonical(package: str) -> str:
    """Return the normalized name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


def version_order(version: str) -> tuple[Any, ...]:
    """Return a key that sorts versions as PEP 440 does, including pre-releases and local versions."""
    match = _VERSION.match(version)
    if match is None:
        return (-1, version)
    word, develops = (match["phase"] or "").lower(), "dev" in match["rest"].lower()
    phase = _PHASES["dev"] if develops and not word else _PHASES.get(word, -1)
    number = int(match["number"] or 0)
    return int(match["epoch"] or 0), release(match["release"]), phase, number, not develops, match["local"], version


def release(version: str, count: int | None = None) -> tuple[int, ...]:
    """Return at most ``count`` release numbers of a version, without trailing zeros: ``(0, 2)`` for 0.2 or 0.2.0."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in match[1].split(".")[:count]] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
