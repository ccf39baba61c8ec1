"""The parameters of a kernel: the argument of each, its checks, and its bytes in the parameter space.

A launch binds the parameters in three steps, the same for every executor:

1. ``read``: each parameter reads its argument into the :class:`Binding` (an array's facts, a number). Parameters without
   an argument come last and get their values from the others.
2. ``check``: each parameter compares what it found with what was declared.
3. ``encode``: with the addresses known, each parameter gives its bytes in the kernel's parameter space.

A new kind of parameter is a subclass of :class:`Parameter`; executors need no change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar

import attrs
import numpy as np

from tilecopy_core.errors import RequestError, frozen, integer, short_repr
from tilecopy_core.integers import Expr, Int, Symbol, constant_of, evaluate, key_of, symbols_of, terms_of
from tilecopy_core.layout import DType, dtype_of, row_major
from tilecopy_core.memory import Buffer
from tilecopy_core.ptx import Recipe
from tilecopy_core.registry import LOCK

from ..errors import LaunchError
from ..overlap import StridedMemory, overlaps_itself


@frozen(eq=False)
class ArrayView:
    """The facts of an array of any framework that a launch needs.

    Attributes:
        shape: extents.
        strides: in elements.
        dtype: the framework's own dtype (:func:`~tilecopy_core.dtype_of` reads its name).
        pointer: address of the first element.
        readonly: whether its memory may not be written.
        device: the number of the GPU that it is on, or None for host memory.
        owner: the object that keeps the memory alive.
        stream: returns the current stream (a CUstream) of the array's framework; None if it has no such stream.
        export: ``__dlpack__`` of an array whose producer orders its work before a stream when it exports for that stream.
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
        """Return the address of the lowest byte of the elements, and the number of bytes to the end of the highest.

        With negative strides, elements lie before the first one.
        """
        strides_bytes = tuple(stride * itemsize for stride in self.strides)
        low, high = StridedMemory(self.pointer, self.shape, strides_bytes, itemsize).byte_bounds
        return low, high - low


@attrs.define(eq=False)
class Binding:
    """The values of the parameters of one launch.

    Attributes:
        kernel: the kernel's name, for messages.
        view: reads an array for this executor: ``(where, argument) -> facts``; raises LaunchError if it is not an array.
        arrays: facts of each array, by parameter.
        numbers: values of scalars and sizes, by parameter.
        addresses: the address of each array; set by the executor before ``encode``.
        grid: CTAs along x, y, z, once the numbers are known.
        encode_map: gives the bytes of a tensor map; set by the executor before ``encode``.
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
        """Return the arrays that are in host memory."""
        return [name for name, facts in self.arrays.items() if facts.device is None]

    @property
    def devices(self) -> dict[str, int]:
        """Return the GPU of each array in device memory, by parameter. An empty array without an address is on no GPU."""
        return {name: facts.device for name, facts in self.arrays.items() if facts.device is not None and facts.pointer}


@frozen
class TensorMapArgs:
    """A tensor map with all values as numbers (:class:`tilecopy_partitions.TensorMap`), innermost dimension first.

    Attributes:
        array: the array's parameter.
        address: of the first element.
        dtype: name of the element type.
        element_bits: bits of an element.
    """

    array: str
    address: int
    dtype: str
    element_bits: int
    sizes: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    fill: str

    def __str__(self) -> str:
        return (
            f"{self.dtype} at 0x{self.address:x}, sizes {self.sizes}, strides {self.strides_bytes} bytes, box {self.box}, "
            f"element strides {self.element_strides}, swizzle {self.swizzle}, fill {self.fill}"
        )


@frozen
class Parameter(ABC):
    """One parameter of a kernel.

    Attributes:
        name: an identifier; in PTX the parameter is ``param_<name>``.
    """

    name: str

    takes_argument: ClassVar[bool] = True
    """Whether the caller passes an argument for it; if not, its value comes from the other parameters."""

    follows_addresses: ClassVar[bool] = False
    """Whether its bytes hold, or are made from, the address of an array other than as an :class:`ArrayParameter`."""

    @property
    @abstractmethod
    def type(self) -> str:
        """Return the fundamental PTX type of the parameter."""

    @abstractmethod
    def read(self, argument: Any, binding: Binding) -> None:
        """Read the argument (None if there is none) into the binding.

        Raises:
            LaunchError: the argument is not of a kind that this parameter takes.
        """

    def check(self, binding: Binding) -> None:  # noqa: B027 - most have nothing to compare
        """Compare the bound value with what was declared.

        Raises:
            LaunchError: they differ; the message names the parameter, the value and the rule.
        """

    @abstractmethod
    def encode(self, binding: Binding) -> bytes:
        """Return the bytes of the parameter as the kernel reads them (little-endian); called after every ``check``."""


# ----------------------------------------------------------------------------------------------------- arrays


@frozen
class ArrayParameter(Parameter):
    """A global array that the caller passes; the kernel receives its address.

    Attributes:
        shape: extents; each may be computed from sizes and scalars.
        strides: in elements; each may be computed from sizes and scalars.
        dtype: element type.
        align_bytes: the address is a multiple of this.
        written: whether the kernel writes it.
    """

    shape: tuple[Int, ...]
    strides: tuple[Int, ...]
    dtype: DType
    align_bytes: int
    written: bool

    @classmethod
    def of(cls, buffer: Buffer, *, written: bool) -> ArrayParameter:
        """Return the parameter of a global buffer, one stride per dimension."""
        return cls(buffer.name, buffer.shape, buffer.layout.strides, buffer.dtype, buffer.align_bytes, written)

    @property
    def type(self) -> str:
        """Return ``u64``, the type of a generic address."""
        return "u64"

    def read(self, argument: Any, binding: Binding) -> None:
        """The facts of an array, as the executor reads them."""
        binding.arrays[self.name] = binding.view(self._where(binding), argument)

    def check(self, binding: Binding) -> None:
        """Type, shape, strides, alignment (of device memory; host memory is staged), and whether it may be written."""
        where, facts = self._where(binding), binding.arrays[self.name]
        self._check_dtype(where, facts.dtype)
        shape = tuple(value_of(extent, binding.numbers) for extent in self.shape)
        if facts.shape != shape:
            raise LaunchError(f"{where}: shape {facts.shape}, declared {with_values(self.shape, shape)}")
        strides = tuple(value_of(stride, binding.numbers) for stride in self.strides)
        if 0 in shape:
            strides = facts.strides  # of no elements, in whatever way
        for dim, (extent, actual, wanted) in enumerate(zip(shape, facts.strides, strides, strict=True)):
            if extent > 1 and actual != wanted:
                contiguous = key_of(self.strides) == key_of(row_major(self.shape))
                remedy = (
                    "pass a contiguous array or declare strides="
                    if contiguous
                    else "pass an array that has the strides"
                )
                declared = f"{self.strides[dim]} = {wanted}" if isinstance(self.strides[dim], Expr) else wanted
                raise LaunchError(
                    f"{where}: stride {actual} elements in dimension {dim}, declared {declared}; {remedy}"
                )
        if self.written:
            self._check_overlap(where, shape, strides, binding.numbers)
        if facts.device is not None and facts.pointer % self.align_bytes:
            raise LaunchError(
                f"{where}: its address 0x{facts.pointer:x} is not a multiple of {self.align_bytes} bytes; "
                f"declare align_bytes={facts.pointer & -facts.pointer} or less"
            )
        if facts.readonly and self.written and 0 not in shape:
            raise LaunchError(
                f"{where}: the array is read-only and the kernel writes it; pass a copy that may be written"
            )

    def _check_overlap(
        self, where: str, shape: tuple[int, ...], strides: tuple[int, ...], numbers: Mapping[str, int]
    ) -> None:
        """Raise LaunchError if the launch's sizes and scalars give two elements of the array one place.

        Where all are constants, the plan of each copy has refused that.
        """
        symbols = {symbol.name for number in (*self.shape, *self.strides) for symbol in symbols_of(number)}
        if symbols and overlaps_itself(StridedMemory(0, shape, strides, 1)):
            values = ", ".join(f"{name} = {numbers[name]}" for name in sorted(symbols))
            raise LaunchError(
                f"{where}: the kernel writes it, and with {values} its shape {with_values(self.shape, shape)} and its strides "
                f"{with_values(self.strides, strides)} give several elements the same place; pass strides that keep them apart"
            )

    def encode(self, binding: Binding) -> bytes:
        """Return the address."""
        return binding.addresses[self.name].to_bytes(8, "little")

    def _where(self, binding: Binding) -> str:
        return f"kernel {binding.kernel}, argument {self.name}"

    def _check_dtype(self, where: str, array_dtype: Any) -> None:
        if self.dtype.bits < 8:
            raise LaunchError(
                f"{where}: dtype {array_dtype}, declared {self.dtype}. A kernel packs {8 // self.dtype.bits} of these into a byte, and arrays do "
                "not: declare uint8 with the packed shape"
            )
        if not getattr(array_dtype, "isnative", True):
            raise LaunchError(
                f"{where}: dtype {array_dtype.str} has its bytes in the other order than the GPU's (little-endian); "
                f'pass a.astype(a.dtype.newbyteorder("="))'
            )
        try:
            dtype: Any = _dtype_of(array_dtype)
        except (RequestError, TypeError):  # a TypeError: not hashable, so no dtype
            dtype = array_dtype
        if not isinstance(dtype, DType) or dtype != self.dtype:
            raise LaunchError(f"{where}: dtype {dtype}, declared {self.dtype}; {_convert(array_dtype, self.dtype)}")


_dtype_of = lru_cache(maxsize=256)(dtype_of)


def _convert(array_dtype: Any, declared: DType) -> str:
    """Return what to do about a dtype."""
    if getattr(array_dtype, "names", None):
        return f"it is a record of fields: pass one of them, a[{array_dtype.names[0]!r}], made contiguous"
    if getattr(array_dtype, "hasobject", False):
        return f'its elements are Python objects: pass a.astype("{declared}")'
    if declared.extended and isinstance(array_dtype, np.dtype):
        return (
            f"NumPy has {declared} from the package ml_dtypes: pass a.astype(ml_dtypes.{declared}), or a.view(ml_dtypes.{declared}) if the "
            "array has its bits, or build the kernel for the array's dtype"
        )
    return f"convert the array to {declared}, or build the kernel for its dtype"


def value_of(number: Int, numbers: Mapping[str, int]) -> int:
    """Return an extent, stride, bound or count with every size and scalar known."""
    return int(evaluate(number, {symbol: numbers[symbol.name] for symbol in symbols_of(number)}))


def with_values(declared: tuple[Int, ...], values: tuple[int, ...]) -> str:
    """Return a shape or grid in words, with its values if it is computed from sizes and scalars."""
    if all(isinstance(count, int) for count in declared):
        return f"{values}"
    return f"({', '.join(map(str, declared))}{',' * (len(declared) == 1)}) = {values}"


# ---------------------------------------------------------------------------------------------------- numbers

_B32 = (-(2**31), 2**31 - 1)
_SCALARS: dict[str, tuple[int, int]] = {"int32": _B32, "uint32": (0, 2**32 - 1), "int64": (-(2**62), 2**62)}
"""Smallest and largest value of each type; int64 keeps one bit in reserve for sums."""
_DEFAULT_UPPER = {"int32": _B32[1], "uint32": _B32[1], "int64": 2**62}


@frozen
class NumberParameter(Parameter):
    """An integer with declared bounds and a declared divisor.

    Attributes:
        type: ``b32`` or ``b64``.
        multiple_of: a divisor of every value.
        lower: smallest value.
        upper: largest value.
    """

    type: str
    multiple_of: int
    lower: int
    upper: int

    def take(self, number: int, binding: Binding, where: str, *, source: str = "", remedy: str = "") -> None:
        """Bind a value.

        Raises:
            LaunchError: the value is not within the declared bounds, or no multiple of the divisor.
        """
        if not self.lower <= number <= self.upper:
            raise LaunchError(
                f"{where}: {short_repr(number)}{source} is outside its declared {self.lower} to {self.upper}{remedy}"
            )
        if number % self.multiple_of:
            raise LaunchError(f"{where}: {number}{source} is not a multiple of {self.multiple_of}, as it was declared")
        binding.numbers[self.name] = number

    def encode(self, binding: Binding) -> bytes:
        """Two's complement of 4 or 8 bytes."""
        return binding.numbers[self.name].to_bytes(4 if self.type == "b32" else 8, "little", signed=True)


@frozen
class ScalarParameter(NumberParameter):
    """An integer that the caller passes.

    Attributes:
        within: further bounds, computed from sizes and scalars; ``(lower, upper)`` if there are none.
    """

    within: tuple[Int, Int] | None = attrs.field(default=None, eq=key_of)

    @classmethod
    def declare(
        cls, name: str, dtype: str = "int32", *, multiple_of: int = 1, lower: int = 0, upper: int | None = None
    ) -> ScalarParameter:
        """Return the parameter that :meth:`KernelBuilder.scalar` declares, with plain integers as bounds.

        The kernel computes with 32-bit registers as signed numbers. So a uint32 that may be above 2**31 - 1 (declare it:
        ``upper=2**32 - 1``) is passed in 64 bits.

        Raises:
            RequestError: the dtype is unknown, or does not hold the bounds.
        """
        if not isinstance(dtype, str) or dtype not in _SCALARS:
            raise RequestError(f"scalar {name}: dtype {short_repr(dtype)} is not one of {', '.join(_SCALARS)}")
        least, most = _SCALARS[dtype]
        upper = _DEFAULT_UPPER[dtype] if upper is None else upper
        divisor, low, high = _declared_integers(f"scalar {name}", multiple_of, lower, upper)
        if low < least or high > most:
            raise RequestError(
                f"scalar {name}: the bounds {short_repr(low)} to {short_repr(high)} are not within a {dtype}, {least} to {most}"
            )
        return cls(name, "b32" if high <= _B32[1] else "b64", divisor, low, high)

    def read(self, argument: Any, binding: Binding) -> None:
        """An integer of Python, or of a framework with no dimensions; bool and float are refused."""
        where = f"kernel {binding.kernel}, scalar {self.name}"
        remedy = "; if it is meant, build the kernel with wider lower= or upper="
        self.take(_integer(argument, where, LaunchError), binding, where, remedy=remedy)

    def check(self, binding: Binding) -> None:
        """Check the bounds that are computed from sizes and other scalars."""
        if self.within is None:
            return
        number = binding.numbers[self.name]
        lower, upper = (value_of(bound, binding.numbers) for bound in self.within)
        if not lower <= number <= upper:
            raise LaunchError(
                f"kernel {binding.kernel}, scalar {self.name}: {number} is outside its declared {self.within[0]} to "
                f"{self.within[1]}, which is {lower} to {upper}"
            )


@frozen
class Extent:
    """A dimension that a size is read from: its extent, or its stride in elements, is ``factor * size + constant``."""

    array: str
    dim: int
    factor: int = 1
    constant: int = 0
    stride: bool = False

    @property
    def place(self) -> str:
        """Return the dimension in words."""
        return f"{'the stride of ' if self.stride else ''}dimension {self.dim} of argument {self.array}"


def _extents(values: Iterable[Any]) -> tuple[Extent, ...]:
    return tuple(value if isinstance(value, Extent) else Extent(*value) for value in values)


@frozen
class SizeParameter(NumberParameter):
    """A size that is read from the shapes of arrays at each launch, or from their strides if it is in no shape. The caller passes nothing.

    Attributes:
        sources: the dimensions that have this extent or stride (or a multiple of it, or more by a constant); they must agree.
    """

    sources: tuple[Extent, ...] = attrs.field(converter=_extents)
    multiple_of: int = 1
    lower: int = 1
    upper: int = _B32[1]

    takes_argument: ClassVar[bool] = False

    @classmethod
    def declare(cls, name: str, *, multiple_of: int = 1, lower: int = 1, upper: int = _B32[1]) -> SizeParameter:
        """Return a size with its declared bounds and divisor. Its sources are found when all arrays are known.

        Raises:
            RequestError: no size is within the bounds.
        """
        what = f"size {name}"
        divisor, low, high = _declared_integers(what, multiple_of, lower, upper)
        if not 0 <= low <= 2**62 or high > 2**62:
            raise RequestError(f"{what}: the bounds {short_repr(low)} to {short_repr(high)} are not within 0 to 2**62")
        return cls(name, "b32" if high <= _B32[1] else "b64", (), divisor, low, high)

    def symbol(self) -> Symbol:
        """Return a new symbol of the size, its bounds multiples like its values."""
        by = self.multiple_of
        return Symbol(self.name, -(-self.lower // by) * by, self.upper // by * by, by)

    def read_from(self, symbol: Symbol, arrays: Collection[Buffer]) -> SizeParameter:
        """Return the size with its sources: every extent that depends on its symbol and on nothing else, or every such stride.

        Raises:
            RequestError: no array has such a dimension.
        """
        for stride in (False, True):
            sources = [
                Extent(array.name, dim, terms_of(number)[0][1], constant_of(number), stride)
                for array in arrays
                for dim, number in enumerate(array.layout.strides if stride else array.shape)
                if len(terms_of(number)) == 1 and terms_of(number)[0][0] == symbol
            ]
            if sources:
                return attrs.evolve(self, sources=tuple(sources))
        raise RequestError(
            f"size {self.name} is read from the shapes of the arguments, and no param has a dimension of {self.name} (or a multiple of it, or "
            "one more by a constant), nor such a stride; declare one, or make it a scalar"
        )

    def read(self, argument: Any, binding: Binding) -> None:
        """The extent, the same in every array that has it."""
        where = f"kernel {binding.kernel}, size {self.name}"
        sizes: list[tuple[str, tuple[int, ...], int]] = []
        for source in self.sources:
            facts, place = binding.arrays[source.array], source.place
            shape = facts.shape
            if source.dim >= len(shape):
                raise LaunchError(f"{where}: {place}, whose shape is {shape}")
            if source.stride and (shape[source.dim] == 1 or 0 in shape):
                continue  # whatever the stride of no step is
            value = (facts.strides if source.stride else shape)[source.dim]
            number, rest = divmod(value - source.constant, source.factor)
            if rest:
                declared = f"{source.factor}*{self.name}" + (f" + {source.constant}" if source.constant else "")
                raise LaunchError(f"{where}: {place} is {value}, declared {declared}, and no size gives that")
            sizes.append((place, shape, number))
        if not sizes:  # any value fits, since the strides with it lead nowhere
            sizes.append((self.sources[0].place, (), -(-self.lower // self.multiple_of) * self.multiple_of))
        (first, shape, number), *others = sizes
        for other, its, value in others:
            if value != number:
                raise LaunchError(f"{where}: {number} by {first}, {value} by {other} (shapes {shape} and {its})")
        self.take(number, binding, where, source=f" ({first})")


def _declared_integers(what: str, multiple_of: Any, lower: Any, upper: Any) -> tuple[int, int, int]:
    """Return the declared properties of a number, as integers."""
    named = {"multiple_of": multiple_of, "lower": lower, "upper": upper}
    divisor, low, high = (_integer(value, f"{what}: {name}", RequestError) for name, value in named.items())
    if divisor < 1:
        raise RequestError(f"{what}: multiple_of must be at least 1, got {short_repr(multiple_of)}")
    if low > high:
        raise RequestError(f"{what}: lower {short_repr(low)} is above upper {short_repr(high)}")
    if -(-low // divisor) > high // divisor:
        raise RequestError(
            f"{what}: no multiple of {short_repr(divisor)} is from {low} to {short_repr(high)}, lower to upper"
        )
    return divisor, low, high


def _integer(value: Any, where: str, error: type[Exception]) -> int:
    """:func:`integer`, or that error."""
    number = integer(value)
    if number is None:
        raise error(f"{where} must be an integer, got {short_repr(value)}")
    return number


# ----------------------------------------------------------------------------------------- computed by the launch


@frozen
class ComputedParameter(Parameter):
    """Bytes that each launch computes from the addresses of arrays and from numbers alone.

    Attributes:
        size_bytes: the number of bytes.
        align_bytes: its address in the parameter space is a multiple of this.
    """

    size_bytes: int
    align_bytes: int

    takes_argument: ClassVar[bool] = False

    @property
    def type(self) -> str:
        """Bytes; the array's length stands behind the name."""
        return f"align {self.align_bytes} .b8"

    def read(self, argument: Any, binding: Binding) -> None:
        """Reads nothing, because the bytes are computed from other parameters."""


@frozen
class BytesParameter(ComputedParameter):
    """Bytes that a function computes from addresses and integers (:class:`tilecopy_partitions.HostBytes`)."""

    make: Callable[[tuple[int, ...], tuple[int, ...]], bytes]
    arrays: tuple[str, ...]
    numbers: tuple[Int, ...]

    def encode(self, binding: Binding) -> bytes:
        """Return the bytes that the function returns.

        Raises:
            LaunchError: the function raises, or returns anything but ``size_bytes`` bytes.
        """
        where = f"kernel {binding.kernel}, parameter {self.name}"
        addresses = tuple(binding.addresses[name] for name in self.arrays)
        try:
            data_bytes = self.make(addresses, tuple(value_of(number, binding.numbers) for number in self.numbers))
        except Exception as error:  # the package's own
            raise LaunchError(f"{where}: {self.make.__qualname__} raised {type(error).__name__}: {error}") from error
        if not isinstance(data_bytes, bytes) or len(data_bytes) != self.size_bytes:
            raise LaunchError(
                f"{where}: {self.make.__qualname__} must return {self.size_bytes} bytes, got {short_repr(data_bytes)}"
            )
        return data_bytes


@frozen
class TensorMapParameter(ComputedParameter):
    """A tensor map of an array (:class:`tilecopy_partitions.TensorMap`), innermost dimension first.

    Attributes:
        array: the array's parameter.
        start_bytes: from its first element to that of the map.
    """

    array: str
    start_bytes: Int
    dtype: DType
    sizes: tuple[Int, ...]
    strides_bytes: tuple[Int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    fill: str

    def check(self, binding: Binding) -> None:
        """Sizes and strides are within what a tensor map has (CUDA driver API, cuTensorMapEncodeTiled)."""
        where = f"kernel {binding.kernel}, argument {self.array}"
        for size in self.sizes:
            if not 1 <= (value := value_of(size, binding.numbers)) < 1 << 31:
                named = "" if isinstance(size, int) else f"{size} = "
                raise LaunchError(f"{where}: extent {named}{value}; a tensor map takes extents from 1 to 2**31 - 1")
        for stride in self.strides_bytes:
            value = value_of(stride, binding.numbers)
            if value % 16 or not 0 <= value < 1 << 40:
                raise LaunchError(f"{where}: a stride of {value} bytes; a tensor map takes multiples of 16 below 2**40")

    def encode(self, binding: Binding) -> bytes:
        """Return the map as the executor encodes it."""
        if binding.encode_map is None:
            raise LaunchError(
                f"kernel {binding.kernel} has a tensor map of {self.array}, which this executor cannot encode"
            )
        address = binding.addresses[self.array] + value_of(self.start_bytes, binding.numbers)
        if address % 16:
            raise LaunchError(
                f"kernel {binding.kernel}, argument {self.array}: the address 0x{address:x} of a tensor map is not a multiple of 16 bytes"
            )
        return binding.encode_map(
            TensorMapArgs(
                self.array,
                address,
                str(self.dtype),
                self.dtype.bits,
                tuple(value_of(size, binding.numbers) for size in self.sizes),
                tuple(value_of(stride, binding.numbers) for stride in self.strides_bytes),
                self.box,
                self.element_strides,
                self.swizzle,
                self.fill,
            )
        )


def computed_parameter(
    recipe: Recipe, name: str, arrays: Collection[str], scalars: Collection[Symbol]
) -> ComputedParameter:
    """Return the parameter of a recipe.

    Args:
        recipe: the recipe.
        name: of the parameter.
        arrays: the kernel's arrays, by name.
        scalars: the kernel's sizes and scalars.

    Raises:
        RequestError: the recipe uses anything else.
    """
    with LOCK:
        from tilecopy_partitions import HostBytes, TensorMap
    made_of: tuple[Buffer, ...]
    if not isinstance(recipe, (TensorMap, HostBytes)):
        raise RequestError(f"parameter {name} must be made by a TensorMap or HostBytes, got {short_repr(recipe)}")
    if isinstance(recipe, TensorMap):
        made_of, integers = (recipe.array,), (*recipe.sizes, *recipe.strides_bytes, recipe.array.storage_offset)
    else:
        made_of, integers = recipe.arrays, recipe.numbers
    for array in made_of:
        if array.name not in arrays:
            raise RequestError(
                f"parameter {name} refers to {array.name}, which is not an array parameter of the kernel"
            )
    for number in integers:
        if unknown := [symbol.name for symbol in symbols_of(number) if symbol not in scalars]:
            raise RequestError(f"parameter {name} depends on {number}, and {', '.join(unknown)} is not known at launch")
    if isinstance(recipe, HostBytes):
        names = tuple(array.name for array in recipe.arrays)
        return BytesParameter(name, recipe.size_bytes, recipe.align_bytes, recipe.make, names, recipe.numbers)
    array = recipe.array
    return TensorMapParameter(
        name,
        recipe.size_bytes,
        recipe.align_bytes,
        array.name,
        array.storage_offset * array.dtype.bytes,
        array.dtype,
        recipe.sizes,
        recipe.strides_bytes,
        recipe.box,
        recipe.element_strides,
        recipe.swizzle,
        recipe.fill,
    )
