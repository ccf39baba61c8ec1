"""The executor that runs kernels on the GPU through the CUDA driver.

The checks of a launch depend on the arguments' shapes, strides, dtypes and devices, and on scalars and grid. Only the check of
alignment depends on addresses. A checked launch is cached with all that as the key. So the next launch with the same key costs
a few reads, a look-up, one mask per address and the driver's call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import attrs
from tilecopy.errors import LaunchError
from tilecopy.executors import streams
from tilecopy.executors.arguments import array_view, bind
from tilecopy.kernel.built import BuiltKernel
from tilecopy.kernel.parameters import Binding

from tilecopy_core.errors import short_repr
from tilecopy_core.registry import LOCK

from .driver import Device, Driver
from .module_lifetime import LoadedKernel, Modules
from .module_loader import ModuleLoader
from .prepared_launch import ReadyLaunch, ready_launch

if TYPE_CHECKING:  # imported when needed, because a relayout does not use them
    from tilecopy.executors.host_memory import HostSpan

    from .repeated_launch import RepeatedLaunch

_MOST_REMEMBERED = 1024
"""The most cached launches of a kernel and cached streams of an executor. A full cache is cleared."""


@attrs.define(eq=False, repr=False)
class _KernelState:
    """The state that an executor keeps for later launches of a kernel.

    Attributes:
        launches: grid, device and types of the arguments -> the checked launches.
        loaded: device -> the kernel loaded there.
        repeat: the function that repeats the newest launch without grid and device.
    """

    launches: dict[Any, RepeatedLaunch] = attrs.field(factory=dict)
    loaded: dict[int, LoadedKernel] = attrs.field(factory=dict)
    repeat: Callable[..., bool] | None = None


class CudaExecutor:
    """An executor that loads each kernel once per device and launches it. Several threads may use one executor.

    Args:
        bindings: the driver's calls; by default ``cuda.bindings.driver``, imported when first used.

    Attributes:
        driver: the driver.
        modules: the loader of modules.
    """

    name = "cuda"

    def __init__(self, bindings: Any = None) -> None:
        self.driver = Driver(bindings)
        self.modules = ModuleLoader(self.driver)
        self._loaded = WeakValueDictionary[tuple[int, str, str, int, str], LoadedKernel]()
        self._modules = Modules(self.driver)
        self._streams: dict[int, Any] = {}
        self._sharing: set[tuple[int, int]] = set()

    # ------------------------------------------------------------------------------------------- devices

    def devices(self) -> list[Device]:
        """Return the GPUs of this machine. Only the first call asks the driver.

        Raises:
            LaunchError: the driver is missing.
        """
        return self.driver.devices

    def unavailable_reason(self, kernel: BuiltKernel | None = None) -> str | None:
        """Return why this machine cannot run ``kernel``. Return None if it can. By default, any GPU is enough."""
        try:
            devices = self.devices()
        except LaunchError as error:
            return str(error)
        if not devices:
            return "this machine must have a GPU, but the driver found none"
        if kernel is not None and not any(kernel.target.runs_on(*device.capability) for device in devices):
            return f"this machine must have a GPU that can run {kernel.target}, got {', '.join(map(str, devices))}"
        return None

    # ------------------------------------------------------------------------------------------- loading

    def load(self, kernel: BuiltKernel, ordinal: int) -> LoadedKernel:
        """Load a kernel once per device and return the loaded kernel. The device's context must be current.

        Raises:
            LaunchError: the device cannot run the target, or the driver rejects the PTX; the message has its log.
        """
        key = (ordinal, str(kernel.target), kernel.name, kernel.shared_bytes, kernel.ptx)
        with LOCK:
            loaded = self._loaded.get(key)
            if loaded is None:
                self._modules.unload_unused(all=False)
                loaded = self._loaded[key] = self._load(kernel, ordinal)
            state: _KernelState = kernel._caches.states.setdefault(self, _KernelState())
            state.loaded[ordinal] = loaded
            return loaded

    def unload_unused(self) -> None:
        """Unload the modules of kernels that can no longer be launched. :meth:`load` also does this, in batches.

        The call waits until the work on their devices is complete.

        Raises:
            LaunchError: the context of a device cannot be activated.
        """
        with LOCK:
            self._modules.unload_unused(all=True)

    def _load(self, kernel: BuiltKernel, ordinal: int) -> LoadedKernel:
        device = next((d for d in self.devices() if d.ordinal == ordinal), None)
        if device is None or not kernel.target.runs_on(*device.capability):
            device_text = f"device {ordinal} does not exist" if device is None else f"device {ordinal} is {device}"
            raise LaunchError(
                f"kernel {kernel.name} was built for {kernel.target}, but {device_text}: "
                'build the kernel for that GPU, or run it with executor="emulator"'
            )
        with self.driver.outside_capture():
            module = self.modules.load(kernel)
            try:
                return self._modules.track(ordinal, module, self._function(kernel, module))
            except BaseException:
                self.driver.api.cuModuleUnload(module)
                raise

    def _function(self, kernel: BuiltKernel, module: Any) -> Any:
        call, attribute = self.driver.call, self.driver.api.CUfunction_attribute
        function = call("cuModuleGetFunction", module, kernel.name.encode())
        if kernel.dynamic_shared:
            which, size = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel.shared_bytes
            what = f"kernel {kernel.name}: cannot set the shared memory size to {size} bytes"
            call("cuFuncSetAttribute", function, which, size, what=what)
        if kernel.cluster is not None and prod(kernel.cluster) > 8:
            which = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            what = f"kernel {kernel.name}: the driver must allow clusters of {prod(kernel.cluster)} CTAs, more than the portable 8"
            call("cuFuncSetAttribute", function, which, 1, what=what)
        return function

    # ------------------------------------------------------------------------------------------- launching

    def launch(
        self,
        kernel: BuiltKernel,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
        device: int | None = None,
    ) -> None:
        """Check the arguments and launch. NumPy arrays are copied to the GPU, and back if the kernel writes them.

        If arrays are on several GPUs, the launching GPU is ``device``, else that of ``stream``, else that of the first array that
        the kernel writes. Without device arrays it is the GPU whose context is current.

        Raises:
            LaunchError: an argument does not fit its parameter, or the driver reports an error; nothing was launched.
        """
        if self._repeat(kernel, arguments, grid, stream, device):
            return
        handle = None if stream is None else self._stream(stream)
        binding = self._check(kernel, arguments, grid)
        if 0 in binding.grid:  # there is nothing to do, and the driver rejects such a grid
            return
        ordinal = self._launch_gpu(kernel, binding, stream, device)
        current = self._current(kernel, binding, stream, ordinal)
        handle = self._stream(current()) if handle is None else handle
        if binding.on_host:
            self._launch_staged(kernel, binding, ordinal, current, handle)
            return
        ready = self._ready(kernel, binding, ordinal, current)
        if set(binding.devices.values()) == {ordinal}:
            self._remember(kernel, arguments, grid, device, ready)
        ready.launch(handle, *binding.addresses.values())

    def prepare(
        self,
        kernel: BuiltKernel,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
        device: int | None = None,
    ) -> Callable[[], Any]:
        """Check the arguments once and return a function that launches the kernel with them.

        If an argument is in host memory, each call copies it to the GPU and back, like :meth:`launch`.

        Raises:
            LaunchError: as for :meth:`launch`.
        """
        handle = None if stream is None else self._stream(stream)
        binding = self._check(kernel, arguments, grid)
        if binding.on_host or 0 in binding.grid:
            return partial(self.launch, kernel, arguments, grid=grid, stream=stream, device=device)
        ordinal = self._launch_gpu(kernel, binding, stream, device)
        ready = self._ready(kernel, binding, ordinal, self._current(kernel, binding, stream, ordinal))
        return ready.prepare(handle, self._stream, self._streams, arguments)

    def launch_by_address(
        self,
        kernel: BuiltKernel,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int] | int | None = None,
        device: int | None = None,
    ) -> Callable[..., None]:
        """Return a function ``launch(addresses, stream=None)`` for device arrays that differ from the arguments only in address.

        The caller must ensure that. Each launch checks only the alignment of the addresses.

        Raises:
            LaunchError: see :meth:`launch`, or an argument is in host memory.
        """
        binding = self._check(kernel, arguments, grid)
        if binding.on_host:
            raise LaunchError(
                f"kernel {kernel.name}: a launch by address needs device arrays, got {', '.join(binding.on_host)} in host memory: "
                "copy them to the GPU first"
            )
        if 0 in binding.grid:
            return lambda addresses, stream=None: None
        ordinal = self._launch_gpu(kernel, binding, None, device)
        ready = self._ready(kernel, binding, ordinal, self._current(kernel, binding, None, ordinal))
        return ready.launch_by_address(self._stream)

    def _repeat(
        self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any, stream: Any, device: int | None
    ) -> bool:
        """Launch and return True if these arguments fit a cached launch with other addresses; else return False."""
        state: _KernelState | None = kernel._caches.states.get(self)
        if state is None or not (device is None or type(device) is int):  # a bool is not a device, but True equals 1
            return False
        try:
            repeated = state.launches[_place_key(grid, device), *map(type, arguments)]
        except Exception:  # there is no such launch, or the arguments are not valid, which the full check reports
            return False
        if not repeated.launch(stream, arguments):
            return False
        if grid is None and device is None:
            state.repeat = repeated.launch
        return True

    def _check(self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any) -> Binding:
        """Check everything that does not need the device, and return the binding."""
        if self.driver.sticky_error is not None:
            raise self.driver.context_lost_error(f"launch of kernel {kernel.name}")
        binding = bind(kernel, arguments, grid, partial(array_view, device_of=self.driver.device_of))
        binding.addresses.update({array.name: binding.arrays[array.name].pointer for array in kernel.arrays})
        return binding

    def _launch_gpu(self, kernel: BuiltKernel, binding: Binding, stream: Any, device: int | None) -> int:
        """Return the GPU that launches, after a check that it can access every device array."""
        ordinal = self._launching(kernel, binding, stream, device)
        for name, where in binding.devices.items():
            if where != ordinal:
                self._reach(kernel, binding, name, ordinal)
        return ordinal

    def _launching(self, kernel: BuiltKernel, binding: Binding, stream: Any, device: int | None) -> int:
        if device is not None:
            ordinals = [gpu.ordinal for gpu in self.devices()]
            if type(device) is not int or device not in ordinals:
                raise LaunchError(
                    f"kernel {kernel.name}: device must be one of the GPU numbers {ordinals} of this machine, got {short_repr(device)}"
                )
            return device
        places = binding.devices
        if not places:
            places = {name: facts.device for name, facts in binding.arrays.items() if facts.device is not None}
        if len(set(places.values())) == 1:
            return next(iter(places.values()))
        if stream is not None:
            stream_device = self.driver.device_of_stream(stream)
            if stream_device is not None:
                return stream_device
        if not places:
            return self.driver.current_device()
        return next((places[name] for name in places if name in kernel.mutated_args), next(iter(places.values())))

    def _reach(self, kernel: BuiltKernel, binding: Binding, name: str, ordinal: int) -> None:
        """Enable access from this GPU to an array on another one, or raise LaunchError."""
        facts = binding.arrays[name]
        assert facts.device is not None
        pair = ordinal, facts.device
        with LOCK:
            if pair not in self._sharing and self.driver.has_peer_access(*pair):
                # The driver reports access to torch's pools before torch has enabled it.
                streams.enable_torch_peer_access(*pair)
                self._sharing.add(pair)
        if why := self.driver.why_unreachable(*pair, facts.pointer, written=name in kernel.mutated_args):
            raise LaunchError(f"kernel {kernel.name}, argument {name}: {why}")

    def _current(self, kernel: BuiltKernel, binding: Binding, stream: Any, ordinal: int) -> streams.CurrentStream:
        """Return the reader of the stream for launches without ``stream=``, and make arrays of DLPack ready for this launch.

        The caller must order work on the streams of other GPUs.
        """
        here = {name: facts for name, facts in binding.arrays.items() if facts.device == ordinal}
        readers = {name: facts.stream for name, facts in here.items() if facts.stream is not None}
        if binding.devices and not here:  # device= or stream= selects a GPU that has none of the arrays
            name = next((name for name in binding.devices if name in kernel.mutated_args), next(iter(binding.devices)))
            reader = streams.current_stream(streams.framework_of(type(binding.arrays[name].owner)), ordinal)
            readers = {} if reader is None else {name: reader}
        current = streams.common_stream(f"kernel {kernel.name}", readers)
        for facts in here.values():
            if facts.export is not None:
                number = current() if stream is None else streams.stream_handle(stream)
                facts.export(stream=number or 1)  # 1 is DLPack's number of the legacy stream
        return current

    def _ready(
        self, kernel: BuiltKernel, binding: Binding, ordinal: int, current: streams.CurrentStream
    ) -> ReadyLaunch:
        """Return a launch of the kernel on a GPU. The kernel is loaded there if needed."""
        with self.driver.active(ordinal):
            return ready_launch(self.driver, kernel, binding, ordinal, self.load(kernel, ordinal), current)

    def _remember(
        self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any, device: int | None, ready: ReadyLaunch
    ) -> None:
        """Cache a launch, so that later ones with such arguments repeat it, if reading their properties is cheap."""
        with LOCK:
            from .repeated_launch import RepeatedLaunch
        state: _KernelState = kernel._caches.states[self]
        launches = state.launches
        key = _place_key(grid, device), *map(type, arguments)
        repeated = launches.get(key) or RepeatedLaunch.of(kernel, arguments, self._streams, self.driver.legacy_stream)
        if repeated is None:
            return
        if len(launches) >= _MOST_REMEMBERED:
            launches.clear()
        launches[key] = repeated
        repeated.remember(arguments, ready)
        if grid is None and device is None:
            state.repeat = repeated.launch

    def _launch_staged(
        self, kernel: BuiltKernel, binding: Binding, ordinal: int, current: streams.CurrentStream, stream: Any
    ) -> None:
        """Launch with host arrays: copy each to the device, and back if the kernel writes it."""
        call, what = self.driver.call, f"kernel {kernel.name}"
        with self.driver.active(ordinal), ExitStack() as cleanup:
            if streams.capturing_framework() or int(call("cuStreamIsCapturing", stream)):
                raise LaunchError(
                    f"{what}: a launch that is captured into a graph needs device arrays, got {', '.join(binding.on_host)} in "
                    "host memory: copy them to the GPU first"
                )
            self.load(kernel, ordinal)
            with LOCK:
                from tilecopy.executors.host_memory import host_spans
            for span in host_spans(kernel, binding):
                self._stage(kernel, binding, span, stream, cleanup)
            ready = self._ready(kernel, binding, ordinal, current)
            ready.launch(stream, *binding.addresses.values())
            for parameter in kernel.arrays:
                if parameter.name in kernel.mutated_args.intersection(binding.on_host):
                    facts, memory = binding.arrays[parameter.name], binding.addresses[parameter.name]
                    low, nbytes = facts.span(parameter.dtype.bytes)
                    call("cuMemcpyDtoHAsync", low, memory + low - facts.pointer, nbytes, stream, what=what)
            call("cuStreamSynchronize", stream, what=what)

    def _stage(self, kernel: BuiltKernel, binding: Binding, span: HostSpan, stream: Any, cleanup: ExitStack) -> None:
        """Copy a range of host memory to the device, and set the addresses of the arguments in it."""
        where = f"kernel {kernel.name}, argument {' and '.join(span.names)}"
        what = f"{where}: cannot allocate {span.nbytes} bytes of device memory"
        first = next(parameter for parameter in kernel.arrays if parameter.name in span.names)
        room = (span.first - binding.arrays[first.name].pointer) % first.align_bytes
        memory = int(self.driver.call("cuMemAlloc", max(1, room + span.nbytes), what=what))
        cleanup.callback(self.driver.api.cuMemFree, memory)
        memory += room  # so that the first element is aligned
        self.driver.call("cuMemcpyHtoDAsync", memory, span.first, span.nbytes, stream, what=where)
        for parameter in kernel.arrays:
            if parameter.name in span.names:
                apart = binding.arrays[parameter.name].pointer - span.first
                if (room + apart) % parameter.align_bytes:
                    raise LaunchError(
                        f"{where}: the address of {parameter.name} must be a multiple of {parameter.align_bytes} bytes, but the "
                        f"arrays overlap in host memory and {parameter.name} begins {apart} bytes after the lowest address: declare "
                        f"align_bytes={apart & -apart} or less"
                    )
                binding.addresses[parameter.name] = memory + apart

    def _stream(self, stream: Any) -> Any:
        """Return the driver's handle of a stream."""
        try:
            return self._streams[stream if type(stream) is int else stream.cuda_stream]
        except Exception:  # it is not a torch stream, or it is not cached
            number = streams.stream_handle(stream)
        if len(self._streams) >= _MOST_REMEMBERED:
            self._streams.clear()
        handle = self._streams[number] = self.driver.api.CUstream(number) if number else self.driver.legacy_stream
        return handle


def _place_key(grid: Any, device: int | None) -> Any:
    """Return a key of a grid and a device. It has the types of the counts, because True and 1.0 equal 1 but are not counts."""
    if grid is None:
        return device
    counts = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    return device, counts, *map(type, counts)


executor = CudaExecutor
"""The object of the entry point. A call without arguments returns the executor."""
