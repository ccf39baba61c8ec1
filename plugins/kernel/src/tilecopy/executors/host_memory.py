"""Arguments in host memory: the ranges that a launch uses, and their bytes for executors that run kernels on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilecopy_core.errors import checked, frozen, instance_of

from ..errors import LaunchError
from ..kernel.built import BuiltKernel
from ..kernel.parameters import Binding
from .arguments import bind, host_facts

if TYPE_CHECKING:
    from ..kernel.tensor_map_args import TensorMapArgs


@frozen
class HostSpan:
    """A range of host memory that holds the arrays of one or more parameters."""

    first: int
    nbytes: int
    names: tuple[str, ...]


def host_spans(kernel: BuiltKernel, binding: Binding) -> list[HostSpan]:
    """Return the ranges of host memory that a launch's arguments use. An executor can copy each range to a device.

    Arguments that overlap (for example columns of one array) share a range if the kernel writes one of them. With a copy of each, the
    writes through one argument would be lost in the other.
    """
    alone = {
        parameter.name: HostSpan(*facts.span(parameter.dtype.bytes), (parameter.name,))
        for parameter in kernel.arrays
        if (facts := binding.arrays[parameter.name]).device is None
    }
    merged: list[HostSpan] = []
    for span in sorted(alone.values(), key=lambda span: span.first):
        last = merged[-1] if merged else None
        if last is None or span.first >= last.first + last.nbytes:
            merged.append(span)
        else:
            nbytes = max(last.nbytes, span.first + span.nbytes - last.first)
            merged[-1] = HostSpan(last.first, nbytes, last.names + span.names)
    return [
        piece
        for span in merged
        for piece in ([span] if kernel.mutated_args.intersection(span.names) else map(alone.__getitem__, span.names))
    ]


@frozen(eq=False)
class HostArray:
    """The host memory of an array that is passed as an argument.

    Attributes:
        name: the name of its parameter.
        data: a uint8 view of its memory from the lowest element to the highest.
        align_bytes: the declared alignment.
        writable: True if the kernel may write the array.
        first_bytes: the offset of its first element in ``data``; 0 without negative strides.
    """

    name: str
    data: Any
    align_bytes: int
    writable: bool
    first_bytes: int = 0


@frozen(eq=False)
class HostArguments:
    """Checked arguments in host memory, for executors that run kernels on the host.

    Attributes:
        arrays: the arrays in the order of the parameters.
        binding: the values of all parameters.
    """

    arrays: list[HostArray]
    binding: Binding

    @classmethod
    @checked(
        LaunchError,
        kernel=instance_of("a BuiltKernel", BuiltKernel),
        arguments=instance_of("a tuple of arguments", tuple, list),
    )
    def of(cls, kernel: BuiltKernel, arguments: Sequence[Any], grid: Sequence[int] | int | None) -> HostArguments:
        """Check a kernel's arguments and return them as :class:`HostArguments`.

        Raises:
            LaunchError: an argument does not fit its parameter or is not in host memory.
        """
        binding = bind(kernel, arguments, grid, host_facts)
        arrays = []
        for parameter in kernel.arrays:
            facts = binding.arrays[parameter.name]
            low, nbytes = facts.span(parameter.dtype.bytes)
            data = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(low)), np.uint8)
            data.flags.writeable = writable = not facts.readonly
            arrays.append(HostArray(parameter.name, data, parameter.align_bytes, writable, facts.pointer - low))
        return cls(arrays, binding)

    def pack_parameters(
        self, kernel: BuiltKernel, addresses: dict[str, int], encode_map: Callable[[TensorMapArgs], bytes] | None = None
    ) -> list[bytes]:
        """Return each parameter's bytes, in the order of ``kernel.parameters``. ``addresses`` must have every array.

        Args:
            kernel: the kernel that is launched.
            addresses: name of a parameter -> address of its array.
            encode_map: the executor's function that encodes tensor maps, or None.

        Raises:
            LaunchError: a parameter that the launch computes cannot be encoded.
        """
        self.binding.addresses.update(addresses)
        self.binding.encode_map = encode_map
        return [parameter.encode(self.binding) for parameter in kernel.parameters]
