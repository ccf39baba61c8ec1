"""Loading a kernel's text on a device: from the disk cache, by the driver's compiler, or by nvJitLink where that cannot.

With the cache on, the text goes through the driver's linker, which gives the machine code that the driver's loader would
have made (one compiler of one version, whether the cache is on or not) in a form that can be kept. Without it the text is
loaded as it is. nvJitLink comes in where the driver has no compiler, or one that is older than the text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tilecopy.assemblers import INSTALL, assemble, version_of
from tilecopy.errors import AssemblerError, LaunchError
from tilecopy.kernel.built import BuiltKernel

from tilecopy_core.description import Target
from tilecopy_core.errors import TilecopyError

from .cache import ModuleCache, module_key
from .driver import Device, Driver, once

_LOG_BYTES = 16384
_FREED_BYTES = 16 << 20
"""A block of this size that is freed once. glibc then keeps as much of what is freed later as twice that (mallopt(3): its
thresholds follow the largest mapped block that was freed), so that the driver's compiler, which takes and frees megabytes for each
kernel, does not fault in every page of them again."""
_NO_COMPILER = frozenset({221, 222})
"""JIT_COMPILER_NOT_FOUND and UNSUPPORTED_PTX_VERSION: the text may be right, and another assembler take it."""
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")
"""Where Linux tells the driver's release; cuDriverGetVersion tells the CUDA version that it is for."""


class ModuleLoader:
    """Loads kernels as modules of the current context.

    Args:
        driver: the driver.
        cache: machine code of earlier processes; one that is off keeps none.
    """

    def __init__(self, driver: Driver, cache: ModuleCache) -> None:
        self.driver = driver
        self.cache = cache
        np.empty(_FREED_BYTES, np.uint8)

    def load(self, kernel: BuiltKernel, device: Device) -> Any:
        """The module of a kernel (CUmodule), for a device whose context is current, outside any capture.

        Raises:
            LaunchError: the driver refuses the text; the message has its log.
        """
        if self.cache.on:
            module = self._kept(kernel, device, f"driver {self.driver_version}", lambda: self.linked(kernel.ptx))
            if module is not None:
                return module
        code, module, log = self.image(kernel.ptx.encode() + b"\0")
        if not int(code):
            return module
        if int(code) in _NO_COMPILER:
            module = self._by_nvjitlink(kernel, device)
            if module is not None:
                return module
            log += f"\nnvJitLink may take it where the driver does not: {INSTALL['nvjitlink']}"
        error = self.driver.error(f"loading kernel {kernel.name}", code)
        if self.driver.ended is not None:
            raise error
        raise LaunchError(
            f"the driver refuses the PTX of kernel {kernel.name}: {code.name} ({int(code)})\n{log.strip()}"
        )

    @once
    def driver_version(self) -> str:
        """The driver as far as machine code may depend on it.

        Raises:
            LaunchError: the driver does not tell.
        """
        try:
            release = _KERNEL_MODULE.read_text(errors="replace").partition("\n")[0]
        except OSError:
            release = ""
        return f"{self.driver.call('cuDriverGetVersion')} {release}"

    def linked(self, ptx: str) -> bytes:
        """Machine code for the current context's device, by the driver's linker.

        Raises:
            LaunchError: it has none, or refuses the text.
        """
        api, call, log, image = self.driver.api, self.driver.call, bytearray(_LOG_BYTES), ptx.encode() + b"\0"
        state = call("cuLinkCreate", *_log_options(api, log))
        try:
            kind = api.CUjitInputType.CU_JIT_INPUT_PTX
            call("cuLinkAddData", state, kind, image, len(image), b"tilecopy.ptx", 0, [], [])
            code, *found = api.cuLinkComplete(state)
            if int(code):
                raise self.driver.error("cuLinkComplete", code)
            address, size_bytes = found
            return ctypes.string_at(int(address), int(size_bytes))  # the linker's memory ends with its state
        finally:
            api.cuLinkDestroy(state)

    def _by_nvjitlink(self, kernel: BuiltKernel, device: Device) -> Any:
        """The module by nvJitLink, or None where it is not installed or does not take the text."""
        try:
            version = version_of("nvjitlink")
        except AssemblerError:
            return None
        target = _target_on(device, kernel)
        return self._kept(kernel, device, f"nvjitlink {version}", lambda: assemble(kernel.ptx, target, "nvjitlink"))

    def _kept(self, kernel: BuiltKernel, device: Device, assembler: str, make: Callable[[], bytes]) -> Any:
        """The module of machine code that was kept, or is made now and kept; None where none can be had or loaded."""
        target = _target_on(device, kernel)
        key = module_key(kernel.ptx, target, driver=self.driver_version, assembler=assembler)
        found = self.cache.get(key)
        if found is not None:
            code, module, _ = self.image(found)
            if not int(code):
                return module
            self.cache.discard(key)
        try:
            made = make()
        except TilecopyError:
            if self.driver.ended is not None:
                raise
            return None  # loading the text itself says why
        code, module, _ = self.image(made)
        if int(code):
            return None
        self.cache.put(key, made)
        return module

    def image(self, image: bytes) -> tuple[Any, Any, str]:
        """What the driver answers to an image of text or machine code, its module, and its log."""
        log = bytearray(_LOG_BYTES)
        code, module = self.driver.api.cuModuleLoadDataEx(image, *_log_options(self.driver.api, log))
        return code, module, bytes(log).partition(b"\0")[0].decode(errors="replace")


def _log_options(api: Any, log: bytearray) -> tuple[int, list[Any], list[Any]]:
    """The driver's options that have it write its errors into a buffer."""
    option = api.CUjit_option
    return 2, [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES], [log, len(log)]


def _target_on(device: Device, kernel: BuiltKernel) -> Target:
    """What a kernel is assembled for on a device that runs its target: the device, with the target's suffix."""
    major, minor = device.capability
    return Target(major * 10 + minor, kernel.target.suffix)
