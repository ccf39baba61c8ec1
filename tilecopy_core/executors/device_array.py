"""Device memory for command-line jobs and benchmarks that have no framework at hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import dtype_of
from ..errors import LaunchError
from .cuda import CudaExecutor


class DeviceArray:
    """A row-major array in device memory; free it, or use it in a ``with``.

    Args:
        shape: extents.
        dtype: element type.
        device: the GPU's number.
        executor: whose driver context is used; by default one of its own.
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, device: int = 0, executor: CudaExecutor | None = None
    ) -> None:
        self.shape, self.dtype = tuple(shape), dtype_of(dtype).numpy()
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self._executor = executor or CudaExecutor()
        with self._executor.active(device):
            self.pointer = self._executor.allocate(self.nbytes)
        self._device = device

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
        """Give the memory back."""
        with self._executor.active(self._device):
            self._executor.release(self.pointer)

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
