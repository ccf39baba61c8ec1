"""Swizzles: permutations of element addresses by XOR, applied after a tile layout."""

from __future__ import annotations

from typing import Any

import attrs

from ..errors import LayoutError, did_you_mean, short_repr
from ..errors.attrs_classes import frozen
from ..errors.lazy_numpy import np
from ..integers.expr import Int, Term, add, is_int_like, plain, possible_bits, sum_of, xor
from .dtypes import dtype_of

MODES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
"""Swizzle mode -> bits that are exchanged (PTX ISA 9.7.16.5.2, "Swizzling modes")."""


@frozen
class Swizzle:
    """A permutation of element addresses that XORs ``swizzle_len`` bits of an address with higher bits of the address.

    The formula is ``a -> a ^ (bits [M+S, M+S+B) of a, moved to [M, M+B))``, with ``S >= B``.

    Attributes:
        per_element: M, log2 of the number of elements that stay contiguous (the longest vector).
        swizzle_len: B, the number of bits that are changed; 0 changes nothing.
        atom_len: S, the distance from the changed bits up to the bits that are XOR-ed into them.
    """

    per_element: int = attrs.field(converter=plain)
    swizzle_len: int = attrs.field(converter=plain)
    atom_len: int = attrs.field(converter=plain)

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self, recurse=False).items():
            if type(value) is not int or not 0 <= value <= 32:
                raise LayoutError(f"Swizzle: {name} must be an integer from 0 to 32, got {short_repr(value)}")
        if self.atom_len < self.swizzle_len:
            raise LayoutError(
                f"Swizzle: atom_len must be at least swizzle_len {self.swizzle_len}, got {self.atom_len}: the XOR would read bits "
                "that it writes"
            )

    @property
    def chunk_elems(self) -> int:
        """The number of elements that stay contiguous: ``2**per_element``."""
        return 1 << self.per_element

    @property
    def block_elems(self) -> int:
        """The number of elements in a block that the swizzle permutes: ``2**(per_element + swizzle_len)``."""
        return 1 << self.per_element + self.swizzle_len

    @property
    def period_elems(self) -> int:
        """The number of elements after which the pattern of the swizzle repeats."""
        return 1 << self.per_element + self.atom_len + self.swizzle_len

    def apply(self, address: Any) -> Any:
        """Return the swizzled element address for an int, an array of ints or a symbolic integer."""
        is_array = isinstance(address, (np.ndarray, np.integer)) and address.dtype.kind in "iu"
        if not is_array and not is_int_like(address):
            raise LayoutError(
                f"an address must be an integer, a symbolic integer or an array of integers, got {short_repr(address)}"
            )
        if self.swizzle_len == 0:
            return address
        chosen = address // (1 << self.per_element + self.atom_len) % (1 << self.swizzle_len)
        return address ^ (chosen * self.chunk_elems)


def swizzle(mode: str, dtype: Any) -> Swizzle:
    """Return the swizzle for a mode (``"none"``, ``"32B"``, ``"64B"``, ``"128B"``) and a dtype.

    ``M = log2(128 / bits)``, ``B = 1, 2, 3``, ``S = 3``: 16 bytes stay together, 8 rows repeat. Raises
    :class:`LayoutError` for an unknown mode, or elements that do not divide 128 bits.
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise LayoutError(
            f"swizzle mode {short_repr(mode)} is unknown; the modes are {', '.join(MODES)}{did_you_mean(mode, MODES)}"
        )
    bits = dtype_of(dtype).bits
    if 128 % bits:
        raise LayoutError(
            f"the width of an element must divide 128 bits for a {mode} swizzle, got {bits} bits for {dtype}"
        )
    return Swizzle((128 // bits).bit_length() - 1, MODES[mode], 3)


class SwizzledTerms:
    """The variable part of swizzled element offsets. Offsets that differ only in a constant share most instructions.

    The swizzle does not change multiples of its period. A constant that has no bit in common with the variable terms is
    XOR-ed rather than added. The XOR is linear: ``swz(x ^ c) == swz(x) ^ swz(c)``. So rounds whose constants differ only
    above the swizzled bits share one register and have different immediates.
    """

    def __init__(self, terms: tuple[Term, ...], swizzle: Swizzle) -> None:
        self._swizzle = swizzle
        self._period = period = swizzle.period_elems
        self._outside = sum_of(0, ((a, c) for a, c in terms if a.divisor * c % period == 0))
        self._inside = sum_of(0, ((a, c) for a, c in terms if a.divisor * c % period))
        self._bits = possible_bits(self._inside)
        self._pattern: Int = swizzle.apply(self._inside)
        self._reach = possible_bits(self._pattern)
        self._mixed: dict[int, Int] = {}

    def plus(self, const: int) -> Int:
        """Add a constant to the terms and return the swizzled offset of the sum."""
        low = const % self._period
        if self._bits is None or self._bits & low:
            varying = self._swizzle.apply(add(self._inside, low))
            return add(add(varying, self._outside), const - low)
        constant = int(self._swizzle.apply(low))
        movable = constant if self._reach is None else constant & self._reach
        mixed = self._mixed.get(movable)
        if mixed is None:
            mixed = self._mixed[movable] = add(xor(self._pattern, movable), self._outside)
        return add(mixed, const - low + constant - movable)
