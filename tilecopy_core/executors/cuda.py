"""Running kernels on the GPU through the CUDA driver.

What a launch checks depends on its arguments' shapes, strides, dtypes and devices, on its scalars and grid, but (all but the
alignment) not on addresses. A launch that was checked is remembered by the former, so that the next one like it costs some
reads, a look-up, a mask an address and the driver's call.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import attrs

from ..errors import LaunchError
from ..kernel.built import BuiltKernel
from ..kernel.parameters import Binding
from .arguments import array_facts, bind, cupy_key, flat_bytes, is_cupy, is_tensor, tensor_key
from .driver import Device, Driver
from .launches import PreparedLaunch, ReadyLaunch, ready_launch

_LOG_BYTES = 16384
_MOST_REMEMBERED = 1024
"""Launches that are remembered for a kernel, and streams of an executor, before all are forgotten."""


@attrs.frozen(eq=False)
class _Checked:
    """Checked arguments of a launch.

    Attributes:
        kernel: what is launched.
        binding: its parameters and grid, with the arrays' addresses.
        ordinal: the GPU.
        staged: the arrays that are in host memory.
    """

    kernel: BuiltKernel
    binding: Binding
    ordinal: int
    staged: tuple[str, ...]

    @property
    def addresses(self) -> list[int]:
        """Of the arrays, in order."""
        return [self.binding.addresses[parameter.name] for parameter in self.kernel.arrays]


class CudaExecutor:
    """Loads kernels once a device and launches them; safe to use from several threads.

    Args:
        bindings: the driver's calls; by default ``cuda.bindings.driver``, imported when first used.
    """

    name = "cuda"

    def __init__(self, bindings: Any = None) -> None:
        self.driver = Driver(bindings)
        self._lock = threading.RLock()
        self._functions: dict[tuple[int, str, str, str], Any] = {}
        self._streams: dict[int | None, Any] = {}
        self._readers: dict[type, Callable[[Any], tuple[Any, int]]] = {}

    # ------------------------------------------------------------------------------------------- devices

    def devices(self) -> list[Device]:
        """The GPUs of this machine, asked for once.

        Raises:
            LaunchError: there is no driver.
        """
        return self.driver.devices()

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

    def active(self, ordinal: int) -> AbstractContextManager[None]:
        """Make a device's primary context the current one."""
        return self.driver.active(ordinal)

    # ------------------------------------------------------------------------------------------- memory, events

    def allocate(self, nbytes: int) -> int:
        """Device memory in the active context."""
        return int(self.driver.call(f"{nbytes} bytes of device memory", self.driver.api.cuMemAlloc(nbytes)))

    def release(self, pointer: int) -> None:
        """Give device memory back."""
        self.driver.call("cuMemFree", self.driver.api.cuMemFree(pointer))

    def to_device(self, pointer: int, host: Any) -> None:
        """Copy a contiguous host array to device memory."""
        self.driver.call("cuMemcpyHtoD", self.driver.api.cuMemcpyHtoD(pointer, host.ctypes.data, host.nbytes))

    def to_host(self, host: Any, pointer: int) -> None:
        """Copy device memory to a contiguous host array."""
        self.driver.call("cuMemcpyDtoH", self.driver.api.cuMemcpyDtoH(host.ctypes.data, pointer, host.nbytes))

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        """Set bytes of device memory."""
        self.driver.call("cuMemsetD8", self.driver.api.cuMemsetD8(pointer, byte, nbytes))

    def elapsed(self, work: Callable[[], None]) -> float:
        """Seconds that launches on the legacy stream take, by two events."""
        api, call = self.driver.api, self.driver.call
        start, stop = (call("cuEventCreate", api.cuEventCreate(0)) for _ in range(2))
        call("cuEventRecord", api.cuEventRecord(start, 0))
        work()
        call("cuEventRecord", api.cuEventRecord(stop, 0))
        call("cuEventSynchronize", api.cuEventSynchronize(stop))
        seconds = call("cuEventElapsedTime", api.cuEventElapsedTime(start, stop)) * 1e-3
        for event in (start, stop):
            api.cuEventDestroy(event)
        return float(seconds)

    # ------------------------------------------------------------------------------------------- loading

    def load(self, kernel: BuiltKernel, ordinal: int) -> Any:
        """The kernel's function on a device (whose context is active), from its PTX text, loaded once.

        Raises:
            LaunchError: the device cannot run the target, or the driver refuses the text; the message has its log.
        """
        key = (ordinal, str(kernel.target), kernel.name, kernel.ptx)
        with self._lock:
            if key not in self._functions:
                self._functions[key] = self._load(kernel, ordinal)
            return self._functions[key]

    def _load(self, kernel: BuiltKernel, ordinal: int) -> Any:
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
        api, call, log = self.driver.api, self.driver.call, bytearray(_LOG_BYTES)
        with self.driver.outside_capture():
            code, module = api.cuModuleLoadDataEx(
                kernel.ptx.encode() + b"\0",
                2,
                [api.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, api.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
                [log, _LOG_BYTES],
            )
            if int(code):
                error = self.driver.error(f"loading kernel {kernel.name}", code)
                if self.driver.ended is not None:
                    raise error
                text = log.split(b"\0")[0].decode(errors="replace").strip()
                raise LaunchError(
                    f"the driver refuses the PTX of kernel {kernel.name}: {code.name} ({int(code)})\n{text}"
                )
            function = call("cuModuleGetFunction", api.cuModuleGetFunction(module, kernel.name.encode()))
            attribute = api.CUfunction_attribute
            if kernel.dynamic_shared:
                which = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                call(
                    f"kernel {kernel.name}: {kernel.shared_bytes} bytes of shared memory",
                    api.cuFuncSetAttribute(function, which, kernel.shared_bytes),
                )
            if kernel.cluster is not None and kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2] > 8:
                which = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                call(
                    f"kernel {kernel.name}: a cluster of more than 8 CTAs",
                    api.cuFuncSetAttribute(function, which, 1),
                )
        return function

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
        handle = self._stream(stream)
        recalled = self._recall(kernel, arguments, grid)
        if recalled is None:
            checked = self._check(kernel, arguments, grid)
            if 0 in checked.binding.grid:  # sizes that leave nothing to do; the driver refuses such a grid
                return
            if checked.staged:
                self._launch_staged(checked, handle)
                return
            recalled = self._ready(checked), checked.addresses
            self._remember(kernel, arguments, grid, recalled[0])
        ready, addresses = recalled
        try:
            block = ready.blocks.pop()
        except IndexError:  # this thread is the first, or others are launching it too
            block = ready.new_block()
        ready.pack(block.memory, 0, *addresses)
        (code,) = ready.call(handle, block.address, 0)
        if code:
            ready.launch_elsewhere(block, handle, code)
        ready.blocks.append(block)

    def prepare(
        self,
        kernel: BuiltKernel,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
    ) -> Callable[[], Any]:
        """A launch whose arguments are checked now, for calling many times.

        Where an argument is in host memory, each call copies it in and back as :meth:`launch` does.

        Raises:
            LaunchError: as for :meth:`launch`.
        """
        handle = self._stream(stream)
        checked = self._check(kernel, arguments, grid)
        if checked.staged or 0 in checked.binding.grid:
            return partial(self.launch, kernel, arguments, grid=grid, stream=stream)
        ready = self._ready(checked)
        return PreparedLaunch(ready, ready.new_block(checked.addresses), handle, arguments)

    def _recall(self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any) -> tuple[ReadyLaunch, list[int]] | None:
        """A remembered launch that these arguments fit with other addresses, and those; None: all must be checked."""
        remembered = kernel.remembered.get(self)
        if remembered is None:
            return None
        addresses, bits, readers = [], 0, self._readers
        try:
            key = [None] if grid is None else _grid_key(grid)
            for argument in arguments:
                kind = type(argument)
                if kind is int:
                    key.append(argument)
                else:
                    facts, address = readers[kind](argument)
                    key.append(facts)
                    addresses.append(address)
                    bits |= address
            ready: ReadyLaunch = remembered[tuple(key)]
        except Exception:  # whatever is odd about them, the whole check says it
            return None
        if bits & ready.mask and any(address & mask for address, mask in zip(addresses, ready.masks, strict=True)):
            return None
        return ready, addresses

    def _check(self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any) -> _Checked:
        """Check everything that does not need the device."""
        if self.driver.ended is not None:
            raise self.driver.gone(f"launch of kernel {kernel.name}")
        binding = bind(kernel, arguments, grid, partial(array_facts, device_of=self.driver.device_of))
        where = {name: facts.device for name, facts in binding.arrays.items() if facts.device is not None}
        if len(set(where.values())) > 1:
            found = ", ".join(f"{name} on GPU {device}" for name, device in where.items())
            raise LaunchError(f"kernel {kernel.name}: the arguments are on several devices: {found}")
        binding.addresses.update({name: facts.pointer for name, facts in binding.arrays.items()})
        staged = tuple(name for name in binding.arrays if name not in where)
        return _Checked(kernel, binding, next(iter(where.values()), 0), staged)

    def _ready(self, checked: _Checked) -> ReadyLaunch:
        """A launch of the kernel, which is loaded where it is not yet."""
        kernel, binding = checked.kernel, checked.binding
        with self.driver.active(checked.ordinal):
            function = self.load(kernel, checked.ordinal)
        return ready_launch(self.driver, kernel, binding, function, checked.ordinal)

    def _remember(self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any, ready: ReadyLaunch) -> None:
        """Let the next launch with arguments like these be recalled, where that takes only cheap reads of them."""
        if any(parameter.follows_addresses for parameter in kernel.parameters):
            return
        key = _grid_key(grid)
        for argument in arguments:
            kind = type(argument)
            if kind is int:
                key.append(argument)
                continue
            if kind not in self._readers:
                reader = tensor_key if is_tensor(kind) else cupy_key if is_cupy(kind) else None
                if reader is None:
                    return
                self._readers[kind] = reader
            key.append(self._readers[kind](argument)[0])
        remembered = kernel.remembered.setdefault(self, {})
        if len(remembered) >= _MOST_REMEMBERED:
            remembered.clear()
        remembered[tuple(key)] = ready

    def _launch_staged(self, checked: _Checked, stream: Any) -> None:
        """Launch with host arrays: each is copied to the device, and back where the kernel writes it."""
        kernel, binding, api, call = checked.kernel, checked.binding, self.driver.api, self.driver.call
        what = f"kernel {kernel.name}"
        with self.driver.active(checked.ordinal), ExitStack() as cleanup:
            if int(call("cuStreamIsCapturing", api.cuStreamIsCapturing(stream))):
                raise LaunchError(
                    f"{what}: the stream is being captured into a graph, and {', '.join(checked.staged)} is in host "
                    "memory; pass device arrays"
                )
            self.load(kernel, checked.ordinal)
            copied: list[tuple[str, Any, Any]] = []
            for parameter in kernel.arrays:
                if parameter.name in checked.staged:
                    data = flat_bytes(binding.arrays[parameter.name], parameter.dtype.bytes)
                    where = f"{what}, argument {parameter.name}"
                    memory = call(f"{where}: {data.nbytes} bytes of device memory", api.cuMemAlloc(max(1, data.nbytes)))
                    cleanup.callback(api.cuMemFree, memory)
                    call(where, api.cuMemcpyHtoDAsync(memory, data.ctypes.data, data.nbytes, stream))
                    copied.append((parameter.name, data, memory))
                    binding.addresses[parameter.name] = int(memory)
            ready = self._ready(checked)
            block = ready.new_block(checked.addresses)
            call(f"launch of {what}", ready.call(stream, block.address, 0))
            for name, data, memory in copied:
                if name in kernel.written:
                    call(what, api.cuMemcpyDtoHAsync(data.ctypes.data, memory, data.nbytes, stream))
            call(what, api.cuStreamSynchronize(stream))

    def _stream(self, stream: Any) -> Any:
        """The driver's handle of a stream."""
        try:
            return self._streams[stream if stream is None or type(stream) is int else stream.cuda_stream]
        except Exception:  # no torch stream, or a new one
            number = 0 if stream is None else stream_pointer(stream)
        if len(self._streams) >= _MOST_REMEMBERED:
            self._streams.clear()
        handle = self.driver.api.CUstream(number)
        self._streams[None if stream is None else number] = handle
        return handle


def _grid_key(grid: Any) -> list[Any]:
    """The start of a key: the grid with its types, since 1 is equal to True and 1.0, which are no grids."""
    if grid is None or type(grid) is int:
        return [grid]
    counts = grid if isinstance(grid, (tuple, list)) else (grid,)
    return [*counts, *map(type, counts)]


def stream_pointer(stream: Any) -> int:
    """The CUstream of an integer, or of a torch, CuPy or cuda.core stream object.

    Raises:
        LaunchError: none of these.
    """
    try:
        if type(stream) is int:
            number = stream
        elif hasattr(stream, "cuda_stream"):
            number = operator.index(stream.cuda_stream)
        elif hasattr(stream, "__cuda_stream__"):
            protocol = stream.__cuda_stream__
            number = operator.index((protocol() if callable(protocol) else protocol)[1])
        elif hasattr(stream, "ptr"):
            number = operator.index(stream.ptr)
        elif isinstance(stream, bool):
            number = -1
        else:
            number = operator.index(stream)
    except Exception:  # an object's own
        number = -1
    if not 0 <= number < 2**64:
        raise LaunchError(f"stream {stream!r}: an integer that is a CUstream, or a stream of torch, CuPy or cuda.core")
    return number


executor = CudaExecutor
"""What the entry point names: called with no arguments, it gives the executor."""
