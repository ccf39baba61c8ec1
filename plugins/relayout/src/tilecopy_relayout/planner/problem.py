"""The normal form of a relayout. It has only the properties that determine which bytes move where.

Dimensions of extent 1 are dropped. Dimensions that stay together are fused. The destination's strides are made positive.
Elements that always move together become one wider element. Two relayouts with the same :class:`Problem` have the same plan.
"""

from __future__ import annotations

from math import gcd, prod

import attrs
from tilecopy.overlap import StridedMemory

from tilecopy_core.plugin import frozen

DTYPES = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
"""Bytes of an element -> the dtype with which it is copied."""
WIDEST_BYTES = 16
"""The widest element that a thread moves with one instruction."""


@frozen
class RelayoutSpec:
    """A frozen record of a relayout as a copy between two strided arrays of the same shape. All extents are at least 1.

    ``src`` and ``dst`` are the strides of the source and of the destination, in elements.
    """

    extents: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]
    elem_bytes: int

    @property
    def dtype(self) -> str:
        """The dtype with which elements are copied."""
        return DTYPES[self.elem_bytes]

    @property
    def sides(self) -> tuple[StridedMemory, StridedMemory]:
        """The shape and strides of the source and of the destination in memory, as if each started at address 0."""
        size = self.elem_bytes
        source, result = (tuple(step * size for step in steps) for steps in (self.src, self.dst))
        return StridedMemory(0, self.extents, source, size), StridedMemory(0, self.extents, result, size)


@frozen(cache_hash=True)
class Problem(RelayoutSpec):
    """A frozen record of the normal form of a relayout.

    The dimensions are sorted by falling stride of the destination, which is at least 1. A single element has one of extent 1.

    Attributes:
        src_align: alignment of the first source element in bytes, up to 16.
        dst_align: alignment of the first destination element in bytes, up to 16.
        reversed: the dimensions along which the source is read backwards. Their ``src`` is positive here, and the
            first source element is the element with the lowest address.
    """

    src_align: int = WIDEST_BYTES
    dst_align: int = WIDEST_BYTES
    reversed: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.extents)

    @property
    def size_bytes(self) -> int:
        """The number of bytes written."""
        return self.size * self.elem_bytes

    @property
    def innermost(self) -> int:
        """The dimension with the smallest non-zero source stride, or the last dimension if all source strides are 0."""
        steps = [(step, -n) for n, step in enumerate(self.src) if step]
        return -min(steps)[1] if steps else len(self.src) - 1


def problem_of(
    spec: RelayoutSpec, src_align: int = WIDEST_BYTES, dst_align: int = WIDEST_BYTES
) -> tuple[Problem, tuple[int, int]]:
    """Return the normal form of a relayout, for first elements aligned to ``src_align`` and ``dst_align`` bytes.

    The second value has the offsets, in bytes, of the normal form's first source and destination element from the caller's.
    """
    src_start = dst_start = 0
    dims = []
    for extent, s, d in zip(spec.extents, spec.src, spec.dst, strict=True):
        if extent == 1:
            continue
        if d > 0:
            dims.append((extent, s, d))
        else:  # both sides from the other end
            src_start, dst_start = src_start + (extent - 1) * s, dst_start + (extent - 1) * d
            dims.append((extent, -s, -d))
    fused: list[tuple[int, int, int]] = []
    for extent, s, d in sorted(dims, key=lambda dim: (-dim[2], -abs(dim[1]))):
        stays_together = fused and fused[-1][1:] == (extent * s, extent * d)
        fused.append((fused.pop()[0] * extent if stays_together else extent, s, d))
    extents, src, dst = zip(*fused or [(1, 1, 1)], strict=True)
    backwards = frozenset(n for n, step in enumerate(src) if step < 0)
    src_start += sum((extents[n] - 1) * src[n] for n in backwards)
    src_bytes, dst_bytes = src_start * spec.elem_bytes, dst_start * spec.elem_bytes
    aligned = gcd(WIDEST_BYTES, src_align, src_bytes), gcd(WIDEST_BYTES, dst_align, dst_bytes)
    problem = Problem(extents, tuple(map(abs, src)), dst, spec.elem_bytes, *aligned, backwards)
    return _widen(problem), (src_bytes, dst_bytes)


def _widen(problem: Problem) -> Problem:
    """Return the elements that always move together as one, as far as 16 bytes."""
    *outer, extent = problem.extents
    (*outer_src, src), (*outer_dst, dst) = problem.src, problem.dst
    if src != 1 or dst != 1 or len(outer) in problem.reversed:
        return problem
    most = min(problem.src_align, problem.dst_align) // problem.elem_bytes
    group = gcd(most, extent, *outer_src, *outer_dst)
    if group <= 1:
        return problem
    rest = [] if extent == group and outer else [1]
    src_steps, dst_steps = [tuple([step // group for step in steps] + rest) for steps in (outer_src, outer_dst)]
    extents = tuple(outer + [extent // group for _ in rest])
    return attrs.evolve(problem, extents=extents, src=src_steps, dst=dst_steps, elem_bytes=problem.elem_bytes * group)
