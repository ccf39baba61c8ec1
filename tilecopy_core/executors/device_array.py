"""Device memory for command-line jobs and benchmarks that have no framework at hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..dtypes import dtype_of
from ..errors import LaunchError
from ..kernel.parameters import integer
from .cuda import CudaExecutor


class DeviceArray:
    """A row-major array in device memory; free it, or use it in a ``with``.

    Args:
        shape: extents.
        dtype: element type.
        device: the GPU's number.
        executor: whose driver context is used; by default one of its own.

    Raises:
        LaunchError: extents that are none, no such device, or no memory.
        RequestError: no such element type.
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, device: int = 0, executor: CudaExecutor | None = None
    ) -> None:
        extents = [integer(extent) for extent in (shape if isinstance(shape, (tuple, list)) else (shape,))]
        self.shape = tuple(extent for extent in extents if extent is not None and extent >= 1)
        if len(self.shape) != len(extents):
            raise LaunchError(f"a device array's extents are positive integers, not {shape!r}")
        self.dtype, self.pointer = dtype_of(dtype).numpy(), 0
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        self._executor, self._device = executor or CudaExecutor(), device
        with self._executor.active(device):
            self.pointer = self._executor.allocate(self.nbytes)

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
        """Fill from a C-contiguous host array of the same size."""
        with self._executor.active(self._device):
            self._executor.to_device(self.pointer, _contiguous(host, self.nbytes))

    def copy_to(self, host: Any) -> None:
        """Copy into a C-contiguous host array of the same size."""
        with self._executor.active(self._device):
            self._executor.to_host(_contiguous(host, self.nbytes), self.pointer)

    def fill(self, byte: int) -> None:
        """Set every byte."""
        with self._executor.active(self._device):
            self._executor.fill(self.pointer, byte, self.nbytes)

    def free(self) -> None:
        """Give the memory back; once is enough."""
        pointer, self.pointer = self.pointer, 0
        if pointer:
            with self._executor.active(self._device):
                self._executor.release(pointer)

    def __enter__(self) -> DeviceArray:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


def _contiguous(host: Any, nbytes: int) -> Any:
    if not host.flags.c_contiguous or host.nbytes != nbytes:
        raise LaunchError(f"a C-contiguous host array of {nbytes} bytes, not {host.nbytes} with strides {host.strides}")
    return host


def time_on_device(executor: CudaExecutor, work: Callable[[], None], *, runs: int = 10, warm_up: int = 2) -> float:
    """Median seconds of some launches on the legacy stream, by device events."""
    for _ in range(warm_up):
        work()
    with executor.active(0):
        return statistics.median(executor.elapsed(work) for _ in range(runs))
