"""Names that a package imports when they are first asked for, and what other packages bring beside the core."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ..errors import PluginError
from ..errors.process_lock import LOCK
from .entry_points import by_name, load_unique

EXPORTS_GROUP = "tilecopy.exports.v1"
"""Entry-point group of functions that take plans elsewhere: ``cuda_function`` and ``cuda_header``, ``explain`` with lines on a plan, and ``notes``."""
_KERNELS = "import tilecopy (from a checkout: pip install plugins/partitions plugins/kernel)"
_FRAGMENTS = "import them from tilecopy_partitions or tilecopy (from a checkout: pip install plugins/partitions)"
_EXPORT = "install tilecopy-export (from a checkout: pip install plugins/partitions plugins/kernel plugins/export)"
KNOWN = "install tilecopy-partitions, which knows the first-party variants (from a checkout: pip install plugins/partitions)"
_CLASSES = ("BuiltKernel", "Comparison", "Cost", "KernelBuilder", "Mbarrier", "Value")
_ERRORS = ("AssemblerError", "HazardError", "LaunchError")
_FUNCTIONS = ("compare", "cost", "cuda_header", "load_kernel", "ptx_text")
BROUGHT: Mapping[str, str] = MappingProxyType(
    dict.fromkeys((*_CLASSES, *_ERRORS, *_FUNCTIONS), _KERNELS)
    | dict.fromkeys(("mma_fragment", "tile_fragment"), _FRAGMENTS)
)
"""What to do for a name that the core has not and another package brings; of the core, only this file and renamed.py name packages."""


def lazy_attributes(module: str, later: Mapping[str, str], brought: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The ``__getattr__`` of the package ``module``, some of whose names are imported when they are first asked for.

    ``later`` has, by name, the module that it is imported from (a relative one begins with a dot); ``brought`` has, by name, what to
    do for names that other packages have.
    """

    def look_up(name: str) -> Any:
        if name in later:
            package = sys.modules[module]
            # A fork waits for the import. The import does not wait: its thread may have the lock of a module that the holder needs.
            is_locked = LOCK.acquire(blocking=False)
            try:
                value = getattr(import_module(later[name], module), name)
            finally:
                if is_locked:
                    LOCK.release()
            setattr(package, name, value)  # the next look-up finds it there
            return value
        hint = f"; {brought[name]}" if name in brought else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name, obj=sys.modules[module])

    return look_up


@cache
def exporter(name: str) -> Callable[..., Any]:
    """A function that takes plans elsewhere, by the name of its entry point, such as ``"cuda_function"``.

    Raises PluginError where no package brings it, with what to install, or where the one that does fails to load.
    """
    sources = by_name(EXPORTS_GROUP).get(name)
    if sources is None:
        what, remedy = ("CUDA C++", _EXPORT) if name.startswith("cuda") else ("kernels", _KERNELS)
        raise PluginError(f"nothing that writes {what} ({name}) is installed; {remedy}")
    function: Callable[..., Any] = load_unique(sources)
    return function
