"""Executors: what runs a built kernel. ``cuda`` is here; others come by entry point ``tilecopy.executors.v1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from ..errors import LaunchError, PluginError, TilecopyError, did_you_mean
from ..kernel.built import BuiltKernel
from ..known import KNOWN_EXECUTORS
from ..loading import Source, canonical, installed, load, said, shown
from ..registry import EXECUTORS_GROUP
from .arguments import HostArguments, HostArray

__all__ = ["Executor", "HostArguments", "HostArray", "choose_executor", "executor_named", "executors"]


class Executor(Protocol):
    """What an entry point of the group gives when called: something that runs kernels."""

    name: str

    def why_unavailable(self, kernel: BuiltKernel | None = None) -> str | None:
        """Why it cannot run (that kernel) here, or None."""

    def launch(
        self,
        kernel: BuiltKernel,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
    ) -> Any:
        """Check the arguments and run."""


_made: dict[str, Executor] = {}
_WHAT_IT_DOES = ("why_unavailable", "launch")


def _claimants() -> dict[str, list[Source]]:
    """The installed executors that this core can load, by name; of a first-party name only the first party."""
    found: dict[str, list[Source]] = {}
    for source in installed(EXECUTORS_GROUP):
        if not source.incompatible:
            found.setdefault(source.name, []).append(source)
    for name, sources in found.items():
        found[name] = [s for s in sources if canonical(s.package) == KNOWN_EXECUTORS.get(name)] or sources
    return dict(sorted(found.items()))


def executors() -> dict[str, str]:
    """Installed executors: name -> distribution and version."""
    return {name: " and ".join(source.owner for source in sources) for name, sources in _claimants().items()}


def executor_named(name: str) -> Executor:
    """An installed executor, made once.

    Raises:
        LaunchError: none has that name; the message says what to install.
        PluginError: it fails to load, is no executor, or two packages claim its name.
    """
    if not isinstance(name, str):
        raise LaunchError(f"executor is the name of one, such as 'cuda', not {shown(name)}")
    if name not in _made:
        sources = _claimants().get(name, [])
        if not sources:
            known = f": pip install {KNOWN_EXECUTORS[name]}" if name in KNOWN_EXECUTORS else ""
            found = executors()
            hint = did_you_mean(name, found)
            raise LaunchError(
                f"executor {name!r} is not installed{known} (installed: {', '.join(found) or 'none'}){hint}"
            )
        if len(sources) > 1:
            owners = " and by ".join(source.owner for source in sources)
            raise PluginError(f"the executor name {name!r} is registered by {owners}; pip uninstall one of them")
        _made[name] = _make(sources[0])
    return _made[name]


def _make(source: Source) -> Executor:
    """What an entry point gives when called, held against :class:`Executor`."""
    remedy = f"pip install --upgrade {source.package}, or pip uninstall {source.package}"
    if source.needs:
        raise PluginError(f"executor {source.name} ({source.owner}): {source.needs}; {remedy}")
    try:
        made = load(attrs.evolve(source, load=lambda: source.load()()))
    except PluginError as error:
        raise PluginError(f"executor {source.name}: {error}; {remedy}") from error
    missing = [name for name in _WHAT_IT_DOES if not callable(getattr(made, name, None))]
    if missing:
        raise PluginError(f"executor {source.name} ({source.owner}) has no {' and no '.join(missing)}; {remedy}")
    executor: Executor = made
    return executor


def choose_executor(name: str | None, kernel: BuiltKernel) -> Executor:
    """The executor of that name; by default the GPU where there is one, else any other that is installed.

    Raises:
        LaunchError: there is none, with the reason for each.
    """
    if name is not None:
        return executor_named(name)
    reasons = []
    for candidate in ["cuda", *(other for other in executors() if other != "cuda")]:
        try:
            executor = executor_named(candidate)
            why = executor.why_unavailable()
        except Exception as error:
            why = str(error) if isinstance(error, TilecopyError) else f"why_unavailable() raised {said(error)}"
        if why is None:
            return executor
        reasons.append(f"{candidate}: {why}")
    if "emulator" not in executors():
        reasons.append(f"emulator: pip install {KNOWN_EXECUTORS['emulator']}")
    raise LaunchError(f"nothing can run kernel {kernel.name}: {'; '.join(reasons)}")
