"""What instructions work on: typed virtual registers, addresses, and accesses of one round."""

from __future__ import annotations

from math import gcd

import attrs

from ..errors import PtxError

TYPE_BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
"""Register types and their width."""

PREFIX = {"pred": "%p", "b16": "%rs", "b32": "%r", "b64": "%rd", "f32": "%f", "f64": "%fd"}


@attrs.frozen(eq=False, repr=False)
class Register:
    """A virtual register: one object for each."""

    type: str
    name: str

    @property
    def bits(self) -> int:
        """Width."""
        return TYPE_BITS[self.type]

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


@attrs.frozen(repr=False)
class Address:
    """``[base + offset_bytes]`` in a state space.

    Attributes:
        space: ``global``, ``shared``, ``shared::cluster`` or ``param``.
        base: a register, or the name of a variable.
        offset_bytes: the immediate.
        align_bytes: what ``base + offset_bytes`` is proved to be a multiple of.
    """

    space: str
    base: Register | str
    offset_bytes: int = 0
    align_bytes: int = 1

    def __attrs_post_init__(self) -> None:
        if not -(2**31) <= self.offset_bytes < 2**31:
            raise PtxError(f"the immediate {self.offset_bytes} of an address does not fit 32 bits")

    def __str__(self) -> str:
        return f"[{self.base}+{self.offset_bytes}]" if self.offset_bytes else f"[{self.base}]"

    def __add__(self, offset_bytes: int) -> Address:
        align_bytes = gcd(self.align_bytes, offset_bytes)
        return Address(self.space, self.base, self.offset_bytes + offset_bytes, align_bytes)


@attrs.frozen
class Access:
    """One access of a round: where, by which threads, and what stands for bytes that are not there.

    Attributes:
        address: where.
        predicate: true in the threads that access; None where all do.
        fill: 32-bit word or words that a thread without access loads instead (repeated), or None: its registers stay.
    """

    address: Address
    predicate: Register | None = None
    fill: int | tuple[int, ...] | None = None


def masked(address: Address, mask: Register | bool, fill: tuple[int, ...] | None = None) -> Access | Address:
    """The access by the threads of a mask that is not False; True stands for all of them."""
    return Access(address, mask, fill) if isinstance(mask, Register) else address


def parts_of(place: Access | Address) -> tuple[Address, Register | None, int | tuple[int, ...] | None]:
    """Address, predicate and fill of an access; an address is one by all threads."""
    return (place.address, place.predicate, place.fill) if isinstance(place, Access) else (place, None, None)
