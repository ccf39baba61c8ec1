"""The executor ``cuda``: built kernels through the CUDA driver, on the streams of the arrays' frameworks.

Importing this package loads nothing of CUDA; the executor does when it is first asked.
"""

from .compute_cache import ComputeCache
from .cuda import CudaExecutor
from .device_array import DeviceArray, time_on_device

__all__ = [
    "ComputeCache",
    "CudaExecutor",
    "DeviceArray",
    "time_on_device",
]
