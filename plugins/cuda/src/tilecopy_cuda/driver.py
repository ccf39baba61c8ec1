"""The CUDA driver of this process: started once, its errors told as LaunchErrors, and what ended it remembered."""

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
from typing import Any, Generic, TypeVar

from tilecopy.errors import LaunchError
from tilecopy.executors.streams import stream_device, stream_handle
from tilecopy.kernel.parameters import TensorMapArgs
from tilecopy.nvidia import remedy

from tilecopy_core.errors import frozen
from tilecopy_core.registry import LOCK

from .tensor_maps import encoder

T = TypeVar("T")
_CONTEXT_ENDED = frozenset(
    {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911}
)  # fmt: skip
"""Results after which "any further CUDA work will return the same error" (the driver API's description of each)."""

_CAPTURING = range(900, 910)
"""Results about a stream that is being captured into a graph (CUDA_ERROR_STREAM_CAPTURE_...)."""

_CONTEXT, _DEVICE_ORDINAL, _ACCESS_FLAGS = 1, 9, 16
"""CU_POINTER_ATTRIBUTE_CONTEXT, _DEVICE_ORDINAL and _ACCESS_FLAGS (cuda.h)."""
_MAY_READ, _MAY_WRITE = 1, 3
"""What the last of them answers at least."""
_ALREADY_ENABLED = 704
"""CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: a framework has done it."""
_LEGACY_STREAM = (0, 1)
"""The numbers that the legacy default stream has."""
_DEFAULT_STREAMS = (*_LEGACY_STREAM, 2)
"""And the default stream of a thread: each GPU has one under that number."""

NOT_CURRENT = frozenset({201, 400, 709})
"""INVALID_CONTEXT, INVALID_HANDLE, CONTEXT_IS_DESTROYED (of one that was never made): what a launch can give where the
function's context (or the stream's) is not the current one."""
CLUSTER_REFUSED = frozenset({1, 912})
"""What a launch returns where the device cannot hold a cluster: invalid value, invalid cluster size."""


_FORKED = (
    "it was forked from a process that had started CUDA, and the driver works in no fork (use multiprocessing's method "
    "'spawn', or fork before the first use of the GPU)"
)
_IN_A_FORK = {3: f": {_FORKED}"}
"""By what cuInit gives in a fork (CUDA_ERROR_NOT_INITIALIZED), what to do."""


class locked_cached_property(Generic[T]):  # noqa: N801 (a decorator, as functools.cached_property, whose own lock a fork may leave held)
    """A property that is computed at its first use and kept by the object."""

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
    """A GPU: its number, compute capability and name."""

    ordinal: int
    capability: tuple[int, int]
    name: str

    def __str__(self) -> str:
        return f"{self.name} (sm_{self.capability[0]}{self.capability[1]})"


def _why_no_driver(error: Exception) -> str:
    """Return whether the driver's library is missing or cannot be used, of which the bindings say the same."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(library)
    except OSError as load_error:
        if re.search("no such file|could not find", str(load_error), re.IGNORECASE):
            return f"no NVIDIA driver is installed ({library} is not found)"
        error = load_error
    return f"the NVIDIA driver's library ({library}) cannot be used: {error}"


class Driver:
    """Calls of the driver API.

    Args:
        bindings: what has the calls; by default ``cuda.bindings.driver``, imported when first used.

    Attributes:
        ended: how the CUDA context of this process ended, or None while it works.
    """

    def __init__(self, bindings: Any = None) -> None:
        self._given = bindings
        self._contexts: dict[int, Any] = {}
        self._peers: dict[tuple[int, int], bool] = {}
        self.sticky_error: str | None = None

    @locked_cached_property
    def api(self) -> Any:
        """Return the bindings, once ``cuInit`` has succeeded.

        Raises:
            LaunchError: cuda-python or the driver is missing, or the driver does not start.
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
                f"the NVIDIA driver does not start: {result.name} ({int(result)}){_IN_A_FORK.get(int(result), '')}"
            )
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_forked, weakref.ref(self)))
        return api

    @locked_cached_property
    def legacy_stream(self) -> Any:
        """Return the handle of the legacy default stream, on which nothing is ever captured."""
        return self.api.CUstream(0)

    # -------------------------------------------------------------------------------------------- results

    def call(self, function: str, *arguments: Any, what: str = "") -> Any:
        """Return the value of a driver call, or the list of them where there are several.

        Args:
            function: such as ``"cuMemAlloc"``.
            arguments: what it takes.
            what: what it is for, in the message of an error; by default its name.

        Raises:
            LaunchError: the call failed; the message says so where no other can succeed.
        """
        code, *values = getattr(self.api, function)(*arguments)
        if int(code):
            raise self.error(what or function, code)
        return values if len(values) > 1 else values[0] if values else None

    def error(self, what: str, code: Any) -> LaunchError:
        """Return the error of a call that returned ``code``; a context that has ended is remembered."""
        string_code, text = self.api.cuGetErrorString(code)
        code_text = f"{code.name} ({int(code)}): {'unknown error' if int(string_code) or not text else text.decode()}"
        if int(code) in _CONTEXT_ENDED or self.sticky_error is not None:
            if self.sticky_error is None:
                self.sticky_error = f"{code_text}, reported by {what}"
                return LaunchError(
                    f"{what}: {code_text}. It comes from this launch or from work before it (launches do not wait), and it has "
                    "ended the CUDA context: nothing more can run on the GPU in this process. Start a new process; "
                    'executor="emulator" names the PTX line, thread and address of a kernel\'s own fault'
                )
            return self.context_lost_error(what)
        if int(code) in _CAPTURING:
            code_text += ". A stream is being captured into a graph: pass it as stream=, and have launched the kernel once before"
        return LaunchError(f"{what}: {code_text}")

    def context_lost_error(self, what: str) -> LaunchError:
        """Return the error of whatever is asked after the context has ended."""
        return LaunchError(
            f"{what}: the CUDA context of this process was lost by an earlier error: {self.sticky_error}. "
            "Nothing more can run on the GPU in this process; start a new one"
        )

    # -------------------------------------------------------------------------------------------- devices

    @locked_cached_property
    def devices(self) -> list[Device]:
        """Return the GPUs of this machine, asked for once.

        Raises:
            LaunchError: the driver is missing.
        """
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
        """Make a device's primary context the current one.

        Raises:
            LaunchError: the context has ended, or cannot be had.
        """
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
        """Return the GPU whose context is current in this thread; 0 where none is.

        Raises:
            LaunchError: the driver is missing.
        """
        if not int(self.call("cuCtxGetCurrent")):  # to ask for its GPU would be an error of the driver
            return 0
        code, device = self.api.cuCtxGetDevice()
        return 0 if int(code) else int(device)

    def device_of_stream(self, stream: Any) -> int | None:
        """Return the GPU of a stream, or None: it is the number of a default stream, which every GPU has.

        Args:
            stream: a CUstream as an integer, or a stream of torch, CuPy or cuda.core.

        Raises:
            LaunchError: it is none of these.
        """
        ordinal, number = stream_device(stream), stream_handle(stream)
        if ordinal is not None or number in _DEFAULT_STREAMS:
            return ordinal
        code, context = self.api.cuStreamGetCtx(number)
        if int(code):  # a green context's
            return None
        with self._push(context):
            return self.current_device()

    def device_of(self, pointer: int) -> int:
        """Return the GPU of a device address.

        Raises:
            LaunchError: it is not a device address.
        """
        ordinal = ctypes.c_int(-1)
        code = self._pointer_attribute(ctypes.byref(ordinal), _DEVICE_ORDINAL, pointer)
        if code or ordinal.value < 0:  # the driver knows host memory that it has pinned too
            raise self.error(f"0x{pointer:x} as a device pointer", self.api.CUresult(code or 1))
        return ordinal.value

    @locked_cached_property
    def _pointer_attribute(self) -> Callable[[Any, int, int], int]:
        """Return the driver's own cuPointerGetAttribute.

        That of cuda-bindings 13.3 says GPU 0 for memory of every GPU (NVIDIA/cuda-python #2928).
        """
        address, _ = self.call("cuGetProcAddress", b"cuPointerGetAttribute", 12000, 0)
        signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
        return signature(int(address))

    def encode_map(self, ordinal: int, facts: TensorMapArgs) -> bytes:
        """Return a tensor map for kernels on a GPU as the driver encodes it.

        Raises:
            LaunchError: the driver refuses it, or has no tensor maps.
        """
        with self.active(ordinal):  # a thread may have no context, or another GPU's
            return self._map_encoder(facts)

    @locked_cached_property
    def _map_encoder(self) -> Callable[[TensorMapArgs], bytes]:
        address, _ = self.call("cuGetProcAddress", b"cuTensorMapEncodeTiled", 12000, 0)
        return encoder(int(address), lambda what, code: self.error(what, self.api.CUresult(code)))

    def why_unreachable(self, ordinal: int, device: int, address: int, *, written: bool) -> str | None:
        """Return why kernels on one GPU cannot use memory of another, or None: they can, once peer access was enabled.

        Args:
            ordinal: the GPU of the kernels.
            device: the GPU of the memory.
            address: in that memory.
            written: whether they write it.

        Raises:
            LaunchError: the driver does not give peer access although the hardware has it.
        """
        if not self.has_peer_access(ordinal, device):
            return (
                f"GPU {ordinal} has no peer access to GPU {device} (cuDeviceCanAccessPeer says so); copy it there first"
            )
        needed = _MAY_WRITE if written else _MAY_READ
        with self.active(ordinal):
            # Memory of a pool, or mapped by cuMemMap, has no context: its allocator says who may use it, for each GPU.
            if self._attribute(_CONTEXT, address) or self._attribute(_ACCESS_FLAGS, address) & needed == needed:
                return None
        return (
            f"GPU {ordinal} may not {'write' if written else 'read'} this memory of GPU {device}: it is of a memory pool or mapped, "
            "and its allocator gives access (cudaMemPoolSetAccess, cuMemSetAccess)"
        )

    def has_peer_access(self, ordinal: int, device: int) -> bool:
        """Enable peer access of one GPU to the memory of another, once a pair; False: the hardware has none.

        Raises:
            LaunchError: the driver does not give it although the hardware has it.
        """
        with LOCK:
            if (ordinal, device) not in self._peers:
                pair = [self.call("cuDeviceGet", gpu) for gpu in (ordinal, device)]
                able = bool(self.call("cuDeviceCanAccessPeer", *pair))
                if able:
                    peer = self._context(device)
                    with self.active(ordinal), self.outside_capture():
                        (code,) = self.api.cuCtxEnablePeerAccess(peer, 0)
                    if int(code) not in (0, _ALREADY_ENABLED):
                        raise self.error(f"peer access of GPU {ordinal} to GPU {device}", code)
                self._peers[ordinal, device] = able
            return self._peers[ordinal, device]

    def _attribute(self, which: int, address: int) -> int:
        """Return an attribute of an address, for the current context; 0 where the driver has none."""
        value = ctypes.c_uint64()
        return 0 if self._pointer_attribute(ctypes.byref(value), which, address) else value.value

    # -------------------------------------------------------------------------------------------- streams

    def is_capturing(self, ordinal: int, stream: int) -> bool:
        """Return whether a stream of a GPU is being captured into a graph, which the legacy default stream never is.

        Raises:
            LaunchError: the stream is none of that GPU.
        """
        if stream in _LEGACY_STREAM:
            return False
        with self.active(ordinal):
            return bool(int(self.call("cuStreamIsCapturing", stream)))

    def wait_for(self, other: tuple[int, int], waiting: tuple[int, int]) -> None:
        """Let what is put on one stream from now on wait for what is on another now; the host waits for nothing.

        Args:
            other: the stream that is waited for: the number of its GPU, and its own (a CUstream).
            waiting: the stream that waits, likewise.

        Raises:
            LaunchError: the driver refuses.
        """
        (device, stream), (ordinal, later) = other, waiting
        with self.active(device):
            event = self.call("cuEventCreate", int(self.api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
            try:
                self.call("cuEventRecord", event, stream)
                with self.active(ordinal):
                    self.call("cuStreamWaitEvent", later, event, 0)
            finally:
                self.api.cuEventDestroy(event)

    @contextmanager
    def outside_capture(self) -> Iterator[None]:
        """Let this thread make calls that a capture elsewhere would forbid, such as loading a module.

        They take no part in the capture (cuThreadExchangeStreamCaptureMode, relaxed).
        """
        relaxed = self.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self.call("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            yield
        finally:
            self.api.cuThreadExchangeStreamCaptureMode(before)


def _forked(parent: weakref.ref[Driver]) -> None:
    """In a fork: let the driver that the parent had started refuse what is asked of it."""
    driver = parent()
    if driver is not None and driver.sticky_error is None:
        driver.sticky_error = _FORKED
