"""The partition of a copy within warps, in the form with the fewest shuffles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilecopy_core.plugin import CopyRequest, Decline, Region, frozen
from tilecopy_partitions import Digit

from ..byte_runs import Field, holders, word_bytes
from ..in_thread.network import WORD_BYTES
from ..simulate import element_moves, simulate_butterfly, simulate_gather
from .butterfly import Butterfly, butterfly
from .gather import Gather, gather
from .lanes import lane_sources


@frozen
class LanePermutation:
    """A frozen record of the exchanges between lanes, the same in every warp.

    Attributes:
        dst: the destination.
        src: the source.
        threads: threads of the scope.
        digits: how a thread's id says that it holds some of the destination.
        source_digits: the same of the source.
        fields: what is written.
        form: how the words for them are made (two for a field of 64 bits).
    """

    dst: Region
    src: Region
    threads: int
    digits: tuple[Digit, ...]
    source_digits: tuple[Digit, ...]
    fields: tuple[Field, ...]
    form: Gather | Butterfly

    @property
    def shuffles(self) -> int:
        """The number of shuffles that each lane executes."""
        return self.form.shuffles

    @property
    def registers_per_thread(self) -> int:
        """The number of 32-bit registers of the larger fragment per thread."""
        return max(self.dst.buffer.registers_per_thread, self.src.buffer.registers_per_thread)

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        kind = "butterfly" if isinstance(self.form, Butterfly) else "gather"
        return (
            f"{kind}: {self.form.summary()} into {len({f.register for f in self.fields})} registers of "
            f"{word_bytes(self.dst.buffer) * 8} bits in each of {self.threads} threads"
        )

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[Any, Any]]:
        """Return ``(destination, source)`` of every written element, both as ``(thread, register element)``.

        Args:
            request: the copy.
            values: of every symbol of the request; none matters.
        """
        words = simulate_butterfly(self.form) if isinstance(self.form, Butterfly) else simulate_gather(self.form)
        if word_bytes(self.dst.buffer) != WORD_BYTES:
            words = [np.concatenate(words[n : n + 2], axis=1) for n in range(0, len(words), 2)]
        return element_moves(request, self.fields, words, self.digits)


def lane_permutation(request: CopyRequest) -> LanePermutation | Decline:
    """Return the words that lanes fetch from each other, or Decline if no lane of a warp holds an element that the warp needs."""
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
    return LanePermutation(request.dst, request.src, request.scope.threads, digits, source_digits, sources.fields, form)
