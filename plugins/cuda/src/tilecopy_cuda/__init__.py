"""The executor ``cuda``: built kernels through the CUDA driver, on the streams of the arrays' frameworks.

Importing this package loads nothing of CUDA; the executor does when it is first asked.
"""

from typing import TYPE_CHECKING

from tilecopy_core.registry import lazy_attributes

__all__ = [
    "ComputeCache",
    "CudaExecutor",
    "DeviceArray",
    "time_on_device",
]

if TYPE_CHECKING:
    from .compute_cache import ComputeCache
    from .cuda import CudaExecutor
    from .device_array import DeviceArray, time_on_device
else:  # a checker would take every name for one of the package
    __getattr__ = lazy_attributes(
        __name__,
        {
            "ComputeCache": ".compute_cache",
            "CudaExecutor": ".cuda",
            "DeviceArray": ".device_array",
            "time_on_device": ".device_array",
        },
    )


def __dir__() -> list[str]:
    """Also the names that are imported when they are first asked for."""
    return sorted({*globals(), *__all__})
