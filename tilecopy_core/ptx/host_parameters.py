"""Parameters whose bytes each launch computes from the kernel's arguments: recipes, as frozen data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from ..errors import Kind, PtxError, instance_of, integer_in, one_of, shown, tuple_of
from ..integers.expr import INT, Int, key_of
from ..memory.buffers import Buffer

_GLOBAL = Kind("a Buffer in global memory", lambda value: isinstance(value, Buffer) and value.space == "global")
_INTEGERS = tuple_of(INT)
_ALIGNMENT = Kind(
    "a power of two, at most 128", lambda value: integer_in(1, 128).fits(value) and value & (value - 1) == 0
)
_FUNCTION = Kind("a function of a module", lambda value: callable(value) and not {"<", "."} & set(value.__qualname__))
SWIZZLES = ("none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_64B")
"""Swizzling modes of tensor copies (PTX ISA, swizzling modes)."""
FILLS = ("zero", "nan")
_WITH_NAN = ("float16", "bfloat16", "float32", "float64")


def _keys(values: tuple[Int, ...]) -> tuple[object, ...]:
    return tuple(map(key_of, values))


@attrs.frozen
class TensorMap:
    """A tensor map (CUDA driver API, cuTensorMapEncodeTiled), which each executor encodes in its own way.

    Dimensions are given innermost first; the innermost is contiguous. Integers may be made of sizes and scalars.

    Attributes:
        array: the global array that it describes.
        sizes: elements along each dimension, 1 to 5 of them.
        strides_bytes: bytes from one element to the next along each dimension but the innermost; multiples of 16.
        box: elements that a copy moves along each dimension, at most 256.
        swizzle: one of :data:`SWIZZLES`.
        fill: what stands for elements outside, ``zero`` or ``nan``.
        element_strides: every so many elements of a dimension are copied, 1 to 8; () for all.

    Raises:
        PtxError: an attribute is malformed, or past what the hardware has.
    """

    array: Buffer
    sizes: tuple[Int, ...] = attrs.field(eq=_keys)
    strides_bytes: tuple[Int, ...] = attrs.field(eq=_keys)
    box: tuple[int, ...]
    swizzle: str = "none"
    fill: str = "zero"
    element_strides: tuple[int, ...] = ()

    size_bytes = 128
    align_bytes = 64

    def __attrs_post_init__(self) -> None:
        _GLOBAL.check(self.array, "TensorMap", "array", PtxError)
        for name, kind in (("sizes", _INTEGERS), ("strides_bytes", _INTEGERS), ("box", tuple_of(integer_in(1, 256)))):
            kind.check(getattr(self, name), "TensorMap", name, PtxError)
        one_of(*SWIZZLES).check(self.swizzle, "TensorMap", "swizzle", PtxError)
        one_of(*FILLS).check(self.fill, "TensorMap", "fill", PtxError)
        tuple_of(integer_in(1, 8)).check(self.element_strides, "TensorMap", "element_strides", PtxError)
        if self.array.dtype.bits not in (8, 16, 32, 64):
            raise PtxError(f"TensorMap of {self.array.name}: elements of 1, 2, 4 or 8 bytes, not {self.array.dtype}")
        if self.fill == "nan" and str(self.array.dtype) not in _WITH_NAN:
            raise PtxError(
                f"TensorMap of {self.array.name}: fill nan is for {', '.join(_WITH_NAN)}, not {self.array.dtype}"
            )
        rank = len(self.sizes)
        if not 1 <= rank <= 5 or len(self.strides_bytes) != rank - 1 or len(self.box) != rank:
            raise PtxError(
                f"TensorMap of {self.array.name}: 1 to 5 sizes, one less of strides_bytes and a box of as many; not "
                f"{shown(self.sizes)}, {shown(self.strides_bytes)} and {shown(self.box)}"
            )
        if self.element_strides and len(self.element_strides) != rank:
            raise PtxError(
                f"TensorMap of {self.array.name}: element_strides {shown(self.element_strides)} has not {rank}"
            )


@attrs.frozen
class HostBytes:
    """Bytes that a function makes of addresses and integers; every executor calls it alike.

    Attributes:
        make: a function of a module, so that a saved kernel finds it by its name: ``make(addresses, numbers)`` gives ``size_bytes`` bytes.
        arrays: whose addresses it is given, in order.
        numbers: integers made of sizes, strides and scalars, whose values it is given.
        size_bytes: how many bytes it gives.
        align_bytes: what the parameter's address is a multiple of.

    Raises:
        PtxError: an attribute is malformed.
    """

    make: Callable[[tuple[int, ...], tuple[int, ...]], bytes]
    arrays: tuple[Buffer, ...] = ()
    numbers: tuple[Int, ...] = attrs.field(default=(), eq=_keys)
    size_bytes: int = 8
    align_bytes: int = 8

    def __attrs_post_init__(self) -> None:
        tuple_of(_GLOBAL).check(self.arrays, "HostBytes", "arrays", PtxError)
        _INTEGERS.check(self.numbers, "HostBytes", "numbers", PtxError)
        integer_in(1, 4096).check(self.size_bytes, "HostBytes", "size_bytes", PtxError)
        _ALIGNMENT.check(self.align_bytes, "HostBytes", "align_bytes", PtxError)
        _FUNCTION.check(self.make, "HostBytes", "make", PtxError)


def declared(recipe: Recipe, name: str) -> tuple[str, str]:
    """Name and PTX type of the parameter of a recipe, as :func:`~tilecopy_core.ptx.module_text` takes them."""
    return f"{name}[{recipe.size_bytes}]", f"align {recipe.align_bytes} .b8"


Recipe: TypeAlias = TensorMap | HostBytes
"""How a launch makes the bytes of a parameter."""
RECIPE = instance_of("a TensorMap or HostBytes", TensorMap, HostBytes)
