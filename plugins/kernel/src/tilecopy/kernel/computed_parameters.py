"""The parameters that a launch computes from array addresses and integers: tensor maps and other bytes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import attrs

from tilecopy_core.errors import RequestError, frozen, short_repr
from tilecopy_core.integers import Int, Symbol, key_of, symbols_of
from tilecopy_core.memory import Buffer
from tilecopy_core.ptx import Recipe
from tilecopy_partitions import HostBytes, TensorMap

from ..errors import LaunchError
from .parameters import Binding, Parameter, value_of
from .tensor_map_args import TensorMapArgs


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
