"""Parameters whose bytes each launch computes from the kernel's arguments: recipes, as frozen data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from ..errors import Kind, PtxError, instance_of, integer_in, one_of, shown, tuple_of
from ..errors.records import frozen
from ..integers.expr import INT, Int, key_of
from ..memory.buffers import Buffer
from .instructions import Needs

_GLOBAL = Kind("a Buffer in global memory", lambda value: isinstance(value, Buffer) and value.space == "global")
_INTEGERS = tuple_of(INT)
_ALIGN = Kind("a power of two, at most 128", lambda value: integer_in(1, 128).fits(value) and value.bit_count() == 1)
_FUNCTION = Kind("a function of a module", lambda value: callable(value) and not {"<", "."} & set(value.__qualname__))
_SM_90, _SM_100 = Needs(90, (8, 0)), Needs(100, (8, 6))
SWIZZLES = dict.fromkeys(("none", "32B", "64B", "128B"), _SM_90) | dict.fromkeys(
    ("128B_atom_32B", "128B_atom_64B"), _SM_100
)
"""Swizzling modes of tensor copies (PTX ISA, swizzling modes), with what each needs of a target."""
_WITH_NAN = ("float16", "bfloat16", "float32", "float64")


def _keys(values: tuple[Int, ...]) -> tuple[object, ...]:
    return tuple(map(key_of, values))


def _is(kind: Kind) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """A validator of attrs that raises PtxError."""

    def check(record: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        kind.check(value, type(record).__name__, attribute.name, PtxError)

    return check


@frozen
class TensorMap:
    """A tensor map of a global array (CUDA driver API, cuTensorMapEncodeTiled), which each executor encodes in its own way.

    Dimensions are given innermost first; the innermost is contiguous. Integers may be made of sizes and scalars. Raises
    PtxError where an attribute is malformed, or past what the hardware has.

    Attributes:
        sizes: elements along each dimension, 1 to 5 of them.
        strides_bytes: bytes from one element to the next along each dimension but the innermost; multiples of 16.
        box: elements that a copy moves along each dimension, at most 256.
        swizzle: one of :data:`SWIZZLES`.
        fill: what stands for elements outside, ``zero`` or ``nan``.
        element_strides: every so many elements of a dimension are copied, 1 to 8; () for all.
    """

    array: Buffer = attrs.field(validator=_is(_GLOBAL))
    sizes: tuple[Int, ...] = attrs.field(eq=_keys, validator=_is(_INTEGERS))
    strides_bytes: tuple[Int, ...] = attrs.field(eq=_keys, validator=_is(_INTEGERS))
    box: tuple[int, ...] = attrs.field(validator=_is(tuple_of(integer_in(1, 256))))
    swizzle: str = attrs.field(default="none", validator=_is(one_of(*SWIZZLES)))
    fill: str = attrs.field(default="zero", validator=_is(one_of("zero", "nan")))
    element_strides: tuple[int, ...] = attrs.field(default=(), validator=_is(tuple_of(integer_in(1, 8))))

    size_bytes = 128
    align_bytes = 64

    @property
    def needs(self) -> Needs:
        """What its swizzle needs of a target."""
        return SWIZZLES[self.swizzle]

    def __attrs_post_init__(self) -> None:
        what, dtype, rank = f"TensorMap of {self.array.name}", self.array.dtype, len(self.sizes)
        if dtype.bits not in (8, 16, 32, 64):
            raise PtxError(f"{what}: elements of 1, 2, 4 or 8 bytes, not {dtype}")
        if self.fill == "nan" and str(dtype) not in _WITH_NAN:
            raise PtxError(f"{what}: fill nan is for {', '.join(_WITH_NAN)}, not {dtype}")
        if not 1 <= rank <= 5 or len(self.strides_bytes) != rank - 1 or len(self.box) != rank:
            raise PtxError(
                f"{what}: 1 to 5 sizes, one less of strides_bytes and a box of as many; not {shown(self.sizes)}, "
                f"{shown(self.strides_bytes)} and {shown(self.box)}"
            )
        if self.element_strides and len(self.element_strides) != rank:
            raise PtxError(f"{what}: element_strides {shown(self.element_strides)} has not {rank}")


@frozen
class HostBytes:
    """Bytes that a function makes of addresses and integers; every executor calls it alike.

    ``make(addresses, numbers)`` is given the addresses of ``arrays`` and the values of ``numbers``, which are made of sizes,
    strides and scalars, and gives ``size_bytes`` bytes. It is a function of a module, so that a saved kernel finds it by its
    name. ``align_bytes`` is what the parameter's address is a multiple of. Raises PtxError where an attribute is malformed.
    """

    make: Callable[[tuple[int, ...], tuple[int, ...]], bytes] = attrs.field(validator=_is(_FUNCTION))
    arrays: tuple[Buffer, ...] = attrs.field(default=(), validator=_is(tuple_of(_GLOBAL)))
    numbers: tuple[Int, ...] = attrs.field(default=(), eq=_keys, validator=_is(_INTEGERS))
    size_bytes: int = attrs.field(default=8, validator=_is(integer_in(1, 4096)))
    align_bytes: int = attrs.field(default=8, validator=_is(_ALIGN))


Recipe: TypeAlias = TensorMap | HostBytes
"""How a launch makes the bytes of a parameter."""
RECIPE = instance_of("a TensorMap or HostBytes", TensorMap, HostBytes)
