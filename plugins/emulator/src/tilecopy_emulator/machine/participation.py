"""Which threads have executed an exported copy: a copy that some of its threads leave out moves a part of its tile, silently.

tilecopy-export writes a comment into the block of assembly of a copy that several threads do together. It names the copy, how many
threads do it, and the register that has the thread's index among them. The reader makes an instruction
of it, :data:`..program.TAKES_PART`.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ..threads.threads import Lanes, Threads


@attrs.frozen
class Copy:
    """A copy that threads do together: groups of ``together``, of at most ``threads`` of a CTA."""

    name: str
    together: int
    threads: int


class Participation:
    """The copies that the threads of a machine have executed."""

    def __init__(self, machine: Threads) -> None:
        self._machine = machine
        self._executions: dict[Copy, tuple[Any, int]] = {}
        """How often each thread of each CTA has executed a copy, shape (CTAs, threads), and the place of one instruction of it."""

    def count(self, copy: Copy, lanes: Lanes, thread_ids: Any) -> None:
        """Lanes execute a copy as some of its threads."""
        machine = self._machine
        what = f"of a copy of {copy.threads} threads; pass the index among those that copy as tid"
        say = lambda at: f"{copy.name} is called by thread {int(thread_ids[at])} {what}"  # noqa: E731
        machine.hazard_where(thread_ids >= copy.threads, "incomplete", say, lanes)
        shape = machine.unit_ctas, -(-copy.threads // copy.together) * copy.together
        counts, _ = self._executions.setdefault(copy, (np.zeros(shape, np.int64), machine.at))
        np.add.at(counts, (machine.cta_of[machine.index(lanes)], thread_ids), 1)

    def expand(self, copies: int) -> None:
        """Do as :meth:`.machine.Machine.expand`."""
        self._executions = {copy: (np.tile(n, (copies, 1)), at) for copy, (n, at) in self._executions.items()}

    def finish(self) -> None:
        """Every thread has ended: each group has executed each of its copies equally often."""
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
                f"{copy.name} is a copy of {copy.together} threads, and {int((counts == counts[most]).sum())} of them have executed it "
                f"{_times(counts[most])}: thread {first + least} executed it {_times(counts[least])}, thread {first + most} {_times(counts[most])}. "
                f"Call it in {copy.together} threads whose tid is {first} to {first + copy.together - 1}"
            )
            machine.hazard("incomplete", what, np.array([cta * machine.threads]), at=at)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
