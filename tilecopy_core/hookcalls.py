"""Plugins as they are once loaded, and the hooks of one variant with every wrapper around them.

Each variant has a hook manager of its own that holds it and the wrappers. So a call reaches that variant and nobody
else's, costs the same however many variants are installed (``PluginManager.subset_hook_caller`` looks through all of
them at each call), and what a wrapper does is told from what the variant did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping
from typing import Any

import attrs
import pluggy

from . import hookspecs
from .errors import shown
from .hookspecs import HOOKS, PROJECT, hookimpl
from .loading import Source, said
from .request import Accept, Decline, Variant

_WORTH_READING_SECONDS = 0.05
"""Time after which the thread's own clock is read again; far below what counts as slow."""


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
class Plugin:
    """A plugin and what became of it.

    Attributes:
        source: where it comes from.
        status: ``ready`` (a variant that can be asked), ``wrapper`` (its hooks run around those of every variant), or why
            it is not used: ``disabled``, ``broken``, ``duplicate`` or ``incompatible``.
        reason: why it is not used and what to do about it, or "".
        variant: its record, where it is ready.
        hooks: its hook implementations, where it is ready or a wrapper.
    """

    source: Source
    status: str
    reason: str = ""
    variant: Variant | None = None
    hooks: Hooks = attrs.field(factory=lambda: Hooks(None), repr=False)

    @property
    def name(self) -> str:
        """The entry-point name."""
        return self.source.name

    @property
    def record(self) -> Variant:
        """The record of a plugin that is ready."""
        assert self.variant is not None
        return self.variant


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
        own_seconds: CPU time of the thread that it took.
        seconds: CPU time that the call took, wrappers included.
        result: what the call gives, after the wrappers.
        fault: what a wrapper did wrong, or "".
        cause: the exception of that wrapper.
        blamed: the wrappers that may have done it.
    """

    done: bool = False
    value: Any = None
    error: BaseException | None = None
    own_seconds: float = 0.0
    seconds: float = 0.0
    result: Any = None
    fault: str = ""
    cause: BaseException | None = None
    blamed: list[Plugin] = attrs.field(factory=list)


class _Clock(threading.local):
    """CPU time of the running thread. Reading it can cost more than a hook, so it is read when time was spent."""

    wall = -1.0
    cpu = 0.0

    def start(self) -> float:
        """A start, for :meth:`seconds_since`."""
        now = time.perf_counter()
        if now - self.wall > _WORTH_READING_SECONDS:
            self.cpu, self.wall = time.thread_time(), now
        return now

    def seconds_since(self, started: float) -> float:
        """CPU time since a start, or less; where next to no time has passed, that."""
        passed = time.perf_counter() - started
        if passed < _WORTH_READING_SECONDS:
            return passed
        return max(0.0, time.thread_time() - self.cpu - (started - self.wall))


class Stage:
    """One variant's hooks with every wrapper around them, and nobody else's."""

    def __init__(self, plugin: Plugin, wrappers: list[Plugin]) -> None:
        self._wrappers = sorted(wrappers, key=lambda w: w.name)
        self._calls, self._clock = threading.local(), _Clock()
        watcher = Hooks(None)
        for hook in filter(self.wrapping, HOOKS):
            setattr(watcher, hook, self._watcher())
        manager = hook_manager()
        # The last that is registered is the outermost; of those that ask to be tried last it is the innermost.
        for hooks in (plugin.hooks, *(wrapper.hooks for wrapper in reversed(self._wrappers)), watcher):
            manager.register(hooks)
        self._callers = {hook: getattr(manager.hook, hook) for hook in HOOKS}

    def wrapping(self, hook: str) -> list[Plugin]:
        """The wrappers of a hook."""
        return [wrapper for wrapper in self._wrappers if hook in wrapper.hooks.impls]

    def _watcher(self) -> Any:
        """The innermost wrapper of a hook: it remembers what the variant itself did, which others may change."""

        @hookimpl(wrapper=True, trylast=True)
        def watch() -> Generator[None, Any, Any]:
            call: HookCall = self._calls.stack[-1]
            started = self._clock.start()
            try:
                call.value = yield
                call.done = True
                return call.value
            except (Exception, SystemExit) as error:
                call.error = error
                raise
            finally:
                call.own_seconds = self._clock.seconds_since(started)

        return watch

    def call(self, hook: str, arguments: Mapping[str, Any]) -> HookCall:
        """Run a hook and find out who did what."""
        call, wrappers = HookCall(), self.wrapping(hook)
        stack = self._calls.__dict__.setdefault("stack", [])
        stack.append(call)
        started = self._clock.start()
        try:
            call.result = self._callers[hook](**arguments)
        except (Exception, SystemExit) as error:
            call.cause = error
        finally:
            stack.pop()
            call.seconds = self._clock.seconds_since(started)
        if not wrappers:  # nobody watched, and what came of it is the variant's own
            call.error, call.own_seconds = call.cause, call.seconds
        elif call.error is None:
            self._judge_wrappers(wrappers, hook, call)
        return call

    def _judge_wrappers(self, wrappers: list[Plugin], hook: str, call: HookCall) -> None:
        if call.cause is not None:
            call.fault = f"raised {said(call.cause)}"
            call.blamed = _raised_in(call.cause, hook, wrappers) or wrappers
        elif call.result is not call.value:
            if isinstance(call.result, Decline) and hook != "tilecopy_emit":
                names = ", ".join(f"{w.name} ({w.source.owner})" for w in wrappers)
                call.result = Decline(f"{call.result.reason} (said by the wrapper {names})")
            elif not isinstance(call.result, Accept if hook == "tilecopy_predicate" else type(call.value)):
                call.fault = f"gave {shown(call.result)} in place of the variant's {shown(call.value)}"
                call.blamed = wrappers


def _raised_in(error: BaseException, hook: str, wrappers: list[Plugin]) -> list[Plugin]:
    """The wrapper in whose code an exception began; it may have passed through others on its way."""
    found: list[Plugin] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        found = [w for w in wrappers if getattr(w.hooks.impls[hook].function, "__code__", None) is code] or found
        trace = trace.tb_next
    return found
