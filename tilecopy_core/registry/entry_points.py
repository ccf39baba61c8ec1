"""Installed plugins of any kind: what entry points declare, and one of them loaded without harm to the rest.

Variants, executors and whatever else comes by entry point go through here. Nothing is imported to be found; a plugin
that cannot be imported raises a :class:`~tilecopy_core.PluginError` that names its distribution, and nothing else.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from ..errors import TEXT, Kind, PluginError, checked
from ..errors.process_lock import LOCK
from .version import __version__

if TYPE_CHECKING:
    from importlib.metadata import Distribution

CORE = "tilecopy-core"
THIS_PROCESS = "this process"
"""The package of a plugin that was registered by hand."""
SLOW_IMPORT_SECONDS = 4.0
"""An import that takes longer is named: it delays the first copy of every process."""
_NOT_THE_CALLER = ("tilecopy", "pluggy", "importlib")
"""How modules are named that no user wrote."""
_HEADER = re.compile(r"^(name|version|requires-dist):(.*)$", re.I | re.M)


class PluginWarning(UserWarning):
    """A plugin was set aside, failed in a hook, or is slow."""


class WrapperError(PluginError):
    """A wrapper of hooks wrote instructions, or failed where ``TILECOPY_STRICT`` is set."""


@attrs.frozen(eq=False)
class Source:
    """Where a plugin comes from: its entry-point ``name``, and the ``version`` of the distribution ``package`` that declares it.

    ``load`` imports it and returns the plugin object. ``incompatible`` says why this core cannot load it at all (made for another
    hook API), or is ""; ``needs`` says what its distribution demands and this core is not (a newer core), or is "".
    """

    name: str
    package: str
    version: str
    load: Callable[[], Any]
    incompatible: str = ""
    needs: str = ""

    @property
    def owner(self) -> str:
        """Distribution and version, for messages."""
        return self.package if self.package == THIS_PROCESS else f"{self.package} {self.version}"

    @property
    def advice(self) -> str:
        """What somebody can do about the plugin."""
        if self.package == THIS_PROCESS:
            return f"registry.unregister({self.name!r}) removes it"
        return f"TILECOPY_DISABLE={self.name} leaves it out, pip uninstall {self.package} removes it"


_SOURCES = Kind(
    "a list of Source records, at least one",
    lambda value: isinstance(value, list) and value != [] and all(isinstance(each, Source) for each in value),
)


@checked(PluginError, group=TEXT)
def installed(group: str) -> list[Source]:
    """The sources that entry points of a group declare, in the order of names and packages.

    A group's name ends with the version of its contract (``tilecopy.variants.v1``). What is made for another version is
    listed with the reason and what to install; a package that declares several is taken at this one. A distribution whose
    entry points cannot be read is a source of its own name, where it may hold a plugin of the group; to load it says what
    is wrong.
    """
    with LOCK:
        from importlib.metadata import distributions

    family = group.rsplit(".", 1)[0]
    contract = re.compile(re.escape(family) + r"\.v\d+")
    found: dict[tuple[str, str], Source] = {}
    seen: set[str] = set()
    for distribution in distributions():
        wrong, points = "", []
        try:
            points = [point for point in distribution.entry_points if contract.fullmatch(point.group)]
        except Exception as error:
            wrong = shown_error(error)
        if not points and not (wrong and family in _text(distribution, "entry_points.txt")):
            continue
        package, version, requirements = _about(distribution)
        if canonical(package) in seen:
            continue  # an older copy further along sys.path
        seen.add(canonical(package))
        if wrong:
            why = f"the entry points of {package} {version} cannot be read ({wrong}); reinstall it"
            found[(package, package)] = Source(package, package, version, partial(_unreadable, why))
        needs = newer_core_needed(requirements)
        for point in sorted(points, key=lambda point: point.group == group):  # the best is last
            source = Source(point.name, package, version, point.load, needs=needs)
            found[(point.name, package)] = source if point.group == group else _of_another(source, point.group, group)
    return [found[key] for key in sorted(found)]


def _unreadable(why: str) -> NoReturn:
    raise PluginError(why)


def _of_another(source: Source, made_for: str, group: str) -> Source:
    """A source of another version of a contract than this core's ``group``, with what to install."""
    theirs, ours = (int(name.rpartition(".v")[2]) for name in (made_for, group))
    why = f"made for the hook API {made_for}; this core has {group}: pip install --upgrade "
    why += source.package if theirs < ours else f"{CORE} ({source.needs})" if source.needs else CORE
    return attrs.evolve(source, incompatible=why)


def _text(distribution: Distribution, name: str) -> str:
    try:
        return distribution.read_text(name) or ""
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")
    except Exception:  # unreadable: somebody else's
        return ""


def _about(distribution: Distribution) -> tuple[str, str, list[str]]:
    """Name, version and requirements, from the header alone: parsing all metadata takes twenty times as long."""
    text = _text(distribution, "METADATA") or _text(distribution, "PKG-INFO")
    found: dict[str, list[str]] = {}
    for field, value in _HEADER.findall(text.partition("\n\n")[0]):
        found.setdefault(field.lower(), []).append(value.strip())
    return found.get("name", ["unknown"])[0], found.get("version", ["0"])[0], found.get("requires-dist", [])


def canonical(package: str) -> str:
    """A distribution's name as packaging compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


def newer_core_needed(requirements: Iterable[str], core_version: str = __version__) -> str:
    """The requirement that asks for a newer tilecopy-core than this one, in words, or "".

    Only release numbers are compared (PEP 440 without pre-releases), and only what bounds from below: an upper bound
    does not say that this core is missing something. Requirements with a marker are left to the installer.
    """
    have = _release(core_version)
    for requirement in requirements:
        match = re.fullmatch(r"([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*", requirement.strip())
        if match is None or canonical(match[1]) != CORE:
            continue
        for operator, version in re.findall(r"(===|==|~=|>=|>)\s*v?(\d+(?:\.\d+)*)", match[2]):
            wanted = _release(version)
            if wanted > have or (operator == ">" and wanted == have):
                return f"it requires {requirement.strip()}; this is {CORE} {core_version}"
    return ""


def _release(version: str) -> tuple[int, ...]:
    """The release numbers of a version, without trailing zeros: 0.2 and 0.2.0 are one."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in match[1].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def load(source: Source) -> Any:
    """Import a plugin and return its object; what it prints meanwhile goes to standard error.

    Whatever the import raises, but KeyboardInterrupt, is raised as a PluginError that names the distribution.
    """
    try:
        with LOCK, redirect_stdout(sys.stderr):
            started = time.perf_counter()
            plugin = source.load()
            seconds = time.perf_counter() - started
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(f"{source.owner} failed to load: {fault_of(error)}") from error
    if seconds > SLOW_IMPORT_SECONDS:
        warn_outside(f"importing {source.name} ({source.owner}) took {seconds:.1f} s, and the first copy waited for it")
    return plugin


def by_name(group: str) -> dict[str, list[Source]]:
    """The installed sources of a group that this core can load, by name."""
    found: dict[str, list[Source]] = {}
    for source in installed(group):
        if not source.incompatible:
            found.setdefault(source.name, []).append(source)
    return found


@checked(PluginError, sources=_SOURCES, make=Kind("a function of the plugin", callable))
def load_only(sources: list[Source], make: Callable[[Any], Any] = lambda plugin: plugin) -> Any:
    """What the one source of a name gives, or what ``make`` makes of it.

    Raises PluginError where several packages have the name, where the one is made for another core, and where it or ``make`` fails.
    """
    first, *others = sources
    if others:
        owners = " and by ".join(source.owner for source in sources)
        raise PluginError(f"the name {first.name!r} is registered by {owners}; pip uninstall one of them")
    remedy = f"pip install --upgrade {first.package}, or pip uninstall {first.package}"
    if first.needs or first.incompatible:
        raise PluginError(f"{first.owner}: {first.incompatible or f'{first.needs}; {remedy}'}")
    try:
        return load(attrs.evolve(first, load=lambda: make(first.load())))
    except PluginError as error:
        raise PluginError(f"{error}; {remedy}") from error


def shown_error(error: BaseException) -> str:
    """An exception's type and message on one line."""
    try:
        text = " ".join(str(error).split())
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "(its message cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def fault_of(error: BaseException) -> str:
    """As :func:`shown_error`; a PluginError says all by its message."""
    return " ".join(str(error).split()) if isinstance(error, PluginError) else shown_error(error)


def warn_outside(message: str | Warning, category: type[Warning] = PluginWarning, where: str = "") -> None:
    """Warn at the first caller outside tilecopy's packages, or at ``where``, a ``file:line`` of the user's program."""
    if where:
        file, _, line = where.rpartition(":")
        warnings.warn_explicit(message, category, file, int(line))
        return
    frame = sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_NOT_THE_CALLER):
        frame = frame.f_back
    seen = frame.f_globals.setdefault("__warningregistry__", {})
    name = str(frame.f_globals.get("__name__", "<unknown>"))
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, name, seen)
