"""Functions that discover installed plugins by their entry points and import a plugin.

All entry points, such as those of variants and executors, are loaded by this module. Discovery imports nothing. If a plugin
cannot be imported, a :class:`~tilecopy_core.PluginError` that names its distribution is raised; other plugins still work.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from ..errors import PluginError, without_addresses
from ..errors.attrs_classes import frozen
from ..errors.fork_lock import LOCK
from ..errors.lazy_regex import pattern
from .distributions import canonical, distributions, release, text_of
from .renamed import needed_change
from .version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

CORE = "tilecopy-core"
THIS_PROCESS = "a registered object"
"""The package of a plugin that was registered with :meth:`Registry.register`."""
SLOW_IMPORT_SECONDS = 4.0
"""The CPU time of an import above which a warning is given, because it delays the first copy of every process."""
_NOT_THE_CALLER = ("tilecopy", "pluggy", "importlib")
"""Prefixes of the names of modules that are not the user's."""
_POINT_NAME = pattern(r"[\w.-]+", re.ASCII)
_REFERENCE = pattern(r"[^\W\d]\w*(\.[^\W\d]\w*)*(\s*:\s*[^\W\d]\w*(\.[^\W\d]\w*)*)?(\s*\[.*\])?")
"""An object reference of the entry-points specification."""


class PluginWarning(UserWarning):
    """A warning about a plugin that was set aside, failed in a hook, or is slow."""


class SlowPluginWarning(PluginWarning):
    """A warning about a plugin whose hook or import takes seconds of CPU time."""


class WrapperError(PluginError):
    """Raised if a hook wrapper wrote instructions, or if it failed and ``TILECOPY_STRICT`` is set."""


@frozen(eq=False)
class Source:
    """A frozen record of a plugin's origin: its entry-point ``name``, and the distribution ``package`` with its ``version``.

    ``load`` imports the plugin and returns its object. ``incompatible`` is the reason why this core cannot load it (it was made
    for another hook API), or ""; ``needs`` names the requirement of its distribution that excludes this core, or is "".
    """

    name: str
    package: str
    version: str
    load: Callable[[], Any]
    incompatible: str = ""
    needs: str = ""

    @property
    def owner(self) -> str:
        """The name and version of the distribution, as messages show them."""
        return self.package if self.package == THIS_PROCESS else f"{self.package} {self.version}"

    @property
    def advice(self) -> str:
        """A phrase that says how to remove or disable the plugin."""
        if self.package == THIS_PROCESS:
            return f"registry.unregister({self.name!r}) removes it"
        return f"TILECOPY_DISABLE={self.name} disables it, pip uninstall {self.package} removes it"


def installed_sources(group: str) -> list[Source]:
    """Return the plugins that entry points of a group declare, sorted by name and package.

    A group's name ends with the version of its contract (``tilecopy.variants.v1``). A plugin for another version is
    listed with the reason and what to install; if a package declares several versions, this one is used. If the entry
    points of a distribution cannot be read and may contain a plugin of the group, the distribution is listed under its
    own name; loading it raises an error with the cause.
    """
    family = group.rsplit(".", 1)[0]
    sources: dict[tuple[str, str], Source] = {}
    for package in distributions(declaring=family.partition(".")[0] + "."):  # read once for all groups of a project
        load: Callable[[], Any]
        points: list[EntryPoint] = []
        try:
            points = [point for point in package.entry_points if _is_version_of(family, point.group)]
        except Exception as error:
            if family in text_of(package.metadata, "entry_points.txt"):
                why = f"the entry points of {package.name} {package.version} cannot be read ({short_error(error)}); reinstall it"
                load = partial(_unreadable, why)
                sources[package.name, package.name] = Source(package.name, package.name, package.version, load)
        for point in sorted(points, key=lambda point: point.group == group):  # the best is last
            twins = [other.value for other in points if (other.group, other.name) == (point.group, point.name)]
            why = _why_malformed(point, twins)
            load = partial(_unreadable, f"entry point {point.name} = {point.value}: {why}") if why else point.load
            needs = core_excluded(package.requirements)
            source = Source(point.name, package.name, package.version, load, needs=needs)
            source = source if point.group == group else _of_another(source, point.group, group)
            sources[point.name, package.name] = source
    return [sources[key] for key in sorted(sources)]


def _why_malformed(point: EntryPoint, twins: list[str]) -> str:
    """Return which rule an entry point breaks, or ""; ``twins`` are the values of all entry points of its package with its name."""
    if not _POINT_NAME.fullmatch(point.name):
        return f"the name must consist of letters, digits, '_', '-' and '.', got {point.name!r}"
    if not _REFERENCE.fullmatch(point.value):
        return f"the value must be a module or module:attribute that Python can import, got {point.value!r}"
    if len(set(twins)) > 1:
        return f"the package must declare one value for this name, got {' and '.join(twins)}"
    return ""


def _is_version_of(family: str, group: str) -> bool:
    name, _, version = group.rpartition(".v")
    return name == family and version.isdecimal()


def _unreadable(why: str) -> NoReturn:
    raise PluginError(why)


def _of_another(source: Source, made_for: str, group: str) -> Source:
    """Return a source for another version of the contract as incompatible, with the reason and what to install."""
    theirs, ours = (int(name.rpartition(".v")[2]) for name in (made_for, group))
    why = f"the plugin was made for hook API {made_for}, but this core has {group}: pip install --upgrade "
    why += source.package if theirs < ours else f"{CORE} ({source.needs})" if source.needs else CORE
    return attrs.evolve(source, incompatible=why)


@lru_cache(maxsize=256)
def core_excluded(requirements: tuple[str, ...], core_version: str = __version__) -> str:
    """Return a message with a remedy if a requirement excludes this version of tilecopy-core, else "".

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
                return f"it requires {requirement}, but {CORE} {core_version} is installed; {remedy}"
    return ""


def load(source: Source) -> Any:
    """Import a plugin and return its object. Anything that the import prints goes to standard error.

    Any exception of the import except KeyboardInterrupt becomes a PluginError that names the distribution.
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
        what = f"importing {source.name} ({source.owner}) took {seconds:.1f} s of CPU time (limit {SLOW_IMPORT_SECONDS:g} s)"
        warn_outside(what, SlowPluginWarning)
    return plugin


def by_name(group: str) -> dict[str, list[Source]]:
    """Return a dict from names to the installed plugins of an entry-point group that this tilecopy-core can load."""
    sources: dict[str, list[Source]] = {}
    for source in installed_sources(group):
        if not source.incompatible:
            sources.setdefault(source.name, []).append(source)
    return sources


def load_unique(sources: list[Source], make: Callable[[Any], Any] = lambda plugin: plugin) -> Any:
    """Load the only plugin in ``sources`` and return its object, converted by ``make``.

    Raises PluginError if several packages have the name, if this core cannot load it, or if loading it or ``make`` fails.
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
    """Return an exception's type and message on one line, without addresses of objects."""
    try:
        text = without_addresses(" ".join(str(error).split()))
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "(the exception's message cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def fault_of(error: BaseException) -> str:
    """Return the message of a PluginError. For any other exception, return :func:`short_error` of it."""
    return " ".join(str(error).split()) if isinstance(error, PluginError) else short_error(error)


def warn_outside(message: str | Warning, category: type[Warning] = PluginWarning, where: str = "") -> None:
    """Issue a warning that points at ``where`` (``file:line``), by default at the first caller outside tilecopy."""
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
