"""The partition of a copy within warps: a gather or a butterfly, whichever needs fewer shuffles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilecopy_core.plugin import CopyRequest, Decline, frozen
from tilecopy_partitions import Digit

from ..byte_runs import FragmentPermutation, holders, word_bytes
from ..in_thread.network import WORD_BYTES
from ..simulate import element_moves, simulate_butterfly, simulate_gather
from .butterfly import Butterfly, butterfly
from .gather import Gather, gather
from .lanes import lane_sources


@frozen
class LanePermutation(FragmentPermutation):
    """A frozen record of the exchanges between lanes. All warps make the same exchanges.

    Attributes:
        source_digits: how a thread's id says that it holds some of the source.
        form: how the words for the fields are made (two for a field of 64 bits).
    """

    source_digits: tuple[Digit, ...]
    form: Gather | Butterfly

    @property
    def shuffles(self) -> int:
        """The number of shuffles that each lane executes."""
        return self.form.shuffles

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        kind = "butterfly" if isinstance(self.form, Butterfly) else "gather"
        return f"{kind}: {self.form.summary()} {self.written}"

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[Any, Any]]:
        """Return a ``(destination, source)`` pair per written element, both as ``(thread, register element)``."""
        words = simulate_butterfly(self.form) if isinstance(self.form, Butterfly) else simulate_gather(self.form)
        if word_bytes(self.dst.buffer) != WORD_BYTES:
            words = [np.concatenate(words[n : n + 2], axis=1) for n in range(0, len(words), 2)]
        return element_moves(request, self.fields, words, self.digits)


def lane_permutation(request: CopyRequest) -> LanePermutation | Decline:
    """Return the words that lanes fetch from each other. Return Decline if an element must leave its warp."""
    sources = lane_sources(request)
    if isinstance(sources, Decline):
        return sources
    digits, source_digits = holders(request.dst), holders(request.src)
    if isinstance(digits, Decline):
        return digits
    if isinstance(source_digits, Decline):
        return source_digits
    exchanged = butterfly(sources)
    form = gather(sources, None if exchanged is None else exchanged.shuffles) or exchanged
    assert form is not None
    return LanePermutation(request.dst, request.src, request.scope.threads, digits, sources.fields, source_digits, form)
