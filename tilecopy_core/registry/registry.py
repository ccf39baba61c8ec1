"""The registry of variants. It loads plugins once and calls their hooks.

Importing this package loads no plugin; the first dispatch loads all, once. A plugin that cannot be imported, has no valid
record or claims the name of another is set aside with a reason, and the others still work. The order of plugins never
depends on pluggy or the file system.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import pluggy

from ..description.record_checks import why_other_op
from ..description.request import Variant
from ..errors import PerformanceWarning, PluginError, RequestError, did_you_mean, instance_of, short_repr, tuple_of
from ..errors.attrs_classes import frozen
from ..errors.fork_lock import LOCK
from .distributions import canonical, forget_distributions
from .entry_points import (
    THIS_PROCESS,
    PluginWarning,
    SlowPluginWarning,
    Source,
    WrapperError,
    fault_of,
    installed_sources,
    load,
    warn_outside,
)
from .hook_calls import Plugin, WrapperCall, hook_manager, hooks_of, manager_of
from .hookspecs import DISPATCH, HOOKS, VARIANTS_GROUP
from .installable import known_variants
from .priorities import CURRENT_PRIORITIES, VARIABLE, Priority, checked_priorities, parsed_priorities

SLOW_SECONDS = {"tilecopy_predicate": 2.0, "tilecopy_partition": 2.0, "tilecopy_emit": 10.0, "tilecopy_dispatch": 2.0}
"""The CPU time of a hook above which a warning is given. A copy is lowered in about a millisecond; the limits are far above
the time of the largest copies."""
_SOURCES = tuple_of(instance_of("a Source", Source))
_VARIABLES = ("TILECOPY_DISABLE", "TILECOPY_ONLY", "TILECOPY_STRICT", VARIABLE)


@frozen(eq=False)
class Table:
    """A frozen record of all plugins and each plugin's status, for given values of the environment variables.

    ``wrappers`` are the plugins that wrap a hook, by hook, the outermost first. ``managers`` call the hooks of a plugin and are
    made at the first call. ``sifted`` caches which records fit requests of one kind. ``ignorable`` has op and name of the options
    that a variant may ignore if it does not declare them. ``priorities`` are the user's, by variant.
    """

    plugins: tuple[Plugin, ...]
    environment: tuple[str | None, ...]
    wrappers: Mapping[str, tuple[Plugin, ...]]
    priorities: Mapping[str, Priority]
    sifted: dict[Any, tuple[list[Plugin], list[Any]]] = attrs.field(factory=dict)
    managers: dict[Plugin, pluggy.PluginManager] = attrs.field(factory=dict)
    ignorable: frozenset[tuple[str, str]] = attrs.field(init=False)

    @ignorable.default
    def _ignorable(self) -> frozenset[tuple[str, str]]:
        ready = [plugin.variant for plugin in self.plugins if plugin.variant is not None]
        declared = [((variant.op, option.name), option.ignorable) for variant in ready for option in variant.options]
        return frozenset(dict(declared)) - {key for key, ignorable in declared if not ignorable}

    def plugin_named(self, name: str) -> Plugin | None:
        """Return the plugin with a name, or None. If several plugins have the name, return the ready one."""
        return next((plugin for plugin in self.plugins if plugin.name == name), None)

    def priority_of(self, plugin: Plugin, answered: int | None = None) -> Priority:
        """Return the effective priority of a variant; see :meth:`Registry.priority_of`."""
        here = CURRENT_PRIORITIES.get()
        if here:
            _check_named("tc.priorities", here, {plugin.name for plugin in self.plugins})
        users = here.get(plugin.name) or self.priorities.get(plugin.name)
        return users or Priority(plugin.record.priority if answered is None else answered)


class Registry:
    """A collection of variants for dispatch. Without ``registry=``, dispatch uses :func:`default_registry`.

    The plugins are those of ``sources``, by default those that entry points declare. ``TILECOPY_DISABLE``, ``TILECOPY_ONLY``,
    ``TILECOPY_STRICT`` and ``TILECOPY_PRIORITY`` are looked up in ``environ`` at each dispatch. ``priorities`` by name overrule
    those of the variants and of ``TILECOPY_PRIORITY``. Raises RequestError for an argument of another type.
    """

    def __init__(
        self,
        sources: Sequence[Source] | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        priorities: Mapping[str, int] | None = None,
    ) -> None:
        self._discovers = sources is None
        sources = installed_sources(VARIANTS_GROUP) if sources is None else sources
        self._installed: list[Source] = list(_SOURCES.check(sources, "Registry", "sources"))
        if not isinstance(environ, (Mapping, type(None))):
            raise RequestError(f"Registry: environ must be a mapping such as os.environ, got {short_repr(environ)}")
        self._seen = {(source.name, source.package): source.version for source in self._installed}
        self._environ = os.environ if environ is None else environ
        self._priorities = checked_priorities({} if priorities is None else priorities, "Registry(priorities=)")
        self._loading = False
        self._registered: dict[str, Source] = {}
        self._loaded: dict[Source, Plugin] = {}
        self._tables: dict[str, Table] = {}
        self._manager = hook_manager()
        self._warned: set[Hashable] = set()

    @property
    def strict(self) -> bool:
        """True if a broken plugin raises an error instead of being set aside (``TILECOPY_STRICT=1``)."""
        return self._environ.get("TILECOPY_STRICT", "") not in ("", "0")

    def plugins(self) -> list[Plugin]:
        """Return all plugins by descending effective priority, then by name. Plugins that are not ready come last.

        Raises PluginError if an environment variable names a variant that is not installed, or if ``TILECOPY_STRICT`` is
        set and a plugin is broken or two have one name.
        """
        plugins = self.table().plugins
        values = {plugin.name: self.priority_of(plugin).value for plugin in plugins if plugin.variant is not None}
        return sorted(plugins, key=lambda p: (p.variant is None, -values[p.name] if p.variant else 0, p.name))

    def priority_of(self, plugin: Plugin, answered: int | None = None) -> Priority:
        """Return the effective priority of a variant and the origin of the priority.

        The user's priority comes first: of :func:`priorities`, of this registry, of ``TILECOPY_PRIORITY``. Next is ``answered``,
        the priority that its predicate returned, and last that of its record.

        Raises:
            PluginError: :func:`priorities` names a variant that is not installed.
        """
        return self.table(plugin.record.op).priority_of(plugin, answered)

    def table(self, op: str = "") -> Table:
        """Return the table of plugins for the current environment variables. Raises the errors of :meth:`plugins`.

        The table for an ``op`` does not import the first-party variants of other ops; their status is ``other op``.
        """
        table, environment = self._tables.get(op), tuple(map(self._environ.get, _VARIABLES))
        if table is not None and table.environment == environment:
            return table
        with LOCK:
            if self._loading:
                raise PluginError("a plugin must not use the registry while the plugin is being imported")
            kept = (s for s in self._installed if s.name not in self._registered or _first_party(s))
            sources = [*kept, *self._registered.values()]
            claims: dict[str, list[Source]] = {}
            for source in sources:
                if not source.incompatible and not source.needs:
                    claims.setdefault(source.name, []).append(source)
            names = {source.name for source in sources}
            disabled, listed = self._disabled_variants(names), parsed_priorities(self._environ.get(VARIABLE, ""))
            _check_named(VARIABLE, listed, names)
            _check_named("Registry(priorities=)", self._priorities, names)
            self._loading = True
            try:
                plugins = [self._outcome(source, claims.get(source.name, []), disabled, op) for source in sources]
            finally:
                self._loading = False
            plugins.sort(key=lambda p: (not p.is_variant, -(p.variant.priority if p.variant else 0), p.name))
            for plugin in plugins:
                excludes_core = plugin.status == "incompatible" and plugin.source.needs
                if excludes_core or plugin.status in ("broken", "duplicate"):
                    if self.strict:
                        raise PluginError(f"variant {plugin.name}: {plugin.reason}")
                    self._warn_once((plugin.source,), f"variant {plugin.name} is set aside: {plugin.reason}")
            wrappers = {hook: _around(hook, plugins) for hook in (*HOOKS, DISPATCH)}
            self._tables[op] = table = Table(tuple(plugins), environment, wrappers, listed | self._priorities)
            return table

    def last_table(self, op: str) -> Table:
        """Return the last table for an op without reading the environment. Return a new table if plugins have changed since."""
        return self._tables.get(op) or self.table(op)

    def _disabled_variants(self, names: set[str]) -> dict[str, str]:
        """Return the variants that an environment variable disables, each with the reason."""
        reasons: dict[str, str] = {}
        for variable in ("TILECOPY_DISABLE", "TILECOPY_ONLY"):
            if not (text := self._environ.get(variable, "").strip()):
                continue  # CI sets a variable to nothing where it is not wanted
            listed = {name.strip() for name in text.split(",")} - {""}
            _check_named(variable, listed, names)
            left_out = listed if variable == "TILECOPY_DISABLE" else names - listed
            reasons |= dict.fromkeys(left_out, f"disabled by {variable}={text}")
        return reasons

    def _outcome(self, source: Source, claimants: list[Source], disabled: Mapping[str, str], op: str) -> Plugin:
        """Return the plugin of a source with its status; import it only if that is needed."""
        if source.incompatible:
            return Plugin(source, "incompatible", source.incompatible)
        if source.name in disabled:
            return Plugin(source, "disabled", disabled[source.name])
        if source.needs:
            return Plugin(source, "incompatible", f"{source.owner}: {source.needs}, or {source.advice}")
        if clash := _clash(source, claimants):
            return Plugin(source, "duplicate", clash)
        known = known_variants().get(source.name)
        installed = _first_party(source) and source.name not in self._registered
        if op and known is not None and known.op != op and installed and not self.strict:
            # Also if it is loaded, so that the order of outcomes does not depend on what was imported.
            return Plugin(source, "other op", why_other_op(known.op, op))
        if source not in self._loaded:
            self._loaded[source] = self._load(source)
        return self._loaded[source]

    def _load(self, source: Source) -> Plugin:
        try:
            plugin = load(source)
        except PluginError as error:
            return Plugin(source, "broken", f"{error}; {source.advice}")
        try:
            variant = getattr(plugin, "variant", None)
            observes = variant is None and getattr(plugin, "observer", False) is True
            if variant is not None:
                if not isinstance(variant, Variant):
                    raise PluginError(
                        f"the plugin's attribute 'variant' must be a tilecopy_core.Variant, got {short_repr(variant)}"
                    )
                if variant.name != source.name:
                    raise PluginError(
                        f"the variant record must be named {source.name!r} like its entry point, got {variant.name!r}"
                    )
                if why := variant.why_unusable():
                    raise PluginError(why)
            hooks = hooks_of(plugin, self._manager, source.name)
            _check_hooks(hooks, wrapper=variant is None)
            if observes and any("ptx" in (*impl.argnames, *impl.kwargnames) for impl in hooks.values()):
                raise PluginError(
                    "an observer's tilecopy_emit must not take ptx, because an observer must not write instructions"
                )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Plugin(source, "broken", f"{source.owner} is not a variant: {fault_of(error)}; {source.advice}")
        status = "wrapper" if variant is None else "ready"
        return Plugin(source, status, variant=variant, hooks=hooks, observes=observes)

    def _warn_once(self, key: Hashable, message: str, category: type[Warning] = PluginWarning, where: str = "") -> None:
        if key not in self._warned:
            warn_outside(message, category, where)
            self._warned.add(key)  # not where a filter makes an error of it: every copy that is affected raises it

    def refresh(self) -> bool:
        """Discover plugins again, for example after ``pip install`` in a notebook. Return True if a plugin was added.

        If this process has already seen another version of a plugin's package, it must be restarted to use the plugin.
        """
        if not self._discovers:
            return False
        with LOCK:
            forget_distributions()
            versions = {package: version for (_, package), version in self._seen.items()}
            added = [s for s in installed_sources(VARIANTS_GROUP) if (s.name, s.package) not in self._seen]
            for source in added:
                self._seen[source.name, source.package] = source.version
                before = versions.get(source.package, source.version)
                if before != source.version:
                    why = f"{source.owner} was installed while this process used version {before}: restart the process"
                    source = attrs.evolve(source, incompatible=why)  # noqa: PLW2901
                self._installed.append(source)
            if added:
                self._tables.clear()
            return bool(added)

    def register(self, plugin: Any, *, name: str, package: str = THIS_PROCESS, version: str = "0") -> None:
        """Add a plugin object to the registry, for example in a test, in a notebook or for tracing.

        It replaces a registered plugin, or one of a third party's package, of the same name until :meth:`unregister`. Raises
        RequestError for an argument of another type and PluginError for the name of an installed first-party variant.
        """
        for parameter, value in (("name", name), ("package", package), ("version", version)):
            if not isinstance(value, str) or not value.strip():
                raise RequestError(
                    f"Registry.register: {parameter} must be a non-empty string, got {short_repr(value)}"
                )
        with LOCK:
            for owner in [s.owner for s in self._installed if s.name == name and _first_party(s)]:
                raise PluginError(f"the name {name!r} belongs to {owner}; register the plugin under another name")
            if name in self._registered:
                self._loaded.pop(self._registered[name], None)
            self._registered[name] = Source(name, package, version, lambda: plugin)
            self._tables.clear()

    def unregister(self, name: str) -> None:
        """Remove the registered or installed plugin with a name. Raises PluginError if no plugin has the name."""
        with LOCK:
            if isinstance(name, str) and name in self._registered:
                self._loaded.pop(self._registered.pop(name), None)
            elif any(source.name == name for source in self._installed):
                self._installed = [source for source in self._installed if source.name != name]
            else:
                names = {source.name for source in self._installed} | set(self._registered)
                raise PluginError(f"unregister: no plugin has the name {short_repr(name)}{did_you_mean(name, names)}")
            self._tables.clear()

    def call(self, plugin: Plugin, hook: str, **arguments: Any) -> Any:
        """Call a hook of a variant through the hook's wrappers and return the result.

        An exception of the variant's hook is raised even if a wrapper catches it. A wrapper that raises, or returns a result
        that is not allowed, is set aside, and the variant's own result is used; if the wrapper wrote instructions, or
        ``TILECOPY_STRICT`` is set, WrapperError is raised.
        """
        table = self.last_table(arguments["request"].op)
        if plugin.variant is not None:
            arguments["variant"] = plugin.variant
        manager = table.managers.get(plugin)
        if manager is None:
            manager = table.managers[plugin] = manager_of(plugin, table.wrappers, self._report_seconds, self._set_aside)
        return getattr(manager.hook, hook)(**arguments)

    def _report_seconds(self, plugin: Plugin, hook: str, seconds: float) -> None:
        """Warn of a plugin whose hook was slow."""
        if seconds > SLOW_SECONDS[hook]:
            who = f"{'wrapper' if plugin.variant is None else 'variant'} {plugin.name} ({plugin.source.owner})"
            cost = f"{hook} took {seconds:.1f} s of CPU time for one copy (limit {SLOW_SECONDS[hook]:g} s)"
            self._warn_once(("slow", plugin, hook), f"{who}: {cost}; {plugin.source.advice}", SlowPluginWarning)

    def _set_aside(self, call: WrapperCall) -> None:
        wrapper = call.wrapper
        reason = f"{wrapper.source.owner} is faulty: its {call.hook} wrapper {call.fault}; {wrapper.source.advice}"
        if self.strict or call.wrote:
            raise WrapperError(f"wrapper {wrapper.name}: {reason}") from call.cause
        with LOCK:
            if (wrapper.source,) in self._warned:
                return  # another of its hooks was running when it was set aside
            self._loaded[wrapper.source] = Plugin(wrapper.source, "broken", reason)
            self._warned.add((wrapper.source,))
            self._tables.clear()
        warn_outside(f"hook wrapper {wrapper.name} is set aside: {reason}")

    def report_fault(self, plugin: Plugin, hook: str, fault: str) -> None:
        """Warn once that a hook of a variant failed and the copy goes to the next variant."""
        self._warn_once((plugin, hook), f"variant {plugin.name} was skipped for a copy: {fault}")

    def advise(self, kind: str, advice: str, where: str = "") -> None:
        """Warn of a likely mistake in a copy, once per kind of mistake.

        If a warnings filter turns it into an error, every such copy raises it. ``where`` is its ``file:line``, by default that of
        the first caller outside this package.
        """
        self._warn_once(("advice", kind), advice, PerformanceWarning, where)


def _check_named(where: str, listed: Iterable[str], names: set[str]) -> None:
    """Raise PluginError if a listed variant is neither installed nor known."""
    for name in sorted(name for name in listed if name not in names and name not in known_variants()):
        hint = did_you_mean(name, names | set(known_variants()))
        raise PluginError(f"{where} names {name!r}, but no variant of that name is installed{hint}")


def _first_party(source: Source) -> bool:
    known = known_variants().get(source.name)
    return known is not None and canonical(source.package) == known.package


def _clash(source: Source, claimants: list[Source]) -> str:
    """Return why a source cannot have its name, or "". A first-party variant keeps a name that others claim, too."""
    if len(claimants) < 2 or _first_party(source):
        return ""
    for rival in claimants:
        if _first_party(rival):
            return (
                f"{source.owner} claims the name {source.name!r} of {rival.owner}; "
                f"pip uninstall {source.package}, or ask its author for another name"
            )
    owners = " and by ".join(sorted(claimant.owner for claimant in claimants))
    return f"the name {source.name!r} is registered by {owners}; pip uninstall one of them"


def _around(hook: str, plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    """Return the wrappers of a hook, the outermost first: sorted by ``tryfirst`` and ``trylast``, then by name."""
    wrappers = [plugin for plugin in plugins if plugin.status == "wrapper" and hook in plugin.hooks]
    return tuple(sorted(wrappers, key=lambda each: (each.hooks[hook].trylast, not each.hooks[hook].tryfirst)))


def _check_hooks(hooks: Mapping[str, pluggy.HookImpl], *, wrapper: bool) -> None:
    """Raise PluginError unless a plugin implements all hooks of a variant, or only wraps some."""
    if old := sorted(name for name, impl in hooks.items() if impl.hookwrapper):
        raise PluginError(f"the plugin wraps {', '.join(old)} with hookwrapper=True; use @hookimpl(wrapper=True)")
    wrapping = sorted(name for name, impl in hooks.items() if impl.wrapper)
    if wrapper:
        if not wrapping or len(wrapping) < len(hooks):
            what = "must have an attribute 'variant' (a tilecopy_core.Variant), or mark every hook by @hookimpl(wrapper=True)"
            raise PluginError(f"the plugin {what}")
        return
    if missing := sorted(set(HOOKS) - set(hooks)):
        raise PluginError(f"the plugin must implement {', '.join(missing)}")
    if DISPATCH in hooks:
        raise PluginError(f"only the core implements {DISPATCH}; a plugin without a variant record may wrap it")
    if wrapping:
        raise PluginError(
            f"the plugin has a variant record, so it must implement {', '.join(wrapping)} without wrapper=True"
        )


_of_this_process = functools.cache(Registry)


def default_registry() -> Registry:
    """Return this process's registry. The first call creates it. The registry is tilecopy's only global state."""
    with LOCK:
        return _of_this_process()
