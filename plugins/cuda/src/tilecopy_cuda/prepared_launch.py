"""Launches whose arguments were checked once. A repeated launch needs only the array addresses and one driver call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import attrs
from tilecopy.errors import LaunchError
from tilecopy.executors.streams import CurrentStream
from tilecopy.kernel.built import BuiltKernel
from tilecopy.kernel.parameters import Binding, Parameter

from tilecopy_core.errors import frozen, short_repr

from .driver import CLUSTER_REFUSED, NOT_CURRENT, Driver
from .module_lifetime import LoadedKernel


@attrs.define(eq=False, repr=False)
class ParamBuffer:
    """A buffer in host memory for the parameters of one launch, with the table of pointers that the driver needs.

    ``computed_for`` are the addresses from which the computed parameters were made.
    """

    memory: Any
    table: Any
    address: int
    computed_for: tuple[int, ...]
    keeps: Any = None


@frozen(eq=False)
class ReadyLaunch:
    """A launch whose arguments were checked, except for the addresses of arrays.

    Attributes:
        driver: the driver.
        kernel: the name of the kernel.
        ordinal: the number of the GPU.
        loaded: the kernel loaded on the GPU.
        cluster: the number of CTAs of a cluster.
        call: the driver's launch function, with all arguments bound except the stream and the parameters.
        masks, mask: for each array and for all together, the bits of the address that must be zero.
        empty: the numbers of the arrays without elements, which may have the address 0.
        pack: the function that writes the addresses to a buffer's memory.
        first, first_for: the initial content of a buffer's memory, and the addresses in it.
        places: the offset of each parameter in the memory.
        computed: the offset of each computed parameter, such as a tensor map, and the function from addresses to its bytes.
        current: the reader of the stream for launches without ``stream=``.
        buffers: the buffers that no thread uses now.
    """

    driver: Driver
    kernel: str
    ordinal: int
    loaded: LoadedKernel
    cluster: int
    call: Callable[..., tuple[Any, ...]]
    masks: tuple[int, ...]
    mask: int
    empty: frozenset[int]
    pack: Callable[..., None]
    first: bytes
    first_for: tuple[int, ...]
    places: tuple[int, ...]
    computed: tuple[tuple[int, Callable[[Sequence[int]], bytes]], ...]
    current: CurrentStream
    buffers: list[ParamBuffer] = attrs.field(factory=list)

    def are_aligned(self, *addresses: int) -> bool:
        """Return True if every address is a multiple of the declared alignment of its array."""
        return not any(address & mask for address, mask in zip(addresses, self.masks, strict=True))

    def new_buffer(self) -> ParamBuffer:
        """Return a new buffer with the parameters of the checked launch."""
        memory = ctypes.create_string_buffer(self.first, len(self.first))
        start = ctypes.addressof(memory)
        table = (ctypes.c_void_p * len(self.places))(*(start + place for place in self.places))
        return ParamBuffer(memory, table, ctypes.addressof(table), self.first_for)

    def complete(self, buffer: ParamBuffer, stream: Any, addresses: tuple[int, ...]) -> None:
        """Write computed parameters, such as tensor maps. If the stream is being captured, keep the kernel loaded."""
        if self.computed and buffer.computed_for != addresses:
            for place, make in self.computed:
                data = make(addresses)
                buffer.memory[place : place + len(data)] = data
            buffer.computed_for = addresses
        if stream is not self.driver.legacy_stream:
            self.loaded.retain_in_graph(stream)

    def launch(self, stream: Any, *addresses: int) -> None:
        """Launch the kernel with arrays at these addresses. ``stream`` is the driver's handle of a stream."""
        try:
            buffer = self.buffers.pop()
        except IndexError:  # other threads use all buffers, or there is none yet
            buffer = self.new_buffer()
        self.pack(buffer.memory, 0, *addresses)
        self.complete(buffer, stream, addresses)
        (code,) = self.call(stream, buffer.address, 0)
        if code:
            self.launch_elsewhere(buffer, stream, code)
        self.buffers.append(buffer)

    def launch_by_address(self, handle_of: Callable[[Any], Any]) -> Callable[..., None]:
        """Return a function ``launch(addresses, stream=None)`` that checks the addresses and launches the kernel."""
        mask, current, launch = self.mask, self.current, self.launch

        def at(addresses: Sequence[int], stream: Any = None) -> None:
            if not isinstance(addresses, (tuple, list)):  # a set, for example, has no order
                self.check_addresses(addresses)
            bits = 0
            try:
                for address in addresses:
                    bits |= address
                fit = not bits & mask and 0 not in addresses
            except Exception:  # whatever an object raises
                fit = False
            if not fit:
                self.check_addresses(addresses)
            handle = handle_of(current() if stream is None else stream)
            try:
                launch(handle, *addresses)
            except struct.error:  # the number of addresses is wrong, or one does not fit 64 bits
                self.check_addresses(addresses)
                raise

        return at

    def check_addresses(self, addresses: Sequence[int]) -> None:
        """Raise :class:`LaunchError` if the address of an array is missing, invalid or misaligned."""
        count = len(self.masks)
        if not isinstance(addresses, (tuple, list)) or len(addresses) != count:
            raise LaunchError(
                f"kernel {self.kernel}: addresses must be a tuple of {count} addresses, one for each array, got {short_repr(addresses)}"
            )
        for address in addresses:
            if type(address) is not int or not 0 <= address < 1 << 64:
                raise LaunchError(
                    f"kernel {self.kernel}: addresses must be unsigned 64-bit integers, got {short_repr(address)}"
                )
        for number, (address, mask) in enumerate(zip(addresses, self.masks, strict=True)):
            if not address and number not in self.empty:
                raise LaunchError(
                    f"kernel {self.kernel}: the address of array {number} must not be 0. The memory was freed or never allocated: pass "
                    "the address of allocated memory"
                )
            if address & mask:
                raise LaunchError(
                    f"kernel {self.kernel}: the address of array {number} must be a multiple of {mask + 1} bytes, got 0x{address:x}"
                )

    def prepare(
        self, stream: Any, handle_of: Callable[[int], Any], handles: dict[int, Any], arguments: Any
    ) -> Callable[[], None]:
        """Return a function that launches the kernel on the checked arrays with little more than one driver call.

        It keeps the arguments alive. What it launches with is their memory as it was when it was prepared. If ``stream`` is None, each
        call takes the stream that is current then.
        """
        buffer = self.new_buffer()
        buffer.keeps = arguments
        call, current, address = self.call, self.current, buffer.address
        legacy, loaded = self.driver.legacy_stream, self.loaded

        def launch() -> None:
            handle = stream
            if handle is None:
                number = current()
                handle = handles[number] if number in handles else handle_of(number)
            if handle is not legacy:
                loaded.retain_in_graph(handle)
            (code,) = call(handle, address, 0)
            if code:
                self.launch_elsewhere(buffer, handle, code)

        return launch

    def launch_elsewhere(self, buffer: ParamBuffer, stream: Any, code: Any) -> None:
        """Handle a failed launch. If another context was current, launch in the right one; else raise LaunchError.

        Asking for the current context before every launch costs a quarter of the call itself. The driver refuses a
        function of another context than the current one, and then nothing was launched.
        """
        what = f"launch of kernel {self.kernel}"
        if int(code) in NOT_CURRENT:
            with self.driver.active(self.ordinal):
                if stream is not self.driver.legacy_stream:
                    # without a current context the driver did not say whether it is captured
                    self.loaded.retain_in_graph(stream)
                (code,) = self.call(stream, buffer.address, 0)
        if code:
            error = self.driver.error(what, code)
            if int(code) in NOT_CURRENT and self.driver.sticky_error is None:
                raise LaunchError(f"{error}; the stream must belong to GPU {self.ordinal} like the arguments")
            if int(code) in CLUSTER_REFUSED and self.cluster > 1:
                raise LaunchError(
                    f"{error}; GPU {self.ordinal} may not be able to hold the kernel's clusters of {self.cluster} CTAs: "
                    "build the kernel with a smaller cluster="
                )
            raise error


def ready_launch(
    driver: Driver, kernel: BuiltKernel, binding: Binding, ordinal: int, loaded: LoadedKernel, current: CurrentStream
) -> ReadyLaunch:
    """Return a launch of a loaded kernel. Its buffer begins with the array addresses, so one write sets them all."""
    arrays = [parameter.name for parameter in kernel.arrays]
    masks = tuple(parameter.align_bytes - 1 for parameter in kernel.arrays)
    others = [p for p in kernel.parameters if p.name not in binding.arrays]
    binding.encode_map = partial(driver.encode_map, ordinal)
    encoded = [parameter.encode(binding) for parameter in others]
    padded = [data.ljust(-(-len(data) // 16) * 16, b"\0") for data in encoded]
    addresses, pack = tuple(binding.addresses[name] for name in arrays), struct.Struct(f"={len(arrays)}Q")
    padded.insert(0, pack.pack(*addresses).ljust(-(-len(arrays) // 2) * 16, b"\0"))
    place = {name: 8 * index for index, name in enumerate(arrays)}
    place |= zip((p.name for p in others), accumulate(map(len, padded)), strict=False)
    shared = kernel.shared_bytes if kernel.dynamic_shared else 0
    return ReadyLaunch(
        driver=driver,
        kernel=kernel.name,
        ordinal=ordinal,
        loaded=loaded,
        cluster=prod(kernel.cluster or ()),
        call=partial(driver.api.cuLaunchKernel, loaded.function, *binding.grid, kernel.threads, 1, 1, shared),
        masks=masks,
        mask=max(masks, default=0),
        empty=frozenset(number for number, name in enumerate(arrays) if 0 in binding.arrays[name].shape),
        pack=pack.pack_into,
        first=b"".join(padded),
        first_for=addresses,
        places=tuple(place[parameter.name] for parameter in kernel.parameters),
        computed=tuple(
            (place[parameter.name], _maker(parameter, binding, arrays))
            for parameter in others
            if parameter.name not in binding.numbers
        ),
        current=current,
    )


def _maker(parameter: Parameter, binding: Binding, arrays: Sequence[str]) -> Callable[[Sequence[int]], bytes]:
    """Return the bytes of a parameter for other addresses of the arrays, without keeping the arrays alive."""
    kernel, view, numbers, encode_map = binding.kernel, binding.view, dict(binding.numbers), binding.encode_map

    def make(addresses: Sequence[int]) -> bytes:
        address_of = dict(zip(arrays, addresses, strict=True))
        return parameter.encode(Binding(kernel, view, numbers=numbers, addresses=address_of, encode_map=encode_map))

    return make
