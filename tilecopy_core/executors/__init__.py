"""Executors: what runs a built kernel. ``cuda`` is here; others come by entry point ``tilecopy.executors.v1``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from ..errors import LaunchError, PluginError
from ..kernel.built import BuiltKernel
from ..known import KNOWN_EXECUTORS
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


def executors() -> dict[str, str]:
    """Installed executors: name -> distribution and version."""
    found = {}
    for point in entry_points(group=EXECUTORS_GROUP):
        found[point.name] = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "unknown"
    return dict(sorted(found.items()))


def executor_named(name: str) -> Executor:
    """An installed executor, made once.

    Raises:
        LaunchError: none has that name; the message says what to install.
        PluginError: it fails to load.
    """
    if name not in _made:
        points = [point for point in entry_points(group=EXECUTORS_GROUP) if point.name == name]
        if not points:
            known = f": pip install {KNOWN_EXECUTORS[name]}" if name in KNOWN_EXECUTORS else ""
            raise LaunchError(
                f"executor {name!r} is not installed{known} (installed: {', '.join(executors()) or 'none'})"
            )
        try:
            _made[name] = points[0].load()()
        except Exception as error:
            raise PluginError(f"executor {name}: {type(error).__name__}: {error}") from error
    return _made[name]


def choose_executor(name: str | None, kernel: BuiltKernel) -> Executor:
    """The executor of that name; by default the GPU where there is one, else any other that is installed.

    Raises:
        LaunchError: there is none, with the reason for each.
    """
    if name is not None:
        return executor_named(name)
    cuda = executor_named("cuda")
    why = cuda.why_unavailable()
    if why is None:
        return cuda
    for other in executors():
        if other != "cuda":
            return executor_named(other)
    raise LaunchError(f"nothing can run kernel {kernel.name}: cuda: {why}; emulator: pip install tilecopy-emulator")
