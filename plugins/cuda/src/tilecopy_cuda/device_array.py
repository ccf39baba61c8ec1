"""Arrays in device memory, for command-line jobs and benchmarks that do not use a framework.

An array is freed when nothing refers to it. cuMemFree waits for the launches that use the memory.
"""

from __future__ import annotations

import statistics
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from tilecopy.errors import LaunchError

from tilecopy_core.errors import Validator, checked, instance_of, integer, integer_in, optional, short_repr
from tilecopy_core.layout import dtype_of

from .cuda import CudaExecutor
from .driver import Driver

_ADDRESSES = 1 << 49
"""The size of a GPU's virtual address space."""
_EXECUTOR = instance_of("a CudaExecutor", CudaExecutor)


class DeviceArray:
    """A row-major array in device memory. The memory is freed by :meth:`free`, at the end of a ``with`` statement, or by the garbage collector.

    Args:
        shape: extents. An array with an extent of 0 has no memory, and its address is 0.
        dtype: element type.
        device: the GPU's number.
        executor: the executor whose driver context is used; by default a new one.

    Raises:
        LaunchError: the extents are not valid, the device does not exist, or there is not enough memory.
        RequestError: the element type is unknown.
    """

    @checked(LaunchError, device=integer_in(0, 2**16), executor=optional(_EXECUTOR))
    def __init__(
        self, shape: Sequence[int], dtype: Any, *, device: int = 0, executor: CudaExecutor | None = None
    ) -> None:
        extents = [integer(extent) for extent in (shape if isinstance(shape, (tuple, list)) else (shape,))]
        self.shape = tuple(extent for extent in extents if extent is not None and extent >= 0)
        self.dtype, self.pointer = dtype_of(dtype).numpy(), 0
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        if len(self.shape) != len(extents) or self.nbytes >= _ADDRESSES:
            raise LaunchError(
                f"DeviceArray: shape must be non-negative integers, and the array must be smaller than 2**49 bytes, got shape {short_repr(shape)}"
            )
        self._executor, self._device = executor or CudaExecutor(), device
        if not self.nbytes:
            return
        with self._executor.driver.active(device):
            what = f"DeviceArray: shape {short_repr(shape)}: cannot allocate {self.nbytes} bytes of device memory"
            self.pointer = int(self._executor.driver.call("cuMemAlloc", self.nbytes, what=what))
        self._dropped = weakref.finalize(self, _free_dropped, self._executor.driver, device, self.pointer)
        self._dropped.atexit = False  # the context frees the memory

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "strides": None,
        }

    def copy_from(self, host: Any) -> None:
        """Copy a C-contiguous host array of the same size into this array.

        Raises:
            LaunchError: it is not such an array.
        """
        self._call("cuMemcpyHtoD", self.pointer, self._check_host(host, "copy_from").ctypes.data, self.nbytes)

    def copy_to(self, host: Any) -> None:
        """Copy this array into a writable C-contiguous host array of the same size.

        Raises:
            LaunchError: it is not such an array.
        """
        address = self._check_host(host, "copy_to", written=True).ctypes.data
        self._call("cuMemcpyDtoH", address, self.pointer, self.nbytes)

    @checked(LaunchError, byte=integer_in(0, 255))
    def fill(self, byte: int) -> None:
        """Set every byte of the array to ``byte``."""
        self._call("cuMemsetD8", self.pointer, byte, self.nbytes)

    def free(self) -> None:
        """Free the memory. A second call does nothing."""
        pointer, self.pointer = self.pointer, 0
        if pointer:
            self._dropped.detach()
            self._call("cuMemFree", pointer)

    def _check_host(self, host: Any, what: str, *, written: bool = False) -> Any:
        good = isinstance(host, np.ndarray) and host.flags.c_contiguous and host.nbytes == self.nbytes
        if not good or (written and not host.flags.writeable):
            may = "writable " if written else ""
            raise LaunchError(
                f"DeviceArray.{what}: host must be a {may}C-contiguous NumPy array of {self.nbytes} bytes, got {short_repr(host)}"
            )
        return host

    def _call(self, function: str, *arguments: Any) -> None:
        if not self.nbytes:
            return
        with self._executor.driver.active(self._device):
            self._executor.driver.call(function, *arguments)

    def __enter__(self) -> DeviceArray:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


def _free_dropped(driver: Driver, device: int, pointer: int) -> None:
    """Free the memory of a dropped array. The garbage collector may call this anywhere, even while a stream is captured."""
    with suppress(LaunchError), driver.active(device), driver.outside_capture():
        driver.call("cuMemFree", pointer)


@checked(
    LaunchError,
    executor=_EXECUTOR,
    work=Validator("a function without arguments", callable),
    runs=integer_in(1, 2**20),
    warm_up=integer_in(0, 2**20),
    device=integer_in(0, 2**16),
)
def time_on_device(
    executor: CudaExecutor, work: Callable[[], None], *, runs: int = 10, warm_up: int = 2, device: int = 0
) -> float:
    """Return the median time in seconds of one launch on the legacy stream, measured with CUDA events.

    Args:
        executor: the executor whose context and driver are used.
        work: a function that launches once.
        runs: the number of timed calls.
        warm_up: the number of calls before them.
        device: the GPU's number.
    """
    for _ in range(warm_up):
        work()
    times: list[float] = []
    driver, call = executor.driver, executor.driver.call
    with driver.active(device), driver.event() as start, driver.event() as stop:
        for _ in range(runs):
            call("cuEventRecord", start, 0)
            work()
            call("cuEventRecord", stop, 0)
            call("cuEventSynchronize", stop)
            times.append(call("cuEventElapsedTime", start, stop) * 1e-3)
    return statistics.median(times)
