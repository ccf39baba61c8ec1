"""Vector clocks for the causality order of the memory model.

There is one clock per thread, because only synchronisation orders the lanes of a warp (PTX ISA 8.9). Time is one
counter that every release increments, so "thread t knows thread u up to 7" covers everything that u did at 7 or before.
Common cases are stored compactly: a *floor* per CTA and warp (after a full barrier, all threads know all), one *base*
row per CTA, and a separate row only for a thread that knows more than the rest of its CTA. Rows of other CTAs are sparse.

A row has ``T`` columns for the generic proxy (one per thread), ``T`` more for each *section* that the program uses
(accesses that were fenced for another proxy), and one column for each mbarrier: the clock of the asynchronous
operations that complete on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np

BARRIER_COLUMNS = 64
"""The number of columns for the mbarriers of a CTA; further mbarriers share the last one."""
ASYNC_SHARED, ASYNC_GLOBAL, TENSOR, TENSORMAP = "async.shared", "async.global", "tensor", "tensormap"
"""Names of the sections of a clock, for accesses that were fenced for other proxies."""
ISSUED = "issued"
"""The section for order by execution only (``match.sync``, shuffles, votes), which is enough for ``mbarrier.inval``."""
FOREVER = (1 << 26) - 1
"""The time of an operation in flight, which no clock reaches."""


@attrs.define
class Time:
    """The logical time: one counter for the whole grid."""

    now: int = 1


@attrs.frozen(eq=False)
class Clock:
    """An immutable vector clock, for example the clock of a release. It has one row of times per CTA."""

    rows: Mapping[int, Any]


NOTHING = Clock({})


def join(clocks: Iterable[Clock]) -> Clock:
    """Return the elementwise maximum of vector clocks."""
    rows: dict[int, Any] = {}
    for clock in clocks:
        merge(rows, clock.rows)
    return Clock(rows)


def merge(rows: dict[int, Any], more: Mapping[int, Any]) -> None:
    """Update ``rows`` in place to the elementwise maximum of ``rows`` and ``more``."""
    if not rows:
        rows.update(more)
        return
    for key, row in more.items():
        old = rows.get(key)
        if old is None:
            rows[key] = row
        elif old is not row:
            rows[key] = np.maximum(old, row)


class VectorClocks:
    """The vector clocks of all threads in a range of CTAs.

    ``time``: the grid's counter; ``ctas``: number of CTAs; ``threads``: threads per CTA; ``first``: number of the first
    CTA in the grid (0 if the CTAs stand for many); ``sections``: other proxies whose fences the program uses.
    """

    def __init__(self, time: Time, ctas: int, threads: int, first: int, sections: tuple[str, ...]) -> None:
        self.time, self.ctas, self.threads, self.first, self.sections = time, ctas, threads, first, sections
        self.section_at = {name: (number + 1) * threads for number, name in enumerate(sections)}
        self.barriers_at = (len(sections) + 1) * threads
        self.width = self.barriers_at + BARRIER_COLUMNS
        self.warps = -(-threads // 32)
        self.floor = np.zeros(ctas, np.int64)
        self.warp_floor = np.zeros(ctas * self.warps, np.int64)
        self.base: dict[int, Any] = {}
        self.rows: dict[int, Any] = {}
        self.deviates = np.zeros(ctas * threads, bool)
        self.common: dict[int, dict[int, Any]] = {}
        self.private: dict[int, dict[int, Any]] = {}

    def replicate(self, copies: int, first: int) -> VectorClocks:
        """Return the vector clocks repeated for ``copies`` clusters. The CTAs are numbered from ``first``."""
        new = VectorClocks(self.time, self.ctas * copies, self.threads, first, self.sections)
        new.floor, new.warp_floor = np.tile(self.floor, copies), np.tile(self.warp_floor, copies)
        new.deviates = np.tile(self.deviates, copies)
        for copy in range(copies):
            shift, moved = copy * self.ctas, first + copy * self.ctas - self.first
            for cta, row in self.base.items():
                new.base[cta + shift] = row
            for cta, rows in self.rows.items():
                new.rows[cta + shift] = rows.copy()
            for cta, known in self.common.items():
                new.common[cta + shift] = {key + moved: row for key, row in known.items()}
            for lane, known in self.private.items():
                new.private[lane + shift * self.threads] = {key + moved: row for key, row in known.items()}
        return new

    def renumber(self, clock: Clock, shift: int) -> Clock:
        """Return a copy of a vector clock with all CTA numbers increased by ``shift``."""
        return Clock({key + shift: row for key, row in clock.rows.items()})

    def row(self, lanes: Any) -> Any:
        """Return the maximum of the vector clocks of one CTA's lanes, with the current time for each of these lanes."""
        cta = int(lanes[0]) // self.threads
        inside = lanes - cta * self.threads
        base = self.base.get(cta)
        row = np.zeros(self.width, np.int32) if base is None else base.copy()
        np.maximum(row[: self.threads], self.floor[cta], out=row[: self.threads])
        deviating = inside[self.deviates[lanes]]
        if len(deviating):
            np.maximum(row, self.rows[cta][deviating].max(axis=0), out=row)
        first_warp = cta * self.warps
        if self.warp_floor[first_warp : first_warp + self.warps].any():
            for warp in np.unique(inside // 32):
                part = row[warp * 32 : min((warp + 1) * 32, self.threads)]
                np.maximum(part, self.warp_floor[first_warp + warp], out=part)
        row[inside] = self.time.now
        return row

    def covers(self, lanes: Any, keys: Any, columns: Any, times: Any) -> Any:
        """For each lane, return True if its time in :meth:`known_times` is at least its time in ``times``."""
        if len(times) and int(times.max()) <= int(self.floor.min()):  # a barrier of all threads came after them
            same_cta = keys == lanes // self.threads + self.first
            if same_cta.all() and int(columns.max()) < self.threads:
                return same_cta
        return self.known_times(lanes, keys, columns) >= times

    def known_times(self, lanes: Any, keys: Any, columns: Any) -> Any:
        """For each lane, return the time of its vector clock for the CTA in ``keys`` and the column in ``columns``."""
        ctas = lanes // self.threads
        have = np.zeros(len(lanes), np.int64)
        same_cta = np.nonzero(keys == ctas + self.first)[0]
        if len(same_cta):
            have[same_cta] = self._own(lanes[same_cta], ctas[same_cta], columns[same_cta])
        if len(same_cta) < len(lanes) and (self.common or self.private):
            for position in np.nonzero(keys != ctas + self.first)[0].tolist():
                have[position] = self._foreign(int(lanes[position]), int(keys[position]), int(columns[position]))
        return have

    def _own(self, lanes: Any, ctas: Any, columns: Any) -> Any:
        have = np.where(columns < self.threads, self.floor[ctas], 0)
        inside = lanes - ctas * self.threads
        have[columns == inside] = FOREVER
        if self.warp_floor.any():
            near = (columns < self.threads) & (columns // 32 == inside // 32)
            have = np.where(near, np.maximum(have, self.warp_floor[ctas * self.warps + inside // 32]), have)
        deviates = self.deviates[lanes]
        if self.base or deviates.any():
            for cta in np.unique(ctas).tolist():
                here = ctas == cta
                base = self.base.get(cta)
                if base is not None:
                    have[here] = np.maximum(have[here], base[columns[here]])
                here &= deviates
                if here.any():
                    have[here] = np.maximum(have[here], self.rows[cta][inside[here], columns[here]])
        return have

    def _foreign(self, lane: int, key: int, column: int) -> int:
        have = 0
        for known in (self.common.get(lane // self.threads), self.private.get(lane)):
            if known is not None and key in known:
                have = max(have, int(known[key][column]))
        return have

    def snapshot(self, lanes: Any) -> Clock:
        """Return one vector clock for several lanes. It covers everything that the lanes did until now."""
        rows: dict[int, Any] = {}
        ctas = lanes // self.threads
        for cta in [int(ctas[0])] if ctas[0] == ctas[-1] else np.unique(ctas).tolist():
            here = lanes[ctas == cta]
            rows[cta + self.first] = self.row(here)
            if cta in self.common:
                merge(rows, self.common[cta])
            if self.private:
                for lane in here.tolist():
                    merge(rows, self.private.get(lane, {}))
        return Clock(rows)

    def causes(self, lane: int) -> Clock:
        """Return the vector clock of a lane's asynchronous operation: the mbarrier phases that the lane saw complete.

        The operation releases this clock when it completes, but not the accesses of its thread.
        """
        rows = {}
        for key, row in self.snapshot(np.array([lane])).rows.items():
            if row[self.barriers_at :].any():
                rows[key] = row.copy()
                rows[key][: self.barriers_at] = 0
        return Clock(rows)

    def release(self, lanes: Any) -> Clock:
        """Return the :meth:`snapshot` of lanes, and advance the logical time so that later accesses are not covered."""
        clock = self.snapshot(lanes)
        self.time.now += 1
        return clock

    def acquire(self, lanes: Any, clock: Clock) -> None:
        """Merge ``clock`` into the vector clock of each lane."""
        ctas = lanes // self.threads
        for cta in [int(ctas[0])] if ctas[0] == ctas[-1] else np.unique(ctas).tolist():
            here = lanes[ctas == cta]
            for key, row in clock.rows.items():
                if key == cta + self.first and len(here) == self.threads:
                    base = self.base.get(cta)
                    self.base[cta] = row if base is None else np.maximum(base, row)
                elif key == cta + self.first:
                    self.learn(cta, here - cta * self.threads, row)
                elif len(here) == self.threads:
                    merge(self.common.setdefault(cta, {}), {key: row})
                else:
                    done: dict[int, Any] = {}
                    for lane in here.tolist():
                        known = self.private.setdefault(lane, {})
                        old = known.get(key)
                        if id(old) not in done:
                            done[id(old)] = row if old is None else np.maximum(old, row)
                        known[key] = done[id(old)]

    def completion(self, column: int, time: int) -> Any:
        """Return a CTA's vector clock that has ``time`` in the column of an mbarrier or warpgroup, and 0 elsewhere."""
        row = np.zeros(self.width, np.int32)
        row[self.barriers_at + column] = time
        return row

    def learn(self, cta: int, inside: Any, rows: Any) -> None:
        """Merge ``rows`` (one row of times for all, or one per thread) into the vector clocks of a CTA's threads."""
        table = self.rows.get(cta)
        if table is None:
            table = self.rows[cta] = np.zeros((self.threads, self.width), np.int32)
        lanes = inside + cta * self.threads
        fresh = inside[~self.deviates[lanes]]
        if len(fresh):
            table[fresh] = 0
            self.deviates[lanes] = True
        table[inside] = np.maximum(table[inside], rows)

    def barrier(self, cta: int, lanes: Any) -> None:
        """Synchronise the vector clocks of all threads of a CTA that have not exited."""
        if len(lanes) == self.threads and not self.rows and not self.base and not self.common and not self.private:
            self.floor[cta] = self.time.now
            self.time.now += 1
            return
        clock = self.release(lanes)
        row = clock.rows[cta + self.first]
        if len(lanes) == self.threads:
            self.floor[cta] = self.time.now - 1
        self.base[cta] = row
        first = cta * self.threads
        self.deviates[first : first + self.threads] = False
        others = {key: known for key, known in clock.rows.items() if key != cta + self.first}
        if others:
            self.common[cta] = others
        for lane in range(first, first + self.threads) if self.private else ():
            self.private.pop(lane, None)

    def barriers(self, ctas: Any) -> None:
        """Synchronise the vector clocks of all threads within each of several CTAs."""
        if not self.rows and not self.base and not self.common and not self.private:
            self.floor[ctas] = self.time.now
            self.time.now += 1
            return
        threads = np.arange(self.threads)
        for cta in ctas.tolist():
            self.barrier(cta, threads + cta * self.threads)

    def warp_barrier(self, lanes: Any) -> None:
        """Synchronise the vector clocks of a warp's lanes."""
        inside = int(lanes[0]) % self.threads
        whole = len(lanes) == min(32, self.threads - inside // 32 * 32)
        simple = not self.sections and not self.private and not self.deviates[lanes].any()
        if whole and simple:
            warp = int(lanes[0]) // self.threads * self.warps + inside // 32
            self.warp_floor[warp] = self.time.now
            self.time.now += 1
        else:
            self.acquire(lanes, self.release(lanes))

    def meet(self, lanes: Any) -> None:
        """Record in the clock section :data:`ISSUED` that lanes of one warp converged without synchronisation."""
        row, at = self.row(lanes), self.section_at[ISSUED]
        issued = np.zeros(self.width, np.int32)
        issued[at : at + self.threads] = np.maximum(row[: self.threads], row[at : at + self.threads])
        cta = int(lanes[0]) // self.threads
        self.learn(cta, lanes - cta * self.threads, issued)
        self.time.now += 1

    def fence(self, lanes: Any, sections: Iterable[str]) -> None:
        """Execute a proxy fence: copy the times in the lanes' clocks to the clock sections of other proxies."""
        for cta in np.unique(lanes // self.threads).tolist():
            here = lanes[lanes // self.threads == cta]
            inside = here - cta * self.threads
            if self.deviates[here].any() or self.warp_floor.any():
                known = np.stack([self.row(here[i : i + 1])[: self.threads] for i in range(len(here))])
            else:
                base = self.base.get(cta)
                row = np.full(self.threads, self.floor[cta], np.int32)
                known = np.tile(row if base is None else np.maximum(row, base[: self.threads]), (len(here), 1))
                known[np.arange(len(here)), inside] = self.time.now
            rows = np.zeros((len(here), self.width), np.int32)
            for section in sections:
                at = self.section_at[section]
                rows[:, at : at + self.threads] = known
            self.learn(cta, here - cta * self.threads, rows)
            if cta in self.common or self.private:
                self._fence_foreign(cta, here, sections)
        self.time.now += 1

    def _fence_foreign(self, cta: int, lanes: Any, sections: Iterable[str]) -> None:
        """Fence the rows of other CTAs, see :meth:`fence`."""
        for lane in lanes.tolist():
            known = dict(self.common.get(cta, {}))
            merge(known, self.private.get(lane, {}))
            for key, row in known.items():
                fenced = row.copy()
                for section in sections:
                    at = self.section_at[section]
                    part = fenced[at : at + self.threads]
                    np.maximum(part, row[: self.threads], out=part)
                self.private.setdefault(lane, {})[key] = fenced
