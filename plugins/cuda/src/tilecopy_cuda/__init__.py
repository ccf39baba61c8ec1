"""The executor ``cuda``: built kernels through the CUDA driver, on the streams of the arrays' frameworks.

Importing this package loads nothing of CUDA; the executor does when it is first asked.
"""

from .cache import ModuleCache
from .cuda import CudaExecutor
from .device_array import DeviceArray, time_on_device
from .kernels_on_disk import KernelCache

__all__ = [
    "CudaExecutor",
    "DeviceArray",
    "KernelCache",
    "ModuleCache",
    "time_on_device",
]
