"""Checking the arguments of a launch against the kernel's parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ..dtypes import DType, dtype_of
from ..errors import LaunchError, LayoutError, RequestError
from ..expr import as_expr, evaluate
from ..kernel.built import BuiltKernel, Dim3, ScalarParameter
from ..layout import split_swizzle
from ..memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Mapping


def split_arguments(
    kernel: BuiltKernel, arguments: Sequence[Any], grid: Dim3
) -> tuple[list[tuple[Buffer, Any]], dict[str, int]]:
    """Arrays with their parameters, and the scalars; scalars and region bounds are checked here.

    Raises:
        LaunchError: wrong number, a scalar that breaks its declaration, or a region that leaves its array.
    """
    if len(arguments) != len(kernel.parameters):
        names = ", ".join(p.name for p in kernel.parameters)
        raise LaunchError(
            f"kernel {kernel.name} takes {len(kernel.parameters)} arguments ({names}), not {len(arguments)}"
        )
    arrays: list[tuple[Buffer, Any]] = []
    scalars: dict[str, int] = {}
    for parameter, argument in zip(kernel.parameters, arguments, strict=True):
        if isinstance(parameter, ScalarParameter):
            scalars[parameter.name] = _scalar(kernel, parameter, argument)
        else:
            arrays.append((parameter, argument))
    if kernel.bounds:
        try:
            kernel.check_bounds(grid, scalars)
        except LayoutError as error:
            raise LaunchError(f"kernel {kernel.name}: {error}") from error
    return arrays, scalars


def _scalar(kernel: BuiltKernel, parameter: ScalarParameter, argument: Any) -> int:
    where = f"kernel {kernel.name}, scalar {parameter.name}"
    if not hasattr(argument, "__index__") or isinstance(argument, bool):
        raise LaunchError(f"{where}: an integer, not {argument!r}")
    number = int(argument)
    if not parameter.lower <= number <= parameter.upper:
        raise LaunchError(f"{where}: {number} is outside its declared {parameter.lower} to {parameter.upper}")
    if number % parameter.multiple_of:
        raise LaunchError(f"{where}: {number} is not a multiple of {parameter.multiple_of}, as it was declared")
    return number


@attrs.frozen
class ArrayFacts:
    """What is checked of an array, wherever it lives; strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    pointer: int
    readonly: bool


@lru_cache(maxsize=256)
def _dtype_of(value: Any) -> DType:
    """:func:`dtype_of`, remembered: it is asked at every launch."""
    return dtype_of(value)


def check_array(kernel: BuiltKernel, buffer: Buffer, facts: ArrayFacts, scalars: Mapping[str, int]) -> None:
    """Raise :class:`LaunchError` unless an array is what its parameter declares."""
    where = f"kernel {kernel.name}, argument {buffer.name}"
    try:
        dtype = _dtype_of(facts.dtype)
    except RequestError as error:
        raise LaunchError(f"{where}: {error}") from None
    if dtype != buffer.dtype:
        raise LaunchError(f"{where}: dtype {dtype}, declared {buffer.dtype}")
    if facts.shape != buffer.shape:
        raise LaunchError(f"{where}: shape {facts.shape}, declared {buffer.shape}")
    _, tile = split_swizzle(buffer.layout)
    declared = tuple(
        it.stride if isinstance(it.stride, int) else int(evaluate(it.stride, scalars)) for it in tile.shard
    )
    for dim, (extent, found, wanted) in enumerate(zip(facts.shape, facts.strides, declared, strict=True)):
        if extent > 1 and found != wanted:
            raise LaunchError(
                f"{where}: stride {found} elements in dimension {dim}, declared {wanted}"
                + ("; pass a contiguous array or declare strides=" if not as_expr(tile.shard[dim].stride).terms else "")
            )
    if facts.pointer % buffer.align_bytes:
        raise LaunchError(
            f"{where}: its address 0x{facts.pointer:x} is not a multiple of {buffer.align_bytes} bytes; "
            f"declare align_bytes={facts.pointer & -facts.pointer} or less"
        )
    if facts.readonly and buffer.name in kernel.written:
        raise LaunchError(f"{where}: the array is read-only and the kernel writes it")


def span_bytes(facts: ArrayFacts, itemsize: int) -> int:
    """Bytes from the first element to the end of the last."""
    return (sum((e - 1) * s for e, s in zip(facts.shape, facts.strides, strict=True)) + 1) * itemsize


@attrs.frozen(eq=False)
class HostArray:
    """A host array as flat bytes.

    Attributes:
        name: of the parameter.
        data: a uint8 view of its memory, from its first element on.
        align_bytes: as declared.
        writable: whether the kernel may write it.
    """

    name: str
    data: Any
    align_bytes: int
    writable: bool


@attrs.frozen(eq=False)
class HostArguments:
    """Checked arguments that live in host memory."""

    arrays: list[HostArray]
    scalars: dict[str, int]

    @classmethod
    def of(cls, kernel: BuiltKernel, arguments: Sequence[Any], grid: Dim3) -> HostArguments:
        """Check host arguments against a kernel.

        Raises:
            LaunchError: an argument does not fit its parameter or does not live in host memory.
        """
        arrays, scalars = split_arguments(kernel, arguments, grid)
        checked = []
        for buffer, argument in arrays:
            array = as_host_array(kernel, buffer, argument)
            facts = host_facts(array, buffer.dtype.bytes)
            # memory here is addressed as if its base had the declared alignment, so the real one does not matter
            check_array(kernel, buffer, attrs.evolve(facts, pointer=0), scalars)
            checked.append(
                HostArray(buffer.name, flat_bytes(array, facts), buffer.align_bytes, writable=not facts.readonly)
            )
        return cls(checked, scalars)


def as_host_array(kernel: BuiltKernel, buffer: Buffer, argument: Any) -> Any:
    """An argument as a NumPy array over the same memory.

    Raises:
        LaunchError: it is not an array in host memory.
    """
    if isinstance(argument, np.ndarray):
        return argument
    where = f"kernel {kernel.name}, argument {buffer.name}"
    if hasattr(argument, "__dlpack_device__"):
        device, _ = argument.__dlpack_device__()
        if int(device) != 1:
            raise LaunchError(
                f"{where}: the array is on a device (DLPack type {int(device)}), this executor takes host arrays"
            )
        try:
            return np.from_dlpack(argument)
        except (BufferError, RuntimeError, TypeError) as error:
            raise LaunchError(
                f"{where}: {type(argument).__name__} cannot be viewed as a NumPy array: {error}"
            ) from error
    raise LaunchError(f"{where}: an array (NumPy, or one with DLPack), not {type(argument).__name__}")


def host_facts(array: Any, itemsize: int) -> ArrayFacts:
    """The facts of a NumPy array."""
    for stride in array.strides:
        if stride % array.itemsize:
            raise LaunchError(f"an array with a stride of {stride} bytes and elements of {array.itemsize}")
    strides = tuple(int(stride) // array.itemsize for stride in array.strides)
    return ArrayFacts(tuple(array.shape), strides, array.dtype, int(array.ctypes.data), not array.flags.writeable)


def flat_bytes(array: Any, facts: ArrayFacts) -> Any:
    """A uint8 view of an array's memory from its first element to its last; the caller keeps the array alive."""
    size = span_bytes(facts, array.itemsize)
    view = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(facts.pointer))
    view.flags.writeable = not facts.readonly
    return view
