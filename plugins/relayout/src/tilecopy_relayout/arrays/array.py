"""The function that reads the address, shape, strides, element size and device of any framework's array."""

from __future__ import annotations

import ctypes
from typing import Any

from tilecopy import LaunchError
from tilecopy.executors import array_view, is_masked
from tilecopy.overlap import StridedMemory

from tilecopy_core import RequestError
from tilecopy_core.errors import np
from tilecopy_core.plugin import frozen

from .frameworks import Framework, driver, framework_of

_NOT_WHOLE_BYTES = frozenset({"int2", "uint2", "int4", "uint4", "float4_e2m1fn"})
"""Element types that JAX and others pack on a device; in NumPy each element has a whole byte."""


@frozen(eq=False)
class SideArray:
    """A frozen record of the source or destination array of a relayout.

    Attributes:
        owner: the array itself.
        memory: address, shape, strides and element size.
        dtype: the framework's dtype.
        device: the GPU's number, or None for host memory.
        readonly: True if it must not be written.
        keeps: another object that keeps its memory alive.
        stream: a function that returns the framework's current stream on that GPU, or None.
    """

    owner: Any
    framework: Framework
    memory: StridedMemory
    dtype: Any
    device: int | None
    readonly: bool
    keeps: Any = None
    stream: Any = None

    @property
    def place(self) -> str:
        """Where the array is, in words for error messages, such as ``on GPU 0``."""
        return "in host memory" if self.device is None else f"on GPU {self.device}"

    def words(self, side: StridedMemory, dtype: str) -> Any:
        """Return a NumPy view of the memory with the shape and strides of ``side``. The view does not own memory."""
        low, high = self.memory.byte_bounds
        memory: Any = (ctypes.c_uint8 * (high - low)).from_address(low)
        return np.ndarray(side.shape, dtype, memory, self.memory.start - low, side.strides_bytes)


def array_of(where: str, argument: Any) -> SideArray:
    """Return the :class:`SideArray` for an array of any framework or an object with DLPack or an array interface."""
    kind: Any = type(argument)
    framework = framework_of(kind)
    argument = framework.unwrap(where, argument)
    if isinstance(argument, np.ndarray):
        return _numpy(where, argument, framework_of(np.ndarray) if type(framework) is Framework else framework)
    try:
        facts = array_view(where, argument, lambda pointer: int(driver().device_of(pointer)))
    except LaunchError as error:
        raise RequestError(str(error)) from error
    name, itemsize = dtype_name(facts.dtype), getattr(facts.dtype, "itemsize", None)
    if not isinstance(itemsize, int) or itemsize < 1 or name in _NOT_WHOLE_BYTES or name.startswith("q"):
        raise RequestError(f"{where} must have elements of whole bytes, got dtype {facts.dtype}")
    strides = tuple(stride * itemsize for stride in facts.strides)
    return SideArray(
        owner=argument,
        framework=framework,
        memory=StridedMemory(facts.pointer, facts.shape, strides, itemsize),
        dtype=facts.dtype,
        device=facts.device,
        readonly=facts.readonly,
        keeps=facts.owner,
        stream=facts.stream,
    )


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype, such as ``float16`` or ``>f4``. Equal dtypes of different frameworks have the same name."""
    if isinstance(dtype, np.dtype):
        return dtype.name if dtype.isnative and dtype.fields is None else str(dtype)
    return str(dtype).rsplit(".", 1)[-1]


def _numpy(where: str, array: Any, framework: Framework) -> SideArray:
    if is_masked(array):
        instead = "pass a.data, and set the mask of the result" if where == "out" else "pass a.filled(value)"
        raise RequestError(f"{where} must not be a masked array, because relayout does not move the mask: {instead}")
    if array.dtype.hasobject or not array.dtype.itemsize:
        raise RequestError(f"{where} must have a dtype of at least one byte without Python objects, got {array.dtype}")
    return SideArray(
        owner=array,
        framework=framework,
        memory=StridedMemory(
            int(array.__array_interface__["data"][0]), array.shape, array.strides, array.dtype.itemsize
        ),
        dtype=array.dtype,
        device=None,
        readonly=not array.flags.writeable,
    )
