"""A rearrangement of an array's dimensions: how dimensions are split, reordered and merged."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilecopy_core.plugin import frozen


@frozen
class Rearrangement:
    """A frozen record of how a source's dimensions are split, permuted and merged into a destination's dimensions.

    Attributes:
        split: for each dimension of the source, the extents that it splits into; () for a dimension that is removed.
        order: for each split dimension in the destination's order, its number among the source's split dimensions.
        merge: for each dimension of the destination, the number of split dimensions that it merges; 0 for a new one of extent 1.
    """

    split: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    merge: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the split dimensions, in the source's order."""
        return tuple(extent for group in self.split for extent in group)

    @property
    def merge_extents(self) -> tuple[tuple[int, ...], ...]:
        """For each dimension of the destination, the extents of the split dimensions that are merged into it."""
        extents = iter([self.extents[index] for index in self.order])
        return tuple(tuple(next(extents) for _ in range(count)) for count in self.merge)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the destination."""
        return tuple(prod(group) for group in self.merge_extents)

    def source_strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Return the split dimensions' source strides in source order, computed from the ``strides`` of the source."""
        return _split_strides(self.split, strides)

    def destination_strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Return the split dimensions' destination strides in source order, from the ``strides`` of the destination."""
        steps = dict(zip(self.order, _split_strides(self.merge_extents, strides), strict=True))
        return tuple(steps[index] for index in range(len(steps)))

    def pattern(self, batch: str = "") -> tuple[str, dict[str, int]]:
        """Return this rearrangement as a pattern with axis lengths. ``batch`` names an additional first dimension."""
        left, right, sizes = self._sides()
        return f"{batch} {left} -> {batch} {right}", sizes

    def inverse(self) -> tuple[str, dict[str, int]]:
        """Return the inverse rearrangement as a pattern with axis lengths."""
        left, right, sizes = self._sides()
        return f"{right} -> {left}", sizes

    def _sides(self) -> tuple[str, str, dict[str, int]]:
        names = [f"d{index}" for index in range(len(self.extents))]
        left = _side_text(names, [len(group) for group in self.split])
        right = _side_text([names[index] for index in self.order], self.merge)
        return left, right, dict(zip(names, self.extents, strict=True))


def _split_strides(groups: Sequence[tuple[int, ...]], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of split dimensions; the last part of a dimension has its stride."""
    return tuple(
        stride * prod(group[index + 1 :])
        for group, stride in zip(groups, strides, strict=True)
        for index in range(len(group))
    )


def _side_text(names: Sequence[str], counts: Sequence[int]) -> str:
    """Return the names as one side of a pattern."""
    rest = iter(names)
    groups = [[next(rest) for _ in range(count)] for count in counts]
    return " ".join(group[0] if len(group) == 1 else f"({' '.join(group)})" for group in groups)
