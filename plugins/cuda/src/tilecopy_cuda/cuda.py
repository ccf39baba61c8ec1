"""Running kernels on the GPU through the CUDA driver.

What a launch checks depends on its arguments' shapes, strides, dtypes and devices, on its scalars and grid, but (all but the
alignment) not on addresses. A launch that was checked is remembered by the former, so that the next one like it costs some
reads, a look-up, a mask an address and the driver's call.
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
from tilecopy.executors.arguments import HostSpan, array_view, bind, host_spans
from tilecopy.executors.streams import (
    CurrentStream,
    capturing_framework,
    common_stream,
    current_stream,
    enable_torch_peer_access,
    framework_of,
    stream_handle,
)
from tilecopy.kernel.built import BuiltKernel
from tilecopy.kernel.parameters import Binding

from tilecopy_core.errors import short_repr
from tilecopy_core.registry import LOCK

from .driver import Device, Driver
from .module_lifetime import LoadedKernel, Modules
from .module_loader import ModuleLoader
from .prepared_launch import ReadyLaunch, ready_launch

if TYPE_CHECKING:  # a relayout never repeats a launch by its arrays
    from .repeated_launch import RepeatedLaunch

_MOST_REMEMBERED = 1024
"""Types of arguments, with grid and device, that are remembered for a kernel, and streams of an executor, before all are forgotten."""


@attrs.define(eq=False)
class _KernelState:
    """What an executor keeps for later launches of a kernel.

    Attributes:
        launches: launches that were checked, by the types of the arguments, with grid and device.
        loaded: where the kernel is loaded, by device.
        repeat: launches again with arguments of the types that came last without grid and device.
    """

    launches: dict[Any, RepeatedLaunch] = attrs.field(factory=dict)
    loaded: dict[int, LoadedKernel] = attrs.field(factory=dict)
    repeat: Callable[..., bool] | None = None


class CudaExecutor:
    """Loads kernels once a device and launches them; safe to use from several threads.

    Args:
        bindings: the driver's calls; by default ``cuda.bindings.driver``, imported when first used.

    Attributes:
        driver: the driver.
        modules: loads texts.
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
        """Return the GPUs of this machine, asked for once.

        Raises:
            LaunchError: the driver is missing.
        """
        return self.driver.devices

    def unavailable_reason(self, kernel: BuiltKernel | None = None) -> str | None:
        """Return why no kernel (or this one) can run here, or None."""
        try:
            devices = self.devices()
        except LaunchError as error:
            return str(error)
        if not devices:
            return "the driver finds no GPU"
        if kernel is not None and not any(kernel.target.runs_on(*device.capability) for device in devices):
            return f"no GPU of this machine runs {kernel.target}: {', '.join(map(str, devices))}"
        return None

    # ------------------------------------------------------------------------------------------- loading

    def load(self, kernel: BuiltKernel, ordinal: int) -> LoadedKernel:
        """Return the kernel on a device (whose context is active), loaded once in this process for all kernels with its text.

        Raises:
            LaunchError: the device cannot run the target, or the driver refuses the text; the message has its log.
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
        """Unload the modules of kernels that nothing can launch any more; loading kernels does so now and then.

        It waits until the work that was launched on their devices is done.

        Raises:
            LaunchError: a device's context cannot be had.
        """
        with LOCK:
            self._modules.unload_unused(all=True)

    def _load(self, kernel: BuiltKernel, ordinal: int) -> LoadedKernel:
        device = next((d for d in self.devices() if d.ordinal == ordinal), None)
        if device is None or not kernel.target.runs_on(*device.capability):
            device_text = "no such device" if device is None else f"the device is {device}"
            raise LaunchError(
                f"kernel {kernel.name} is lowered for {kernel.target}; {device_text}. "
                'Build it for that GPU, or run it with executor="emulator"'
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
            what = f"kernel {kernel.name}: {size} bytes of shared memory"
            call("cuFuncSetAttribute", function, which, size, what=what)
        if kernel.cluster is not None and prod(kernel.cluster) > 8:
            which = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            what = f"kernel {kernel.name}: a cluster of more than 8 CTAs"
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
        """Check the arguments and launch; NumPy arrays are copied in, and back when the kernel writes them.

        With arrays on several GPUs ``device`` says which GPU launches, else ``stream``; else it is that of the first array that
        the kernel writes. Without any it is the one whose context is current.

        Raises:
            LaunchError: an argument does not fit its parameter, or the driver refuses; nothing was launched.
        """
        if self._repeat(kernel, arguments, grid, stream, device):
            return
        handle = None if stream is None else self._stream(stream)
        binding = self._check(kernel, arguments, grid)
        if 0 in binding.grid:  # sizes that leave nothing to do; the driver refuses such a grid
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
        """Return a launch whose arguments are checked now, for calling many times.

        Where an argument is in host memory, each call copies it in and back as :meth:`launch` does.

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
        """``launch(addresses, stream=None)`` of arrays that differ from these device arrays in nothing but their address.

        The caller answers for that; what the kernel needs of the addresses' alignment is checked at each launch.

        Raises:
            LaunchError: as for :meth:`launch`; an argument in host memory.
        """
        binding = self._check(kernel, arguments, grid)
        if binding.on_host:
            raise LaunchError(
                f"kernel {kernel.name}: {', '.join(binding.on_host)} in host memory has no address for the GPU; "
                "call the kernel, or pass device arrays"
            )
        if 0 in binding.grid:
            return lambda addresses, stream=None: None
        ordinal = self._launch_gpu(kernel, binding, None, device)
        return self._ready(kernel, binding, ordinal, self._current(kernel, binding, None, ordinal)).launch_by_address(
            self._stream
        )

    def _repeat(
        self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any, stream: Any, device: int | None
    ) -> bool:
        """Launch if these arguments fit a remembered launch with other addresses; return whether they do."""
        state: _KernelState | None = kernel._caches.states.get(self)
        if state is None or (device is not None and type(device) is not int):  # True is equal to 1
            return False
        try:
            repeated = state.launches[_place_key(grid, device), *map(type, arguments)]
        except Exception:  # new, or odd: the whole check says how
            return False
        if not repeated.launch(stream, arguments):
            return False
        if grid is None and device is None:
            state.repeat = repeated.launch
        return True

    def _check(self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any) -> Binding:
        """Check everything that does not need the device."""
        if self.driver.sticky_error is not None:
            raise self.driver.context_lost_error(f"launch of kernel {kernel.name}")
        binding = bind(kernel, arguments, grid, partial(array_view, device_of=self.driver.device_of))
        binding.addresses.update({array.name: binding.arrays[array.name].pointer for array in kernel.arrays})
        return binding

    def _launch_gpu(self, kernel: BuiltKernel, binding: Binding, stream: Any, device: int | None) -> int:
        """Return the GPU that launches, from which every array on a GPU can be reached."""
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
                    f"kernel {kernel.name}: device={short_repr(device)}: this machine has the GPUs {ordinals}"
                )
            return device
        places = binding.devices or {
            name: facts.device for name, facts in binding.arrays.items() if facts.device is not None
        }
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
        """See to it that an array on another GPU can be used by kernels on this one."""
        facts = binding.arrays[name]
        assert facts.device is not None
        pair = ordinal, facts.device
        with LOCK:
            if pair not in self._sharing and self.driver.has_peer_access(*pair):
                # the driver's flags of torch's pools say that they may be used, and they may not yet
                enable_torch_peer_access(*pair)
                self._sharing.add(pair)
        if why := self.driver.why_unreachable(*pair, facts.pointer, written=name in kernel.mutated_args):
            raise LaunchError(f"kernel {kernel.name}, argument {name}: {why}")

    def _current(self, kernel: BuiltKernel, binding: Binding, stream: Any, ordinal: int) -> CurrentStream:
        """Return what reads the stream of launches that are given none; what exports by DLPack is ready for this launch's stream.

        Work on other GPUs' streams is the caller's to order.
        """
        here = {name: facts for name, facts in binding.arrays.items() if facts.device == ordinal}
        readers = {name: facts.stream for name, facts in here.items() if facts.stream is not None}
        if binding.devices and not here:  # device= or stream= says a GPU on which no array is
            name = next((name for name in binding.devices if name in kernel.mutated_args), next(iter(binding.devices)))
            reader = current_stream(framework_of(type(binding.arrays[name].owner)), ordinal)
            readers = {} if reader is None else {name: reader}
        current = common_stream(f"kernel {kernel.name}", readers)
        for facts in here.values():
            if facts.export is not None:
                number = current() if stream is None else stream_handle(stream)
                facts.export(stream=number or 1)  # DLPack's number of the legacy stream
        return current

    def _ready(self, kernel: BuiltKernel, binding: Binding, ordinal: int, current: CurrentStream) -> ReadyLaunch:
        """Return a launch of the kernel on a GPU, where it is loaded if it is not yet."""
        with self.driver.active(ordinal):
            return ready_launch(self.driver, kernel, binding, ordinal, self.load(kernel, ordinal), current)

    def _remember(
        self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Any, device: int | None, ready: ReadyLaunch
    ) -> None:
        """Let the next launch with arguments like these be repeated, where that takes only cheap reads of them."""
        if any(parameter.follows_addresses for parameter in kernel.parameters):
            return
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
        self, kernel: BuiltKernel, binding: Binding, ordinal: int, current: CurrentStream, stream: Any
    ) -> None:
        """Launch with host arrays: each is copied to the device, and back where the kernel writes it."""
        call, what = self.driver.call, f"kernel {kernel.name}"
        with self.driver.active(ordinal), ExitStack() as cleanup:
            if capturing_framework() or int(call("cuStreamIsCapturing", stream)):
                raise LaunchError(
                    f"{what}: the stream is being captured into a graph, and {', '.join(binding.on_host)} is in host "
                    "memory; pass device arrays"
                )
            self.load(kernel, ordinal)
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
        """A copy of host memory on the device; the arguments that are in it have their addresses there from now on."""
        where = f"kernel {kernel.name}, argument {' and '.join(span.names)}"
        what = f"{where}: {span.nbytes} bytes of device memory"
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
                        f"{where}: they share host memory, in which {parameter.name} begins {apart} bytes after the first; its "
                        f"address must be a multiple of {parameter.align_bytes}: declare align_bytes={apart & -apart} or less"
                    )
                binding.addresses[parameter.name] = memory + apart

    def _stream(self, stream: Any) -> Any:
        """Return the driver's handle of a stream."""
        try:
            return self._streams[stream if type(stream) is int else stream.cuda_stream]
        except Exception:  # no torch stream, or a new one
            number = stream_handle(stream)
        if len(self._streams) >= _MOST_REMEMBERED:
            self._streams.clear()
        handle = self._streams[number] = self.driver.api.CUstream(number) if number else self.driver.legacy_stream
        return handle


def _place_key(grid: Any, device: int | None) -> Any:
    """Return a grid and a device as a key, with the types of the counts: 1 is equal to True and 1.0, which are not counts."""
    if grid is None:
        return device
    counts = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    return device, counts, *map(type, counts)


executor = CudaExecutor
"""What the entry point names: called with no arguments, it gives the executor."""
