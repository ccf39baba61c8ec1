"""Sectors of global memory and wavefronts of shared memory, request by request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from .running import Touched

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


def requests_of(touched: Touched) -> Iterator[tuple[int, int, Touched]]:
    """Instruction, warp and rows of each request."""
    keys = touched.step * 64 + touched.thread // 32
    for key in np.unique(keys).tolist():
        yield key // 64, key % 64, touched.only(keys == key)


def sectors_of(touched: Touched) -> tuple[int, int, int]:
    """Requests, their sectors of 32 bytes, and the fewest that hold as many bytes."""
    requests = sectors = least = 0
    for _, _, request in requests_of(touched):
        some = request.only(request.read > 0)
        if len(some):
            reached = np.concatenate([some.offset // SECTOR, (some.offset + some.read - 1) // SECTOR])
            requests, sectors = requests + 1, sectors + len(np.unique(reached))
            pieces = np.unique(np.stack([some.offset, some.read]), axis=1)
            least += -(-int(pieces[1].sum()) // SECTOR)
    return requests, sectors, least


def phases_of(touched: Touched) -> list[Phase]:
    """The phases of all requests, in order."""
    found = []
    for step, warp, request in requests_of(touched):
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
            found.append(Phase(step, warp, each, part.thread[order], word % BANKS, turns))
    return found


def wavefronts_of(touched: Touched) -> tuple[int, int, int]:
    """Requests, their wavefronts, and the fewest: one a phase."""
    phases = phases_of(touched)
    requests = len({(phase.step, phase.warp) for phase in phases})
    return requests, sum(phase.wavefronts for phase in phases), len(phases)
