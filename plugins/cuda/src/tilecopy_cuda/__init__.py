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
    """Return the names of the package, with those that are imported at their first use."""
    return sorted({*globals(), *__all__})
