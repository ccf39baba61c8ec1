"""Operands of instructions: typed virtual registers, addresses, and masked accesses."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TypeAlias

import attrs

from ..errors import PtxError, short_repr
from ..errors.attrs_classes import frozen

TYPE_BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
"""Register type -> its width in bits."""

STEM = {"pred": "p", "b16": "rs", "b32": "r", "b64": "rd", "f32": "f", "f64": "fd"}
"""Register type -> the part of a register's name between mark and number."""


@frozen(eq=False, repr=False)
class Register:
    """A frozen record of a virtual register: its type in :data:`TYPE_BITS`, its name in PTX, and its width ``bits``."""

    type: str
    name: str
    bits: int = attrs.field(init=False, default=attrs.Factory(lambda self: TYPE_BITS[self.type], takes_self=True))

    def __repr__(self) -> str:
        return self.name


@lru_cache(maxsize=1024)
def registers_of(type: str, mark: str, first: int, count: int) -> tuple[Register, ...]:
    """Return the registers of a type numbered from ``first``. Registers are cached, because kernels reuse names."""
    return tuple([Register(type, f"{mark}{STEM[type]}{number}") for number in range(first, first + count)])


class Written(str):
    """A text operand that contains no register names, such as a label."""

    __slots__ = ()


@frozen(eq=False)
class Vector:
    """A frozen record of a vector operand: several registers in order.

    ``text`` is the operand in PTX: registers in braces, a single register without. ``bits`` is their total width, or 0 unless
    all have 32 bits or all have 64. ``suffix`` ends the opcode of an access, such as ``.v4.b32``.
    """

    registers: tuple[Register, ...]
    text: str
    bits: int
    suffix: str

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=4096)
def vector_of(registers: tuple[Register, ...]) -> Vector:
    """Return a vector operand of the registers. The result is cached for later kernels."""
    widths, names = {register.bits for register in registers}, [register.name for register in registers]
    text = names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
    bits = len(names) * widths.pop() if widths in ({32}, {64}) else 0
    return Vector(registers, text, bits, f"{f'.v{len(names)}' * (len(names) > 1)}.{registers[0].type}" if bits else "")


def _text_of(address: Address) -> str:
    return f"[{address.base}+{address.offset_bytes}]" if address.offset_bytes else f"[{address.base}]"


@frozen(repr=False)
class Address:
    """A frozen record of an address ``[base + offset_bytes]`` in ``global``, ``shared``, ``shared::cluster`` or ``param``.

    The base is a register, or the name of a variable; the offset is the immediate. Their sum is proved to be a multiple of
    ``align_bytes``. ``text`` is the operand in PTX.
    """

    space: str
    base: Register | str
    offset_bytes: int = 0
    align_bytes: int = 1
    text: str = attrs.field(init=False, eq=False, default=attrs.Factory(_text_of, takes_self=True))

    def __attrs_post_init__(self) -> None:
        if not -(2**31) <= self.offset_bytes < 2**31:
            raise PtxError(f"Address: offset_bytes must fit in 32 bits, got {short_repr(self.offset_bytes)}")

    def __repr__(self) -> str:
        return self.text

    def __add__(self, offset_bytes: int) -> Address:
        align_bytes = gcd(self.align_bytes, offset_bytes)
        return _address_of(self.space, self.base, self.offset_bytes + offset_bytes, align_bytes)


_address_of = lru_cache(maxsize=4096)(Address)
"""Addresses are cached as their registers are."""


@frozen(repr=False)
class TensorPlace:
    """A frozen record of the operand ``[map, {c0, c1, ..}]``: a tensor map and coordinates, the innermost first.

    The register ``map`` holds the generic address of the map. The coordinates, one per dimension and 1 to 5 of them, are
    registers of 32 bits or numbers.
    """

    map: Register
    coordinates: tuple[Register | int, ...]

    def __repr__(self) -> str:
        return f"[{self.map}, {{{', '.join(map(str, self.coordinates))}}}]"


Operand: TypeAlias = Register | Address | TensorPlace | Vector | int | str
"""An operand of an instruction."""


@frozen
class Access:
    """A frozen record of a masked access: address, predicate, and fill value for threads whose predicate is false.

    Threads whose predicate is true access memory; None means all threads. In a load, the other threads get the repeated
    32-bit words of ``fill``; if it is None, their registers keep their values.
    """

    address: Address
    predicate: Register | None = None
    fill: int | tuple[int, ...] | None = None
