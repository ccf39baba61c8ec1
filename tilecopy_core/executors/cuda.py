"""Running kernels on the GPU through the CUDA driver. The only module that touches CUDA, and only when used."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs
import numpy as np

from ..errors import LaunchError
from ..kernel.built import BuiltKernel, ScalarParameter
from ..layout import row_major
from ..memory import Buffer
from .arguments import ArrayFacts, as_host_array, check_array, flat_bytes, host_facts, split_arguments

_LOG_BYTES = 16384


@attrs.frozen
class Device:
    """A GPU: its number, compute capability and name."""

    ordinal: int
    capability: tuple[int, int]
    name: str


class CudaExecutor:
    """Loads kernels once a device and launches them; safe to use from several threads."""

    name = "cuda"

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._contexts: dict[int, Any] = {}
        self._functions: dict[tuple[int, str, str, str], Any] = {}
        self._initialised = False
        self._bindings: Any = None
        self._devices: list[Device] | None = None

    # ------------------------------------------------------------------------------------------- devices

    def _driver(self) -> Any:
        if self._bindings is not None:
            return self._bindings
        try:
            from cuda.bindings import driver
        except ImportError as error:
            raise LaunchError(f"cuda-python cannot be imported: {error}") from error
        with self._lock:
            if not self._initialised:
                try:
                    result = driver.cuInit(0)[0]
                except RuntimeError as error:
                    raise LaunchError("no NVIDIA driver is installed (libcuda is not found)") from error
                if int(result):
                    raise LaunchError(f"the NVIDIA driver does not start: {result.name}")
                self._initialised = True
        self._bindings = driver
        return driver

    def _call(self, what: str, result: tuple[Any, ...]) -> Any:
        """The values of a driver call, or a LaunchError that names it."""
        code, *values = result
        if int(code):
            raise LaunchError(f"{what}: {code.name} ({int(code)}): {self._describe(code)}")
        return values[0] if len(values) == 1 else values

    def _describe(self, code: Any) -> str:
        from cuda.bindings import driver

        found, text = driver.cuGetErrorString(code)
        return text.decode() if not int(found) and text else "unknown error"

    def devices(self) -> list[Device]:
        """The GPUs of this machine, asked for once.

        Raises:
            LaunchError: there is no driver.
        """
        if self._devices is None:
            self._devices = self._find_devices()
        return self._devices

    def _find_devices(self) -> list[Device]:
        driver = self._driver()
        found = []
        attribute = driver.CUdevice_attribute
        for ordinal in range(self._call("cuDeviceGetCount", driver.cuDeviceGetCount())):
            device = self._call("cuDeviceGet", driver.cuDeviceGet(ordinal))
            major, minor = (
                self._call("cuDeviceGetAttribute", driver.cuDeviceGetAttribute(which, device))
                for which in (
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                )
            )
            name = self._call("cuDeviceGetName", driver.cuDeviceGetName(128, device)).split(b"\0")[0].decode()
            found.append(Device(ordinal, (major, minor), name))
        return found

    def why_unavailable(self, kernel: BuiltKernel | None = None) -> str | None:
        """Why no kernel (or this one) can run here, or None."""
        try:
            devices = self.devices()
        except LaunchError as error:
            return str(error)
        if not devices:
            return "the driver finds no GPU"
        if kernel is not None and not any(kernel.target.runs_on(*device.capability) for device in devices):
            names = ", ".join(f"{d.name} (sm_{d.capability[0]}{d.capability[1]})" for d in devices)
            return f"no GPU of this machine runs {kernel.target}: {names}"
        return None

    def _context(self, ordinal: int) -> Any:
        driver = self._driver()
        with self._lock:
            if ordinal not in self._contexts:
                device = self._call("cuDeviceGet", driver.cuDeviceGet(ordinal))
                self._contexts[ordinal] = self._call(
                    "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(device)
                )
        return self._contexts[ordinal]

    @contextmanager
    def active(self, ordinal: int) -> Iterator[None]:
        """Make a device's primary context the current one."""
        driver = self._driver()
        self._call("cuCtxPushCurrent", driver.cuCtxPushCurrent(self._context(ordinal)))
        try:
            yield
        finally:
            driver.cuCtxPopCurrent()

    # ------------------------------------------------------------------------------------------- memory, events

    def allocate(self, nbytes: int) -> int:
        """Device memory in the active context."""
        return int(self._call(f"{nbytes} bytes of device memory", self._driver().cuMemAlloc(nbytes)))

    def release(self, pointer: int) -> None:
        """Give device memory back."""
        self._call("cuMemFree", self._driver().cuMemFree(pointer))

    def to_device(self, pointer: int, host: Any) -> None:
        """Copy a contiguous host array to device memory."""
        self._call("cuMemcpyHtoD", self._driver().cuMemcpyHtoD(pointer, host.ctypes.data, host.nbytes))

    def to_host(self, host: Any, pointer: int) -> None:
        """Copy device memory to a contiguous host array."""
        self._call("cuMemcpyDtoH", self._driver().cuMemcpyDtoH(host.ctypes.data, pointer, host.nbytes))

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        """Set bytes of device memory."""
        self._call("cuMemsetD8", self._driver().cuMemsetD8(pointer, byte, nbytes))

    def elapsed(self, work: Callable[[], None]) -> float:
        """Seconds that launches on the legacy stream take, by two events."""
        driver = self._driver()
        start, stop = (self._call("cuEventCreate", driver.cuEventCreate(0)) for _ in range(2))
        self._call("cuEventRecord", driver.cuEventRecord(start, 0))
        work()
        self._call("cuEventRecord", driver.cuEventRecord(stop, 0))
        self._call("cuEventSynchronize", driver.cuEventSynchronize(stop))
        seconds = self._call("cuEventElapsedTime", driver.cuEventElapsedTime(start, stop)) * 1e-3
        for event in (start, stop):
            driver.cuEventDestroy(event)
        return float(seconds)

    # ------------------------------------------------------------------------------------------- loading

    def load(self, kernel: BuiltKernel, ordinal: int) -> Any:
        """The kernel's function on a device, from its PTX text, loaded once.

        Raises:
            LaunchError: the device cannot run the target, or the driver refuses the text; the message has its log.
        """
        driver = self._driver()
        key = (ordinal, str(kernel.target), kernel.name, kernel.ptx)
        function = self._functions.get(key)
        if function is not None:
            return function
        with self._lock:
            if key not in self._functions:
                device = next((d for d in self.devices() if d.ordinal == ordinal), None)
                if device is None or not kernel.target.runs_on(*device.capability):
                    found = (
                        "no such device"
                        if device is None
                        else f"{device.name} is sm_{device.capability[0]}{device.capability[1]}"
                    )
                    raise LaunchError(
                        f"kernel {kernel.name} is lowered for {kernel.target}; {found}. "
                        'Build it for that GPU, or run it with executor="emulator"'
                    )
                options = driver.CUjit_option
                log = bytearray(_LOG_BYTES)
                result = driver.cuModuleLoadDataEx(
                    kernel.ptx.encode() + b"\0",
                    2,
                    [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
                    [log, _LOG_BYTES],
                )
                if int(result[0]):
                    text = log.split(b"\0")[0].decode(errors="replace").strip()
                    raise LaunchError(
                        f"the driver refuses the PTX of kernel {kernel.name}: {result[0].name} ({int(result[0])})\n{text}"
                    )
                function = self._call(
                    "cuModuleGetFunction", driver.cuModuleGetFunction(result[1], kernel.name.encode())
                )
                attribute = driver.CUfunction_attribute
                if kernel.dynamic_shared:
                    self._call(
                        f"kernel {kernel.name}: {kernel.shared_bytes} bytes of shared memory",
                        driver.cuFuncSetAttribute(
                            function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel.shared_bytes
                        ),
                    )
                if kernel.cluster is not None and kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2] > 8:
                    self._call(
                        f"kernel {kernel.name}: a cluster of more than 8 CTAs",
                        driver.cuFuncSetAttribute(
                            function, attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1
                        ),
                    )
                self._functions[key] = function
        return self._functions[key]

    # ------------------------------------------------------------------------------------------- launching

    def launch(
        self,
        kernel: BuiltKernel,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
    ) -> None:
        """Check the arguments and launch; NumPy arrays are copied in, and back when the kernel writes them.

        Raises:
            LaunchError: an argument does not fit its parameter, or the driver refuses; nothing was launched.
        """
        driver = self._driver()
        chosen = kernel.launch_grid(grid)
        arrays, scalars = split_arguments(kernel, arguments, chosen)
        stream_number = stream_pointer(stream)
        views = [(buffer, self._view(kernel, buffer, argument)) for buffer, argument in arrays]
        ordinals = sorted({view.ordinal for _, view in views if view.ordinal is not None})
        if len(ordinals) > 1:
            raise LaunchError(f"kernel {kernel.name}: the arguments are on devices {', '.join(map(str, ordinals))}")
        for buffer, view in views:
            facts = view.facts if view.ordinal is not None else attrs.evolve(view.facts, pointer=0)
            check_array(kernel, buffer, facts, scalars)
        ordinal = ordinals[0] if ordinals else 0
        staged: list[tuple[Buffer, Any, Any]] = []
        with self.active(ordinal), ExitStack() as cleanup:
            function = self.load(kernel, ordinal)
            pointers: dict[str, int] = {}
            for buffer, view in views:
                pointers[buffer.name] = view.facts.pointer
                if view.ordinal is None:
                    data = flat_bytes(view.array, view.facts)
                    memory = self._call(
                        f"kernel {kernel.name}, argument {buffer.name}: {data.nbytes} bytes of device memory",
                        driver.cuMemAlloc(data.nbytes),
                    )
                    cleanup.callback(driver.cuMemFree, memory)
                    staged.append((buffer, data, memory))
                    pointers[buffer.name] = int(memory)
                    self._call(
                        "cuMemcpyHtoDAsync",
                        driver.cuMemcpyHtoDAsync(memory, data.ctypes.data, data.nbytes, stream_number),
                    )
            self._enqueue(kernel, function, chosen, pointers, scalars, stream_number)
            for buffer, data, memory in staged:
                if buffer.name in kernel.written:
                    self._call(
                        "cuMemcpyDtoHAsync",
                        driver.cuMemcpyDtoHAsync(data.ctypes.data, memory, data.nbytes, stream_number),
                    )
            if staged:
                self._call(f"kernel {kernel.name}", driver.cuStreamSynchronize(stream_number))

    def _view(self, kernel: BuiltKernel, buffer: Buffer, argument: Any) -> _View:
        """An argument's facts; the CUDA array interface where there is one (it is the quickest), else DLPack."""
        if isinstance(argument, np.ndarray):
            return _View(host_facts(argument, buffer.dtype.bytes), None, argument)
        try:
            interface = argument.__cuda_array_interface__
        except Exception:  # frameworks raise their own when they cannot describe a dtype, or a host tensor
            interface = None
        if interface is not None:
            pointer, readonly = interface["data"]
            shape, strides = tuple(interface["shape"]), interface.get("strides")
            elements = row_major(shape) if strides is None else tuple(s // buffer.dtype.bytes for s in strides)
            facts = ArrayFacts(shape, elements, _named_dtype(argument, interface["typestr"]), int(pointer), readonly)
            return _View(facts, self._ordinal_of(int(pointer)), argument)
        return _dlpack_view(kernel, buffer, argument)

    def _ordinal_of(self, pointer: int) -> int:
        driver = self._driver()
        if not pointer:
            return 0
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._call(f"0x{pointer:x} as a device pointer", driver.cuPointerGetAttribute(attribute, pointer)))

    def _enqueue(
        self,
        kernel: BuiltKernel,
        function: Any,
        grid: tuple[int, int, int],
        pointers: dict[str, int],
        scalars: dict[str, int],
        stream: int,
    ) -> None:
        driver = self._driver()
        values: list[int] = []
        types: list[Any] = []
        for parameter in kernel.parameters:
            if isinstance(parameter, ScalarParameter):
                values.append(scalars[parameter.name])
                types.append(ctypes.c_int64 if parameter.type == "b64" else ctypes.c_int32)
            else:
                values.append(pointers[parameter.name])
                types.append(ctypes.c_uint64)
        shared = kernel.shared_bytes if kernel.dynamic_shared else 0
        self._call(
            f"launch of kernel {kernel.name}",
            driver.cuLaunchKernel(
                function, *grid, kernel.threads, 1, 1, shared, stream, (tuple(values), tuple(types)) if values else 0, 0
            ),
        )


@attrs.frozen(eq=False)
class _View:
    """An argument: its facts, the device it is on (None for host memory) and the object that keeps it alive."""

    facts: ArrayFacts
    ordinal: int | None
    array: Any


def _named_dtype(argument: Any, typestr: str) -> Any:
    """The framework's own dtype (it knows bfloat16), else the interface's."""
    return getattr(argument, "dtype", typestr)


def _dlpack_view(kernel: BuiltKernel, buffer: Buffer, argument: Any) -> _View:
    where = f"kernel {kernel.name}, argument {buffer.name}"
    if not hasattr(argument, "__dlpack__"):
        raise LaunchError(
            f"{where}: an array (NumPy, or one with DLPack or __cuda_array_interface__), not {type(argument).__name__}"
        )
    if int(argument.__dlpack_device__()[0]) == 1:
        array = as_host_array(kernel, buffer, argument)
        return _View(host_facts(array, buffer.dtype.bytes), None, array)
    from cuda.core.utils import StridedMemoryView

    try:
        view = StridedMemoryView.from_any_interface(_detached(argument), stream_ptr=-1)
    except Exception as error:  # whatever the exporting framework raises
        raise LaunchError(f"{where}: {type(argument).__name__} cannot be viewed: {error}") from error
    shape = tuple(view.shape)
    strides = tuple(view.strides) if view.strides is not None else row_major(shape)
    facts = ArrayFacts(shape, strides, _named_dtype(argument, ""), int(view.ptr), bool(view.readonly))
    return _View(facts, int(view.device_id), argument)


def _detached(argument: Any) -> Any:
    """Torch refuses to export a tensor that requires grad; its memory is the same without."""
    return argument.detach() if getattr(argument, "requires_grad", False) else argument


def stream_pointer(stream: Any) -> int:
    """The CUstream of an integer, or of a torch, CuPy or cuda.core stream object.

    Raises:
        LaunchError: none of these.
    """
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    raise LaunchError(f"stream {stream!r}: an integer, or a stream of torch, CuPy or cuda.core")


executor = CudaExecutor
"""What the entry point names: called with no arguments, it gives the executor."""
