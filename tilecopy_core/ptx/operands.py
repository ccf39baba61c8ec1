"""What instructions work on: typed virtual registers, addresses, and accesses of one round."""

from __future__ import annotations

import attrs

from ..errors import PtxError

TYPE_BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
"""Register types and their width."""

STEM = {"pred": "p", "b16": "rs", "b32": "r", "b64": "rd", "f32": "f", "f64": "fd"}
"""Register types and what names of theirs have between mark and number."""


@attrs.frozen(repr=False)
class Register:
    """A virtual register.

    Attributes:
        type: a key of :data:`TYPE_BITS`.
        number: counted for each type.
        mark: what the name begins with.
    """

    type: str
    number: int
    mark: str = "%"

    @property
    def bits(self) -> int:
        """Width."""
        return TYPE_BITS[self.type]

    def __str__(self) -> str:
        return f"{self.mark}{STEM[self.type]}{self.number}"

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
        align = self.align_bytes
        while align > 1 and offset_bytes % align:
            align //= 2
        return Address(self.space, self.base, self.offset_bytes + offset_bytes, align)


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


def access_of(place: Access | Address) -> Access:
    """An address as an access by all threads."""
    return place if isinstance(place, Access) else Access(place)
