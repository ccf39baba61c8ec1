"""Loaded plugins, and the pluggy manager that calls the hooks of one plugin.

Each variant has its own manager, in which only that variant and the wrappers are registered. So the time of a call does not
depend on the number of installed variants. A guard around each wrapper runs the wrapper's steps and passes on only results
that a wrapper may return.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sized
from functools import wraps
from inspect import signature
from types import MappingProxyType
from typing import Any

import attrs
import pluggy

from ..description.request import Accept, Decline, Variant
from ..errors import did_you_mean, short_repr
from ..errors.attrs_classes import frozen
from . import hookspecs
from .entry_points import Source, short_error
from .hookspecs import DISPATCH, HOOKS, PROJECT, hookimpl


@frozen(eq=False)
class Plugin:
    """A frozen record of a plugin and its status. ``name`` is the entry point's name.

    Attributes:
        status: ``ready`` (a variant that can be asked), ``wrapper`` (its hooks run around those of every variant), or why
            it is not used: ``disabled``, ``broken``, ``duplicate``, ``incompatible`` or ``other op`` (not imported).
        reason: why it is not used and what to do about it, or "".
        variant: its record, where it is ready; ``record`` is the same, for callers who know that it is.
        hooks: its hook implementations by hook, where it is ready or a wrapper.
        observes: whether it is a wrapper that only observes (its attribute ``observer`` is True): its results are ignored.
    """

    source: Source
    status: str
    reason: str = ""
    variant: Variant | None = None
    hooks: Mapping[str, pluggy.HookImpl] = attrs.field(default=MappingProxyType({}), repr=False)
    observes: bool = False
    name: str = attrs.field(init=False, repr=False, default=attrs.Factory(lambda p: p.source.name, takes_self=True))
    record: Variant = attrs.field(init=False, repr=False, default=attrs.Factory(lambda p: p.variant, takes_self=True))

    @property
    def is_variant(self) -> bool:
        """True for a variant that can be asked, here or for copies of another op."""
        return self.status in ("ready", "other op")

    def fault_line(self, hook: str, error: BaseException) -> str:
        """Return `` in line N of MODULE``, the innermost line of a hook's file that an exception passed, or "" if there is none."""
        code, text, step = getattr(self.hooks[hook].function, "__code__", None), "", error.__traceback__
        while code is not None and step is not None:
            if step.tb_frame.f_code.co_filename == code.co_filename:
                text = f" in line {step.tb_lineno} of {step.tb_frame.f_globals['__name__']}"
            step = step.tb_next
        return text


class _Hooks:
    """The hooks of a plugin object alone, compared by identity whatever the object's own ``==`` says."""

    def __init__(self, hooks: Mapping[str, Any]) -> None:
        vars(self).update(hooks)

    def __dir__(self) -> list[str]:
        return list(vars(self))  # pluggy looks at every name, and an object has thirty of its own


def hook_manager() -> pluggy.PluginManager:
    """Return a pluggy manager with the hook specifications and without plugins."""
    manager = pluggy.PluginManager(PROJECT)
    specs: Any = _Hooks({hook: getattr(hookspecs, hook) for hook in (*HOOKS, DISPATCH)})
    manager.add_hookspecs(specs)
    return manager


def hooks_of(plugin: Any, manager: pluggy.PluginManager, name: str) -> dict[str, pluggy.HookImpl]:
    """Return a dict from hook names to a plugin object's implementations. The plugin does not stay registered.

    pluggy's messages call the plugin ``name``. Raises ``pluggy.PluginValidationError`` if a hook or an argument of it does not exist.
    """
    attributes = {name: getattr(plugin, name, None) for name in dir(plugin)}
    implementations = _Hooks({name: value for name, value in attributes.items() if hasattr(value, f"{PROJECT}_impl")})
    known = (*HOOKS, DISPATCH)
    for attribute, value in vars(implementations).items():
        options = getattr(value, f"{PROJECT}_impl")
        hook = options["specname"] or attribute
        if hook not in known and not options["optionalhook"]:
            raise pluggy.PluginValidationError(plugin, f"hook {hook} does not exist{did_you_mean(hook, known)}")
    try:
        manager.register(implementations, name)  # without a name, pluggy's messages have the object's id
        return {caller.name: caller.get_hookimpls()[0] for caller in manager.get_hookcallers(implementations) or ()}
    finally:
        if manager.is_registered(implementations):  # pluggy 1.6 leaves what it refuses half registered
            manager.unregister(implementations)


def manager_of(
    plugin: Plugin,
    wrappers: Mapping[str, Iterable[Plugin]],
    report_seconds: Callable[[Plugin, str, float], None],
    report_fault: Callable[[WrapperCall], None],
) -> pluggy.PluginManager:
    """Return a pluggy manager that calls a plugin's hooks. The hooks of ``wrappers`` run around these calls.

    ``wrappers`` has the outermost first. ``report_seconds`` gets the CPU time of each call, and ``report_fault`` each
    call of a wrapper that broke the rules for wrappers.
    """
    manager = hook_manager()
    manager.register(_Hooks({hook: impl.function for hook, impl in plugin.hooks.items()}), plugin.name)
    for hook in plugin.hooks:
        if hook != DISPATCH:  # which is as slow as the hooks that it calls
            manager.register(_Hooks({hook: _timer(plugin, hook, report_seconds)}))
        for wrapper in reversed([*wrappers[hook]]):  # pluggy calls last what was registered first
            manager.register(_Hooks({hook: _guard(wrapper, hook, report_seconds, report_fault)}))
    return manager


def _timer(plugin: Plugin, hook: str, report_seconds: Callable[[Plugin, str, float], None]) -> Any:
    """Return the innermost wrapper of a hook, which measures the CPU time of the plugin without wrappers."""

    @hookimpl(wrapper=True)
    def timer() -> Generator[None, Any, Any]:
        started = time.thread_time()
        try:
            return (yield)
        finally:
            report_seconds(plugin, hook, time.thread_time() - started)

    return timer


def _guard(
    wrapper: Plugin,
    hook: str,
    report_seconds: Callable[[Plugin, str, float], None],
    report_fault: Callable[[WrapperCall], None],
) -> Any:
    """Return the hook implementation that runs a wrapper under guard; it has the signature of the hook's specification."""
    specification = getattr(hookspecs, hook)
    names = tuple(signature(specification).parameters)

    @hookimpl(wrapper=True)
    @wraps(specification)
    def guard(*arguments: Any) -> Generator[None, Any, Any]:
        call = WrapperCall(wrapper, hook, dict(zip(names, arguments, strict=True)))
        try:
            answer = call.finish((yield), None)
        except BaseException as error:
            call.finish(None, error)
            raise
        finally:
            report_seconds(wrapper, hook, call.seconds)
            if call.fault:
                report_fault(call)
        return answer

    return guard


class WrapperCall:
    """One call of a hook wrapper. The wrapper is a generator, and this object runs it step by step.

    ``fault`` is the predicate of a sentence about the rule that the wrapper broke, or ""; ``cause`` is the exception behind it.
    ``wrote`` is True if the wrapper wrote PTX lines.
    """

    def __init__(self, wrapper: Plugin, hook: str, arguments: Mapping[str, Any]) -> None:
        impl = wrapper.hooks[hook]
        self.wrapper, self.hook = wrapper, hook
        self._lines: Sized = getattr(arguments.get("ptx"), "recent", ())
        self.fault, self.wrote, self.seconds = "", False, 0.0
        self.cause: BaseException | None = None
        self._ended, self._gave = False, None
        self._generator: Any = impl.function(*map(arguments.__getitem__, impl.argnames))
        self._go_on("__next__")
        if self._ended and not self.fault:
            self.fault = "did not yield"

    def _go_on(self, how: str, *value: Any) -> None:
        """Run to the next yield or to the end; ``how`` is ``__next__``, ``send``, ``throw`` or ``close``."""
        started, written = time.thread_time(), len(self._lines)
        try:
            getattr(self._generator, how)(*value)
        except StopIteration as end:
            self._ended, self._gave = True, end.value
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._ended, self.cause = True, error
            if how != "throw":  # it may look at what a variant raises, which stands whatever it makes of it
                self.fault = f"raised {short_error(error)}"
        finally:
            self.seconds += time.thread_time() - started
            self.wrote = self.wrote or len(self._lines) != written

    def finish(self, answer: Any, error: BaseException | None) -> Any:
        """Resume the hook wrapper after ``yield`` with the hook's result or exception. Return the wrapper's result."""
        if not self._ended and error is not None:
            self._go_on("throw", error)
        elif not self._ended:
            self._go_on("send", answer)
            if not self._ended:
                self._go_on("close")
                self.fault = "yielded twice"
            if not self.fault:
                answer = self._allowed_answer(answer)
        if self.wrote:
            self.fault = "wrote instructions; only the variant may write instructions"
        return answer

    def _allowed_answer(self, came: Any) -> Any:
        """Return the wrapper's result if a wrapper may return it; else record a fault and return the wrapped result."""
        gave, wrapper = self._gave, self.wrapper
        if gave is came:
            return came
        if self.hook in ("tilecopy_predicate", "tilecopy_partition") and not wrapper.observes:
            if isinstance(gave, Decline):
                return Decline(f"{gave.reason} (declined by the hook wrapper {wrapper.name} of {wrapper.source.owner})")
            if isinstance(gave, Accept if self.hook == "tilecopy_predicate" else type(came)):
                return gave
        self.fault = f"returned {short_repr(gave)} instead of the hook's result {short_repr(came)}"
        return came
