"""Functions that Numba-CUDA kernels call. They insert the PTX of copies, and of fences and waits.

``device_function(plan)`` returns a function that a ``@cuda.jit`` kernel calls with the copy's operands. The other functions
complete copies.
"""

from importlib.util import find_spec

from tilecopy.nvidia_packages import remedy

if find_spec("numba") is None or find_spec("numba_cuda") is None:
    _INSTALL = 'from a checkout: pip install "plugins/export[numba]"'
    raise ImportError(f"tilecopy_export.numba needs numba-cuda, but numba-cuda is not installed: {remedy(_INSTALL)}")

from .completion import (
    cluster_sync,
    cp_async_commit,
    cp_async_wait,
    fence_mbarrier_init,
    fence_proxy_async,
    mbarrier_arrive_expect_tx,
    mbarrier_init,
    mbarrier_wait,
)
from .copies import device_function

__all__ = ["cluster_sync", "cp_async_commit", "cp_async_wait", "device_function", "fence_mbarrier_init"]
__all__ += ["fence_proxy_async", "mbarrier_arrive_expect_tx", "mbarrier_init", "mbarrier_wait"]
