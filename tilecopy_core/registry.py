"""Installed plugins: found by entry point, loaded one by one, set aside when they fail.

Importing this package loads no plugin; the first dispatch does, once. A plugin that cannot be imported, has no valid
record or claims a taken name is set aside with its reason and never takes the others down (docs/design.md,
"Registration"). Order never comes from pluggy or the file system.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from . import hookspecs
from .errors import PluginError
from .hookspecs import HOOKS, PROJECT, VARIANTS_GROUP
from .known import KNOWN_VARIANTS
from .request import OPS, Variant

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EXECUTORS_GROUP = "tilecopy.executors.v1"


class PluginWarning(UserWarning):
    """A plugin was set aside."""


@attrs.frozen(eq=False)
class Source:
    """Where a plugin comes from.

    Attributes:
        name: its entry-point name.
        package: the distribution that declares it.
        version: of that distribution.
        load: imports it and returns the plugin object.
        incompatible: why this core cannot load it at all, or "".
    """

    name: str
    package: str
    version: str
    load: Any
    incompatible: str = ""

    @property
    def owner(self) -> str:
        """Distribution and version, for messages."""
        return f"{self.package} {self.version}"


@attrs.frozen(eq=False)
class Plugin:
    """A source and what became of it.

    Attributes:
        source: where it comes from.
        status: ``ready``, ``wrapper``, ``disabled``, ``broken``, ``duplicate`` or ``incompatible``.
        reason: why it is not ready, or "".
        variant: its record, when ready.
        plugin: its hooks, when ready or a wrapper.
    """

    source: Source
    status: str
    reason: str = ""
    variant: Variant | None = None
    plugin: Any = None

    @property
    def name(self) -> str:
        """The entry-point name."""
        return self.source.name


class _Hooks:
    """The hook implementations of a plugin object, compared by identity whatever the object's own ``==`` says."""

    def __init__(self, plugin: Any) -> None:
        for name in dir(plugin):
            value = getattr(plugin, name, None)
            if hasattr(value, f"{PROJECT}_impl"):
                setattr(self, name, value)


def installed(group: str = VARIANTS_GROUP) -> list[Source]:
    """The sources that entry points declare, in the order of names and packages."""
    from importlib.metadata import entry_points

    found: dict[tuple[str, str, str], Source] = {}
    for point in entry_points(group=group):
        _add_source(found, point, "")
    family = group.rsplit(".", 1)[0]
    for other in sorted(name for name in entry_points().groups if name.startswith(f"{family}.") and name != group):
        if re.fullmatch(re.escape(family) + r"\.v\d+", other):
            for point in entry_points(group=other):
                _add_source(found, point, f"made for the hook API {other}; this core has {group}")
    return [found[key] for key in sorted(found)]


def _add_source(found: dict[tuple[str, str, str], Source], point: EntryPoint, incompatible: str) -> None:
    package, version = (point.dist.name, point.dist.version) if point.dist is not None else ("unknown", "0")
    found[(point.name, package, incompatible)] = Source(point.name, package, version, point.load, incompatible)


def _names(environ: Mapping[str, str], variable: str) -> list[str] | None:
    text = environ.get(variable)
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


class Registry:
    """The variants that this process can ask. :func:`default_registry` is the one that dispatch uses.

    Args:
        sources: the plugins; by default those that entry points declare.
        environ: where ``TILECOPY_DISABLE``, ``TILECOPY_ONLY`` and ``TILECOPY_STRICT`` are read, at each use.
    """

    def __init__(self, sources: Iterable[Source] | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._sources = list(sources) if sources is not None else installed()
        self._environ = os.environ if environ is None else environ
        self._lock = threading.RLock()
        self._loaded: dict[int, Plugin] = {}
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._callers: dict[tuple[str, str], Any] = {}

    # ------------------------------------------------------------------------------------------- contents

    @property
    def strict(self) -> bool:
        """Whether a broken plugin raises instead of being set aside (``TILECOPY_STRICT=1``)."""
        return self._environ.get("TILECOPY_STRICT", "") not in ("", "0")

    def plugins(self) -> list[Plugin]:
        """Every plugin and its status, by priority (higher first), then name; the ones that are not ready come last.

        Raises:
            PluginError: an environment list names what is not installed, or with ``TILECOPY_STRICT`` set a plugin is
                broken or a name is taken twice.
        """
        with self._lock:
            disabled = self._disabled()
            result = [self._plugin(source, disabled) for source in self._sources]
        return sorted(result, key=lambda p: (p.variant is None, -(p.variant.priority if p.variant else 0), p.name))

    def _disabled(self) -> dict[str, str]:
        names = {source.name for source in self._sources}
        found: dict[str, str] = {}
        for variable in ("TILECOPY_DISABLE", "TILECOPY_ONLY"):
            listed = _names(self._environ, variable)
            if listed is None:
                continue
            for name in listed:
                if name not in names and name not in KNOWN_VARIANTS:
                    close = get_close_matches(name, names | set(KNOWN_VARIANTS), 1)
                    hint = f"; did you mean {close[0]}?" if close else ""
                    raise PluginError(f"{variable} names {name!r}, and no such variant is installed{hint}")
            for name in names:
                if (name in listed) == (variable == "TILECOPY_DISABLE"):
                    found[name] = f"disabled by {variable}={self._environ[variable]}"
        return found

    def _plugin(self, source: Source, disabled: Mapping[str, str]) -> Plugin:
        """What became of a source; decided without importing it where that can be."""
        if source.incompatible:
            return Plugin(source, "incompatible", source.incompatible)
        if source.name in disabled:
            return Plugin(source, "disabled", disabled[source.name])
        owners = [s.owner for s in self._sources if s.name == source.name and not s.incompatible]
        if id(source) not in self._loaded:
            if len(owners) > 1:
                reason = f"the name {source.name!r} is registered by {' and by '.join(sorted(owners))}; uninstall one"
                plugin = Plugin(source, "duplicate", reason)
                self._report(plugin)
            else:
                plugin = self._load(source)
            self._loaded[id(source)] = plugin
        elif self.strict and self._loaded[id(source)].status in ("broken", "duplicate"):
            raise PluginError(self._loaded[id(source)].reason)
        return self._loaded[id(source)]

    def _load(self, source: Source) -> Plugin:
        try:
            plugin = source.load()
            variant = getattr(plugin, "variant", None)
            hooks = _Hooks(plugin)
            self._callers.clear()
            try:
                self._manager.register(hooks, name=source.name)
                status = self._check(source, hooks, variant)
            except Exception:
                if self._manager.is_registered(hooks):
                    self._manager.unregister(hooks)
                raise
            return Plugin(source, status, "", variant if status == "ready" else None, hooks)
        except Exception as error:
            broken = Plugin(source, "broken", f"{source.owner} failed to load: {type(error).__name__}: {error}")
            if self.strict:
                raise PluginError(f"variant {source.name}: {broken.reason}") from error
            self._report(broken)
            return broken

    def _check(self, source: Source, plugin: _Hooks, variant: Any) -> str:
        self._manager.check_pending()
        callers = self._manager.get_hookcallers(plugin) or []
        if variant is None:
            impls = [impl for caller in callers for impl in caller.get_hookimpls() if impl.plugin is plugin]
            if impls and all(impl.wrapper or impl.hookwrapper for impl in impls):
                return "wrapper"
            raise PluginError("it has no attribute 'variant' (a tilecopy_core.Variant)")
        if not isinstance(variant, Variant):
            raise PluginError(f"its attribute 'variant' is {variant!r}, not a tilecopy_core.Variant")
        if variant.name != source.name:
            raise PluginError(f"its record is named {variant.name!r}, its entry point {source.name!r}")
        if variant.op not in OPS:
            raise PluginError(f"its record has op {variant.op!r}; the ops are {', '.join(OPS)}")
        missing = sorted(set(HOOKS) - {caller.name for caller in callers})
        if missing:
            raise PluginError(f"it does not implement {', '.join(missing)}")
        return "ready"

    def _report(self, plugin: Plugin) -> None:
        if self.strict:
            raise PluginError(f"variant {plugin.name}: {plugin.reason}")
        warnings.warn(f"variant {plugin.name} is set aside: {plugin.reason}", PluginWarning, stacklevel=6)

    def register(self, plugin: Any, *, name: str, package: str = "this process", version: str = "0") -> None:
        """Add a plugin object of this process (for tests, notebooks and tracing wrappers)."""
        with self._lock:
            self._sources.append(Source(name, package, version, lambda: plugin))
            self._callers.clear()

    # ------------------------------------------------------------------------------------------- calls

    def call(self, plugin: Plugin, hook: str, **arguments: Any) -> Any:
        """Call one hook of one variant; wrappers registered by others run around it."""
        with self._lock:
            caller = self._callers.get((plugin.name, hook))
            if caller is None:
                others = [
                    p.plugin for p in self._loaded.values() if p.variant is not None and p.plugin is not plugin.plugin
                ]
                caller = self._manager.subset_hook_caller(hook, remove_plugins=others)
                self._callers[(plugin.name, hook)] = caller
        return caller(**arguments)


_default: list[Registry] = []
_default_lock = threading.Lock()


def default_registry() -> Registry:
    """The registry of this process, made at the first call: the one global state of tilecopy."""
    with _default_lock:
        if not _default:
            _default.append(Registry())
        return _default[0]
