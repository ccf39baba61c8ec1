"""The registry of executors, the objects that run built kernels. It finds an executor by name, or the default executor.

A built kernel looks up its executor here when it is called; :mod:`tilecopy.executors` is a layer above built kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from tilecopy_core.errors import PluginError, TilecopyError, did_you_mean, short_repr
from tilecopy_core.registry import LOCK, Source, by_name, canonical, load_unique, short_error

from .catalog import KNOWN_EXECUTORS, install_line
from .errors import LaunchError

EXECUTORS_GROUP = "tilecopy.executors.v1"


class Executor(Protocol):
    """An object that runs kernels. Each entry point of the group ``tilecopy.executors.v1`` is a function that returns an executor.

    It may also have a method ``prepare``, which takes the arguments of ``launch``, checks them once and returns a function
    without arguments that launches (:meth:`BuiltKernel.prepare`). Without ``prepare`` each such call is a ``launch``. An executor
    with a method ``devices`` has GPUs, and its methods take the ``device=`` of a call. A method ``extensions`` lists the extensions
    of the executor for ``tilecopy doctor``: a description, the package, and the reason that it cannot be used or "".
    """

    name: str

    def unavailable_reason(self, kernel: Any = None) -> str | None:
        """Return why the executor cannot run on this machine or cannot run ``kernel``, or None if it can."""

    def launch(
        self, kernel: Any, arguments: Sequence[Any], *, grid: Sequence[int] | int | None = None, stream: Any = None
    ) -> Any:
        """Check the arguments and run the kernel."""


_made: dict[str, Executor] = {}


def _claimants() -> Mapping[str, list[Source]]:
    """Return the packages that declare each executor's name. For a first-party name, only the first-party package."""
    return _found_on(tuple(map(str, sys.path)))


@lru_cache(maxsize=1)
def _found_on(path: tuple[str, ...]) -> Mapping[str, list[Source]]:
    """Return the same for a given ``sys.path``. Each path is read once."""
    sources_by_name = by_name(EXECUTORS_GROUP)
    for name, sources in sources_by_name.items():
        sources_by_name[name] = [s for s in sources if canonical(s.package) == KNOWN_EXECUTORS.get(name)] or sources
    return sources_by_name


def executors() -> dict[str, str]:
    """Return the installed executors as a dict from name to distribution and version."""
    return {name: " and ".join(source.owner for source in sources) for name, sources in _claimants().items()}


def get_executor(name: str) -> Executor:
    """Return the installed executor with this name. Each executor is created once.

    Raises:
        LaunchError: no executor has that name; the message says what to install.
        PluginError: it fails to load, is not an executor, or two packages claim its name.
    """
    if not isinstance(name, str):
        raise LaunchError(f"executor must be a string such as 'cuda', got {short_repr(name)}")
    if name not in _made:
        claimants = _claimants()
        if name not in claimants:
            known = f"; {install_line(KNOWN_EXECUTORS[name])}" if name in KNOWN_EXECUTORS else ""
            installed = ", ".join(claimants) or "none"
            raise LaunchError(
                f"executor {short_repr(name)} is not installed{known} (installed: {installed}){did_you_mean(name, claimants)}"
            )
        with LOCK:  # two threads must not create it twice
            if name not in _made:
                try:
                    _made[name] = load_unique(claimants[name], _made_by)
                except PluginError as error:
                    raise PluginError(f"executor {name}: {error}") from error
    return _made[name]


def unavailable_reason(name: str) -> str | None:
    """Return why an executor cannot run on this machine (such as a missing package), or None if it can.

    Raises:
        PluginError: the executor fails to load, or is not valid.
    """
    try:
        return get_executor(name).unavailable_reason()
    except LaunchError as error:
        return str(error)


def _made_by(plugin: Any) -> Executor:
    executor: Executor = plugin()
    methods = ("unavailable_reason", "launch")
    if missing := [method for method in methods if not callable(getattr(executor, method, None))]:
        raise PluginError(f"missing method(s): {', '.join(missing)}")
    return executor


def choose_executor(name: str | None, kernel: Any) -> Executor:
    """Return the executor with this name. The default is ``cuda`` if it can run here, else another executor that can run.

    Raises:
        LaunchError: no executor can run here; the message has the reason of each.
    """
    if name is not None:
        return get_executor(name)
    reasons = []
    for candidate in ["cuda", *(other for other in executors() if other != "cuda")]:
        try:
            executor = get_executor(candidate)
            why = executor.unavailable_reason()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            is_ours = isinstance(error, TilecopyError)
            why = str(error) if is_ours else f"unavailable_reason() raised {short_error(error)}"
        if why is None:
            return executor
        reasons.append(f"{candidate}: {why}")
    if "emulator" not in executors():
        reasons.append(f"emulator: {install_line(KNOWN_EXECUTORS['emulator'])}")
    raise LaunchError(f"no executor can run kernel {kernel.name}: {'; '.join(reasons)}")
