"""The variants of this process: loaded once, kept apart from each other, asked through their hooks.

Importing this package loads no plugin; the first dispatch does, once. A plugin that cannot be imported, has no valid
record or claims a taken name is set aside with its reason and never takes the others down. Order never comes from pluggy or the file system.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import pluggy

from ..description.request import Variant
from ..errors import PerformanceWarning, PluginError, RequestError, did_you_mean, instance_of, short_repr, tuple_of
from ..errors.process_lock import LOCK
from ..errors.records import frozen
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
from .priorities import VARIABLE, Priority, checked_priorities, current_priorities, parsed_priorities

SLOW_SECONDS = {"tilecopy_predicate": 2.0, "tilecopy_partition": 2.0, "tilecopy_emit": 10.0, "tilecopy_dispatch": 2.0}
"""A hook that takes more CPU time of its thread is named. A copy is lowered in about a millisecond; the limits are far above
what the text of the largest copies takes."""
_SOURCES = tuple_of(instance_of("a Source", Source))
_VARIABLES = ("TILECOPY_DISABLE", "TILECOPY_ONLY", "TILECOPY_STRICT", VARIABLE)


@frozen(eq=False)
class Table:
    """Every plugin and what became of it, in the order of :meth:`Registry.plugins`, for one state of the environment's variables.

    ``wrappers`` has, by hook, those whose hooks run around the others', the outermost first; ``managers`` call the hooks of a plugin,
    each made at its first call; ``sifted`` what dispatch has found out
    about requests of one kind; ``ignorable`` op and name of the options that variants which do not declare them may leave out;
    ``priorities`` the user's own, by variant.
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
        """The plugin of that name, or None; of several the one that can be asked."""
        return next((plugin for plugin in self.plugins if plugin.name == name), None)


class Registry:
    """The variants that this process can ask. :func:`default_registry` is the one that dispatch uses.

    The plugins are those of ``sources``, by default those that entry points declare. ``TILECOPY_DISABLE``, ``TILECOPY_ONLY``,
    ``TILECOPY_STRICT`` and ``TILECOPY_PRIORITY`` are looked up in ``environ``, at each use. ``priorities`` overrule those of the
    variants and of ``TILECOPY_PRIORITY``, by name. An argument of another kind is a RequestError.
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
            raise RequestError(f"Registry: environ is a mapping such as os.environ, not {short_repr(environ)}")
        self._seen = {(source.name, source.package): source.version for source in self._installed}
        self._environ = os.environ if environ is None else environ
        self._priorities = checked_priorities({} if priorities is None else priorities, "Registry(priorities=)")
        self._loading = False
        self._registered: dict[str, Source] = {}
        self._loaded: dict[Source, Plugin] = {}
        self._table: Table | None = None
        self._manager = hook_manager()
        self._warned: set[tuple[Any, ...]] = set()

    @property
    def strict(self) -> bool:
        """Whether a broken plugin raises instead of being set aside (``TILECOPY_STRICT=1``)."""
        return self._environ.get("TILECOPY_STRICT", "") not in ("", "0")

    def plugins(self) -> list[Plugin]:
        """Every plugin and its status, by the priority that counts (higher first), then name; the ones that are not ready come last.

        Raises PluginError where an environment list names what is not installed, or where with ``TILECOPY_STRICT`` set a
        plugin is broken or a name is taken twice.
        """
        plugins = self.table().plugins
        values = {plugin.name: self.priority_of(plugin).value for plugin in plugins if plugin.variant is not None}
        return sorted(plugins, key=lambda p: (p.variant is None, -values[p.name] if p.variant else 0, p.name))

    def priority_of(self, plugin: Plugin, answered: int | None = None) -> Priority:
        """Return the priority that counts for a variant, and what set it.

        The user's own comes first: of :func:`priorities`, of this registry, of ``TILECOPY_PRIORITY``. Then comes ``answered``, what
        its predicate said, then its record's.

        Raises:
            PluginError: :func:`priorities` names what is not installed.
        """
        table, here = self.table(), current_priorities()
        if here:
            self._check_named("tc.priorities", here, {plugin.name for plugin in table.plugins})
        if plugin.name in here:
            return here[plugin.name]
        if plugin.name in table.priorities:
            return table.priorities[plugin.name]
        return Priority(plugin.record.priority if answered is None else answered)

    def table(self) -> Table:
        """What :meth:`plugins` gives, made once for each state of the environment; raises the same."""
        table, environment = self._table, tuple(map(self._environ.get, _VARIABLES))
        if table is not None and table.environment == environment:
            return table
        with LOCK:
            if self._loading:
                raise PluginError("a plugin asked for the installed variants while it was being imported")
            kept = (s for s in self._installed if s.name not in self._registered or _first_party(s))
            sources = [*kept, *self._registered.values()]
            claims: dict[str, list[Source]] = {}
            for source in sources:
                if not source.incompatible and not source.needs:
                    claims.setdefault(source.name, []).append(source)
            names = {source.name for source in sources}
            disabled, listed = self._disabled_variants(names), parsed_priorities(self._environ.get(VARIABLE, ""))
            self._check_named(VARIABLE, listed, names)
            self._check_named("Registry(priorities=)", self._priorities, names)
            self._loading = True
            try:
                plugins = [self._outcome(source, claims.get(source.name, []), disabled) for source in sources]
            finally:
                self._loading = False
            plugins.sort(key=lambda p: (p.variant is None, -(p.variant.priority if p.variant else 0), p.name))
            for plugin in plugins:
                excludes_core = plugin.status == "incompatible" and plugin.source.needs
                if excludes_core or plugin.status in ("broken", "duplicate"):
                    if self.strict:
                        raise PluginError(f"variant {plugin.name}: {plugin.reason}")
                    self._warn_once((plugin.source,), f"variant {plugin.name} is set aside: {plugin.reason}")
            wrappers = {hook: _around(hook, plugins) for hook in (*HOOKS, DISPATCH)}
            self._table = table = Table(tuple(plugins), environment, wrappers, listed | self._priorities)
            return table

    def _disabled_variants(self, names: set[str]) -> dict[str, str]:
        """The variants that the environment leaves out, and which variable does."""
        reasons: dict[str, str] = {}
        for variable in ("TILECOPY_DISABLE", "TILECOPY_ONLY"):
            if not (text := self._environ.get(variable, "").strip()):
                continue  # set to nothing, as CI does for what is not set
            listed = {name.strip() for name in text.split(",")} - {""}
            self._check_named(variable, listed, names)
            left_out = listed if variable == "TILECOPY_DISABLE" else names - listed
            reasons |= dict.fromkeys(left_out, f"disabled by {variable}={text}")
        return reasons

    def _check_named(self, where: str, listed: Iterable[str], names: set[str]) -> None:
        for name in sorted(name for name in listed if name not in names and name not in known_variants()):
            hint = did_you_mean(name, names | set(known_variants()))
            raise PluginError(f"{where} names {name!r}, and no such variant is installed{hint}")

    def _outcome(self, source: Source, claimants: list[Source], disabled: Mapping[str, str]) -> Plugin:
        """What became of a source; decided without importing it where that can be."""
        if source.incompatible:
            return Plugin(source, "incompatible", source.incompatible)
        if source.name in disabled:
            return Plugin(source, "disabled", disabled[source.name])
        if source.needs:
            return Plugin(source, "incompatible", f"{source.owner}: {source.needs}, or {source.advice}")
        if clash := _clash(source, claimants):
            return Plugin(source, "duplicate", clash)
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
                    raise PluginError(f"its attribute 'variant' is {short_repr(variant)}, not a tilecopy_core.Variant")
                if variant.name != source.name:
                    raise PluginError(f"its record is named {variant.name!r}, its entry point {source.name!r}")
                if why := variant.why_unusable():
                    raise PluginError(why)
            hooks = hooks_of(plugin, self._manager, source.name)
            _check_hooks(hooks, wrapper=variant is None)
            if observes and any("ptx" in (*impl.argnames, *impl.kwargnames) for impl in hooks.values()):
                raise PluginError("it is an observer, and its tilecopy_emit takes ptx, through which it could write")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Plugin(source, "broken", f"{source.owner} is not a variant: {fault_of(error)}; {source.advice}")
        status = "wrapper" if variant is None else "ready"
        return Plugin(source, status, variant=variant, hooks=hooks, observes=observes)

    def _warn_once(self, key: tuple[Any, ...], message: str, category: type[Warning] = PluginWarning) -> None:
        if key not in self._warned:
            warn_outside(message, category)
            self._warned.add(key)  # not where a filter makes an error of it: every copy that is affected raises it

    def refresh(self) -> bool:
        """Look once more at what is installed, as after ``pip install`` in a notebook; return whether a plugin was added.

        A plugin of a package of which this process has found another version cannot be used before the process is restarted.
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
                    why = f"{source.owner} was installed after this process found version {before}: restart the process"
                    source = attrs.evolve(source, incompatible=why)  # noqa: PLW2901
                self._installed.append(source)
            if added:
                self._table = None
            return bool(added)

    def register(self, plugin: Any, *, name: str, package: str = THIS_PROCESS, version: str = "0") -> None:
        """Add a plugin object of this process (for tests, notebooks and tracing wrappers).

        A name that was registered before, or that a third party's package has, is replaced by it until
        :meth:`unregister`. An argument of another kind is a RequestError, the name of an installed first-party variant a PluginError.
        """
        for parameter, value in (("name", name), ("package", package), ("version", version)):
            if not isinstance(value, str) or not value.strip():
                raise RequestError(f"Registry.register: {parameter} is a text, not {short_repr(value)}")
        with LOCK:
            for owner in [s.owner for s in self._installed if s.name == name and _first_party(s)]:
                raise PluginError(f"the name {name!r} is that of {owner}; register the plugin under another one")
            if name in self._registered:
                self._loaded.pop(self._registered[name], None)
            self._registered[name] = Source(name, package, version, lambda: plugin)
            self._table = None

    def unregister(self, name: str) -> None:
        """Remove what :meth:`register` added, else the installed plugin of that name, from this registry; PluginError where there is none."""
        with LOCK:
            if isinstance(name, str) and name in self._registered:
                self._loaded.pop(self._registered.pop(name), None)
            elif any(source.name == name for source in self._installed):
                self._installed = [source for source in self._installed if source.name != name]
            else:
                names = {source.name for source in self._installed} | set(self._registered)
                raise PluginError(f"unregister: no plugin is named {short_repr(name)}{did_you_mean(name, names)}")
            self._table = None

    def call(self, plugin: Plugin, hook: str, **arguments: Any) -> Any:
        """Call one hook of one variant; wrappers registered by others run around it.

        What the variant's hook raises stands, whatever a wrapper makes of it. A wrapper that raises, or gives back what
        the hook may not answer, is set aside, and the variant's own answer counts; where it wrote instructions, or
        ``TILECOPY_STRICT`` is set, that is a WrapperError.
        """
        table = self._table or self.table()
        if plugin.variant is not None:
            arguments["variant"] = plugin.variant
        manager = table.managers.get(plugin)
        if manager is None:
            manager = manager_of(plugin, table.wrappers, self._report_seconds, self._set_aside)
            table.managers[plugin] = manager
        return getattr(manager.hook, hook)(**arguments)

    def _report_seconds(self, plugin: Plugin, hook: str, seconds: float) -> None:
        """Name a plugin whose hook was slow."""
        if seconds > SLOW_SECONDS[hook]:
            what = f"{hook} took {seconds:.1f} s of CPU time for one copy; {plugin.source.advice}"
            kind = "wrapper" if plugin.variant is None else "variant"
            message = f"{kind} {plugin.name} ({plugin.source.owner}): {what}"
            self._warn_once(("slow", plugin, hook), message, SlowPluginWarning)

    def _set_aside(self, call: WrapperCall) -> None:
        wrapper = call.wrapper
        reason = f"{wrapper.source.owner} is faulty: its wrapper of {call.hook} {call.fault}; {wrapper.source.advice}"
        if self.strict or call.wrote:
            raise WrapperError(f"wrapper {wrapper.name}: {reason}") from call.cause
        with LOCK:
            if (wrapper.source,) in self._warned:
                return  # another of its hooks was running when it was set aside
            self._loaded[wrapper.source] = Plugin(wrapper.source, "broken", reason)
            self._warned.add((wrapper.source,))
            self._table = None
        warn_outside(f"wrapper {wrapper.name} is set aside: {reason}")

    def report_fault(self, plugin: Plugin, hook: str, fault: str) -> None:
        """Say once that a hook of a variant failed: the copy goes to the next variant."""
        self._warn_once((plugin, hook), f"variant {plugin.name} is passed over for a copy: {fault}")

    def advise(self, kind: str, advice: str, where: str = "") -> None:
        """Say once for each kind of advice, in one line, what of a copy is likely a mistake (once a process, of the installed variants).

        Where a filter makes an error of it, every such copy raises it. ``where`` is the ``file:line`` that it is about, by
        default the first caller outside this package.
        """
        if ("advice", kind) not in self._warned:
            warn_outside(advice, PerformanceWarning, where)
            self._warned.add(("advice", kind))


def _first_party(source: Source) -> bool:
    known = known_variants().get(source.name)
    return known is not None and canonical(source.package) == known.package


def _clash(source: Source, claimants: list[Source]) -> str:
    """Why a source may not have its name, or "": a first-party variant keeps its own, else nobody has it."""
    if len(claimants) < 2 or _first_party(source):
        return ""
    for rival in claimants:
        if _first_party(rival):
            return (
                f"{source.owner} claims the name {source.name!r}, which is that of {rival.owner}; "
                f"pip uninstall {source.package}, or ask its author for another name"
            )
    owners = " and by ".join(sorted(claimant.owner for claimant in claimants))
    return f"the name {source.name!r} is registered by {owners}; pip uninstall one of them"


def _around(hook: str, plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    """The wrappers of a hook, the outermost first: by what they ask of pluggy (``tryfirst``, ``trylast``), then by name."""
    wrappers = [plugin for plugin in plugins if plugin.status == "wrapper" and hook in plugin.hooks]
    return tuple(sorted(wrappers, key=lambda each: (each.hooks[hook].trylast, not each.hooks[hook].tryfirst)))


def _check_hooks(hooks: Mapping[str, pluggy.HookImpl], *, wrapper: bool) -> None:
    """Demand, else raise PluginError, that a plugin implements all hooks of a variant, or wraps some."""
    if old := sorted(name for name, impl in hooks.items() if impl.hookwrapper):
        raise PluginError(f"it wraps {', '.join(old)} with hookwrapper=True; write @hookimpl(wrapper=True)")
    wrapping = sorted(name for name, impl in hooks.items() if impl.wrapper)
    if wrapper:
        if not wrapping or len(wrapping) < len(hooks):
            raise PluginError("it has no attribute 'variant' (a tilecopy_core.Variant)")
        return
    if missing := sorted(set(HOOKS) - set(hooks)):
        raise PluginError(f"it does not implement {', '.join(missing)}")
    if DISPATCH in hooks:
        raise PluginError(f"it implements {DISPATCH}, which is the core's own; a plugin without a record may wrap it")
    if wrapping:
        raise PluginError(f"it wraps {', '.join(wrapping)} where a variant implements it")


_of_this_process = functools.cache(Registry)


def default_registry() -> Registry:
    """The registry of this process, made at the first call: the one global state of tilecopy."""
    with LOCK:
        return _of_this_process()
