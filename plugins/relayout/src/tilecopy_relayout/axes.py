"""The rearrangement that the parameter ``axes`` defines: a permutation, or a pattern such as ``"b (h p) w -> b h w p"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilecopy_core import RequestError
from tilecopy_core.plugin import short_repr
from tilecopy_core.registry import LOCK

from .rearrangement import Rearrangement
from .validation import PERMUTATION, integers_of


def rearrangement(axes: Any, shape: Sequence[int], sizes: Mapping[str, Any] | None = None) -> Rearrangement:
    """Return the rearrangement that ``axes`` defines for a shape. ``sizes`` has the lengths of a pattern's axes.

    A permutation is integers, of which negative ones count from the end, or text such as ``"0,2,1"``.
    """
    numbers = _numbers(axes) if isinstance(axes, str) else None
    if numbers is None and isinstance(axes, str):
        with LOCK:
            from .patterns import parse

        return parse(axes).resolve(shape, sizes or {})
    if sizes:
        raise RequestError(
            f"axes must be a pattern if axis lengths ({', '.join(map(repr, sizes))}) are passed, got {short_repr(axes)}: omit the axis lengths"
        )
    rank = len(shape)
    order = integers_of("axes", axes, PERMUTATION) if numbers is None else numbers
    positive = tuple(axis + rank if axis < 0 else axis for axis in order)
    if sorted(positive) != list(range(rank)):
        valid = f"0 to {rank - 1}; " if rank else ""
        raise RequestError(
            f"axes {short_repr(axes)} is not a permutation of {rank} dimensions ({valid}the array's shape is {tuple(shape)})"
        )
    return Rearrangement(tuple((extent,) for extent in shape), positive, (1,) * rank)


def _numbers(text: str) -> list[int] | None:
    """Return the numbers in text such as ``"0,2,1"``, ``"0 2 1"`` or ``"(0, 2, 1)"``; None for other text, such as a pattern."""
    inside = text.strip()
    if inside[:1] + inside[-1:] in ("()", "[]"):
        inside = inside[1:-1].strip()
    parts = [part.strip() for part in inside.removesuffix(",").split(",")] if "," in inside else inside.split()
    if not all(part.removeprefix("-").isdecimal() for part in parts):
        return None
    return [int(part) if len(part) < 10 else -(10**10) for part in parts]  # too many digits for a dimension
