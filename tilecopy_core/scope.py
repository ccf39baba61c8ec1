"""Who takes part in a copy: scopes, the place of a thread in them, and which threads are active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from .errors import RequestError
from .expr import Condition, Expr, Int, evaluate, is_int, symbol, symbols_of
from .layout import Axis

WARP_THREADS = 32
WARPGROUP_THREADS = 128
MAX_CTA_THREADS = 1024
TID = "tid.x"
"""Name of the symbol that is the thread's index in its CTA."""


@attrs.frozen(repr=False)
class Scope:
    """The group of threads that does one copy together.

    Attributes:
        kind: ``thread``, ``warp``, ``warpgroup``, ``cta`` or ``cluster``.
        threads: how many threads that is.
    """

    kind: str
    threads: int

    def __repr__(self) -> str:
        return f"{self.kind}({self.threads})" if self.kind == "cta" else self.kind

    def thread_index(self, tid: Int) -> Int:
        """Index within the scope of the thread whose index in the CTA is ``tid``."""
        return 0 if self.kind == "thread" else tid % self.threads if self.kind != "cta" else tid


def thread() -> Scope:
    """Each active thread on its own."""
    return Scope("thread", 1)


def warp() -> Scope:
    """The 32 threads of each warp."""
    return Scope("warp", WARP_THREADS)


def warpgroup() -> Scope:
    """The 128 threads of each four consecutive warps."""
    return Scope("warpgroup", WARPGROUP_THREADS)


def cta(threads: int) -> Scope:
    """All threads of the CTA.

    Raises:
        RequestError: not between 1 and 1024 threads.
    """
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MAX_CTA_THREADS:
        raise RequestError(f"a CTA has 1 to {MAX_CTA_THREADS} threads, not {threads!r}")
    return Scope("cta", threads)


def tid_symbol(cta_threads: int | None) -> Expr:
    """The thread's index in its CTA, bounded by the CTA's size where it is known."""
    return symbol(TID, upper=(cta_threads or MAX_CTA_THREADS) - 1, varies="thread")


def axis_index(axis: Axis, tid: Int) -> Int:
    """Where a thread lies along a thread axis (docs/design.md, "Words").

    Raises:
        RequestError: the axis does not count threads or warps of a CTA.
    """
    table: dict[str, Callable[[], Int]] = {
        "laneid": lambda: tid % WARP_THREADS,
        "warpid": lambda: tid // WARP_THREADS,
        "wid_in_wg": lambda: tid // WARP_THREADS % 4,
        "wgid": lambda: tid // WARPGROUP_THREADS,
        "tid_in_wg": lambda: tid % WARPGROUP_THREADS,
        "tx": lambda: tid,
    }
    if axis.name not in table:
        raise RequestError(f"axis {axis} does not count the threads of a CTA")
    return table[axis.name]()


@attrs.frozen
class ActiveThreads:
    """Which threads of the CTA reach a copy.

    Attributes:
        cta_threads: threads in the CTA, or None where the copy stands outside a kernel.
        mask: one bool a thread when the enclosing conditions on thread ids could be decided, None when there are none.
        undecided: text of an enclosing condition that could not be decided at lowering, or "".
    """

    cta_threads: int | None = None
    mask: tuple[bool, ...] | None = None
    undecided: str = ""

    def why_not_all(self, scope: Scope) -> str | None:
        """Why not every thread of the scope takes part, naming the axis that was narrowed; None when all do."""
        if scope.kind == "thread":
            return None
        size = WARP_THREADS if scope.kind == "warp" else WARPGROUP_THREADS if scope.kind == "warpgroup" else None
        if self.cta_threads is not None:
            if size is not None and self.cta_threads % size:
                return f"a CTA of {self.cta_threads} threads has no full last {scope.kind} ({size} threads)"
            if scope.kind == "cta" and scope.threads != self.cta_threads:
                return f"the scope has {scope.threads} threads, the CTA {self.cta_threads}"
        if self.undecided:
            return (
                f"not every thread of the {scope.kind} can be shown to be active: the enclosing condition "
                f"'{self.undecided}' may narrow laneid"
            )
        if self.mask is None or all(self.mask):
            return None
        active = np.array(self.mask)
        groups = active.reshape(-1, size) if size is not None else active.reshape(1, -1)
        partial = [group for group in groups if group.any() and not group.all()]
        if not partial:
            return None
        lanes_whole = all(len(set(group[i : i + 32])) == 1 for group in partial for i in range(0, len(group), 32))
        axis = ("wid_in_wg" if scope.kind == "warpgroup" else "warpid") if lanes_whole else "laneid"
        return (
            f"an enclosing condition leaves {int(partial[0].sum())} of the {len(partial[0])} threads of the "
            f"{scope.kind} active (narrowed axis: {axis})"
        )

    def count(self) -> int | None:
        """How many threads of the CTA are active; None where that is not known."""
        if self.cta_threads is None or self.undecided:
            return None
        return self.cta_threads if self.mask is None else sum(self.mask)

    def narrowed_by(self, condition: Condition) -> ActiveThreads:
        """The threads that are left inside ``if condition``."""
        if condition.op == "elect" and not self.undecided and self.cta_threads is not None:
            return attrs.evolve(self, mask=_one_a_warp(self.mask or (True,) * self.cta_threads))
        symbols = set()
        for operand in condition.operands():
            if not is_int(operand):
                return attrs.evolve(self, undecided=self.undecided or repr(condition))
            symbols |= symbols_of(operand)
        varying = {s.name for s in symbols if s.varies == "thread"}
        if not varying:
            return self
        if {s.name for s in symbols} != {TID} or self.cta_threads is None:
            return attrs.evolve(self, undecided=self.undecided or repr(condition))
        truth = np.broadcast_to(_truth_by_thread(condition, self.cta_threads), (self.cta_threads,))
        before = np.ones(self.cta_threads, bool) if self.mask is None else np.array(self.mask)
        return attrs.evolve(self, mask=tuple(bool(x) for x in before & truth))


def _one_a_warp(mask: tuple[bool, ...]) -> tuple[bool, ...]:
    """The first active thread of each warp: how many ``elect.sync`` leaves; which one does not matter here."""
    firsts = {next((i for i in range(w, min(w + 32, len(mask))) if mask[i]), -1) for w in range(0, len(mask), 32)}
    return tuple(i in firsts for i in range(len(mask)))


def _truth_by_thread(condition: Condition, cta_threads: int) -> Any:
    tids = np.arange(cta_threads)
    return condition.evaluate(lambda operand: np.asarray(evaluate(operand, {TID: tids})))
