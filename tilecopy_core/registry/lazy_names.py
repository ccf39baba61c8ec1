"""Attributes of a package that are imported at first use, and functions that other packages add to the core."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ..errors import PluginError
from ..errors.fork_lock import LOCK
from .entry_points import by_name, load_unique

EXPORTS_GROUP = "tilecopy.exports.v1"
"""Entry-point group of functions that export or explain plans: ``cuda_function``, ``cuda_header``, ``explain`` and ``notes``."""
_KERNELS = "import tilecopy (from a checkout: pip install plugins/partitions plugins/kernel)"
_FRAGMENTS = "import it from tilecopy_partitions or tilecopy (from a checkout: pip install plugins/partitions)"
_EXPORT = "install tilecopy-export (from a checkout: pip install plugins/partitions plugins/kernel plugins/export)"
KNOWN = "to list first-party variants, install tilecopy-partitions (from a checkout: pip install plugins/partitions)"
_CLASSES = ("BuiltKernel", "Comparison", "Cost", "KernelBuilder", "Mbarrier", "Value")
_ERRORS = ("AssemblerError", "HazardError", "LaunchError")
_FUNCTIONS = ("compare", "cost", "cuda_header", "load_kernel", "ptx_text")
BROUGHT: Mapping[str, str] = MappingProxyType(
    dict.fromkeys((*_CLASSES, *_ERRORS, *_FUNCTIONS), _KERNELS)
    | dict.fromkeys(("mma_fragment", "tile_fragment"), _FRAGMENTS)
)
"""Name in another package -> how to get it; only this file and renamed.py of the core name other packages."""


def lazy_attributes(
    module: str, names: Mapping[str, str], brought: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for the package ``module``. An attribute is imported at its first use.

    ``names`` maps a module (a relative one begins with a dot) to its attributes, separated by spaces. ``brought`` maps a name of
    another package to a hint for the error message.
    """
    later = {name: source for source, attributes in names.items() for name in attributes.split()}

    def look_up(name: str) -> Any:
        if name in later:
            # A fork waits for the import. The import does not wait: its thread may have the lock of a module that the holder needs.
            is_locked = LOCK.acquire(blocking=False)
            try:
                value = getattr(import_module(later[name], module), name)
            finally:
                if is_locked:
                    LOCK.release()
            setattr(sys.modules[module], name, value)  # the next look-up finds it there
            return value
        hint = f"; {brought[name]}" if name in brought else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name, obj=sys.modules[module])

    return look_up, lambda: sorted({*vars(sys.modules[module]), *later})


@cache
def exporter(name: str) -> Callable[..., Any]:
    """Load and return the function of an entry point such as ``"cuda_function"`` in :data:`EXPORTS_GROUP`.

    Raises PluginError if no package provides it (the message says what to install), or if its package fails to load.
    """
    sources = by_name(EXPORTS_GROUP).get(name)
    if sources is None:
        what, remedy = ("CUDA C++", _EXPORT) if name.startswith("cuda") else ("kernels", _KERNELS)
        raise PluginError(f"no installed package can write {what} (entry point {name}); {remedy}")
    function: Callable[..., Any] = load_unique(sources)
    return function
