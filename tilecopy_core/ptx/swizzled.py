"""Element offsets under a swizzle."""

from __future__ import annotations

from ..integers.expr import Int, Term, add, possible_bits, sum_of, xor
from ..layout import Swizzle


class SwizzledTerms:
    """The varying part of an element offset under a swizzle, taken apart so that little is computed again in each round.

    Multiples of the swizzle's period pass it unchanged. A constant that has no bit in common with the varying part
    is XOR-ed in rather than added, and the XOR is linear: ``swz(x ^ c) == swz(x) ^ swz(c)``, so that rounds whose
    constants differ above the swizzled bits share one register and differ in the immediate alone.
    """

    def __init__(self, terms: tuple[Term, ...], swizzle: Swizzle) -> None:
        period = swizzle.period_elems
        self._swizzle = swizzle
        self._outside = sum_of(0, ((a, c) for a, c in terms if a.divisor * c % period == 0))
        self._inside = sum_of(0, ((a, c) for a, c in terms if a.divisor * c % period))
        self._bits = possible_bits(self._inside)
        self._pattern: Int = swizzle.apply(self._inside)
        self._reach = possible_bits(self._pattern)
        self._period = period
        self._mixed: dict[int, Int] = {}

    def plus(self, const: int) -> Int:
        """The swizzled offset of the terms and a constant."""
        low = const % self._period
        if self._bits is None or self._bits & low:
            varying = self._swizzle.apply(add(self._inside, low))
            return add(add(varying, self._outside), const - low)
        constant = int(self._swizzle.apply(low))
        movable = constant if self._reach is None else constant & self._reach
        mixed = self._mixed.get(movable)
        if mixed is None:
            pattern = xor(self._pattern, movable) if movable else self._pattern
            mixed = self._mixed[movable] = add(pattern, self._outside)
        return add(mixed, const - low + constant - movable)
