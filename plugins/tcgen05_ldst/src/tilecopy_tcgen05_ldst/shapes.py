"""The shapes of tcgen05.ld and st (PTX ISA 9.7.16.2.3), and a function that finds the shape for each register."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
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
        lane: of each thread's first register.
        column: of each thread's first register; for 16x32bx2 without the distance between the halves.
    """

    name: str
    high: int
    columns: int
    slots: tuple[tuple[int, int], ...]
    lane: Array = attrs.field(eq=False)
    column: Array = attrs.field(eq=False)

    @property
    def most(self) -> int:
        """The largest repeat count. It uses 128 registers per thread."""
        return 128 // len(self.slots)


SHAPES = (
    Shape("32x32b", 32, 1, ((0, 0),), _THREAD, 0 * _THREAD),
    Shape("16x64b", 16, 2, ((0, 0),), _THREAD // 4 + 8 * (_THREAD % 2), _THREAD // 2 % 2),
    Shape("16x128b", 16, 4, ((0, 0), (0, 8)), _THREAD // 4, _THREAD % 4),
    Shape("16x256b", 16, 8, ((0, 0), (1, 0), (0, 8), (1, 8)), _THREAD // 4, 2 * (_THREAD % 4)),
    Shape("16x32bx2", 16, 1, ((0, 0),), _THREAD % 16, 0 * _THREAD),
)


@frozen
class Fit:
    """A frozen record of the shape that one register fits, and of the register's lane and column in the shape.

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

    Lanes and columns are arrays ``[thread, register]``. A register has ``scale`` columns: 2 where their lower halves make one.
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
