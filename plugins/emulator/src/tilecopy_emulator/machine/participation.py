"""The check that all threads of an exported copy execute the copy. A missing thread would leave elements uncopied.

tilecopy-export writes a comment into the block of assembly of a copy that several threads execute together. It names the copy,
the number of threads, and the register with the thread's index among them. The parser turns it into an
instruction, :data:`..program.TAKES_PART`.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ..threads.threads import Lanes, Threads


@attrs.frozen
class Copy:
    """A copy that at most ``threads`` threads of a CTA execute, in groups of ``together`` threads."""

    name: str
    together: int
    threads: int


class Participation:
    """The number of times that the threads of a batch executed each copy."""

    def __init__(self, machine: Threads) -> None:
        self._machine = machine
        self._executions: dict[Copy, tuple[Any, int]] = {}
        """The number of executions per copy and thread, shape (CTAs, threads), and the place of one instruction of the copy."""

    def count(self, copy: Copy, lanes: Lanes, thread_ids: Any) -> None:
        """Count one execution of a copy for each lane."""
        machine = self._machine
        what = f"{copy.name}: tid must be the thread's index among the {copy.threads} threads of the copy"
        say = lambda at: f"{what}, got {int(thread_ids[at])}"  # noqa: E731
        machine.hazard_where(thread_ids >= copy.threads, "incomplete", say, lanes)
        shape = machine.unit_ctas, -(-copy.threads // copy.together) * copy.together
        counts, _ = self._executions.setdefault(copy, (np.zeros(shape, np.int64), machine.at))
        np.add.at(counts, (machine.cta_of[machine.index(lanes)], thread_ids), 1)

    def expand(self, copies: int) -> None:
        """Replicate the counts for every cluster of the batch."""
        self._executions = {copy: (np.tile(n, (copies, 1)), at) for copy, (n, at) in self._executions.items()}

    def finish(self) -> None:
        """Check at the end of the run that all threads of a group executed each copy equally often."""
        machine = self._machine
        for copy, (executed, at) in self._executions.items():
            groups = executed.reshape(machine.unit_ctas, -1, copy.together)
            uneven = np.argwhere(groups.min(axis=2) != groups.max(axis=2))
            if not len(uneven):
                continue
            cta, group = (int(number) for number in uneven[0])
            counts, first = groups[cta, group], group * copy.together
            least, most = int(np.argmin(counts)), int(np.argmax(counts))
            what = (
                f"{copy.name} must be executed equally often by all {copy.together} threads with tid {first} to {first + copy.together - 1}, but "
                f"only {int((counts == counts[most]).sum())} of them executed it {_times(counts[most])} (such as thread {first + most}), and thread {first + least} executed it {_times(counts[least])}: call it in all of these threads"
            )
            machine.hazard("incomplete", what, np.array([cta * machine.threads]), at=at)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
