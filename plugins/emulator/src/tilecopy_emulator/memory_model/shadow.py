"""Shadow memory: who last read and wrote each byte, and when. An *actor* is a thread, an mbarrier or an operation.

A *stamp* is ``time << 37 | strength << 32 | actor``. A cell (as many bytes as the narrowest access of the program)
holds its last writer and one reader; a log has further readers and unordered atomic writes.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from .clocks import BARRIER_COLUMNS, FOREVER

STRENGTH_SHIFT, TIME_SHIFT = 32, 37
ACTOR_MASK = np.int64(0xFFFFFFFF)
BARRIER_ACTOR, FLIGHT_ACTOR = 1 << 31, 3 << 30
"""The first actors of operations that completed on an mbarrier, and of operations in flight."""
WEAK, CTA, CLUSTER, GPU, SYS = range(5)
"""The scopes of accesses: weak for an ordinary access, then those of strong ones."""
SIZES = 6
"""The number of sizes in a strength, which is 0 or ``1 + (scope - 1) * 6 + log2 of the bytes``; sizes detect partial overlap."""
REDUCED, ENGINE = 30, 31
"""Strengths of a reduction and of an ordinary write by a copy engine for the thread of the stamp."""
COMPACT = 1 << 14
READ, WROTE, OBSERVED = range(3)
"""The kinds of accesses in the log. OBSERVED: a strong write that a later atomic on the cell read, directly or through other atomics;
whatever is ordered after that atomic is ordered after the write, too (PTX ISA, observation and causality order)."""


_STRENGTHS = np.arange(32) % ENGINE


def stamp(time: int, strength: int, actor: Any) -> Any:
    """Return a shadow-memory stamp: one integer that encodes an access's time, strength and actor."""
    return (np.int64(time) << TIME_SHIFT) | np.int64(strength << STRENGTH_SHIFT) | np.asarray(actor, np.int64)


def in_flight_stamp(actor: int, strength: int = WEAK) -> Any:
    """Return the shadow-memory stamp of an asynchronous operation that has not completed."""
    return stamp(FOREVER, strength, actor)


def actor_of(stamps: Any) -> Any:
    """Return the number of the actor (thread, mbarrier or operation) that each shadow-memory stamp encodes."""
    return stamps & ACTOR_MASK


def barrier_of(actor: Any) -> tuple[Any, Any]:
    """Return the CTA of the mbarrier with actor number ``actor``, and the mbarrier's column in vector clocks."""
    number = actor & (FLIGHT_ACTOR - BARRIER_ACTOR - 1)
    return number // BARRIER_COLUMNS, number % BARRIER_COLUMNS


def time_of(stamps: Any) -> Any:
    """Return the logical time that each shadow-memory stamp encodes."""
    return stamps >> TIME_SHIFT


def strength_of(stamps: Any) -> Any:
    """Return the strength of the access that each shadow-memory stamp encodes."""
    return _STRENGTHS[(stamps >> STRENGTH_SHIFT) & 31]


def by_engine(stamps: Any) -> Any:
    """Return True for each stamp of a copy engine's write."""
    return (stamps >> STRENGTH_SHIFT) & 31 >= REDUCED


def is_reduction(stamps: Any) -> Any:
    """Return True for each stamp of an asynchronous reduction."""
    return (stamps >> STRENGTH_SHIFT) & 31 == REDUCED


def strength(scope: int, size: int) -> int:
    """Return the strength of a strong access: an integer that encodes its scope and its size in bytes."""
    return 1 + (scope - 1) * SIZES + min(SIZES - 1, size.bit_length() - 1)


def scope_of(strengths: Any) -> Any:
    """Return the scope that a strength encodes, or 0 for an ordinary access."""
    return (strengths + SIZES - 1) // SIZES


def in_scope(strengths: Any, before: Any, same_cta: Any, same_cluster: Any) -> Any:
    """Return True if each of two strong accesses has a scope that includes the other access's thread."""
    least = np.minimum(scope_of(strengths), scope_of(before))
    return (least >= GPU) | ((least == CLUSTER) & same_cluster) | ((least == CTA) & same_cta)


def alike(strengths: Any, before: Any) -> Any:
    """Return True if two strong accesses to one cell access the same bytes through the same proxy."""
    return ((strengths - 1) % SIZES == (before - 1) % SIZES) & ((strengths == REDUCED) == (before == REDUCED))


_MEETS = np.array(
    [
        [min(scope_of(x), scope_of(y)) >= GPU and bool(alike(x, y)) for y in _STRENGTHS.tolist()]
        for x in _STRENGTHS.tolist()
    ]
)


def may_meet(strengths: int, stamps: Any) -> Any:
    """Return True if two strong accesses cannot race: they are :func:`alike`, and both scopes are .gpu or .sys."""
    return _MEETS[strengths][(stamps >> STRENGTH_SHIFT) & 31]


@attrs.define(eq=False)
class Conflict(Exception):  # noqa: N818 (not an error of the user's: the memory turns it into one)
    """Raised if an access is not ordered after an earlier access to the same cell.

    ``position``: of the current access; ``cell``: of both; ``stamp``: of the earlier access; ``wrote``: whether that
    was a write; ``together``: whether that is another lane of the same instruction.
    """

    position: int
    cell: int
    stamp: int
    wrote: bool
    together: bool = False


Judge = Callable[[Any, Any], tuple[Any, Any]]
"""A function from positions and stamps of earlier accesses to (ordered, allowed because both are strong)."""


_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0  # mmap.MAP_NORESERVE, which Python has from 3.13


def _zeros(cells: int) -> Any:
    """Return zeros whose pages are allocated on first access."""
    try:
        return np.zeros(cells, np.int64)
    except MemoryError:
        if sys.platform == "win32":  # Windows has no pages that are allocated on first access
            raise
        try:
            pages = mmap.mmap(-1, 8 * cells, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"cannot allocate {8 * cells} bytes of shadow memory for {cells} cells") from error
        return np.frombuffer(pages, np.int64)


class ShadowMemory:
    """The shadow memory of an array, or of shared or tensor memory: who last accessed each cell of bytes, and when.

    ``cells``: number of cells; ``threads``: of a CTA and of a cluster, if the numbers of actors follow these, else 0.
    """

    def __init__(self, cells: int, threads: tuple[int, int] = (0, 0)) -> None:
        self.threads = threads
        self.writer, self.reader = _zeros(cells), _zeros(cells)
        self.logged: Any = None
        self.count = 0
        self._cell, self._stamp = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._kind: Any = np.zeros(0, np.int8)
        self._compact_at = COMPACT

    def replicate(self, copies: int, shifts: tuple[int, int, int]) -> ShadowMemory:
        """Return the shadow memory repeated for ``copies`` clusters. Actor numbers continue from cluster to cluster.

        ``copies``: the number of clusters; ``shifts``: threads, mbarriers and operations of one cluster.
        """
        new = ShadowMemory(0, self.threads)
        cells = len(self.writer)
        new.writer = _replicate_stamps(self.writer, copies, shifts)
        new.reader = _replicate_stamps(self.reader, copies, shifts)
        if self.count:
            new.logged = np.tile(self.logged, copies)
            new.count = self.count * copies
            cell = np.arange(copies)[:, None] * cells + self._cell[: self.count]
            new._cell = cell.ravel()
            new._stamp = _replicate_stamps(self._stamp[: self.count], copies, shifts)
            new._kind = np.tile(self._kind[: self.count], copies)
        return new

    def read(self, cells: Any, stamps: Any, judge: Judge, *, remember: bool = True) -> None:
        """Check that reads of cells do not race with an earlier write, and record them. Each cell has its stamp in ``stamps``.

        Raises:
            Conflict: it races with an earlier write.
        """
        before = self.writer[cells]
        other = (((before ^ stamps) & ACTOR_MASK != 0) & (before != 0)).nonzero()[0]
        if len(other):
            self._demand(other, before[other], cells, judge, wrote=True)
        if self.count and self.logged[cells].any():
            entries, positions = self._matches(cells, stamps, _writes_met(stamps))
            if len(entries):
                foreign = actor_of(self._stamp[entries]) != actor_of(stamps[positions])
                entries, positions = entries[foreign], positions[foreign]
                self._demand(positions, self._stamp[entries], cells, judge, wrote=True)
        if remember:
            self.remember(cells, stamps, judge)

    def remember(self, cells: Any, stamps: Any, judge: Judge) -> None:
        """Record reads. Later writes are checked against the recorded reads."""
        if len(stamps) and strength_of(stamps[0]):
            self.push(cells, stamps)
            return
        before = self.reader[cells]
        other = (((before ^ stamps) & ACTOR_MASK != 0) & (before != 0)).nonzero()[0]
        if len(other):
            ordered, _ = judge(other, before[other])
            lost = other[~ordered]
            if len(lost):
                self.push(cells[lost], before[lost])
        self.reader[cells] = stamps
        if len(cells) > 1:
            lost = (self.reader[cells] != stamps).nonzero()[0]
            if len(lost):  # several lanes of this instruction read one cell
                self.push(cells[lost], stamps[lost])

    def write(self, cells: Any, stamps: Any, judge: Judge, *, equal: Any = None, modifies: bool = False) -> None:  # noqa: C901, PLR0912 (every access passes here, and a call costs each)
        """Check that a write of cells races with no earlier access, and record the write.

        ``cells``: that are written; ``stamps``: of this write; ``judge``: of earlier accesses; ``equal``: True where an
        unordered write of another thread is allowed, because it wrote the same value; ``modifies``: the write is an
        atomic operation, which reads the old value.

        Raises:
            Conflict: it races with an earlier access, or with another lane of the same instruction.
        """
        strong = len(stamps) > 0 and bool(strength_of(stamps[0]))
        kind = OBSERVED if modifies else WROTE
        before = self.writer[cells]
        other = (((before ^ stamps) & ACTOR_MASK != 0) & (before != 0)).nonzero()[0]
        if len(other):
            exempt = self._demand(other, before[other], cells, judge, wrote=True, equal=equal)
            if exempt.any():
                kept = np.unique(cells[other[exempt]])
                self.push(kept, self.writer[kept], kind)
        if strong:
            self._keep_weak(cells, before, WROTE)
        before = self.reader[cells]
        other = (((before ^ stamps) & ACTOR_MASK != 0) & (before != 0)).nonzero()[0]
        if len(other):
            self._demand(other, before[other], cells, judge, wrote=False)
        if strong:
            self._keep_weak(cells, before, READ)
        if self.count and self.logged[cells].any():
            entries, positions = self._matches(cells, stamps)
            foreign = actor_of(self._stamp[entries]) != actor_of(stamps[positions])
            exempt = np.zeros(len(entries), bool)
            chosen = np.nonzero(foreign)[0]
            for kinds in (_writes_met(stamps), (READ,)):
                part = chosen[(self._kind[entries[chosen], None] == kinds).any(axis=1)]
                wrote = READ not in kinds
                exempt[part] = self._demand(
                    positions[part], self._stamp[entries[part]], cells, judge, wrote=wrote,
                    equal=equal if wrote else None,
                )  # fmt: skip
            if strong:
                exempt |= strength_of(self._stamp[entries]) == 0
            self._drop(cells, entries[~exempt], entries[exempt])
        self.writer[cells] = stamps
        self.reader[cells] = 0
        if len(cells) > 1:
            lost = (self.writer[cells] != stamps).nonzero()[0]
            if len(lost):
                last = self.writer[cells[lost]]
                if strong:
                    _, exempt = judge(lost, last)
                else:
                    exempt = actor_of(last) == actor_of(stamps[lost])
                    if equal is not None:
                        self.push(cells[lost], stamps[lost], WROTE)
                if not exempt.all():
                    at = int(np.argmin(exempt))
                    raise Conflict(int(lost[at]), int(cells[lost[at]]), int(last[at]), wrote=True, together=True)
                if strong:
                    self.push(cells[lost], stamps[lost], kind)

    def farthest(self, conflict: Conflict, cells: Any, warps: Any, warp_of: Callable[[Any], Any]) -> Conflict:
        """Return a conflict between lanes that wrote one cell in one instruction, if possible between two warps."""
        last = self.writer[cells]
        apart = np.nonzero(warp_of(actor_of(last)) != warps)[0]
        if not len(apart):
            return conflict
        at = int(apart[0])
        return Conflict(at, int(cells[at]), int(last[at]), wrote=True, together=True)

    def _keep_weak(self, cells: Any, before: Any, kind: int) -> None:
        """Log ordinary accesses before a strong write, because it does not conflict with other strong ones and hides them."""
        weak = np.nonzero((before != 0) & (strength_of(before) == 0) & (actor_of(before) < FLIGHT_ACTOR))[0]
        if len(weak):
            _, once = np.unique(cells[weak], return_index=True)
            self.push(cells[weak[once]], before[weak[once]], kind)

    def _demand(self, positions: Any, before: Any, cells: Any, judge: Judge, *, wrote: bool, equal: Any = None) -> Any:
        ordered, exempt = judge(positions, before)
        if equal is not None:
            exempt = exempt | (equal[positions] & (actor_of(before) < BARRIER_ACTOR))
        bad = ~(ordered | exempt)
        if bad.any():
            at = int(np.argmax(bad))
            position = int(positions[at])
            raise Conflict(position, int(cells[position]), int(before[at]), wrote=wrote)
        return exempt & ~ordered

    def push(self, cells: Any, stamps: Any, kind: int = READ) -> None:
        """Append accesses to the log. The log keeps more than one access per cell."""
        if self.logged is None:
            self.logged = np.zeros(len(self.writer), bool)
        cells = np.asarray(cells, np.int64)
        stamps = np.broadcast_to(np.asarray(stamps, np.int64), cells.shape)
        size = self.count + len(cells)
        if size > len(self._cell):
            if size > self._compact_at:
                self._compact()
                size = self.count + len(cells)
                self._compact_at = max(COMPACT, 2 * size)
            grown = max(256, 2 * size)
            self._cell, self._stamp = _grow(self._cell, grown), _grow(self._stamp, grown)
            self._kind = _grow(self._kind, grown)
        part = slice(self.count, size)
        self._cell[part], self._stamp[part], self._kind[part] = cells, stamps, kind
        self.count = size
        self.logged[cells] = True

    def _compact(self) -> None:
        """Keep only the last access of each actor, cell and kind in the log."""
        cell, stamps, kind = self._cell[: self.count], self._stamp[: self.count], self._kind[: self.count]
        order = np.lexsort((stamps, kind, (stamps & ((np.int64(1) << TIME_SHIFT) - 1)), cell))
        who = stamps[order] & ((np.int64(1) << TIME_SHIFT) - 1)
        last = np.ones(len(order), bool)
        last[:-1] = (np.diff(cell[order]) != 0) | (np.diff(who) != 0) | (np.diff(kind[order]) != 0)
        kept = order[last]
        self.count = len(kept)
        self._cell, self._stamp, self._kind = cell[kept], stamps[kept], kind[kept]

    def _matches(self, cells: Any, stamps: Any, kinds: tuple[int, ...] = ()) -> tuple[Any, Any]:
        """Return the log entries of these cells, each with every position of its cell.

        ``cells``: to look for; ``stamps``: of accesses; entries that cannot race with them are left out; None: none is;
        ``kinds``: only entries of these.
        """
        mark = np.zeros(len(self.writer), bool) if len(self.writer) < 1 << 16 else None
        if mark is not None:
            mark[cells] = True
            hits = mark[self._cell[: self.count]]
        else:
            hits = np.isin(self._cell[: self.count], cells)
        if kinds:
            hits = hits & (self._kind[: self.count, None] == kinds).any(axis=1)
        now = 0 if stamps is None else int(strength_of(stamps[0]))
        entries = np.nonzero(hits)[0]
        if now:
            entries = entries[~may_meet(now, self._stamp[entries])]
        if not len(entries):
            return entries, entries
        order = np.argsort(cells, kind="stable")
        inside = cells[order]
        crowds = self.threads if now and strength_of(self._stamp[entries]).any() else ()
        for scope, threads in zip((CTA, CLUSTER), crowds, strict=False):
            entries = entries[~self._inside_one(inside, actor_of(stamps[order]), threads, scope, now, entries)]
        low = np.searchsorted(inside, self._cell[entries], "left")
        high = np.searchsorted(inside, self._cell[entries], "right")
        times = high - low
        repeated = np.repeat(entries, times)
        starts = np.repeat(low - np.concatenate([[0], np.cumsum(times)[:-1]]), times)
        return repeated, order[starts + np.arange(len(repeated))]

    def _inside_one(self, cells: Any, actors: Any, threads: int, scope: int, now: int, entries: Any) -> Any:
        """Return True for entries that cannot race with the current accesses, because one CTA or cluster has the threads."""
        if not threads or int(scope_of(now)) < scope:
            return np.zeros(len(entries), bool)
        starts, whose = np.nonzero(np.diff(cells, prepend=-1))[0], actors // threads
        least, most = np.minimum.reduceat(whose, starts), np.maximum.reduceat(whose, starts)
        at, before = np.searchsorted(cells[starts], self._cell[entries]), self._stamp[entries]
        actor, earlier = actor_of(before), strength_of(before)
        same = (least == most)[at] & (least[at] == actor // threads) & (actor < BARRIER_ACTOR)
        return same & (scope_of(earlier) >= scope) & alike(now, earlier)

    def _drop(self, cells: Any, gone: Any, kept: Any) -> None:
        keep = np.ones(self.count, bool)
        keep[gone] = False
        if len(kept):
            keep[kept] = True
        self._cell, self._stamp = self._cell[: self.count][keep], self._stamp[: self.count][keep]
        self._kind = self._kind[: self.count][keep]
        self.count = len(self._cell)
        self.logged[cells] = False
        self.logged[self._cell] = True

    def begin(self, actor: int, reads: Any, writes: Any, strength: int = WEAK) -> None:
        """Record the cells that an operation in flight reads and writes. The caller must have checked the accesses."""
        if writes is not None:
            self.writer[writes] = in_flight_stamp(actor, strength)
            self.reader[writes] = 0
        if reads is not None and len(reads):
            self.push(reads, in_flight_stamp(actor))

    def complete(self, actor: int, writes: Any, stamps: Any) -> None:
        """Replace the stamps of an operation in flight by the stamps of the completed operation."""
        if writes is not None:
            here = actor_of(self.writer[writes]) == actor
            self.writer[writes[here]] = np.broadcast_to(stamps, here.shape)[here]
        mine = np.nonzero(actor_of(self._stamp[: self.count]) == actor)[0]
        if len(mine):  # reads and reductions belong to one actor after completion
            weak = stamps & ~np.int64(31 << STRENGTH_SHIFT)
            self._stamp[mine] = np.where(self._kind[mine], stamps, weak)

    def forget(self, cells: Any) -> None:
        """Remove all recorded accesses to cells."""
        self.writer[cells] = 0
        self.reader[cells] = 0
        if self.count and self.logged[cells].any():
            entries, _ = self._matches(cells, None)
            self._drop(cells, entries, entries[:0])


def _writes_met(stamps: Any) -> tuple[int, ...]:
    """Return the kinds of logged writes that an access is checked against."""
    return (WROTE, OBSERVED) if len(stamps) and strength_of(stamps[0]) else (WROTE,)


def _grow(array: Any, size: int) -> Any:
    new = np.zeros(size, array.dtype)
    new[: len(array)] = array
    return new


def _replicate_stamps(stamps: Any, copies: int, shifts: tuple[int, int, int]) -> Any:
    """Return stamps repeated for each copy, with the numbers of their actors shifted."""
    rows = np.tile(stamps, (copies, 1))
    actor = actor_of(stamps)
    step = np.select([stamps == 0, actor < BARRIER_ACTOR, actor < FLIGHT_ACTOR], [0, *shifts[:2]], shifts[2])
    rows += np.arange(copies, dtype=np.int64)[:, None] * step
    return rows.ravel()
