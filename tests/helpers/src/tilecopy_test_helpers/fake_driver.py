"""NOT a GPU: a stand-in for cuda.bindings.driver, for what the CUDA executor asks of a driver and how often.

It runs no kernel. It notes each call, keeps "device memory" in host memory, and decodes the arguments of each launch, so
that tests see what a GPU would have been given. Types (enums, handles) are those of the real bindings.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import Counter
from functools import cached_property
from typing import Any, ClassVar

import attrs

from tilecopy_test_helpers import nvidia_module

real = nvidia_module("cuda.bindings.driver")


@attrs.frozen
class Launched:
    """A launch as the driver saw it; ``arguments`` holds the bytes of each parameter."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    stream: int
    arguments: tuple[bytes, ...]
    gpu: int = 0

    def numbers(self) -> tuple[int, ...]:
        return tuple(int.from_bytes(argument, "little") for argument in self.arguments)


@attrs.frozen
class Encoded:
    """A tensor map as the driver was asked for it, and the GPU that was current."""

    address: int
    dtype: int
    sizes: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: int
    fill: int
    gpu: int


class _OfThread(threading.local):
    """What the driver keeps for each thread: contexts, by their GPUs, and how it takes captures."""

    def __init__(self) -> None:
        self.own: int | None = None
        self.pushed: list[int] = []
        self.modes: list[str] = []


class FakeDriver:
    """The calls that the executor makes, on a machine of four GPUs with a context, memory, streams and modules each.

    Addresses from ``n << 48`` on and streams from ``n << 16`` on are GPU n's. What belongs to several GPUs fails as on a
    machine: a launch, an event or a copy whose function, stream or event is not of the current context, and a kernel that
    uses another GPU's memory without peer access.

    Args:
        sizes: bytes of each parameter of the kernels that are launched.
        devices: how many GPUs there are.

    Attributes:
        home: the GPU that changes places with GPU 0: what has no number above is its.
        begins: the GPU whose context is a framework's own in the thread that makes the stand-in; other threads have none.
        made: where a test gathers its stand-ins.
        fail: result codes that calls return, by name, until taken out.
        capturing: what cuStreamIsCapturing says of every stream; ``captured``: those of which it says 1 in any case.
        peers: whether the hardware has peer access; ``enabled``: the pairs for which it was enabled.
        mapped: addresses of memory that is mapped without a context, and the GPUs that may use it.
        order: what was put on streams: records and waits of events, and launches, with GPU and stream.
        version: what cuDriverGetVersion says.
        allocated: bytes of each piece of device memory, in order.
        retained: the GPUs whose primary contexts were asked for, in order.
        loaded: the modules that are.
        graph: the user objects of the graph that is captured.
        maps: the tensor maps that were encoded, in order; the bytes of one hold its number, from 1.
        images: the PTX texts that were loaded, in order.
    """

    home: ClassVar[int] = 0
    begins: ClassVar[int | None] = 0
    made: ClassVar[list[FakeDriver] | None] = None

    def __init__(self, sizes: tuple[int, ...] = (), devices: int = 4) -> None:
        self.sizes, self.count = sizes, devices
        self.launches: list[Launched] = []
        self.allocated: list[int] = []
        self.calls: Counter[str] = Counter()
        self.fail: dict[str, int] = {}
        self.capturing, self.captured = 0, set[int]()
        self.peers, self.enabled = True, set[tuple[int, int]]()
        self.mapped: dict[int, set[int]] = {}
        self.order: list[tuple[Any, ...]] = []
        self.retained: list[int] = []
        self.loaded: set[int] = set()
        self.graph: list[tuple[int, int]] = []
        self.maps: list[Encoded] = []
        self.version, self.images = 13000, list[bytes]()
        self._memory: dict[int, Any] = {}
        self._numbers = itertools.count(7)  # of events and modules, in any thread
        self._lock = threading.Lock()
        self._thread = _OfThread()
        self._thread.own = self.begins
        self._of: dict[int, int] = {}
        if self.made is not None:
            self.made.append(self)

    # ---------------------------------------------------------------------------------------------- whose is what

    @property
    def pushed(self) -> list[int]:
        """The GPUs whose contexts this thread has pushed."""
        return self._thread.pushed

    @property
    def modes(self) -> list[str]:
        """The modes that this thread has set."""
        return self._thread.modes

    @property
    def current(self) -> int | None:
        """The GPU whose context is current in this thread; set, it is the context of a framework."""
        return self.pushed[-1] if self.pushed else self._thread.own

    @current.setter
    def current(self, gpu: int | None) -> None:
        self._thread.own = gpu

    def gpu(self, number: int) -> int:
        """The GPU that addresses and streams with a number above have; the same way back."""
        return {0: self.home, self.home: 0}.get(number, number)

    def address(self, host: int, gpu: int) -> int:
        """Host memory as a GPU's own."""
        return host + (self.gpu(gpu) << 48)

    def stream(self, number: int, gpu: int) -> int:
        """A stream of a GPU."""
        return number + (self.gpu(gpu) << 16)

    def _gpu_of_stream(self, stream: Any) -> int | None:
        if int(stream) <= 2:  # a default stream
            return self.current
        above = int(stream) >> 16
        return self.gpu(above if above < self.count else 0)

    def _may_use(self, gpu: int, address: int) -> bool:
        """Whether a kernel on a GPU reaches an address."""
        if address in self.mapped:
            return gpu in self.mapped[address]
        owner = self.gpu(address >> 48)
        return address < 4096 or owner >= self.count or owner == gpu or (gpu, owner) in self.enabled

    def _refused(self, *owners: int | None) -> Any:
        """Why what is of these GPUs is not done in the current context, or None."""
        if self.current is None:
            return real.CUresult.CUDA_ERROR_INVALID_CONTEXT
        return real.CUresult.CUDA_ERROR_INVALID_HANDLE if set(owners) != {self.current} else None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu"):
            raise AssertionError(f"the executor calls {name}, which the stand-in does not have")
        return getattr(real, name)

    def _said(self, name: str, *values: Any) -> tuple[Any, ...]:
        with self._lock:
            self.calls[name] += 1
        code = real.CUresult(self.fail.get(name, 0))
        return (code, *(None if int(code) else value for value in values))

    def cuInit(self, flags: int) -> Any:
        return self._said("cuInit")

    def cuGetErrorString(self, code: Any) -> Any:
        return real.CUresult(0), f"what the driver says of {int(code)}".encode()

    def cuDeviceGetCount(self) -> Any:
        return self._said("cuDeviceGetCount", self.count)

    def cuDeviceGet(self, ordinal: int) -> Any:
        return self._said("cuDeviceGet", ordinal)

    def cuDeviceGetAttribute(self, which: Any, device: int) -> Any:
        return self._said("cuDeviceGetAttribute", 9 if "MAJOR" in which.name else 0)

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return self._said("cuDeviceGetName", b"stand-in\0")

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        self.retained.append(device)
        return self._said("cuDevicePrimaryCtxRetain", 100 + device)

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.pushed.append(context - 100)
        return self._said("cuCtxPushCurrent")

    def cuCtxPopCurrent(self) -> Any:
        return self._said("cuCtxPopCurrent", 100 + self.pushed.pop())

    def cuCtxGetCurrent(self) -> Any:
        return self._said("cuCtxGetCurrent", 0 if self.current is None else 100 + self.current)

    def cuCtxGetDevice(self) -> Any:
        if self.current is None:
            return real.CUresult.CUDA_ERROR_INVALID_CONTEXT, None
        return self._said("cuCtxGetDevice", self.current)

    def cuStreamGetCtx(self, stream: Any) -> Any:
        return self._said("cuStreamGetCtx", 100 + (self._gpu_of_stream(stream) or 0))

    def cuDeviceCanAccessPeer(self, device: int, peer: int) -> Any:
        return self._said("cuDeviceCanAccessPeer", int(self.peers))

    def cuCtxEnablePeerAccess(self, context: int, flags: int) -> Any:
        assert flags == 0 and self.current is not None and self.peers and self.modes[-1] == "RELAXED"
        pair = self.current, context - 100
        if pair in self.enabled:
            return (real.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,)
        said = self._said("cuCtxEnablePeerAccess")
        if not int(said[0]):
            self.enabled.add(pair)
        return said

    def cuPointerGetAttribute(self, which: Any, pointer: int) -> Any:
        return self._said("cuPointerGetAttribute", 0)  # what cuda-bindings 13.3 says of memory of every GPU

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> Any:
        function = {b"cuPointerGetAttribute": "_where", b"cuTensorMapEncodeTiled": "_encode"}[name]
        return (*self._said("cuGetProcAddress", ctypes.cast(getattr(self, function), ctypes.c_void_p).value), 0)

    @cached_property
    def _encode(self) -> Any:
        """cuTensorMapEncodeTiled: the bytes are the number of the map in :attr:`maps`."""
        several, kinds = ctypes.c_void_p, (ctypes.c_int,) * 4

        @ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64, *(several,) * 4, *kinds
        )
        def encode(to: int, dtype: int, rank: int, address: int, *rest: int) -> int:
            sizes, strides, box, steps, interleave, swizzle, l2, fill = rest
            assert to % 64 == 0 and address % 16 == 0 and self.current is not None and (interleave, l2) == (0, 3)

            def read(place: int, count: int, type: Any) -> tuple[int, ...]:
                return tuple((type * count).from_address(place))

            wide, narrow = ctypes.c_uint64, ctypes.c_uint32
            numbers = read(sizes, rank, wide), read(strides, rank - 1, wide), read(box, rank, narrow)
            with self._lock:
                self.calls["cuTensorMapEncodeTiled"] += 1
                self.maps.append(
                    Encoded(address, dtype, *numbers, read(steps, rank, narrow), swizzle, fill, self.current)
                )
                ctypes.memmove(to, len(self.maps).to_bytes(128, "little"), 128)
            return self.fail.get("cuTensorMapEncodeTiled", 0)

        return encode

    @cached_property
    def _where(self) -> Any:
        """cuPointerGetAttribute as the driver has it; the host memory that stands for device memory is the first GPU's."""
        kinds = real.CUpointer_attribute

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
        def attribute(value: int, which: int, pointer: int) -> int:
            owner = self.gpu(pointer >> 48)
            if which == int(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL):
                ctypes.c_int.from_address(value).value = owner if owner < self.count else -1
            elif which == int(kinds.CU_POINTER_ATTRIBUTE_CONTEXT):
                ctypes.c_uint64.from_address(value).value = 0 if pointer in self.mapped else 100 + owner
            else:
                assert which == int(kinds.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS) and self.current is not None
                ctypes.c_int.from_address(value).value = 3 if self._may_use(self.current, pointer) else 0
            return self.fail.get("cuPointerGetAttribute", 0)

        return attribute

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Any:
        before = self.modes[-1] if self.modes else "GLOBAL"
        self.modes.append("RELAXED" if "RELAXED" in getattr(mode, "name", mode) else "GLOBAL")
        return self._said("cuThreadExchangeStreamCaptureMode", before)

    def cuEventCreate(self, flags: int) -> Any:
        if self.current is None:
            return real.CUresult.CUDA_ERROR_INVALID_CONTEXT, None
        said = self._said("cuEventCreate", next(self._numbers))
        if not int(said[0]):
            self._of[said[1]] = self.current
        return said

    def cuEventRecord(self, event: int, stream: int) -> Any:
        if refused := self._refused(self._of[event], self._gpu_of_stream(stream)):
            return (refused,)
        self.order.append(("record", event, self.current, int(stream)))
        return self._said("cuEventRecord")

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> Any:
        assert flags == 0 and event in self._of
        if refused := self._refused(self._gpu_of_stream(stream)):
            return (refused,)
        self.order.append(("wait", event, self.current, int(stream)))
        return self._said("cuStreamWaitEvent")

    def cuEventSynchronize(self, event: int) -> Any:
        return self._said("cuEventSynchronize")

    def cuEventElapsedTime(self, start: int, stop: int) -> Any:
        return self._said("cuEventElapsedTime", 2.0)

    def cuEventDestroy(self, event: int) -> Any:
        del self._of[event]
        return self._said("cuEventDestroy")

    def cuDriverGetVersion(self) -> Any:
        return self._said("cuDriverGetVersion", self.version)

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> Any:
        assert self.pushed and self.modes[-1] == "RELAXED" and count == len(options) == len(values)
        assert image.endswith(b"\0")
        self.images.append(image)
        said = self._said("cuModuleLoadDataEx", 1000 + next(self._numbers))
        if not int(said[0]):
            self.loaded.add(said[1])
            self._of[said[1]] = self.pushed[-1]
        return said

    def cuModuleUnload(self, module: int) -> Any:
        assert self.modes[-1] == "RELAXED"  # without, it would break a capture that goes on elsewhere
        assert self.pushed[-1] == self._of[module]
        self.loaded.remove(module)
        return self._said("cuModuleUnload")

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        return self._said("cuModuleGetFunction", 8 * module)

    def cuFuncSetAttribute(self, function: int, which: Any, value: int) -> Any:
        return self._said("cuFuncSetAttribute")

    def cuStreamIsCapturing(self, stream: Any) -> Any:
        if refused := self._refused(self._gpu_of_stream(stream)):
            return refused, None
        return self._said("cuStreamIsCapturing", self.capturing or int(int(stream) in self.captured))

    def cuStreamGetCaptureInfo(self, stream: Any) -> Any:
        return self._said("cuStreamGetCaptureInfo", self.capturing, 1, self.graph, [], [], 0)

    def cuUserObjectCreate(self, pointer: int, destroy: Any, count: int, flags: Any) -> Any:
        assert count == 1 and int(flags) == 1
        return self._said("cuUserObjectCreate", (int(destroy), pointer))

    def cuGraphRetainUserObject(self, graph: Any, found: tuple[int, int], count: int, flags: Any) -> Any:
        assert count == 1 and int(flags) == 1  # moved: the caller has no reference any more
        graph.append(found)
        return self._said("cuGraphRetainUserObject")

    def destroy_graph(self) -> None:
        """What the driver does when a graph and what was instantiated from it are gone; then another may be captured."""
        for destroy, pointer in self.graph:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(destroy)(pointer)
        self.graph = []

    def cuStreamSynchronize(self, stream: Any) -> Any:
        return self._said("cuStreamSynchronize")

    def cuMemAlloc(self, size: int) -> Any:
        if size > 1 << 28:
            return real.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        assert self.current is not None
        buffer = ctypes.create_string_buffer(size)
        pointer = self.address(ctypes.addressof(buffer), self.current)
        self._memory[pointer] = buffer
        self.allocated.append(size)
        return self._said("cuMemAlloc", pointer)

    def cuMemFree(self, pointer: int) -> Any:
        del self._memory[pointer]
        return self._said("cuMemFree")

    def cuMemcpyHtoD(self, to: int, source: int, size: int) -> Any:
        ctypes.memmove(on_host(to), on_host(source), size)
        return self._said("cuMemcpyHtoD")

    def cuMemcpyDtoH(self, to: int, source: int, size: int) -> Any:
        ctypes.memmove(on_host(to), on_host(source), size)
        return self._said("cuMemcpyDtoH")

    def cuMemsetD8(self, to: int, byte: int, size: int) -> Any:
        ctypes.memset(on_host(to), byte, size)
        return self._said("cuMemsetD8")

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: Any) -> Any:
        if refused := self._refused(self._gpu_of_stream(stream)):
            return (refused,)
        ctypes.memmove(on_host(to), on_host(source), size)
        return self._said("cuMemcpyHtoDAsync")

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: Any) -> Any:
        if refused := self._refused(self._gpu_of_stream(stream)):
            return (refused,)
        ctypes.memmove(on_host(to), on_host(source), size)
        return self._said("cuMemcpyDtoHAsync")

    def cuLaunchKernel(self, function: int, *launch: Any) -> Any:
        *sizes, shared, stream, table, extra = launch
        assert extra == 0 and function // 8 in self.loaded
        if refused := self._refused(self._of[function // 8], self._gpu_of_stream(stream)):
            return (refused,)
        assert self.current is not None
        places = (ctypes.c_void_p * len(self.sizes)).from_address(table)
        arguments = tuple(ctypes.string_at(place, size) for place, size in zip(places, self.sizes, strict=True))
        said = self._said("cuLaunchKernel")
        if int(said[0]):
            return said
        with self._lock:
            launched = Launched(tuple(sizes[:3]), tuple(sizes[3:]), shared, int(stream), arguments, self.current)
            self.order.append(("launch", self.current, int(stream)))
            self.launches.append(launched)
        addresses = [int.from_bytes(argument, "little") for argument in arguments if len(argument) == 8]
        if not all(self._may_use(self.current, address) for address in addresses):
            return (real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
        return said


def on_host(address: int) -> int:
    """The host memory that stands for a GPU's."""
    return address & (1 << 48) - 1


class Where:
    """The device of a :class:`FakeTensor`."""

    def __init__(self, type: str, index: int | None) -> None:
        self.type, self.index = type, index

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


CUDA0, CUDA1, CPU, META = Where("cuda", 0), Where("cuda", 1), Where("cpu", None), Where("meta", None)
"""The first two: the GPU of plain addresses, and the one that changes places with it (:attr:`FakeDriver.home`)."""


class TorchDType:
    """Prints as torch's dtypes do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"


FLOAT16, FLOAT32 = TorchDType("float16"), TorchDType("float32")


@attrs.define(eq=False)
class FakeTensor:
    """What the executor reads of a torch tensor."""

    pointer: int
    shape: tuple[int, ...] = (256, 64)
    strides: tuple[int, ...] = (64, 1)
    dtype: TorchDType = FLOAT16
    device: Where = CUDA0
    conjugated: bool = False
    negated: bool = False

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def is_conj(self) -> bool:
        return self.conjugated

    def is_neg(self) -> bool:
        return self.negated
