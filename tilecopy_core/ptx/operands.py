"""What instructions work on: typed virtual registers, addresses, and accesses of one round."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TypeAlias

import attrs

from ..errors import PtxError, short_repr
from ..errors.records import frozen

TYPE_BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
"""Register types and their width."""

STEM = {"pred": "p", "b16": "rs", "b32": "r", "b64": "rd", "f32": "f", "f64": "fd"}
"""Register types and what names of theirs have between mark and number."""


@frozen(eq=False, repr=False)
class Register:
    """A virtual register of a type of :data:`TYPE_BITS`, ``bits`` wide, with the name that PTX has for it."""

    type: str
    name: str
    bits: int = attrs.field(init=False, default=attrs.Factory(lambda self: TYPE_BITS[self.type], takes_self=True))

    def __repr__(self) -> str:
        return self.name


@lru_cache(maxsize=4096)
def register_of(type: str, stem: str, number: int) -> Register:
    """A register by the parts of its name: a copy has a hundred, which the next kernel has too."""
    return Register(type, f"{stem}{number}")


class Written(str):
    """An operand that is text of our own making, such as a label: it names no register."""

    __slots__ = ()


@frozen(eq=False)
class Vector:
    """The registers of an access, in order, as one operand.

    ``text`` is how the ISA writes them: in braces, one alone without. ``bits`` is what they hold together; 0 where not
    all have 32 bits, or 64.
    """

    registers: tuple[Register, ...]
    text: str
    bits: int

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=4096)
def vector_of(registers: tuple[Register, ...]) -> Vector:
    """Some registers as one operand; nearly always some of an earlier kernel's."""
    widths, names = {register.bits for register in registers}, [register.name for register in registers]
    text = names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
    return Vector(registers, text, len(names) * widths.pop() if widths in ({32}, {64}) else 0)


@frozen(repr=False)
class Address:
    """``[base + offset_bytes]`` in the state space ``global``, ``shared``, ``shared::cluster`` or ``param``.

    The base is a register, or the name of a variable; the offset is the immediate. ``align_bytes`` is what their sum is
    proved to be a multiple of.
    """

    space: str
    base: Register | str
    offset_bytes: int = 0
    align_bytes: int = 1

    def __attrs_post_init__(self) -> None:
        if not -(2**31) <= self.offset_bytes < 2**31:
            raise PtxError(f"offset_bytes of an Address must fit 32 bits, got {short_repr(self.offset_bytes)}")

    def __repr__(self) -> str:
        base = self.base.name if type(self.base) is Register else self.base
        return f"[{base}+{self.offset_bytes}]" if self.offset_bytes else f"[{base}]"

    def __add__(self, offset_bytes: int) -> Address:
        return Address(self.space, self.base, self.offset_bytes + offset_bytes, gcd(self.align_bytes, offset_bytes))


@frozen(repr=False)
class TensorPlace:
    """``[map, {c0, c1, ..}]``: a box of a tensor map, by the coordinates of its first element, innermost first.

    The register ``map`` holds the generic address of the map. The coordinates, one per dimension and 1 to 5 of them, are
    registers of 32 bits or numbers.
    """

    map: Register
    coordinates: tuple[Register | int, ...]

    def __attrs_post_init__(self) -> None:
        if self.map.bits != 64:
            raise PtxError(f"map of a TensorPlace must be a register of 64 bits, got {self.map} of {self.map.bits}")
        if not 1 <= len(self.coordinates) <= 5 or not all(map(_is_coordinate, self.coordinates)):
            raise PtxError(
                f"coordinates of a TensorPlace must be 1 to 5 registers or numbers of 32 bits, got {short_repr(self.coordinates)}"
            )

    def __repr__(self) -> str:
        return f"[{self.map}, {{{', '.join(map(str, self.coordinates))}}}]"


def _is_coordinate(value: object) -> bool:
    if isinstance(value, Register):
        return value.bits == 32
    return type(value) is int and -(2**31) <= value < 2**31


Operand: TypeAlias = Register | Address | TensorPlace | Vector | int | str
"""An operand of an instruction: what has registers, a number, or text."""


@frozen
class Access:
    """One access of a round: where, by which threads, and what stands for bytes that are not there.

    The predicate is true in the threads that access; None where all do. A thread without access loads the 32-bit word
    or words of ``fill`` instead (repeated); where that is None, its registers stay.
    """

    address: Address
    predicate: Register | None = None
    fill: int | tuple[int, ...] | None = None


def masked_access(address: Address, mask: Register | bool, fill: tuple[int, ...] | None = None) -> Access | Address:
    """The access by the threads of a mask that is not False; True stands for all of them."""
    return Access(address, mask, fill) if isinstance(mask, Register) else address
