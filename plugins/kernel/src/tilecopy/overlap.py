"""An exact test of whether strided arrays share bytes, so that ``a[::2]`` may be written from ``a[1::2]``.

Two elements overlap if a sum of strides times bounded integers has a given value. Ranges of bytes decide most cases.
The other cases are a search over the dimensions, bounded by the remaining distance and by the greatest common divisor of
the remaining strides (as in NumPy's ``shares_memory``). If a search takes too long, the answer is "may overlap".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tilecopy_core.plugin import frozen

__all__ = ["StridedMemory", "overlaps", "overlaps_itself"]

_MOST_STEPS = 100_000
"""The most steps of a search, which take a few hundredths of a second. Usual arrays take some dozens."""


@frozen
class StridedMemory:
    """A frozen record of the memory of a strided array.

    Attributes:
        start: the address of element [0, ..., 0].
        shape: the extents.
        strides_bytes: the stride of each dimension in bytes, of any sign.
        itemsize: the bytes of an element.
    """

    start: int
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    itemsize: int

    @property
    def steps(self) -> list[tuple[int, int]]:
        """The pairs ``(extent, stride in bytes)`` of the dimensions with more than one element."""
        return [(e, s) for e, s in zip(self.shape, self.strides_bytes, strict=True) if e > 1]

    @property
    def byte_bounds(self) -> tuple[int, int]:
        """The addresses of the array's first byte and of the byte after its last byte. They are equal if the array is empty."""
        if 0 in self.shape or not self.itemsize:
            return self.start, self.start
        reach = [(e - 1) * s for e, s in self.steps]
        low = self.start + sum(r for r in reach if r < 0)
        return low, self.start + sum(r for r in reach if r > 0) + self.itemsize


def overlaps(one: StridedMemory, other: StridedMemory) -> bool:
    """Return True if two arrays have a byte in common, or if the search takes too long."""
    (low, high), (other_low, other_high) = one.byte_bounds, other.byte_bounds
    if low == high or other_low == other_high or high <= other_low or other_high <= low:
        return False
    # one.start + sum(x * s) + i == other.start + sum(y * t) + j for bytes i, j of an element
    terms = [(s, 0, e - 1) for e, s in one.steps] + [(-s, 0, e - 1) for e, s in other.steps]
    terms += [(1, 0, one.itemsize - 1), (-1, 0, other.itemsize - 1)]
    return _solvable(terms, other.start - one.start)


def overlaps_itself(array: StridedMemory) -> bool:
    """Return True if two elements of an array have a byte in common, or if the search takes too long."""
    if 0 in array.shape:
        return False
    steps = sorted(array.steps, key=lambda step: -abs(step[1]))
    reach = array.itemsize  # bytes that the dimensions below cover
    for extent, stride in reversed(steps):
        if abs(stride) < reach:
            break
        reach += (extent - 1) * abs(stride)
    else:
        return False
    within = (1, 1 - array.itemsize, array.itemsize - 1)
    for index, (extent, stride) in enumerate(steps):  # the first dimension in which the two elements differ
        below = [(s, 1 - e, e - 1) for e, s in steps[index + 1 :]]
        if _solvable([(stride, 1, extent - 1), *below, within], 0):
            return True
    return False


def _solvable(terms: Sequence[tuple[int, int, int]], value: int) -> bool:
    """Return True if integers x with ``low <= x <= high`` solve ``sum(a * x) == value``, for terms ``(a, low, high)``."""
    ranges: dict[int, int] = {}
    for a, low, high in terms:  # make every a positive and every low 0, and merge equal strides
        value -= a * (low if a > 0 else high)
        if a and high > low:
            ranges[abs(a)] = ranges.get(abs(a), 0) + high - low
    steps = sorted(ranges.items(), reverse=True)
    divisors, reaches = [0], [0]
    for a, most in reversed(steps):
        divisors.append(gcd(divisors[-1], a))
        reaches.append(reaches[-1] + a * most)
    divisors.reverse()
    reaches.reverse()
    steps_left = _MOST_STEPS

    def search(index: int, rest: int) -> bool:
        nonlocal steps_left
        if not 0 <= rest <= reaches[index] or (rest % divisors[index] if divisors[index] else rest):
            return False
        if index == len(steps):
            return True
        a, most = steps[index]
        least, most = max(0, -(-(rest - reaches[index + 1]) // a)), min(most, rest // a)
        below = divisors[index + 1]
        period = below // gcd(a, below) if below else 1
        if period > 1:  # the rest after a * x must be a multiple of the gcd of the strides below
            unit = below // period
            wanted = rest // unit * pow(a // unit, -1, period) % period
            least += (wanted - least) % period
        for x in range(least, most + 1, period):
            steps_left -= 1
            if steps_left < 0 or search(index + 1, rest - a * x):
                return True
        return False

    return search(0, value)
