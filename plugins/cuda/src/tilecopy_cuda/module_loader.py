"""A loader of kernels. The driver compiles a kernel's PTX, or reads the machine code from the compute cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from tilecopy.errors import LaunchError
from tilecopy.kernel.built import BuiltKernel
from tilecopy.module_text import directive_of

from tilecopy_core.errors import PerformanceWarning
from tilecopy_core.registry import warn_outside

from .compute_cache import ComputeCache
from .driver import Driver

_LOG_BYTES = 16384
_FREED_BYTES = 16 << 20
"""The size of a block that is freed once. Then glibc keeps up to twice that of later freed memory (mallopt(3): its thresholds follow
the largest freed mapped block). So the driver's compiler, which allocates and frees megabytes for each kernel, does not fault in
their pages again."""
_COMPILER_NOT_FOUND, _UNSUPPORTED_PTX_VERSION = 221, 222
"""CUDA_ERROR_JIT_COMPILER_NOT_FOUND and CUDA_ERROR_UNSUPPORTED_PTX_VERSION (cuda.h)."""


class ModuleLoader:
    """A loader that passes a kernel's PTX to ``cuModuleLoadDataEx`` and returns the module."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._cache_is_checked = False
        np.empty(_FREED_BYTES, np.uint8)

    def load(self, kernel: BuiltKernel) -> Any:
        """Load a kernel in the current context and return the CUmodule. The thread must not be capturing a stream.

        The first load warns if the driver cannot store machine code on disk.

        Raises:
            LaunchError: the driver rejects the PTX, has no compiler, or is older than the PTX version; the message has its log.
        """
        self._warn_of_cache()
        option, buffer = self.driver.api.CUjit_option, bytearray(_LOG_BYTES)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        image = kernel.ptx.encode() + b"\0"
        code, module = self.driver.api.cuModuleLoadDataEx(image, len(options), options, [buffer, len(buffer)])
        if not int(code):
            return module
        error = self.driver.error(f"loading kernel {kernel.name}", code)
        if self.driver.sticky_error is not None:
            raise error
        message = f"the driver rejected the PTX of kernel {kernel.name}: {code.name} ({int(code)}){self._remedy(code, kernel)}"
        log = bytes(buffer).partition(b"\0")[0].decode(errors="replace").strip()
        raise LaunchError("\n".join(line for line in (message, log) if line))

    def _warn_of_cache(self) -> None:
        """Warn once if each process compiles its kernels again, because the driver's compute cache cannot be used."""
        if self._cache_is_checked:
            return
        self._cache_is_checked = True
        if problem := ComputeCache.of_environment().problem:
            message = "the driver cannot store compiled kernels on disk, so each process compiles them again"
            warn_outside(f"{message}: {problem}", PerformanceWarning)

    def _remedy(self, code: Any, kernel: BuiltKernel) -> str:
        """Return what the user can do if the driver cannot compile the PTX. Return "" for other errors."""
        if int(code) == _COMPILER_NOT_FOUND:
            return (
                ". The driver has no PTX compiler: install its library libnvidia-ptxjitcompiler, or in a container "
                "add compute to NVIDIA_DRIVER_CAPABILITIES"
            )
        if int(code) == _UNSUPPORTED_PTX_VERSION:
            version = directive_of(kernel.ptx, ".version")
            number = self.driver.call("cuDriverGetVersion")
            return (
                f". The kernel needs PTX ISA {version or '?'}, but the installed driver is for CUDA "
                f"{number // 1000}.{number % 1000 // 10}: update the NVIDIA driver"
            )
        return ""
