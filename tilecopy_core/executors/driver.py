"""The CUDA driver of this process: started once, its errors told as LaunchErrors, and what ended it remembered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from ..errors import LaunchError

_CONTEXT_ENDED = frozenset(
    {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911}
)  # fmt: skip
"""Results after which "any further CUDA work will return the same error" (the driver API's description of each)."""

_CAPTURING = range(900, 910)
"""Results about a stream that is being captured into a graph (CUDA_ERROR_STREAM_CAPTURE_...)."""

_NOT_CURRENT = frozenset({201, 400, 709})
"""INVALID_CONTEXT, INVALID_HANDLE, CONTEXT_IS_DESTROYED (of one that was never made): what a launch can give where the
function's context is not the current one."""


def _bindings() -> Any:
    """cuda-python's driver module."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise LaunchError(f"cuda-python cannot be imported: {error}; pip install cuda-python") from error
    return driver


def is_not_current(code: Any) -> bool:
    """Whether a launch was refused since the function's context (or the stream's) is not the current one."""
    return int(code) in _NOT_CURRENT


@attrs.frozen
class Device:
    """A GPU: its number, compute capability and name."""

    ordinal: int
    capability: tuple[int, int]
    name: str


class Driver:
    """Calls of the driver API.

    Args:
        bindings: what has the calls; by default ``cuda.bindings.driver``, imported when first used.

    Attributes:
        ended: how the CUDA context of this process ended, or None while it works.
    """

    def __init__(self, bindings: Any = None) -> None:
        self._lock = threading.RLock()
        self._given = bindings
        self._started: Any = None
        self._devices: list[Device] | None = None
        self._contexts: dict[int, Any] = {}
        self.ended: str | None = None

    @property
    def api(self) -> Any:
        """The bindings, once ``cuInit`` has succeeded.

        Raises:
            LaunchError: there is no cuda-python, no driver, or the driver does not start.
        """
        return self._started if self._started is not None else self._start()

    def _start(self) -> Any:
        api = self._given if self._given is not None else _bindings()
        with self._lock:
            if self._started is None:
                try:
                    result = api.cuInit(0)[0]
                except RuntimeError as error:
                    raise LaunchError("no NVIDIA driver is installed (libcuda is not found)") from error
                if int(result):
                    raise LaunchError(f"the NVIDIA driver does not start: {result.name} ({int(result)})")
                self._started = api
        return self._started

    # -------------------------------------------------------------------------------------------- results

    def call(self, what: str, result: tuple[Any, ...]) -> Any:
        """The values of a driver call.

        Raises:
            LaunchError: the call failed; the message names it, and says so where no other can succeed.
        """
        code, *values = result
        if int(code):
            raise self.error(what, code)
        return values[0] if len(values) == 1 else values

    def error(self, what: str, code: Any) -> LaunchError:
        """The error of a call that returned ``code``; a context that has ended is remembered."""
        said = f"{code.name} ({int(code)}): {self._describe(code)}"
        if int(code) in _CONTEXT_ENDED:
            if self.ended is None:
                self.ended = f"{said}, reported by {what}"
                return LaunchError(
                    f"{what}: {said}. It comes from this launch or from work before it (launches do not wait), and it has "
                    "ended the CUDA context: nothing more can run on the GPU in this process. Start a new process; "
                    'executor="emulator" names the PTX line, thread and address of a kernel\'s own fault'
                )
            return self.gone(what)
        if int(code) in _CAPTURING:
            said += ". A stream is being captured into a graph: pass it as stream=, and have launched the kernel once before"
        return LaunchError(f"{what}: {said}")

    def gone(self, what: str) -> LaunchError:
        """The error of whatever is asked after the context has ended."""
        return LaunchError(
            f"{what}: not done, since the CUDA context of this process has ended: {self.ended}. "
            "Nothing more can run on the GPU in this process; start a new one"
        )

    def _describe(self, code: Any) -> str:
        try:
            found, text = self.api.cuGetErrorString(code)
        except LaunchError:
            return "unknown error"
        return text.decode() if not int(found) and text else "unknown error"

    # -------------------------------------------------------------------------------------------- devices

    def devices(self) -> list[Device]:
        """The GPUs of this machine, asked for once.

        Raises:
            LaunchError: there is no driver.
        """
        if self._devices is None:
            api, attribute = self.api, self.api.CUdevice_attribute
            found = []
            for ordinal in range(self.call("cuDeviceGetCount", api.cuDeviceGetCount())):
                device = self.call("cuDeviceGet", api.cuDeviceGet(ordinal))
                major, minor = (
                    self.call("cuDeviceGetAttribute", api.cuDeviceGetAttribute(which, device))
                    for which in (
                        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                    )
                )
                name = self.call("cuDeviceGetName", api.cuDeviceGetName(128, device)).split(b"\0")[0].decode()
                found.append(Device(ordinal, (major, minor), name))
            self._devices = found
        return self._devices

    @contextmanager
    def active(self, ordinal: int) -> Iterator[None]:
        """Make a device's primary context the current one.

        Raises:
            LaunchError: the context has ended, or cannot be had.
        """
        if self.ended is not None:
            raise self.gone(f"device {ordinal}")
        api = self.api
        with self._lock:
            if ordinal not in self._contexts:
                device = self.call(f"device {ordinal}", api.cuDeviceGet(ordinal))
                context = self.call("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain(device))
                self._contexts[ordinal] = context
        self.call("cuCtxPushCurrent", api.cuCtxPushCurrent(self._contexts[ordinal]))
        try:
            yield
        finally:
            api.cuCtxPopCurrent()

    def device_of(self, pointer: int) -> int:
        """The GPU of a device address.

        Raises:
            LaunchError: it is no device address.
        """
        attribute = self.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        found = self.api.cuPointerGetAttribute(attribute, pointer)
        return int(self.call(f"0x{pointer:x} as a device pointer", found))

    @contextmanager
    def outside_capture(self) -> Iterator[None]:
        """Let this thread make calls that a capture elsewhere would forbid, such as loading a module.

        They take no part in the capture (cuThreadExchangeStreamCaptureMode, relaxed).
        """
        api = self.api
        relaxed = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self.call("cuThreadExchangeStreamCaptureMode", api.cuThreadExchangeStreamCaptureMode(relaxed))
        try:
            yield
        finally:
            api.cuThreadExchangeStreamCaptureMode(before)
