"""NOT a GPU: the stand-in driver with what the front of relayout asks beside launches, and arrays as CuPy has them.

"Device memory" is the host's, so that the stand-in planner can move what is in it.
"""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import attrs
import numpy as np
import pytest
from tilecopy import executor_registry as running
from tilecopy_cuda.cuda import CudaExecutor

from .fake_driver import FakeDriver


class FakeGpu(FakeDriver):
    """GPUs with so much free memory."""

    def __init__(self, free_bytes: int = 1 << 30) -> None:
        super().__init__()
        self.free_bytes = free_bytes

    def cuMemGetInfo(self) -> Any:
        return (
            self._said("cuMemGetInfo", self.free_bytes, 1 << 30)
            if not self.fail.get("cuMemGetInfo")
            else (self._said("cuMemGetInfo")[0], 0, 0)
        )


@attrs.define(eq=False)
class Memory:
    """What ``cupy.ndarray.data`` is."""

    ptr: int
    device_id: int = 0


@attrs.define(eq=False)
class ndarray:  # noqa: N801
    """A CuPy array on a GPU, whose memory is a NumPy array's, or was freed."""

    host: Any
    gpu: int = 0
    freed: bool = False

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    dtype = property(lambda self: self.host.dtype)
    data = property(lambda self: Memory(0 if self.freed else self.host.ctypes.data + (self.gpu << 48), self.gpu))

    @property
    def device(self) -> Any:
        """The context in which what CuPy makes is on its GPU."""
        return sys.modules["cupy"].cuda.Device(self.gpu)  # type: ignore[attr-defined]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, not self.host.flags.writeable),
            "version": 3,
        }


ndarray.__module__ = "cupy"


def cupy_module(streams: list[int]) -> types.ModuleType:
    """A module ``cupy`` whose current stream on GPU 0 is the last of ``streams``."""

    class ExternalStream:
        def __init__(self, pointer: int) -> None:
            self.pointer = pointer

        def __enter__(self) -> None:
            streams.append(self.pointer)

        def __exit__(self, *_: object) -> None:
            streams.pop()

    module: Any = types.ModuleType("cupy")
    module.made_on = []
    of_thread = threading.local()  # the current device is that of a thread, as CuPy's is

    class Device:
        def __init__(self, number: int) -> None:
            self.number = number

        def __enter__(self) -> None:
            of_thread.devices = [*getattr(of_thread, "devices", [0]), self.number]

        def __exit__(self, *_: object) -> None:
            of_thread.devices = of_thread.devices[:-1]

    def empty(shape: tuple[int, ...], dtype: Any) -> ndarray:
        module.made_on.append(streams[-1])
        return ndarray(np.empty(shape, dtype), getattr(of_thread, "devices", [0])[-1])

    module.ndarray, module.empty = ndarray, empty
    module.captures = False

    def current(device: int = 0) -> Any:
        return types.SimpleNamespace(ptr=streams[-1] + (device << 16), is_capturing=lambda: module.captures)

    module.cuda = types.SimpleNamespace(get_current_stream=current, ExternalStream=ExternalStream, Device=Device)
    return module


@attrs.define(eq=False)
class Machine:
    """The stand-ins of a test.

    Attributes:
        gpu: the driver.
        cupy: the module.
        streams: CuPy's current stream is the last.
    """

    gpu: FakeGpu
    cupy: Any
    streams: list[int]


def machine_with_gpu(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A process in which there seem to be a GPU and CuPy."""
    gpu, streams = FakeGpu(), [77]
    module = cupy_module(streams)
    monkeypatch.setitem(running._made, "cuda", CudaExecutor(gpu))
    monkeypatch.setitem(sys.modules, "cupy", module)
    if (torch := sys.modules.get("torch")) is not None:  # a real one, which knows nothing of these GPUs
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    return Machine(gpu, module, streams)
