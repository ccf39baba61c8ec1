"""The executor ``cuda``. It launches built kernels through the CUDA driver, on the streams of the arrays' frameworks.

Importing this package does not load CUDA. The executor loads it at its first use.
"""

from typing import TYPE_CHECKING

from tilecopy_core.registry import lazy_attributes

__all__ = ["ComputeCache", "CudaExecutor", "DeviceArray", "time_on_device"]

if TYPE_CHECKING:
    from .compute_cache import ComputeCache
    from .cuda import CudaExecutor
    from .device_array import DeviceArray, time_on_device
else:  # with a __getattr__, a type checker would accept every name
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {".compute_cache": "ComputeCache", ".cuda": "CudaExecutor", ".device_array": "DeviceArray time_on_device"},
    )
