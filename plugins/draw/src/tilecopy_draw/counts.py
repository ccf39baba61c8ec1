"""Counts of memory requests, global memory sectors and shared memory wavefronts."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from tilecopy.costs import BANK_BYTES, BANKS, SECTOR_BYTES, distinct_sectors

from .trace import CopySide, requests_of


@attrs.frozen(eq=False)
class Phase:
    """A frozen record of a phase: threads of one warp whose accesses (up to 128 bytes) shared memory serves together.

    Attributes:
        step, warp, number: the numbers of the instruction, the warp and the phase.
        threads: the numbers of the threads.
        banks: the banks of the words of each thread, shape ``(threads, words)``.
        turns: the wavefront that serves each word, from 1; different words of one bank need different wavefronts.
    """

    step: int
    warp: int
    number: int
    threads: Any
    banks: Any
    turns: Any

    @property
    def wavefronts(self) -> int:
        """The number of wavefronts of the phase."""
        return int(self.turns.max(initial=0))

    @property
    def pattern(self) -> tuple[Any, ...]:
        """A key that is equal for phases that differ only in their threads and first bank."""
        turned = (self.banks - self.banks[0, 0]) % BANKS
        return tuple((self.threads - self.threads[0]).tolist()), turned.tobytes(), self.turns.tobytes()


def phases_of(touched: Any) -> list[Phase]:
    """Return the phases of all accesses, ordered by instruction, warp and phase."""
    phases = []
    touched = touched[np.lexsort((touched.thread, touched.phase, requests_of(touched)))]
    begins = (np.diff(requests_of(touched)) != 0) | (np.diff(touched.phase) != 0)
    parts: Any = np.split(touched, np.flatnonzero(begins) + 1) if len(touched) else ()
    for part in parts:
        word = part.byte[:, None] // BANK_BYTES + np.arange(max(1, int(part.bytes[0]) // BANK_BYTES))
        turns = np.zeros(word.shape, np.int64)
        for bank in np.unique(word % BANKS).tolist():
            here = word % BANKS == bank
            values = word[here].tolist()
            first = {value: turn for turn, value in enumerate(dict.fromkeys(values), 1)}
            turns[here] = [first[value] for value in values]
        phases.append(
            Phase(int(part.instruction[0]), int(part.warp[0]), int(part.phase[0]), part.thread, word % BANKS, turns)
        )
    return phases


def counts_of(side: CopySide) -> dict[str, int]:
    """Return a dict of ``requests``, ``wavefronts`` (shared) or ``sectors`` (global), and their minimum ``least``."""
    if side.space == "shared":
        phases = phases_of(side.accesses)
        number, least = {"wavefronts": sum(phase.wavefronts for phase in phases)}, len(phases)
        requests = requests_of(side.accesses)
    else:
        some = side.accesses[side.accesses.read > 0]
        requests = requests_of(some)
        request, _, read = np.unique(np.stack([requests, some.byte, some.read]), axis=1)
        number = {"sectors": distinct_sectors(requests, some.byte, some.read)}
        least = int((-(-np.bincount(request, read) // SECTOR_BYTES)).sum())
    return {"requests": len(np.unique(requests)), **number, "least": least}
