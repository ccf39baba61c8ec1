"""The CUDA driver in this process. Driver errors are raised as LaunchError, and a lost context is recorded."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilecopy.errors import LaunchError
from tilecopy.executors.streams import stream_device, stream_handle
from tilecopy.nvidia_packages import remedy

from tilecopy_core.errors import frozen
from tilecopy_core.registry import LOCK

if TYPE_CHECKING:
    from tilecopy.kernel.tensor_map_args import TensorMapArgs

T = TypeVar("T")
_CONTEXT_ENDED = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})
"""The results after which "any further CUDA work will return the same error" (descriptions in the driver API)."""

_CAPTURING = range(900, 910)
"""The results about a stream that is being captured into a graph (CUDA_ERROR_STREAM_CAPTURE_...)."""

_CONTEXT, _DEVICE_ORDINAL, _ACCESS_FLAGS = 1, 9, 16
"""CU_POINTER_ATTRIBUTE_CONTEXT, _DEVICE_ORDINAL and _ACCESS_FLAGS (cuda.h)."""
_MAY_READ, _MAY_WRITE = 1, 3
"""The values of the access flags that allow reading, and reading and writing."""
_ALREADY_ENABLED = 704
"""CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, for example because a framework enabled it."""
_LEGACY_STREAM = (0, 1)
"""The handles of the legacy default stream."""
_DEFAULT_STREAMS = (*_LEGACY_STREAM, 2)
"""The handles of all default streams, with that of a thread. Each GPU has one with these handles."""

NOT_CURRENT = frozenset({201, 400, 709})
"""INVALID_CONTEXT, INVALID_HANDLE, CONTEXT_IS_DESTROYED (even of one that never existed): the results of a launch if the
context of the function or of the stream is not the current one."""
CLUSTER_REFUSED = frozenset({1, 912})
"""The results of a launch if the device cannot hold a cluster: invalid value, invalid cluster size."""


_FORKED = (
    "the CUDA driver does not work in a process that was forked after CUDA was started: use multiprocessing's start "
    "method 'spawn'"
)
_IN_A_FORK = {3: f": {_FORKED}"}
"""The result of cuInit in a fork (CUDA_ERROR_NOT_INITIALIZED) -> text for the error message."""


class locked_cached_property(Generic[T]):  # noqa: N801 (a decorator, as functools.cached_property, whose own lock a fork may leave held)
    """A property that is computed on first access and cached in the object."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> T:
        if owner is None:
            return self  # type: ignore[return-value]
        name = self._compute.__name__
        with LOCK:
            if name not in vars(owner):
                vars(owner)[name] = self._compute(owner)
        value: T = vars(owner)[name]
        return value


@frozen
class Device:
    """A frozen record of a GPU: ordinal, compute capability and name."""

    ordinal: int
    capability: tuple[int, int]
    name: str

    def __str__(self) -> str:
        return f"{self.name} (sm_{self.capability[0]}{self.capability[1]})"


def _why_no_driver(error: Exception) -> str:
    """Return a sentence that says whether the driver's library is missing or cannot be used."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(library)
    except OSError as load_error:
        if re.search("no such file|could not find", str(load_error), re.IGNORECASE):
            return f"the NVIDIA driver is not installed ({library} is not found)"
        error = load_error
    return f"the NVIDIA driver's library ({library}) cannot be used: {error}"


class Driver:
    """The CUDA driver API. Errors of the driver are raised as LaunchError.

    Args:
        bindings: the module with the calls; by default ``cuda.bindings.driver``, imported when first used.

    Attributes:
        sticky_error: the error by which the CUDA context of this process was lost, or None.
    """

    def __init__(self, bindings: Any = None) -> None:
        self._given = bindings
        self._contexts: dict[int, Any] = {}
        self._peers: dict[tuple[int, int], bool] = {}
        self.sticky_error: str | None = None

    @locked_cached_property
    def api(self) -> Any:
        """The functions of the driver API (``cuda.bindings.driver``). The first access calls ``cuInit``.

        Raises:
            LaunchError: cuda-python or the driver is missing, or the driver cannot start.
        """
        try:
            api = self._given or import_module("cuda.bindings.driver")
            result = api.cuInit(0)[0]
        except ImportError as error:
            raise LaunchError(
                f"cuda-python cannot be imported ({error}): {remedy('pip install cuda-python')}"
            ) from error
        except RuntimeError as error:
            raise LaunchError(_why_no_driver(error)) from error
        if int(result):
            raise LaunchError(
                f"the NVIDIA driver cannot start: {result.name} ({int(result)}){_IN_A_FORK.get(int(result), '')}"
            )
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_forked, weakref.ref(self)))
        return api

    @locked_cached_property
    def legacy_stream(self) -> Any:
        """The handle of the legacy default stream. This stream cannot be captured into a graph."""
        return self.api.CUstream(0)

    # -------------------------------------------------------------------------------------------- results

    def call(self, function: str, *arguments: Any, what: str = "") -> Any:
        """Call a driver function. Return its result, or a list of several results. Errors begin with ``what``."""
        code, *values = getattr(self.api, function)(*arguments)
        if int(code):
            raise self.error(what or function, code)
        return values if len(values) > 1 else values[0] if values else None

    def error(self, what: str, code: Any) -> LaunchError:
        """Return the error for a driver call that returned ``code``, and record whether the context was lost."""
        string_code, text = self.api.cuGetErrorString(code)
        code_text = f"{code.name} ({int(code)}): {'unknown error' if int(string_code) or not text else text.decode()}"
        if self.sticky_error is not None:
            return self.context_lost_error(what)
        if int(code) in _CONTEXT_ENDED:
            self.sticky_error = f"{code_text}, reported by {what}"
            return LaunchError(
                f"{what}: {code_text}. The cause is this launch or earlier asynchronous work. This process "
                "cannot use the GPU any more: start a new process, and run the kernel there with "
                'executor="emulator" to see the PTX line, thread and address of a fault'
            )
        if int(code) in _CAPTURING:
            code_text += ". A stream is being captured into a graph: launch the kernel once before the capture, and pass the captured stream with stream="
        return LaunchError(f"{what}: {code_text}")

    def context_lost_error(self, what: str) -> LaunchError:
        """Return the error for a call made after the context was lost."""
        return LaunchError(
            f"{what}: this process cannot use the GPU any more because of an earlier error ({self.sticky_error}): "
            "start a new process"
        )

    # -------------------------------------------------------------------------------------------- devices

    @locked_cached_property
    def devices(self) -> list[Device]:
        """The GPUs of this machine. Only the first access asks the driver."""
        devices = []
        attribute = self.api.CUdevice_attribute
        major = attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        minor = attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        for ordinal in range(self.call("cuDeviceGetCount")):
            device = self.call("cuDeviceGet", ordinal)
            capability = tuple(self.call("cuDeviceGetAttribute", which, device) for which in (major, minor))
            name = self.call("cuDeviceGetName", 128, device).split(b"\0")[0].decode()
            devices.append(Device(ordinal, capability, name))
        return devices

    @contextmanager
    def active(self, ordinal: int) -> Iterator[None]:
        """Return a context manager that makes a device's primary CUDA context current."""
        if self.sticky_error is not None:
            raise self.context_lost_error(f"device {ordinal}")
        with self._push(self._context(ordinal)):
            yield

    def _context(self, ordinal: int) -> Any:
        """Return a device's primary context."""
        if ordinal not in self._contexts:
            with LOCK:
                if ordinal not in self._contexts:
                    device = self.call("cuDeviceGet", ordinal, what=f"device {ordinal}")
                    self._contexts[ordinal] = self.call("cuDevicePrimaryCtxRetain", device)
        return self._contexts[ordinal]

    @contextmanager
    def _push(self, context: Any) -> Iterator[None]:
        self.call("cuCtxPushCurrent", context)
        try:
            yield
        finally:
            self.api.cuCtxPopCurrent()

    def current_device(self) -> int:
        """Return the GPU of the context that is current in this thread, or 0 if no context is current."""
        if not int(self.call("cuCtxGetCurrent")):  # without a context, cuCtxGetDevice would fail
            return 0
        code, device = self.api.cuCtxGetDevice()
        return 0 if int(code) else int(device)

    def device_of_stream(self, stream: Any) -> int | None:
        """Return the GPU of a stream. Return None if the GPU is unknown, for example for a default stream's handle."""
        ordinal, number = stream_device(stream), stream_handle(stream)
        if ordinal is not None or number in _DEFAULT_STREAMS:
            return ordinal
        code, context = self.api.cuStreamGetCtx(number)
        if int(code):  # the stream belongs to a green context
            return None
        with self._push(context):
            return self.current_device()

    def device_of(self, pointer: int) -> int:
        """Return the GPU of a device address. Raise LaunchError if the address is not in device memory."""
        ordinal = ctypes.c_int(-1)
        code = self._pointer_attribute(ctypes.byref(ordinal), _DEVICE_ORDINAL, pointer)
        if code or ordinal.value < 0:  # the driver also knows pinned host memory
            raise self.error(f"the address must be in device memory, got 0x{pointer:x}", self.api.CUresult(code or 1))
        return ordinal.value

    @locked_cached_property
    def _pointer_attribute(self) -> Callable[[Any, int, int], int]:
        """The driver's cuPointerGetAttribute.

        That of cuda-bindings 13.3 returns GPU 0 for the memory of every GPU (NVIDIA/cuda-python #2928).
        """
        address, _ = self.call("cuGetProcAddress", b"cuPointerGetAttribute", 12000, 0)
        signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
        return signature(int(address))

    def encode_map(self, ordinal: int, facts: TensorMapArgs) -> bytes:
        """Encode a tensor map for kernels on a GPU, and return the bytes of the map."""
        with self.active(ordinal):  # the thread may have no context, or that of another GPU
            return self._map_encoder(facts)

    @locked_cached_property
    def _map_encoder(self) -> Callable[[TensorMapArgs], bytes]:
        from .tensor_maps import encoder

        address, _ = self.call("cuGetProcAddress", b"cuTensorMapEncodeTiled", 12000, 0)
        return encoder(int(address), lambda what, code: self.error(what, self.api.CUresult(code)))

    def why_unreachable(self, ordinal: int, device: int, address: int, *, written: bool) -> str | None:
        """Enable peer access. Return why GPU ``ordinal`` cannot access memory at ``address``. Return None if it can.

        Args:
            ordinal: the GPU of the kernels.
            device: the GPU of the memory.
            address: an address in that memory.
            written: True if the kernels write it.
        """
        if not self.has_peer_access(ordinal, device):
            return f"GPU {ordinal} cannot access memory of GPU {device} (cuDeviceCanAccessPeer returns 0); copy the array to GPU {ordinal} first"
        needed = _MAY_WRITE if written else _MAY_READ
        with self.active(ordinal):
            # Memory of a pool, or mapped by cuMemMap, has no context. Its allocator grants access to each GPU.
            if self._attribute(_CONTEXT, address) or self._attribute(_ACCESS_FLAGS, address) & needed == needed:
                return None
        return (
            f"GPU {ordinal} cannot {'write' if written else 'read'} memory of GPU {device} at 0x{address:x}: "
            "grant access with cudaMemPoolSetAccess for memory of a pool, or with cuMemSetAccess for mapped memory"
        )

    def has_peer_access(self, ordinal: int, device: int) -> bool:
        """Enable access of GPU ``ordinal`` to memory of GPU ``device``. Return False if the hardware cannot do this."""
        with LOCK:
            if (ordinal, device) not in self._peers:
                pair = [self.call("cuDeviceGet", gpu) for gpu in (ordinal, device)]
                able = bool(self.call("cuDeviceCanAccessPeer", *pair))
                if able:
                    peer = self._context(device)
                    with self.active(ordinal), self.outside_capture():
                        (code,) = self.api.cuCtxEnablePeerAccess(peer, 0)
                    if int(code) not in (0, _ALREADY_ENABLED):
                        raise self.error(f"cannot enable peer access of GPU {ordinal} to GPU {device}", code)
                self._peers[ordinal, device] = able
            return self._peers[ordinal, device]

    def _attribute(self, which: int, address: int) -> int:
        """Return an attribute of an address for the current context, or 0 if the driver has none."""
        value = ctypes.c_uint64()
        return 0 if self._pointer_attribute(ctypes.byref(value), which, address) else value.value

    # -------------------------------------------------------------------------------------------- streams

    def is_capturing(self, ordinal: int, stream: int) -> bool:
        """Return True if a stream of a GPU is being captured into a graph. Return False for the legacy default stream."""
        if stream in _LEGACY_STREAM:
            return False
        with self.active(ordinal):
            return bool(int(self.call("cuStreamIsCapturing", stream)))

    @contextmanager
    def event(self, flags: int = 0) -> Iterator[Any]:
        """Yield a new event of the current context. Destroy the event when the context manager exits."""
        event = self.call("cuEventCreate", flags)
        try:
            yield event
        finally:
            self.api.cuEventDestroy(event)

    def wait_for(self, other: tuple[int, int], waiting: tuple[int, int]) -> None:
        """Make later work on one stream wait for the work already on another stream. The host does not wait.

        Args:
            other: the number of the GPU and the CUstream of the other stream.
            waiting: the number of the GPU and the CUstream of the stream that waits.
        """
        (device, stream), (ordinal, later) = other, waiting
        with self.active(device), self.event(int(self.api.CUevent_flags.CU_EVENT_DISABLE_TIMING)) as event:
            self.call("cuEventRecord", event, stream)
            with self.active(ordinal):
                self.call("cuStreamWaitEvent", later, event, 0)

    @contextmanager
    def outside_capture(self) -> Iterator[None]:
        """Return a context manager that allows calls such as module loading even while a thread captures a stream.

        The calls are not captured (cuThreadExchangeStreamCaptureMode, relaxed).
        """
        relaxed = self.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self.call("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            yield
        finally:
            self.api.cuThreadExchangeStreamCaptureMode(before)


def _forked(parent: weakref.ref[Driver]) -> None:
    """Make every later call of the parent's driver an error in a forked process."""
    driver = parent()
    if driver is not None and driver.sticky_error is None:
        driver.sticky_error = _FORKED
