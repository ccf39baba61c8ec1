"""A relayout for the planner: words of 1 to 16 bytes to move, whatever the element type."""

from __future__ import annotations

from math import gcd

from tilecopy_core.plugin import frozen

from ..arrays.array import SideArray
from ..planner.problem import DTYPES
from ..rearrangement import Rearrangement


@frozen
class WordCopy:
    """The source and destination of a relayout, in words.

    Attributes:
        shape: of the source, split, without dimensions of extent 1.
        axes: for each dimension of the destination, the number of the source's dimension.
        strides: of the source, in words.
        out_strides: of the destination, in its own order, in words.
        word_bytes: a power of two up to 16.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    strides: tuple[int, ...]
    out_strides: tuple[int, ...]
    word_bytes: int

    @property
    def dtype(self) -> str:
        """The dtype of a word."""
        return DTYPES[self.word_bytes]

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of the destination."""
        return tuple(self.shape[axis] for axis in self.axes)

    @property
    def strides_bytes(self) -> tuple[int, ...]:
        """The strides of the source, in bytes."""
        return tuple(stride * self.word_bytes for stride in self.strides)

    @property
    def out_strides_bytes(self) -> tuple[int, ...]:
        """The strides of the destination, in bytes."""
        return tuple(stride * self.word_bytes for stride in self.out_strides)


def word_copy_of(source: SideArray, moved: Rearrangement, out: SideArray) -> WordCopy:
    """Return the words that a relayout of an array into another moves.

    A word is as wide as the element's size, all strides and both addresses allow. An element of several words (12
    bytes, or a misaligned element) adds a dimension, the innermost on both sides.
    """
    extents = moved.extents
    kept = [index for index, extent in enumerate(extents) if extent != 1]
    steps = moved.source_strides(source.strides_bytes)
    by_source = dict(zip(moved.order, moved.destination_strides(out.strides_bytes), strict=True))
    order = [index for index in moved.order if extents[index] != 1]
    word = gcd(
        16,
        source.itemsize,
        source.pointer,
        out.pointer,
        *(steps[index] for index in kept),
        *(by_source[index] for index in kept),
    )
    shape = [extents[index] for index in kept]
    axes = [kept.index(index) for index in order]
    strides = [steps[index] // word for index in kept]
    out_strides = [by_source[index] // word for index in order]
    if source.itemsize > word or not shape:  # also where there is nothing but one element
        axes.append(len(shape))
        shape.append(source.itemsize // word)
        strides.append(1)
        out_strides.append(1)
    return WordCopy(tuple(shape), tuple(axes), tuple(strides), tuple(out_strides), word)
