"""What shared and global memory have in common: every access is held against the stamps of those before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ..order.access import Together
from ..order.shadow import ACTOR_MASK, BARRIER_ACTOR, Conflict, Shadow, actor_of, stamp
from ..threads.registers import Registers
from ..threads.threads import Lanes
from .judgement import blame

JudgeAccess = Callable[[Registers, Any, int, Any], tuple[Any, Any]]
"""Machine, actors, strength of their accesses, and stamps of earlier ones -> as :data:`..order.shadow.Judge`."""


class ShadowedMemory:
    """A memory whose bytes have stamps.

    Args:
        machine: whose threads access it.
        cell: bytes of a cell, which no access splits.
        judge: says what is in order.
        whole_grid: its stamps name threads of the grid, not of the machine.
    """

    def __init__(self, machine: Registers, cell: int, judge: JudgeAccess, *, whole_grid: bool) -> None:
        self.machine, self.cell, self._judge_access, self._whole_grid = machine, cell, judge, whole_grid

    def cells_from(self, places: Any, size: int) -> tuple[Any, int]:
        """Shadow cells of accesses (flat) that begin at some bytes of the memory, and how many each has."""
        first = places // self.cell
        count = max(1, size // self.cell)
        return (first, 1) if count == 1 else ((first[:, None] + np.arange(count)).ravel(), count)

    def hold(
        self,
        shadow: Shadow,
        cells: Any,
        actors: Any,
        strength: int,
        *,
        key: int = 0,
        writes: bool = False,
        remember: bool = True,
        equal: Any = None,
        modifies: bool = False,
    ) -> None:
        """Hold accesses of cells, each by its actor, against those before.

        Args:
            shadow: where the stamps are.
            cells: 1-D.
            actors: one a cell.
            strength: of these accesses.
            key: of the memory, for the locks.
            writes: whether they write.
            remember: whether later ones are held against these reads.
            equal: of writes, see :meth:`..order.shadow.Shadow.write`.
            modifies: likewise.

        Raises:
            Conflict: nothing orders one of them after an earlier one.
        """
        machine = self.machine
        stamps = actors | np.int64(int(stamp(machine.launch.time.now, strength, 0)))
        if machine.launch.sought:
            self.seek(shadow, cells, stamps, key, writes=writes)

        def judge(positions: Any, before: Any) -> tuple[Any, Any]:
            if machine.tolerant:
                return np.ones(len(positions), bool), np.zeros(len(positions), bool)
            machine.flags.touched = (key, cells[positions], writes)
            return self._judge_access(machine, actors[positions], strength, before)

        try:
            if writes:
                shadow.write(cells, stamps, judge, equal=equal, modifies=modifies)
            else:
                shadow.read(cells, stamps, judge, remember=remember)
        except Conflict:
            if not machine.tolerant:
                raise

    def seek(self, shadow: Shadow, cells: Any, stamps: Any, key: int = 0, *, writes: bool, copy: int = -1) -> None:
        """Note the instruction of accesses that are sought: the one that is executed, or a ``copy`` that it waits for.

        A machine's lanes may have been few then, and stood for many.
        """
        machine = self.machine
        for sought in machine.launch.sought.get((self._which(key), writes, machine.launch.time.now), ()):
            wanted = sought.stamp if self._whole_grid else self._in_unit(sought.stamp)
            found = np.nonzero((cells == sought.cell % len(shadow.writer)) & (stamps == wanted))[0]
            if len(found) and copy >= 0:
                machine.launch.seen[sought] = copy, machine.at
            elif len(found) and (machine.many is None or len(cells) % len(machine.many) == 0):
                steps = 1 if machine.many is None else len(machine.many) // machine.each
                machine.launch.seen[sought] = machine.at + int(found[-1]) * steps // len(cells), -1

    def _in_unit(self, stamp: int) -> int:
        """Return a stamp as the machine had it when one cluster stood for many."""
        actor = stamp & int(ACTOR_MASK)
        return stamp - actor + actor % self.machine.units if actor < BARRIER_ACTOR else stamp

    def _which(self, key: int) -> int:
        """Which memory: see :class:`Sought`."""
        return key if self._whole_grid else ~self.machine.first

    def accuse(
        self,
        conflict: Conflict,
        where: str,
        strength: int,
        lanes: Lanes,
        at: tuple[int, int],
        span: tuple[int, int],
        *,
        writes: bool,
        values: tuple[Any, Any, Any] | None,
        there: Callable[[], Any],
        near: Callable[[int], bool],
        key: int = 0,
    ) -> NoReturn:
        """The hazard of two accesses that nothing orders.

        Args:
            conflict: what :meth:`hold` has found.
            where: the bytes in words.
            strength: of the access now.
            lanes: who makes it.
            at: which of them, and its copy.
            span: the bytes.
            writes: whether it writes.
            values: of a write: its own, those that its instruction writes to the same place, and the actors that write them.
            there: gives the bytes that are there.
            near: whether an actor is of the same warp.
            key: of the memory, as in :meth:`hold`.

        Raises:
            Together: lanes of one instruction write there, and the values decide.
        """
        machine, other, same = self.machine, int(actor_of(conflict.stamp)), False
        own, before = None, there()
        if values is not None:
            own, together, whose = values
            its = together if conflict.together else before
            same = conflict.wrote and other < BARRIER_ACTOR and bool((its == own).all())
            before = together[whose == other] if conflict.together else before
        tell = partial(
            blame, machine, conflict, where, "written" if writes else "read", strength, lanes, *at, span,
            whole_grid=self._whole_grid, same=same, memory=self._which(key), values=(own if writes else before, before),
        )  # fmt: skip
        if conflict.together and values is not None and (machine.launch.allows_same_value or near(other)):
            raise Together(tell) from None
        tell()
