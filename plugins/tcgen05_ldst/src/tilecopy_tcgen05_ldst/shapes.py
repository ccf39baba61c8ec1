"""The shapes of tcgen05.ld and st (PTX ISA 9.7.16.2.3), and the shape that each register fits."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tilecopy_core.plugin import frozen

LANES = 32
"""Lanes of a warp: of threads, and of the tensor memory that it reaches."""
Array: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_THREAD = np.arange(LANES)


@frozen
class Shape:
    """A frozen record of one shape of ``tcgen05.ld`` and ``st``.

    Attributes:
        name: as in the opcode.
        high: lanes of tensor memory.
        columns: of 32 bits, of x1.
        slots: of each register of x1 the column and the lane that it adds to what a thread has.
        most: the largest repeat: 128 registers.
    """

    name: str
    high: int
    columns: int
    slots: tuple[tuple[int, int], ...]

    @property
    def most(self) -> int:
        """The largest repeat count."""
        return 128 // len(self.slots)

    @property
    def lane(self) -> Array:
        """The lane of each thread's first register."""
        return {
            "32x32b": _THREAD,
            "16x64b": _THREAD // 4 + 8 * (_THREAD % 2),
            "16x32bx2": _THREAD % 16,
        }.get(self.name, _THREAD // 4)

    @property
    def column(self) -> Array:
        """The column of each thread's first register. For 16x32bx2 it excludes the distance between the halves."""
        return {"16x64b": _THREAD // 2 % 2, "16x128b": _THREAD % 4, "16x256b": 2 * (_THREAD % 4)}.get(
            self.name, 0 * _THREAD
        )


SHAPES = (
    Shape("32x32b", 32, 1, ((0, 0),)),
    Shape("16x64b", 16, 2, ((0, 0),)),
    Shape("16x128b", 16, 4, ((0, 0), (0, 8))),
    Shape("16x256b", 16, 8, ((0, 0), (1, 0), (0, 8), (1, 8))),
    Shape("16x32bx2", 16, 1, ((0, 0),)),
)


@frozen
class Fit:
    """A frozen record of the shape that one register fits, and of its place in the shape.

    Attributes:
        shape: of the instruction.
        half: 0, or 16 for the upper lanes of the warp's.
        split: columns from one half of the threads to the other (16x32bx2).
        lane: of the register's slot.
        column: of the register in the first thread.
    """

    shape: Shape
    half: int
    split: int
    lane: int
    column: int


def fits(lanes: Array, columns: Array, scale: int) -> list[Fit | None]:
    """Return the shape that each register fits, given its lane and column in each of 32 threads.

    Args:
        lanes: ``[thread, register]``, from the warp's first.
        columns: of 32 bits, likewise.
        scale: columns of one register: 2 where their lower halves make one.
    """
    fitting: list[Fit | None] = [None] * lanes.shape[1]
    first, apart = columns[0], columns[16] - columns[0]
    for shape in SHAPES:
        split = np.maximum(apart, 0) if shape.name == "16x32bx2" else 0 * apart
        expected = first + scale * shape.column[:, None] + np.where(_THREAD[:, None] < 16, 0, split)
        alike = (columns == expected).all(axis=0)
        if not alike.any():
            continue
        for half in range(0, LANES - shape.high + 1, 16):
            for lane in {lane for _, lane in shape.slots}:
                for register in np.flatnonzero(alike & (lanes == (shape.lane + half + lane)[:, None]).all(axis=0)):
                    fitting[register] = Fit(shape, half, int(split[register]), lane, int(first[register]))
    return fitting
