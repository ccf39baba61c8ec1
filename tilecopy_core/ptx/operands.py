"""What instructions work on: typed virtual registers, addresses, and accesses of one round."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import attrs

from ..errors import Kind, PtxError, instance_of, integer_in, one_of, shown, tuple_of
from ..errors.patterns import pattern
from ..errors.records import frozen

TYPE_BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
"""Register types and their width."""

STEM = {"pred": "p", "b16": "rs", "b32": "r", "b64": "rd", "f32": "f", "f64": "fd"}
"""Register types and what names of theirs have between mark and number."""

_TYPE = one_of(*TYPE_BITS)
_NAME = pattern(r"[A-Za-z_$%][A-Za-z0-9_$]*")
_ALIGN = integer_in(1, 2**62)
_IMMEDIATE = integer_in(-(2**31), 2**31 - 1)
_SPACES = ("global", "shared", "shared::cluster", "param")
_SPACE = one_of(*_SPACES)


@frozen(eq=False, repr=False)
class Register:
    """A virtual register of a type of :data:`TYPE_BITS`, ``bits`` wide, with the name that PTX has for it."""

    type: str
    name: str
    bits: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        _TYPE.check(self.type, "Register", "type", PtxError)
        if type(self.name) is not str or not _NAME.fullmatch(self.name):
            raise PtxError(f"Register: name is that of a PTX variable such as %r0, not {shown(self.name)}")
        object.__setattr__(self, "bits", TYPE_BITS[self.type])

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
        if self.space.__class__ is not str or self.space not in _SPACES:
            _SPACE.check(self.space, "Address", "space", PtxError)
        base, offset = self.base, self.offset_bytes
        if type(base) is not Register and (type(base) is not str or not base.isascii() or not base):
            raise PtxError(f"Address: base is a register or the name of a variable, not {shown(base)}")
        if type(offset) is not int or not -(2**31) <= offset < 2**31:
            raise PtxError(f"Address: offset_bytes, the immediate {shown(offset)} of an address, does not fit 32 bits")
        if type(self.align_bytes) is not int or self.align_bytes < 1:
            _ALIGN.check(self.align_bytes, "Address", "align_bytes", PtxError)

    def __repr__(self) -> str:
        base = self.base.name if type(self.base) is Register else self.base
        return f"[{base}+{self.offset_bytes}]" if self.offset_bytes else f"[{base}]"

    def __add__(self, offset_bytes: int) -> Address:
        if type(offset_bytes) is not int or not -(2**31) <= offset_bytes < 2**31:
            _IMMEDIATE.check(offset_bytes, f"{self} +", "offset_bytes", PtxError)
            offset_bytes = int(offset_bytes)  # it may be of another class
        return Address(self.space, self.base, self.offset_bytes + offset_bytes, gcd(self.align_bytes, offset_bytes))


@frozen(repr=False)
class TensorPlace:
    """``[map, {c0, c1, ..}]``: a box of a tensor map, by the coordinates of its first element, innermost first.

    The register ``map`` holds the generic address of the map. The coordinates, one a dimension and 1 to 5 of them, are
    registers of 32 bits or numbers.
    """

    map: Register
    coordinates: tuple[Register | int, ...]

    def __attrs_post_init__(self) -> None:
        if type(self.map) is not Register or self.map.bits != 64:
            raise PtxError(f"TensorPlace: map is a register of 64 bits, not {shown(self.map)}")
        fits = type(self.coordinates) is tuple and 1 <= len(self.coordinates) <= 5
        if not fits or not all(map(_is_coordinate, self.coordinates)):
            raise PtxError(
                f"TensorPlace: coordinates are 1 to 5 registers of 32 bits or numbers of as many, not {shown(self.coordinates)}"
            )

    def __repr__(self) -> str:
        return f"[{self.map}, {{{', '.join(map(str, self.coordinates))}}}]"


def _is_coordinate(value: object) -> bool:
    if isinstance(value, Register):
        return value.bits == 32
    return type(value) is int and -(2**31) <= value < 2**31


REGISTER, ADDRESS = instance_of("a Register", Register), instance_of("an Address", Address)
PREDICATE = Kind("a predicate register", lambda value: isinstance(value, Register) and value.type == "pred")
MASK = Kind("a predicate register, True or False", lambda value: isinstance(value, bool) or PREDICATE.fits(value))
MASKS = tuple_of(MASK)
_WORD = integer_in(0, 2**32 - 1)
_FILL = tuple_of(_WORD)
WORDS = Kind("32-bit words, at least one", lambda value: _WORD.fits(value) or (_FILL.fits(value) and value))


@frozen
class Access:
    """One access of a round: where, by which threads, and what stands for bytes that are not there.

    The predicate is true in the threads that access; None where all do. A thread without access loads the 32-bit word
    or words of ``fill`` instead (repeated); where that is None, its registers stay.
    """

    address: Address
    predicate: Register | None = None
    fill: int | tuple[int, ...] | None = None

    def __attrs_post_init__(self) -> None:
        if type(self.address) is not Address:
            raise PtxError(f"Access: address is an Address, not {shown(self.address)}")
        if self.predicate is not None and (type(self.predicate) is not Register or self.predicate.type != "pred"):
            raise PtxError(f"Access: predicate is a predicate register, or None, not {shown(self.predicate)}")
        if self.fill is not None:
            _FILL.check(self.fill if isinstance(self.fill, tuple) else (self.fill,), "Access", "fill", PtxError)


def masked(address: Address, mask: Register | bool, fill: tuple[int, ...] | None = None) -> Access | Address:
    """The access by the threads of a mask that is not False; True stands for all of them."""
    if mask is True and type(address) is Address:
        return address
    if type(mask) is not Register or mask.type != "pred" or type(address) is not Address:
        raise PtxError(
            f"masked: mask is True or a predicate register and address an Address, not {shown(mask)} and {shown(address)}"
        )
    return Access(address, mask, fill)
