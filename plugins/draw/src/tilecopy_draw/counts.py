"""Sectors of global memory and wavefronts of shared memory, request by request."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from tilecopy.costs import distinct_sectors

from .running import CopySide, Touched

SECTOR, BANKS, WORD = 32, 32, 4
"""Bytes of a sector, banks of shared memory, bytes of a bank's word."""


@attrs.frozen(eq=False)
class Phase:
    """The threads of a warp that shared memory serves together: 128 bytes' worth of them.

    Attributes:
        step, warp, number: the instruction, the warp, and which phase of theirs.
        threads: who.
        banks: of each thread the banks of its words, shape ``(threads, words)``.
        turns: when each word is served, from 1; words of one bank that differ are served one after another.
    """

    step: int
    warp: int
    number: int
    threads: Any
    banks: Any
    turns: Any

    @property
    def wavefronts(self) -> int:
        """How many turns there are."""
        return int(self.turns.max(initial=0))

    @property
    def pattern(self) -> tuple[Any, ...]:
        """What phases that are alike have in common: all but who, and which bank is the first."""
        turned = (self.banks - self.banks[0, 0]) % BANKS
        return tuple((self.threads - self.threads[0]).tolist()), turned.tobytes(), self.turns.tobytes()


def phases_of(touched: Touched) -> list[Phase]:
    """The phases of all requests, in order."""
    found = []
    for key in np.unique(touched.request).tolist():
        request = touched.only(touched.request == key)
        words = max(1, int(request.size[0]) // WORD)
        number = request.thread % 32 * words // 32
        for each in np.unique(number).tolist():
            part = request.only(number == each)
            order = np.argsort(part.thread, kind="stable")
            word = (part.offset[order] // WORD)[:, None] + np.arange(words)
            turns = np.zeros(word.shape, np.int64)
            for bank in np.unique(word % BANKS).tolist():
                here = word % BANKS == bank
                values = word[here]
                first = {value: turn for turn, value in enumerate(dict.fromkeys(values.tolist()), 1)}
                turns[here] = [first[value] for value in values.tolist()]
            found.append(Phase(key // 64, key % 64, each, part.thread[order], word % BANKS, turns))
    return found


def counts_of(side: CopySide) -> dict[str, int]:
    """Of a side in memory that threads access: ``requests``, ``sectors`` or ``wavefronts``, and the ``least`` that hold as many bytes."""
    touched = side.touched
    if side.space == "shared":
        phases = phases_of(touched)
        return {
            "requests": len(np.unique(touched.request)),
            "wavefronts": sum(phase.wavefronts for phase in phases),
            "least": len(phases),
        }
    some = touched.only(touched.read > 0)
    request, _, read = np.unique(np.stack([some.request, some.offset, some.read]), axis=1)
    filled = np.bincount(request, read)
    return {
        "requests": len(np.unique(request)),
        "sectors": distinct_sectors(some.request, some.offset, some.read),
        "least": int((-(-filled // SECTOR)).sum()),
    }
