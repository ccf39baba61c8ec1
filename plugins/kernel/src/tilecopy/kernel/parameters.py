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
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

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

if TYPE_CHECKING:
    from tilecopy_partitions import HostBytes, TensorMap


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
class TensorMapArgs:
    """A frozen record of a tensor map with the values of a launch. ``array`` is the name of the array parameter."""

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
    """The base class of a kernel's parameters.

    Attributes:
        name: an identifier; in PTX the parameter is ``param_<name>``.
    """

    name: str

    takes_argument: ClassVar[bool] = True
    """True if the caller passes an argument for it. If not, its value comes from the other parameters."""

    follows_addresses: ClassVar[bool] = False
    """True if its bytes depend on the address of an array, and it is not an :class:`ArrayParameter`."""

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


# ----------------------------------------------------------------------------------------------------- arrays


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


# ---------------------------------------------------------------------------------------------------- numbers

_B32 = (-(2**31), 2**31 - 1)
_SCALARS: dict[str, tuple[int, int]] = {"int32": _B32, "uint32": (0, 2**32 - 1), "int64": (-(2**62), 2**62)}
"""The smallest and largest value of each type; int64 leaves one bit for sums."""
_DEFAULT_UPPER = {"int32": _B32[1], "uint32": _B32[1], "int64": 2**62}


@frozen
class NumberParameter(Parameter):
    """An integer from ``lower`` to ``upper``, a multiple of ``multiple_of``. Its PTX type is ``b32`` or ``b64``."""

    type: str
    multiple_of: int
    lower: int
    upper: int

    def take(self, number: int, binding: Binding, where: str, *, source: str = "", remedy: str = "") -> None:
        """Store a value in ``binding``. Raise LaunchError if it is out of range or not a multiple of the divisor."""
        if not self.lower <= number <= self.upper:
            raise LaunchError(
                f"{where} must be from {self.lower} to {self.upper} as declared, got {short_repr(number)}{source}{remedy}"
            )
        if number % self.multiple_of:
            raise LaunchError(f"{where} must be a multiple of {self.multiple_of} as declared, got {number}{source}")
        binding.numbers[self.name] = number

    def encode(self, binding: Binding) -> bytes:
        """Return the value as 4 or 8 bytes (two's complement)."""
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
        """Return the parameter that :meth:`KernelBuilder.scalar` declares. The bounds must be plain integers.

        The kernel computes with 32-bit registers as signed numbers. So a uint32 that may be above 2**31 - 1 (declare it:
        ``upper=2**32 - 1``) is passed in 64 bits.
        """
        if not isinstance(dtype, str) or dtype not in _SCALARS:
            raise RequestError(f"scalar {name}: dtype must be one of {', '.join(_SCALARS)}, got {short_repr(dtype)}")
        least, most = _SCALARS[dtype]
        upper = _DEFAULT_UPPER[dtype] if upper is None else upper
        divisor, low, high = _declared_integers(f"scalar {name}", multiple_of, lower, upper)
        if low < least or high > most:
            raise RequestError(
                f"scalar {name}: the bounds of an {dtype} must be from {least} to {most}, got {short_repr(low)} to {short_repr(high)}"
            )
        return cls(name, "b32" if high <= _B32[1] else "b64", divisor, low, high)

    def read(self, argument: Any, binding: Binding) -> None:
        """Store a Python integer or a framework's zero-dimensional integer array. A bool or float is an error."""
        where = f"kernel {binding.kernel}, scalar {self.name}"
        remedy = "; build the kernel with wider lower= or upper= to allow it"
        self.take(_integer(argument, where, LaunchError), binding, where, remedy=remedy)

    def check(self, binding: Binding) -> None:
        """Check the bounds that are computed from sizes and other scalars."""
        if self.within is None:
            return
        number = binding.numbers[self.name]
        lower, upper = (value_of(bound, binding.numbers) for bound in self.within)
        if not lower <= number <= upper:
            raise LaunchError(
                f"kernel {binding.kernel}, scalar {self.name} must be from {self.within[0]} to {self.within[1]} as declared "
                f"({lower} to {upper} in this launch), got {number}"
            )


@frozen
class Extent:
    """A dimension from which a size is read. Its extent, or its stride in elements, is ``factor * size + constant``."""

    array: str
    dim: int
    factor: int = 1
    constant: int = 0
    stride: bool = False

    @property
    def place(self) -> str:
        """The phrase that messages use for the dimension or for its stride."""
        return f"{'the stride of ' if self.stride else ''}dimension {self.dim} of argument {self.array}"


@frozen
class SizeParameter(NumberParameter):
    """A size that each launch reads from the shapes or strides of arrays. The caller passes no argument for the size.

    Attributes:
        sources: the dimensions whose extent or stride is the size (or a multiple of it plus a constant). They must agree.
    """

    sources: tuple[Extent, ...]
    multiple_of: int = 1
    lower: int = 1
    upper: int = _B32[1]

    takes_argument: ClassVar[bool] = False

    @classmethod
    def declare(cls, name: str, *, multiple_of: int = 1, lower: int = 1, upper: int = _B32[1]) -> SizeParameter:
        """Return a size with declared bounds and divisor. :meth:`read_from` adds ``sources`` later."""
        what = f"size {name}"
        divisor, low, high = _declared_integers(what, multiple_of, lower, upper)
        if not 0 <= low <= 2**62 or high > 2**62:
            raise RequestError(
                f"{what}: the bounds must be from 0 to 2**62, got {short_repr(low)} to {short_repr(high)}"
            )
        return cls(name, "b32" if high <= _B32[1] else "b64", (), divisor, low, high)

    def symbol(self) -> Symbol:
        """Return a new symbol for the size. The symbol's bounds are rounded to multiples of the divisor."""
        by = self.multiple_of
        return Symbol(self.name, -(-self.lower // by) * by, self.upper // by * by, by)

    def read_from(self, symbol: Symbol, arrays: Collection[Buffer]) -> SizeParameter:
        """Return the size with ``sources``: extents that depend only on this size, or strides if no extent does so."""
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
            f"size {self.name} cannot be read from the arguments, because no param has an extent or stride that is a multiple of "
            f"{self.name} plus a constant; declare {self.name} as a scalar"
        )

    def read(self, argument: Any, binding: Binding) -> None:
        """Store the size in ``binding``. Raise LaunchError if two ``sources`` give different values."""
        where = f"kernel {binding.kernel}, size {self.name}"
        sizes: list[tuple[str, tuple[int, ...], int]] = []
        for source in self.sources:
            facts, place = binding.arrays[source.array], source.place
            shape = facts.shape
            if source.dim >= len(shape):
                raise LaunchError(f"{where} must be read from {place}, but the argument has shape {shape}")
            if source.stride and (shape[source.dim] == 1 or 0 in shape):
                continue  # the stride of a single element is arbitrary
            value = (facts.strides if source.stride else shape)[source.dim]
            number, rest = divmod(value - source.constant, source.factor)
            if rest:
                declared = f"{source.factor}*{self.name}" + (f" + {source.constant}" if source.constant else "")
                raise LaunchError(f"{where}: {place} must be {declared} for an integer {self.name}, got {value}")
            sizes.append((place, shape, number))
        if not sizes:  # any value fits, because no dimension with such a stride has a second element
            sizes.append((self.sources[0].place, (), -(-self.lower // self.multiple_of) * self.multiple_of))
        (first, shape, number), *others = sizes
        for other, its, value in others:
            if value != number:
                raise LaunchError(
                    f"{where} must be the same in all arguments, got {number} in {first} and {value} in {other} (the arrays' shapes are {shape} and {its})"
                )
        self.take(number, binding, where, source=f" ({first})")


def _declared_integers(what: str, multiple_of: Any, lower: Any, upper: Any) -> tuple[int, int, int]:
    """Return the declared divisor and bounds of an integer. Raise RequestError if they are not valid."""
    named = {"multiple_of": multiple_of, "lower": lower, "upper": upper}
    divisor, low, high = (_integer(value, f"{what}: {name}", RequestError) for name, value in named.items())
    if divisor < 1:
        raise RequestError(f"{what}: multiple_of must be at least 1, got {short_repr(multiple_of)}")
    if low > high:
        raise RequestError(f"{what}: lower must not be above upper, got {short_repr(low)} and {short_repr(high)}")
    if -(-low // divisor) > high // divisor:
        raise RequestError(
            f"{what}: the range from lower to upper must contain a multiple of {short_repr(divisor)}, got {low} to {short_repr(high)}"
        )
    return divisor, low, high


def _integer(value: Any, where: str, error: type[Exception]) -> int:
    """Return the value as an integer, or raise the error."""
    number = integer(value)
    if number is None:
        raise error(f"{where} must be an integer, got {short_repr(value)}")
    return number


# ----------------------------------------------------------------------------------------- computed by the launch


@frozen
class ComputedParameter(Parameter):
    """A parameter whose bytes each launch computes from array addresses and integers, as ``recipe`` describes."""

    recipe: Recipe

    takes_argument: ClassVar[bool] = False

    @property
    def type(self) -> str:
        """The alignment and PTX type of a byte array, such as ``align 64 .b8``."""
        return f"align {self.recipe.align_bytes} .b8"

    def read(self, argument: Any, binding: Binding) -> None:
        """Do nothing, because the bytes are computed from other parameters."""


def _bytes_key(recipe: HostBytes) -> Any:
    """Return what a launch uses of the recipe. A copied or loaded kernel has other buffers, with the same names."""
    names = tuple(array.name for array in recipe.arrays)
    return recipe.make, names, tuple(map(key_of, recipe.numbers)), recipe.size_bytes, recipe.align_bytes


def _map_key(recipe: TensorMap) -> Any:
    """Return what a launch uses of the recipe. A copied or loaded kernel has another buffer, with the same name."""
    array, integers = recipe.array, (recipe.array.storage_offset, *recipe.sizes, *recipe.strides_bytes)
    fixed = recipe.box, recipe.element_strides, recipe.swizzle, recipe.fill
    return array.name, array.dtype, tuple(map(key_of, integers)), fixed


@frozen
class BytesParameter(ComputedParameter):
    """A parameter whose bytes a function computes from addresses and integers."""

    recipe: HostBytes = attrs.field(eq=_bytes_key)

    def encode(self, binding: Binding) -> bytes:
        """Call the function and return the bytes. Raise LaunchError if the call fails or the byte count is wrong."""
        make, size_bytes = self.recipe.make, self.recipe.size_bytes
        where = f"kernel {binding.kernel}, parameter {self.name}"
        addresses = tuple(binding.addresses[array.name] for array in self.recipe.arrays)
        try:
            data_bytes = make(addresses, tuple(value_of(number, binding.numbers) for number in self.recipe.numbers))
        except Exception as error:  # whatever the package's function raises
            raise LaunchError(f"{where}: {make.__qualname__} raised {type(error).__name__}: {error}") from error
        if not isinstance(data_bytes, bytes) or len(data_bytes) != size_bytes:
            raise LaunchError(
                f"{where}: {make.__qualname__} must return {size_bytes} bytes, got {short_repr(data_bytes)}"
            )
        return data_bytes


@frozen
class TensorMapParameter(ComputedParameter):
    """A tensor map of an array. The dimensions are listed from the innermost to the outermost."""

    recipe: TensorMap = attrs.field(eq=_map_key)

    @property
    def start_bytes(self) -> Int:
        """The offset of the map's first element from the array's first element, in bytes."""
        return self.recipe.array.storage_offset * self.recipe.array.dtype.bytes

    def check(self, binding: Binding) -> None:
        """Check that sizes and strides are within the limits of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)."""
        where = f"kernel {binding.kernel}, argument {self.recipe.array.name}"
        for size in self.recipe.sizes:
            if not 1 <= (value := value_of(size, binding.numbers)) < 1 << 31:
                named = "" if isinstance(size, int) else f"{size} = "
                raise LaunchError(f"{where}: extents of a tensor map must be from 1 to 2**31 - 1, got {named}{value}")
        for stride in self.recipe.strides_bytes:
            value = value_of(stride, binding.numbers)
            if value % 16 or not 0 <= value < 1 << 40:
                raise LaunchError(
                    f"{where}: strides of a tensor map must be multiples of 16 bytes below 2**40 bytes, got {value} bytes"
                )

    def encode(self, binding: Binding) -> bytes:
        """Return the tensor map as bytes, encoded by the executor."""
        recipe, array = self.recipe, self.recipe.array
        if binding.encode_map is None:
            raise LaunchError(
                f"kernel {binding.kernel} needs a tensor map of {array.name}, but this executor cannot encode tensor maps"
            )
        start_elem = value_of(array.storage_offset, binding.numbers)
        address = binding.addresses[array.name] + start_elem * array.dtype.bytes
        if address % 16:
            raise LaunchError(
                f"kernel {binding.kernel}, argument {array.name}: for a tensor map the array's address must be a multiple of 16 bytes, got 0x{address:x}"
            )
        return binding.encode_map(
            TensorMapArgs(
                array.name,
                address,
                str(array.dtype),
                array.dtype.bits,
                tuple(value_of(size, binding.numbers) for size in recipe.sizes),
                tuple(value_of(stride, binding.numbers) for stride in recipe.strides_bytes),
                recipe.box,
                recipe.element_strides,
                recipe.swizzle,
                recipe.fill,
            )
        )


def computed_parameter(
    recipe: Recipe, name: str, arrays: Collection[str], scalars: Collection[Symbol]
) -> ComputedParameter:
    """Return the parameter for a recipe. Raise RequestError if it uses an array or scalar that is not given."""
    with LOCK:
        from tilecopy_partitions import HostBytes, TensorMap
    parameter: ComputedParameter
    read_arrays: tuple[Buffer, ...]
    if isinstance(recipe, TensorMap):
        parameter, read_arrays = TensorMapParameter(name, recipe), (recipe.array,)
        integers = (*recipe.sizes, *recipe.strides_bytes, recipe.array.storage_offset)
    elif isinstance(recipe, HostBytes):
        parameter, read_arrays, integers = BytesParameter(name, recipe), recipe.arrays, recipe.numbers
    else:
        raise RequestError(f"parameter {name}: recipe must be a TensorMap or HostBytes, got {short_repr(recipe)}")
    for array in read_arrays:
        if array.name not in arrays:
            raise RequestError(f"parameter {name}: {array.name} must be an array parameter of the kernel")
    for number in integers:
        if unknown := [symbol.name for symbol in symbols_of(number) if symbol not in scalars]:
            raise RequestError(f"parameter {name}: {number} must use only sizes and scalars, got {', '.join(unknown)}")
    return parameter
