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

from ..errors import PluginError, without_addresses
from ..errors.patterns import pattern
from ..errors.process_lock import LOCK
from ..errors.records import frozen
from .distributions import canonical, distributions, release, text_of
from .renamed import needed_change
from .version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

CORE = "tilecopy-core"
THIS_PROCESS = "this process"
"""The package of a plugin that was registered by hand."""
SLOW_IMPORT_SECONDS = 4.0
"""An import that takes more CPU time of its thread is named: it delays the first copy of every process."""
_NOT_THE_CALLER = ("tilecopy", "pluggy", "importlib")
"""How modules are named that no user wrote."""
_POINT_NAME = pattern(r"[\w.-]+", re.ASCII)
_REFERENCE = pattern(r"[^\W\d]\w*(\.[^\W\d]\w*)*(\s*:\s*[^\W\d]\w*(\.[^\W\d]\w*)*)?(\s*\[.*\])?")
"""An object reference of the entry-points specification."""


class PluginWarning(UserWarning):
    """A plugin was set aside, failed in a hook, or is slow."""


class SlowPluginWarning(PluginWarning):
    """A hook or the import of a plugin takes seconds of CPU time."""


class WrapperError(PluginError):
    """A wrapper of hooks wrote instructions, or failed where ``TILECOPY_STRICT`` is set."""


@frozen(eq=False)
class Source:
    """Where a plugin comes from: its entry-point ``name``, and the ``version`` of the distribution ``package`` that declares it.

    ``load`` imports it and returns the plugin object. ``incompatible`` says why this core cannot load it at all (made for another
    hook API), or is ""; ``needs`` says which requirement of its distribution excludes this core, or is "".
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


def installed_sources(group: str) -> list[Source]:
    """The sources that entry points of a group declare, in the order of names and packages.

    A group's name ends with the version of its contract (``tilecopy.variants.v1``). What is made for another version is
    listed with the reason and what to install; a package that declares several is taken at this one. A distribution whose
    entry points cannot be read is a source of its own name, where it may hold a plugin of the group; to load it says what
    is wrong.
    """
    family = group.rsplit(".", 1)[0]
    sources: dict[tuple[str, str], Source] = {}
    for package in distributions(declaring=family.partition(".")[0] + "."):  # read once for all groups of a project
        load: Callable[[], Any]
        wrong, points = "", []
        try:
            points = [point for point in package.entry_points if _is_version_of(family, point.group)]
        except Exception as error:
            wrong = short_error(error) if family in text_of(package.metadata, "entry_points.txt") else ""
        if not points and not wrong:
            continue
        if wrong:
            why = f"the entry points of {package.name} {package.version} cannot be read ({wrong}); reinstall it"
            sources[package.name, package.name] = Source(
                package.name, package.name, package.version, partial(_unreadable, why)
            )
        needs = core_excluded(package.requirements)
        for point in sorted(points, key=lambda point: point.group == group):  # the best is last
            twins = [other.value for other in points if (other.group, other.name) == (point.group, point.name)]
            why = _why_malformed(point, twins)
            wrong = f"entry point {point.name} = {point.value}: {why}"
            load = partial(_unreadable, wrong) if why else point.load
            source = Source(point.name, package.name, package.version, load, needs=needs)
            sources[point.name, package.name] = (
                source if point.group == group else _of_another(source, point.group, group)
            )
    return [sources[key] for key in sorted(sources)]


def _why_malformed(point: EntryPoint, twins: list[str]) -> str:
    """Return which rule an entry point breaks, or ""; ``twins`` are the values of all its package has of that name."""
    if not _POINT_NAME.fullmatch(point.name):
        return "the name must be of letters, digits, '_', '-' and '.'"
    if not _REFERENCE.fullmatch(point.value):
        return "the value must be a module or module:attribute, of names that Python can import"
    if len(set(twins)) > 1:
        return f"its package declares the name {len(twins)} times, as {' and '.join(twins)}"
    return ""


def _is_version_of(family: str, group: str) -> bool:
    name, _, version = group.rpartition(".v")
    return name == family and version.isdecimal()


def _unreadable(why: str) -> NoReturn:
    raise PluginError(why)


def _of_another(source: Source, made_for: str, group: str) -> Source:
    """A source of another version of a contract than this core's ``group``, with what to install."""
    theirs, ours = (int(name.rpartition(".v")[2]) for name in (made_for, group))
    why = f"made for the hook API {made_for}; this core has {group}: pip install --upgrade "
    why += source.package if theirs < ours else f"{CORE} ({source.needs})" if source.needs else CORE
    return attrs.evolve(source, incompatible=why)


def core_excluded(requirements: Iterable[str], core_version: str = __version__) -> str:
    """Return which requirement excludes this tilecopy-core and what to install, for a message, or "".

    Release numbers are compared (PEP 440 without pre-releases). Requirements with a marker are left to the installer.
    """
    for requirement in map(str.strip, requirements):
        match = re.fullmatch(r"([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*", requirement)
        if match is None or canonical(match[1]) != CORE:
            continue
        for operator, version, wildcard in re.findall(r"(===|[=~!<>]=|[<>])\s*v?(\d+(?:\.\d+)*)(\.\*)?", match[2]):
            series = version.count(".")
            core, bound = release(core_version, series + 1 if wildcard else None), release(version)
            allowed = {
                ">=": core >= bound,
                ">": core > bound,
                "<": core < bound,
                "<=": core <= bound,
                "!=": core != bound,
                "~=": core >= bound and release(core_version, series) == release(version, series),
            }.get(operator, core == bound)
            if not allowed:
                old = core < bound or operator == ">"
                remedy = (
                    f"upgrade {CORE}" if old else f"install a version that {needed_change('synthesize', 'min_arch=')}"
                )
                return f"it requires {requirement}; this is {CORE} {core_version}; {remedy}"
    return ""


def load(source: Source) -> Any:
    """Import a plugin and return its object; what it prints meanwhile goes to standard error.

    Whatever the import raises, but KeyboardInterrupt, is raised as a PluginError that names the distribution.
    """
    try:
        with LOCK, redirect_stdout(sys.stderr):
            started = time.thread_time()
            plugin = source.load()
            seconds = time.thread_time() - started
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(f"{source.owner} failed to load: {fault_of(error)}") from error
    if seconds > SLOW_IMPORT_SECONDS:
        what = f"importing {source.name} ({source.owner}) took {seconds:.1f} s of CPU time; the first copy waits for it"
        warn_outside(what, SlowPluginWarning)
    return plugin


def by_name(group: str) -> dict[str, list[Source]]:
    """The installed sources of a group that this core can load, by name."""
    sources: dict[str, list[Source]] = {}
    for source in installed_sources(group):
        if not source.incompatible:
            sources.setdefault(source.name, []).append(source)
    return sources


def load_unique(sources: list[Source], make: Callable[[Any], Any] = lambda plugin: plugin) -> Any:
    """What the one source of a name gives, or what ``make`` makes of it.

    Raises PluginError where several packages have the name, where the one is made for another core, and where it or ``make`` fails.
    """
    first, *others = sources
    if others:
        owners = " and by ".join(source.owner for source in sources)
        raise PluginError(f"the name {first.name!r} is registered by {owners}; pip uninstall one of them")
    remedy = f"pip install --upgrade {first.package}, or pip uninstall {first.package}"
    if first.needs or first.incompatible:
        raise PluginError(f"{first.owner}: {first.incompatible or f'{first.needs}, or pip uninstall {first.package}'}")
    try:
        return load(attrs.evolve(first, load=lambda: make(first.load())))
    except PluginError as error:
        raise PluginError(f"{error}; {remedy}") from error


def short_error(error: BaseException) -> str:
    """An exception's type and message on one line, without addresses of objects."""
    try:
        text = without_addresses(" ".join(str(error).split()))
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "(its message cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def fault_of(error: BaseException) -> str:
    """Return :func:`short_error` of an exception, or the message alone of a PluginError, which says all."""
    return " ".join(str(error).split()) if isinstance(error, PluginError) else short_error(error)


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
