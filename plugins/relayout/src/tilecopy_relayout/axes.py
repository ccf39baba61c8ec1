"""Reads ``axes``, a permutation or a pattern such as ``"b (h p) w -> b h w p"``, and applies it to a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilecopy_core import RequestError
from tilecopy_core.plugin import short_repr

from .rearrangement import Rearrangement
from .validation import PERMUTATION, integers_of


def rearrangement(axes: Any, shape: Sequence[int], sizes: Mapping[str, Any] | None = None) -> Rearrangement:
    """Apply ``axes`` to an array's shape.

    Args:
        axes: a permutation (integers, negative ones count from the end, or text such as ``"0,2,1"``) or a pattern.
        shape: of the source.
        sizes: extents of names of the pattern.
    """
    numbers = _numbers(axes) if isinstance(axes, str) else None
    if numbers is None and isinstance(axes, str):
        from .patterns import parse  # torch.compile, which traces this, knows no locks

        return parse(axes).resolve(shape, sizes or {})
    if sizes:
        raise RequestError(
            f"{', '.join(map(repr, sizes))}: a permutation takes no axis lengths, got axes {short_repr(axes)}: omit them, or pass a pattern"
        )
    order = _permutation(axes, numbers, shape)
    return Rearrangement(tuple((extent,) for extent in shape), order, (1,) * len(shape))


def _permutation(axes: Any, numbers: list[int] | None, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the dimension of the array for each dimension of the result, from the numbers in text or a sequence of integers."""
    rank = len(shape)
    order = integers_of("axes", axes, PERMUTATION) if numbers is None else numbers
    positive = tuple(axis + rank if axis < 0 else axis for axis in order)
    if sorted(positive) != list(range(rank)):
        valid = f"0 to {rank - 1}; " if rank else ""
        raise RequestError(
            f"axes {short_repr(axes)} is not a permutation of {rank} dimensions ({valid}the array's shape is {tuple(shape)})"
        )
    return positive


def _numbers(text: str) -> list[int] | None:
    """Return the numbers in text such as ``"0,2,1"``, ``"0 2 1"`` or ``"(0, 2, 1)"``; None for other text, such as a pattern."""
    inside = text.strip()
    if inside[:1] + inside[-1:] in ("()", "[]"):
        inside = inside[1:-1].strip()
    parts = [part.strip() for part in inside.removesuffix(",").split(",")] if "," in inside else inside.split()
    if not all(part.removeprefix("-").isdecimal() for part in parts):
        return None
    return [int(part) if len(part) < 10 else -(10**10) for part in parts]  # too many digits for a dimension
