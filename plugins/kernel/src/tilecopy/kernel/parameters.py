"""The parameters of a kernel. A parameter checks its argument and encodes the bytes that a launch passes.

A launch binds the parameters in three steps, the same for every executor:

1. ``read``: each parameter reads its argument into the :class:`Binding` (an array's view, a number). Parameters without
   an argument come last and get their values from the others.
2. ``check``: each parameter compares its value with the declaration.
3. ``encode``: when the addresses are known, each parameter returns its bytes in the kernel's parameter space.

A new kind of parameter is a subclass of :class:`Parameter`; executors need no change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from tilecopy_core.errors import RequestError, frozen, np
from tilecopy_core.integers import Expr, Int, evaluate, key_of, symbols_of
from tilecopy_core.layout import DType, dtype_of, row_major
from tilecopy_core.memory import Buffer

from ..errors import LaunchError
from ..overlap import StridedMemory, overlaps_itself

if TYPE_CHECKING:
    from .tensor_map_args import TensorMapArgs


@frozen(eq=False)
class ArrayView:
    """A frozen record of the array properties that a launch needs. The array may belong to any framework.

    Attributes:
        shape: the extents in elements.
        strides: the strides in elements.
        dtype: the framework's own dtype (:func:`~tilecopy_core.dtype_of` reads its name).
        pointer: the address of the first element.
        readonly: True if its memory must not be written.
        device: the number of its GPU, or None for host memory.
        owner: the object that keeps the memory alive.
        stream: a function that returns the current stream (a CUstream) of the array's framework, or None if it has none.
        export: the array's ``__dlpack__`` if that makes a stream wait for the producer's work, else None.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    pointer: int
    readonly: bool
    device: int | None
    owner: Any = attrs.field(repr=False)
    stream: partial[int] | None = attrs.field(default=None, repr=False)
    export: Callable[..., Any] | None = attrs.field(default=None, repr=False)

    def span(self, itemsize: int) -> tuple[int, int]:
        """Return the array's lowest address and its size in bytes. With negative strides, the first element is not at this address."""
        strides_bytes = tuple(stride * itemsize for stride in self.strides)
        low, high = StridedMemory(self.pointer, self.shape, strides_bytes, itemsize).byte_bounds
        return low, high - low


@attrs.define(eq=False, repr=False)
class Binding:
    """The values of the parameters of one launch.

    Attributes:
        kernel: the kernel's name, for messages.
        view: the executor's function ``(where, argument) -> ArrayView``, which raises LaunchError if the argument is not an array.
        arrays: name of a parameter -> view of its array.
        numbers: name of a parameter -> value of the scalar or size.
        addresses: the address of each array; set by the executor before ``encode``.
        grid: CTAs along x, y, z, once the numbers are known.
        encode_map: the function that returns the bytes of a tensor map; set by the executor before ``encode``.
    """

    kernel: str
    view: Callable[[str, Any], ArrayView]
    arrays: dict[str, ArrayView] = attrs.field(factory=dict)
    numbers: dict[str, int] = attrs.field(factory=dict)
    addresses: dict[str, int] = attrs.field(factory=dict)
    grid: tuple[int, int, int] = (1, 1, 1)
    encode_map: Callable[[TensorMapArgs], bytes] | None = None

    @property
    def on_host(self) -> list[str]:
        """The names of the arrays in host memory."""
        return [name for name, facts in self.arrays.items() if facts.device is None]

    @property
    def devices(self) -> dict[str, int]:
        """A dict from the name of each array in device memory to its GPU. An array without an address is left out."""
        return {name: facts.device for name, facts in self.arrays.items() if facts.device is not None and facts.pointer}


@frozen
class Parameter(ABC):
    """The base class of a kernel's parameters.

    Attributes:
        name: an identifier; in PTX the parameter is ``param_<name>``.
    """

    name: str

    takes_argument: ClassVar[bool] = True
    """True if the caller passes an argument for it. If not, its value comes from the other parameters."""

    @property
    @abstractmethod
    def type(self) -> str:
        """The fundamental PTX type of the parameter."""

    @abstractmethod
    def read(self, argument: Any, binding: Binding) -> None:
        """Store ``argument`` in ``binding``. Raise LaunchError if its type is wrong. Computed parameters get None."""

    def check(self, binding: Binding) -> None:  # noqa: B027 - most have nothing to compare
        """Raise LaunchError if the value in ``binding`` does not fit the parameter's declaration."""

    @abstractmethod
    def encode(self, binding: Binding) -> bytes:
        """Return the bytes of the parameter (little-endian). All parameters must have been checked."""


@frozen
class ArrayParameter(Parameter):
    """A global array that the caller passes. The kernel gets the array's address.

    Attributes:
        shape: extents; each may be computed from sizes and scalars.
        strides: strides in elements; each may be computed from sizes and scalars.
        dtype: element type.
        align_bytes: a divisor of the address.
        written: True if the kernel writes it.
    """

    shape: tuple[Int, ...]
    strides: tuple[Int, ...]
    dtype: DType
    align_bytes: int
    written: bool

    @classmethod
    def of(cls, buffer: Buffer, *, written: bool) -> ArrayParameter:
        """Return the parameter of a global buffer. The buffer must have one stride per dimension."""
        return cls(buffer.name, buffer.shape, buffer.layout.strides, buffer.dtype, buffer.align_bytes, written)

    @property
    def type(self) -> str:
        """``u64``, the type of a generic address."""
        return "u64"

    def read(self, argument: Any, binding: Binding) -> None:
        """Store the executor's view of the array in ``binding``."""
        binding.arrays[self.name] = binding.view(self._where(binding), argument)

    def check(self, binding: Binding) -> None:
        """Check dtype, shape, strides and writability. In device memory, check the alignment too."""
        where, facts = self._where(binding), binding.arrays[self.name]
        self._check_dtype(where, facts.dtype)
        shape = tuple(value_of(extent, binding.numbers) for extent in self.shape)
        if facts.shape != shape:
            raise LaunchError(f"{where}: shape must be {with_values(self.shape, shape)}, got {facts.shape}")
        strides = tuple(value_of(stride, binding.numbers) for stride in self.strides)
        if 0 in shape:
            strides = facts.strides  # an empty array may have any strides
        for dim, (extent, actual, wanted) in enumerate(zip(shape, facts.strides, strides, strict=True)):
            if extent > 1 and actual != wanted:
                remedy = "pass an array with these strides"
                if key_of(self.strides) == key_of(row_major(self.shape)):
                    remedy = "pass a contiguous array or declare strides="
                declared = f"{self.strides[dim]} = {wanted}" if isinstance(self.strides[dim], Expr) else wanted
                raise LaunchError(
                    f"{where}: the stride of dimension {dim} must be {declared} elements, got {actual} elements; {remedy}"
                )
        if self.written:
            self._check_overlap(shape, strides, binding)
        if facts.device is not None and facts.pointer % self.align_bytes:
            raise LaunchError(
                f"{where}: the address must be a multiple of {self.align_bytes} bytes, got 0x{facts.pointer:x}; "
                f"declare align_bytes={facts.pointer & -facts.pointer} or less"
            )
        if facts.readonly and self.written and 0 not in shape:
            raise LaunchError(
                f"{where}: the array must be writable, because the kernel writes it; pass a writable copy"
            )

    def _check_overlap(self, shape: tuple[int, ...], strides: tuple[int, ...], binding: Binding) -> None:
        """Raise LaunchError if two elements have the same address; for constant strides, the plans of the copies checked that."""
        symbols = {symbol.name for number in (*self.shape, *self.strides) for symbol in symbols_of(number)}
        if symbols and overlaps_itself(StridedMemory(0, shape, strides, 1)):
            values = ", ".join(f"{name} = {binding.numbers[name]}" for name in sorted(symbols))
            raise LaunchError(
                f"{self._where(binding)}: elements that the kernel writes must have different addresses, got shape "
                f"{with_values(self.shape, shape)} and strides {with_values(self.strides, strides)} ({values}); pass other strides"
            )

    def encode(self, binding: Binding) -> bytes:
        """Return the address as 8 bytes."""
        return binding.addresses[self.name].to_bytes(8, "little")

    def _where(self, binding: Binding) -> str:
        return f"kernel {binding.kernel}, argument {self.name}"

    def _check_dtype(self, where: str, array_dtype: Any) -> None:
        if self.dtype.bits < 8:
            raise LaunchError(
                f"{where}: dtype must be {self.dtype}, got {array_dtype}. A kernel packs {8 // self.dtype.bits} elements into a byte, but arrays "
                "do not: declare uint8 with the packed shape"
            )
        if not getattr(array_dtype, "isnative", True):
            raise LaunchError(
                f"{where}: dtype must be little-endian, as on the GPU, got {array_dtype.str}; "
                f'pass a.astype(a.dtype.newbyteorder("="))'
            )
        try:
            dtype: Any = _dtype_of(array_dtype)
        except (RequestError, TypeError):  # a TypeError: it is not hashable, so it is not a dtype
            dtype = array_dtype
        if not isinstance(dtype, DType) or dtype != self.dtype:
            raise LaunchError(f"{where}: dtype must be {self.dtype}, got {dtype}; {_convert(array_dtype, self.dtype)}")


_dtype_of = lru_cache(maxsize=256)(dtype_of)


def _convert(array_dtype: Any, declared: DType) -> str:
    """Return what the user can do about an array's wrong dtype."""
    if getattr(array_dtype, "names", None):
        return (
            f"the dtype is structured: pass a contiguous copy of one field, such as a[{array_dtype.names[0]!r}].copy()"
        )
    if getattr(array_dtype, "hasobject", False):
        return f'the elements are Python objects: pass a.astype("{declared}")'
    if declared.extended and isinstance(array_dtype, np.dtype):
        return (
            f"NumPy needs the package ml_dtypes for {declared}: pass a.astype(ml_dtypes.{declared}), or a.view(ml_dtypes.{declared}) if the "
            f"array holds {declared} bits"
        )
    return f"convert the array to {declared}, or build the kernel for its dtype"


def value_of(number: Int, numbers: Mapping[str, int]) -> int:
    """Return the value of an extent, stride, bound or count, given the values of sizes and scalars."""
    return int(evaluate(number, {symbol: numbers[symbol.name] for symbol in symbols_of(number)}))


def with_values(declared: tuple[Int, ...], values: tuple[int, ...]) -> str:
    """Return a shape or grid as a string such as ``(n, 8) = (64, 8)``, or only the values if no count is symbolic."""
    if all(isinstance(count, int) for count in declared):
        return f"{values}"
    return f"({', '.join(map(str, declared))}{',' * (len(declared) == 1)}) = {values}"
