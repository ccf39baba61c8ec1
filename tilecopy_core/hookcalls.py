"""Plugins as they are once loaded, and the hooks of one variant with every wrapper around them.

Each variant has a hook manager of its own that holds it and the wrappers. So a call reaches that variant and nobody
else's, and costs the same however many variants are installed (``PluginManager.subset_hook_caller`` looks through all of
them at each call). Each wrapper runs inside a guard, which lets nothing through that a wrapper may not do.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Generator, Mapping, Sized
from types import ModuleType
from typing import Any

import attrs
import pluggy

from . import hookspecs
from .errors import shown
from .hookspecs import DISPATCH, HOOKS, PROJECT, hookimpl
from .loading import Source, said
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
class Plugin:
    """A plugin and what became of it.

    Attributes:
        source: where it comes from.
        status: ``ready`` (a variant that can be asked), ``wrapper`` (its hooks run around those of every variant), or why
            it is not used: ``disabled``, ``broken``, ``duplicate`` or ``incompatible``.
        reason: why it is not used and what to do about it, or "".
        variant: its record, where it is ready.
        hooks: its hook implementations, where it is ready or a wrapper.
        observes: whether it is a wrapper that only looks (its attribute ``observer`` is True): nothing that it gives back counts.
    """

    source: Source
    status: str
    reason: str = ""
    variant: Variant | None = None
    hooks: Hooks = attrs.field(factory=lambda: Hooks(None), repr=False)
    observes: bool = False

    @property
    def name(self) -> str:
        """The entry-point name."""
        return self.source.name

    @property
    def record(self) -> Variant:
        """The record of a plugin that is ready."""
        assert self.variant is not None
        return self.variant


_SPECS = ModuleType("tilecopy_hooks")
"""The specifications alone: pluggy looks at every name of what it is given, and there is a manager for each variant."""
vars(_SPECS).update((name, getattr(hookspecs, name)) for name in (*HOOKS, DISPATCH))


def hook_manager() -> pluggy.PluginManager:
    """A manager that knows the hooks and no plugin."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(_SPECS)
    return manager


@attrs.frozen
class Fault:
    """What a wrapper did that no wrapper may.

    Attributes:
        wrapper: the one that did it.
        what: in words, after its name.
        cause: the exception that it raised, if any.
        wrote: whether it wrote instructions, so that the copy is not the variant's any more.
    """

    wrapper: Plugin
    what: str
    cause: BaseException | None = None
    wrote: bool = False


@attrs.define
class HookCall:
    """What one call of a hook came to.

    Attributes:
        result: what the call gives, after the wrappers.
        error: what the variant's hook raised; then there is no result.
        lines: those that the emitter has written, where the hook is given one; wrappers may not add any.
        seconds: that the call took, wrappers included.
        spent: the part of it that each wrapper took.
        faults: of the wrappers; nothing that they did counts.
    """

    lines: Sized = ()
    result: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    spent: dict[Plugin, float] = attrs.field(factory=dict)
    faults: list[Fault] = attrs.field(factory=list)


class _Run:
    """One call of one wrapper's hook, run step by step: nothing that it does reaches the call but what it gives back.

    Attributes:
        ended: it has no further yield to wait at.
        gave: what it gave back, once it ended without fault.
        fault: what it raised.
        cause: the exception itself.
        wrote: whether there were more lines after it than before.
        seconds: that it took.
    """

    def __init__(self, generator: Any, lines: Sized) -> None:
        self._generator, self._lines = generator, lines
        self.ended, self.gave, self.seconds = False, None, 0.0
        self.fault, self.wrote = "", False
        self.cause: BaseException | None = None
        self.go_on("__next__")
        if self.ended and not self.fault:
            self.fault = "did not yield"

    def go_on(self, how: str, *value: Any) -> None:
        """Run to the next yield or to the end; ``how`` is ``__next__``, ``send`` or ``throw``."""
        started, written = time.perf_counter(), len(self._lines)
        try:
            getattr(self._generator, how)(*value)
        except StopIteration as end:
            self.ended, self.gave = True, end.value
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.ended, self.fault, self.cause = True, f"raised {said(error)}", error
        finally:
            self.seconds += time.perf_counter() - started
            self.wrote = self.wrote or len(self._lines) != written

    def finish(self, answer: Any) -> None:
        """Hand it the answer of what it wraps."""
        if not self.ended:
            self.go_on("send", answer)
            if not self.ended:
                self.go_on("close")
                self.fault = "yielded twice"


class Stage:
    """One variant's hooks with every wrapper around them, and nobody else's."""

    def __init__(self, plugin: Plugin, wrappers: list[Plugin]) -> None:
        self._calls = threading.local()
        manager = hook_manager()
        manager.register(plugin.hooks)
        # The last that is registered is the outermost: the first by name.
        for wrapper in sorted(wrappers, key=lambda w: w.name, reverse=True):
            guards = Hooks(None)
            for hook in wrapper.hooks.impls:
                setattr(guards, hook, self._guarded(wrapper, hook))
            manager.register(guards)
        self._callers = {hook: getattr(manager.hook, hook) for hook in (*HOOKS, DISPATCH)}

    def _guarded(self, wrapper: Plugin, hook: str) -> Any:
        """A wrapper's hook that cannot do what no wrapper may: then the answer goes on as it came, and the fault is noted."""
        impl = wrapper.hooks.impls[hook]

        @hookimpl(wrapper=True, tryfirst=impl.tryfirst, trylast=impl.trylast)
        @functools.wraps(impl.function)
        def guard(*given: Any, **named: Any) -> Generator[None, Any, Any]:
            call: HookCall = self._calls.stack[-1]
            run = _Run(impl.function(*given, **named), call.lines)
            fault, answer = run.fault, None
            try:
                answer = yield
                run.finish(answer)
                fault = run.fault
                if not fault:
                    answer, fault = _judged(wrapper, hook, answer, run.gave)
            except BaseException as error:
                if call.error is None:
                    call.error = error
                if not run.ended:  # it may look; what a variant raises stands whatever a wrapper makes of it
                    run.go_on("throw", error)
                raise
            finally:
                call.spent[wrapper] = call.spent.get(wrapper, 0.0) + run.seconds
                if run.wrote:
                    fault = "wrote instructions, which the variant alone may"
                if fault:
                    call.faults.append(Fault(wrapper, fault, run.cause, run.wrote))
            return answer

        return guard

    def call(self, hook: str, arguments: Mapping[str, Any]) -> HookCall:
        """Run a hook and find out who did what."""
        call = HookCall(getattr(arguments.get("ptx"), "recent", ()))
        stack = self._calls.__dict__.setdefault("stack", [])
        stack.append(call)
        started = time.perf_counter()
        try:
            call.result = self._callers[hook](**arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if call.error is None:
                call.error = error
        finally:
            stack.pop()
            call.seconds = time.perf_counter() - started
        return call


def _judged(wrapper: Plugin, hook: str, came: Any, gave: Any) -> tuple[Any, str]:
    """The answer that goes on from a wrapper, and what is wrong with the one that it gave, or ""."""
    if gave is came:
        return came, ""
    if hook in ("tilecopy_predicate", "tilecopy_partition") and not wrapper.observes:
        if isinstance(gave, Decline):
            return Decline(f"{gave.reason} (said by the wrapper {wrapper.name} ({wrapper.source.owner}))"), ""
        if isinstance(gave, Accept if hook == "tilecopy_predicate" else type(came)):
            return gave, ""
    return came, f"gave {shown(gave)} in place of {shown(came)}"
