"""Plugins as they are once loaded, and the hooks of one variant with every wrapper around them.

Each variant has a hook manager of its own that holds it and the wrappers. So a call reaches that variant and nobody
else's, costs the same however many variants are installed (``PluginManager.subset_hook_caller`` looks through all of
them at each call), and what a wrapper does is told from what the variant did.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
import pluggy

from . import hookspecs
from .hookspecs import HOOKS, PROJECT
from .loading import Source, said, shown
from .request import Accept, Decline, Variant


class Hooks:
    """The hook implementations of a plugin object, compared by identity whatever the object's own ``==`` says.

    Attributes:
        impls: each hook's implementation as pluggy found it, by the hook's name.
    """

    def __init__(self, plugin: Any) -> None:
        self.impls: dict[str, pluggy.HookImpl] = {}
        for name in dir(plugin):
            value = getattr(plugin, name, None)
            if hasattr(value, f"{PROJECT}_impl"):
                setattr(self, name, value)

    def __dir__(self) -> list[str]:
        """The hooks alone: pluggy looks at every name, and an object has thirty of its own."""
        return [name for name in self.__dict__ if name != "impls"]


@attrs.frozen(eq=False)
class Ready:
    """A variant that can be asked.

    Attributes:
        source: where it comes from.
        variant: its record.
        hooks: its hook implementations.
    """

    source: Source
    variant: Variant
    hooks: Hooks
    status = "ready"
    reason = ""

    @property
    def name(self) -> str:
        """The entry-point name."""
        return self.source.name


@attrs.frozen(eq=False)
class Wrapper:
    """A plugin without a record, whose hooks run around those of every variant.

    Attributes:
        source: where it comes from.
        hooks: its hook implementations.
    """

    source: Source
    hooks: Hooks
    status = "wrapper"
    reason = ""
    variant = None

    @property
    def name(self) -> str:
        """The entry-point name."""
        return self.source.name


@attrs.frozen(eq=False)
class SetAside:
    """A plugin that is not used.

    Attributes:
        source: where it comes from.
        status: ``disabled``, ``broken``, ``duplicate`` or ``incompatible``.
        reason: why, and what to do about it.
    """

    source: Source
    status: str
    reason: str
    variant = None

    @property
    def name(self) -> str:
        """The entry-point name."""
        return self.source.name


Plugin: TypeAlias = Ready | Wrapper | SetAside


def hook_manager() -> pluggy.PluginManager:
    """A manager that knows the hooks and no plugin."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


@attrs.define
class HookCall:
    """What one call of a hook came to.

    Attributes:
        done: the variant's hook returned ``value``.
        error: what the variant's hook raised.
        seconds: how long it took.
        result: what the call gives, after the wrappers.
        fault: what a wrapper did wrong, or "".
        cause: the exception of that wrapper.
        blamed: the wrappers that may have done it.
    """

    done: bool = False
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    result: Any = None
    fault: str = ""
    cause: BaseException | None = None
    blamed: list[Wrapper] = attrs.field(factory=list)


class Stage:
    """One variant's hooks with every wrapper around them, and nobody else's."""

    def __init__(self, plugin: Ready, wrappers: list[Wrapper]) -> None:
        self._wrappers = sorted(wrappers, key=lambda w: w.name)
        self._calls = threading.local()
        manager = hook_manager()
        for wrapper in reversed(self._wrappers):  # the last registered is the outermost
            manager.register(wrapper.hooks, name=f"wrapper {wrapper.name}")
        watched = Hooks(None)
        for hook in HOOKS:
            setattr(watched, hook, self._watched(hook, plugin.hooks.impls[hook]))
        manager.register(watched, name=plugin.name)
        self._callers = {hook: getattr(manager.hook, hook) for hook in HOOKS}

    def wrapping(self, hook: str) -> list[Wrapper]:
        """The wrappers of a hook."""
        return [wrapper for wrapper in self._wrappers if hook in wrapper.hooks.impls]

    def _watched(self, hook: str, impl: pluggy.HookImpl) -> Callable[..., Any]:
        """A hook that remembers what the variant itself did, which a wrapper may change afterwards."""
        specification = getattr(hookspecs, hook)
        names = tuple(inspect.signature(specification).parameters)

        @hookspecs.hookimpl
        @functools.wraps(specification)
        def watched(*values: Any) -> Any:
            call: HookCall = self._calls.stack[-1]
            given = dict(zip(names, values, strict=True))
            started = time.perf_counter()
            try:
                call.value = impl.function(
                    *(given[name] for name in impl.argnames), **{name: given[name] for name in impl.kwargnames}
                )
                call.done = True
                return call.value
            except (Exception, SystemExit) as error:
                call.error = error
                raise
            finally:
                call.seconds = time.perf_counter() - started

        return watched

    def call(self, hook: str, arguments: Mapping[str, Any]) -> HookCall:
        """Run a hook and find out who did what."""
        stack = self._calls.__dict__.setdefault("stack", [])
        call = HookCall()
        stack.append(call)
        try:
            call.result = self._callers[hook](**arguments)
        except (Exception, SystemExit) as error:
            call.cause = error
        finally:
            stack.pop()
        if call.error is None:
            self._judge_wrappers(hook, call)
        return call

    def _judge_wrappers(self, hook: str, call: HookCall) -> None:
        wrappers = self.wrapping(hook)
        if call.cause is not None:
            call.fault = f"raised {said(call.cause)}"
            call.blamed = _raised_in(call.cause, hook, wrappers) or wrappers
        elif call.result is not call.value:
            if isinstance(call.result, Decline) and hook != "tilecopy_emit":
                names = ", ".join(f"{w.name} ({w.source.owner})" for w in wrappers)
                call.result = Decline(f"{call.result.reason} (said by the wrapper {names})")
            elif not _may_replace(hook, call.value, call.result):
                call.fault = f"gave {shown(call.result)} in place of the variant's {shown(call.value)}"
                call.blamed = wrappers


def _may_replace(hook: str, value: Any, result: Any) -> bool:
    """Whether a wrapper may put a result in the place of a variant's own; of the hooks that may decline, a Decline always may."""
    if hook == "tilecopy_predicate":
        return isinstance(result, Accept)
    return type(result) is type(value)


def _raised_in(error: BaseException, hook: str, wrappers: list[Wrapper]) -> list[Wrapper]:
    """The wrapper in whose code an exception began; it may have passed through others on its way."""
    found: list[Wrapper] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        found = [w for w in wrappers if getattr(w.hooks.impls[hook].function, "__code__", None) is code] or found
        trace = trace.tb_next
    return found
