"""Executors: what runs a built kernel. ``cuda`` is here; others come by entry point ``tilecopy.executors.v1``.

A package that has an executor, or that launches kernels itself, imports from here.
"""

from typing import TYPE_CHECKING

from tilecopy_core.deprecation import moved_names
from tilecopy_core.errors import TEXT, Kind, LaunchError, checked
from ..kernel.built import ValueCheck
from ..kernel.parameters import ArrayFacts
from ..running import Executor, choose_executor, executor_named, executors
from . import arguments
from .arguments import HostArguments, HostArray
from .streams import agreed_stream, stream_pointer

if TYPE_CHECKING:
    from tilecopy_cuda.device_array import DeviceArray, time_on_device
    from tilecopy_cuda.kept import KernelCache
else:  # a checker would take every name for one of the package
    __getattr__ = moved_names(
        __name__, {}, later={"DeviceArray": "device_array", "KernelCache": "kept", "time_on_device": "device_array"}
    )

array_facts = checked(LaunchError, where=TEXT, device_of=Kind("a function of an address", callable))(
    arguments.array_facts
)

__all__ = [
    "ArrayFacts",
    "DeviceArray",
    "Executor",
    "HostArguments",
    "HostArray",
    "KernelCache",
    "ValueCheck",
    "agreed_stream",
    "array_facts",
    "choose_executor",
    "executor_named",
    "executors",
    "stream_pointer",
    "time_on_device",
]
