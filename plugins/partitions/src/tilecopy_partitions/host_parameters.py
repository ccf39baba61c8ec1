"""Kernel parameters that each launch computes from the kernel's arguments, such as tensor maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from tilecopy_core.description import Target
from tilecopy_core.errors import PtxError, TargetError, frozen, short_repr
from tilecopy_core.integers import Int, key_of, symbols_of
from tilecopy_core.memory import Buffer
from tilecopy_core.ptx import Needs, PtxBuilder, Register, TensorPlace, pure_once

_SM_90, _SM_100 = Needs(90, (8, 0)), Needs(100, (8, 6))
SWIZZLES = dict.fromkeys(("none", "32B", "64B", "128B"), _SM_90) | dict.fromkeys(
    ("128B_atom_32B", "128B_atom_64B"), _SM_100
)
"""Swizzling mode of tensor copies (PTX ISA, swizzling modes) -> its requirements on a target."""
_WITH_NAN = ("float16", "bfloat16", "float32", "float64")


def _keys(values: tuple[Int, ...]) -> tuple[object, ...]:
    return tuple(map(key_of, values))


@frozen
class TensorMap:
    """A frozen record of a global array's tensor map (see cuTensorMapEncodeTiled in the CUDA driver API).

    The innermost dimension is first and contiguous. Integers may depend on sizes and scalars. Raises PtxError if an
    attribute is malformed or exceeds a limit of the hardware.

    Attributes:
        sizes: elements along each dimension, 1 to 5 of them.
        strides_bytes: bytes from one element to the next along each dimension but the innermost; multiples of 16.
        box: elements that a copy moves along each dimension, at most 256.
        swizzle: one of :data:`SWIZZLES`.
        fill: the value of elements out of bounds, ``zero`` or ``nan``.
        element_strides: the step between copied elements of each dimension, 1 to 8; () for 1.
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

    @property
    def parameter_stem(self) -> str:
        """The prefix of the parameter's name: the array's name and ``$map``. Names from callers have no ``$``."""
        return f"{self.array.name}$map"

    def needs_on(self, target: Target) -> Needs:
        """Return the target and PTX version that the swizzle needs. Raise TargetError if ``target`` does not support it."""
        needs = SWIZZLES[self.swizzle]
        if not needs.met_by(target):
            raise TargetError(
                f"the target must be {needs} for the swizzle {self.swizzle} of a tensor map of {self.array.name}, got {target}"
            )
        return needs

    def __attrs_post_init__(self) -> None:
        what, dtype, rank = f"TensorMap of {self.array.name}", self.array.dtype, len(self.sizes)
        for name, known in (("swizzle", SWIZZLES), ("fill", ("zero", "nan"))):
            if (value := getattr(self, name)) not in known:
                raise PtxError(f"{what}: {name} must be {' or '.join(known)}, got {short_repr(value)}")
        for name, most in (("box", 256), ("element_strides", 8)):
            if not all(1 <= value <= most for value in getattr(self, name)):
                raise PtxError(
                    f"{what}: {name} must have integers from 1 to {most}, got {short_repr(getattr(self, name))}"
                )
        if dtype.bits not in (8, 16, 32, 64):
            raise PtxError(f"{what}: elements must have 1, 2, 4 or 8 bytes, got {dtype}")
        if self.fill == "nan" and str(dtype) not in _WITH_NAN:
            raise PtxError(f"{what}: the dtype must be one of {', '.join(_WITH_NAN)} for fill nan, got {dtype}")
        if not 1 <= rank <= 5 or len(self.strides_bytes) != rank - 1 or len(self.box) != rank:
            raise PtxError(
                f"{what}: sizes, strides_bytes and box must have n, n - 1 and n values with n from 1 to 5, got sizes {short_repr(self.sizes)}, "
                f"strides_bytes {short_repr(self.strides_bytes)} and box {short_repr(self.box)}"
            )
        if self.element_strides and len(self.element_strides) != rank:
            raise PtxError(f"{what}: element_strides must have {rank} values, got {short_repr(self.element_strides)}")


def tensor_place(ptx: PtxBuilder, map: Register, coordinates: Sequence[Int], *, clamp: bool = False) -> TensorPlace:
    """Return the operand ``[map, {c0, c1, ..}]`` of a tensor copy. :meth:`.PtxBuilder.host_parameter` returns ``map``.

    The coordinates are those of the box's first element, innermost first; each must fit in 32 bits when the kernel runs.
    With ``clamp``, a larger coordinate is clamped to 32 bits, where no array has an element.
    """
    return TensorPlace(
        map, tuple(_word(ptx, value, "cvt.sat.s32.s64" if clamp else "cvt.u32.u64") for value in coordinates)
    )


def _word(ptx: PtxBuilder, value: Int, opcode: str) -> Register | int:
    if isinstance(value, int) or ptx.fits(value):
        return ptx.operand(value)
    block = ptx.home(symbols_of(value))
    return pure_once(ptx, block, (opcode, key_of(value)), opcode, "b32", ptx.value(value, 64))


@frozen
class HostBytes:
    """A frozen record of a kernel parameter whose bytes a Python function computes at each launch.

    Each launch calls ``make(addresses, numbers)`` with the addresses of ``arrays`` and the values of ``numbers``, which may depend
    on sizes, strides and scalars; it returns ``size_bytes`` bytes. It must be a function of a module, so that a saved kernel
    finds it by name. The parameter's address is a multiple of ``align_bytes``. Raises PtxError if an attribute is malformed.
    """

    make: Callable[[tuple[int, ...], tuple[int, ...]], bytes]
    arrays: tuple[Buffer, ...] = ()
    numbers: tuple[Int, ...] = attrs.field(default=(), eq=_keys)
    size_bytes: int = 8
    align_bytes: int = 8

    parameter_stem = "host$"

    def needs_on(self, target: Target) -> Needs:
        """Return the lowest target and PTX version, because every target supports the parameter."""
        return Needs()

    def __attrs_post_init__(self) -> None:
        if {"<", "."} & set(getattr(self.make, "__qualname__", "<")):  # a saved kernel names it
            raise PtxError(f"HostBytes: make must be a top-level function of a module, got {short_repr(self.make)}")
        if not 1 <= self.size_bytes <= 4096:
            raise PtxError(f"HostBytes: size_bytes must be from 1 to 4096, got {short_repr(self.size_bytes)}")
        if self.align_bytes not in (1, 2, 4, 8, 16, 32, 64, 128):
            raise PtxError(
                f"HostBytes: align_bytes must be a power of two up to 128, got {short_repr(self.align_bytes)}"
            )
