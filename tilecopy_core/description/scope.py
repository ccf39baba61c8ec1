"""The threads of a copy: scopes, the index of a thread in its scope, and which threads are active."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import attrs

from ..errors import RequestError, integer_in, one_of, optional, short_repr
from ..errors.attrs_classes import frozen
from ..errors.lazy_numpy import np
from ..integers import Atom, Int, Symbol, plain
from ..integers.expr import Expr, evaluate, key_of, of_atom, substitute, sum_of, symbols_of, terms_of

WARP_THREADS = 32
WARPGROUP_THREADS = 128
MAX_CTA_THREADS = 1024
_SIZES = {"thread": 1, "warp": WARP_THREADS, "warpgroup": WARPGROUP_THREADS}
"""Threads of each scope but the CTA, whose size the kernel decides."""
_CTA_THREADS = integer_in(1, MAX_CTA_THREADS)


@frozen(repr=False)
class Scope:
    """A frozen record of the threads that do one copy together. ``kind`` is thread, warp, warpgroup, cta or cluster."""

    kind: str = attrs.field(validator=one_of("thread", "warp", "warpgroup", "cta", "cluster"))
    threads: int = attrs.field(validator=integer_in(1, 16 * MAX_CTA_THREADS))

    def __repr__(self) -> str:
        return f"{self.kind}({self.threads})" if self.kind == "cta" else self.kind

    @property
    def tid(self) -> Int:
        """The symbolic index of a thread in the scope, from 0 to ``threads - 1``."""
        return tid_symbol(self.threads)

    def thread_index(self, tid: Int) -> Int:
        """Convert a thread's index in the CTA (``tid``) to its index in the scope."""
        return 0 if self.kind == "thread" else tid % self.threads if self.kind != "cta" else tid


@cache
def thread() -> Scope:
    """Return the scope of one thread: each active thread copies by itself."""
    return Scope("thread", 1)


@cache
def warp() -> Scope:
    """Return the scope of one warp, 32 threads."""
    return Scope("warp", WARP_THREADS)


@cache
def warpgroup() -> Scope:
    """Return the scope of four consecutive warps, 128 threads."""
    return Scope("warpgroup", WARPGROUP_THREADS)


def cta(threads: int) -> Scope:
    """Return the scope of all threads of a CTA. Raises RequestError if ``threads`` is not between 1 and 1024."""
    count = plain(threads)
    if not _CTA_THREADS.fits(count):
        one = "; pass the total number of threads as one integer" if isinstance(threads, (tuple, list)) else ""
        raise RequestError(f"a CTA must have 1 to {MAX_CTA_THREADS} threads, got {short_repr(threads)}{one}")
    return Scope("cta", int(count))


@lru_cache(maxsize=64)
def tid_symbol(cta_threads: int | None) -> Int:
    """Return the symbolic thread index in a CTA of ``cta_threads`` threads. None stands for 1024, the maximum."""
    last = (cta_threads or MAX_CTA_THREADS) - 1
    return of_atom(Symbol("tid.x", 0, last, varies="thread", register="%tid.x")) if last else 0


def is_thread_id(symbol: Symbol) -> bool:
    """Return whether a symbol is the thread's index in its CTA."""
    return symbol.register == "%tid.x"


@cache
def _lane_of(size: int, threads: int) -> tuple[Symbol, Symbol, Int]:
    """Return symbols for a thread's group and its lane in a group of ``size`` threads, and its index in the CTA from them."""
    group, lane = Symbol("group", 0, (threads - 1) // size), Symbol("lane", 0, size - 1, varies="thread")
    return group, lane, of_atom(group) * size + of_atom(lane)


def differs_within(value: Int, scope: Scope) -> bool:
    """Return whether an integer may differ between two threads of the same scope, such as two lanes of a warp."""
    if not isinstance(value, Expr) or scope.kind == "thread" or not _may_differ(value):
        return False
    symbols = symbols_of(value)
    threads = max((1 + (s.upper or 0) for s in symbols if is_thread_id(s)), default=MAX_CTA_THREADS)
    group, lane, place = _lane_of(_SIZES.get(scope.kind, threads), threads)
    split = substitute(value, {s: place for s in symbols if is_thread_id(s)})
    remaining = symbols_of(split)
    if any(s.varies == "thread" and not s.source for s in remaining - {lane}) or _depends_on(split, lane, group):
        return True
    return any(differs_within(source, scope) for s in remaining for source in s.source)


def _depends_on(value: Any, lane: Symbol, group: Symbol) -> bool:
    """Return whether the lane can change a value: terms of lane and group alone are evaluated for every thread."""
    terms = [term for term in terms_of(value) if lane in term[0].symbols]
    if not terms:
        return False
    lane_terms = sum_of(0, (term for term in terms if term[0].symbols <= {lane, group}))
    lanes, groups = (np.arange((symbol.upper or 0) + 1) for symbol in (lane, group))
    values = np.asarray(evaluate(lane_terms, {lane: lanes, group: groups[:, None]}))
    if values.ndim and bool((values != values[..., :1]).any()):
        return True
    mixed = (atom for atom, _ in terms if not atom.symbols <= {lane, group})
    return any(_depends_on(part, lane, group) for atom in mixed for part in _made_of(atom))


def _made_of(atom: Atom) -> tuple[Any, ...]:
    """Return the integers that an atom depends on; a quotient of a minimum depends on the quotient of either side."""
    if atom.op == "//":
        dividend, by = atom.operands
        for least, factor in terms_of(dividend):
            if least.op == "min":
                rest = dividend - of_atom(least) * factor
                return tuple((rest + side * factor) // by for side in least.operands)
    return atom.operands


@frozen
class ActiveThreads:
    """A frozen record of which threads of a CTA reach a copy.

    Attributes:
        cta_threads: threads in the CTA, or None where the copy stands outside a kernel.
        mask: one bool per thread when the enclosing conditions on thread ids could be decided, None when there are none.
        undecided: text of an enclosing condition that could not be decided at lowering, or "".
        deciding: integers that enclosing loops and conditions depend on, with their text: where one of them differs
            between the threads of a scope, these do not come to the copy together.
    """

    cta_threads: int | None = attrs.field(default=None, validator=optional(_CTA_THREADS))
    mask: tuple[bool, ...] | None = attrs.field(default=None)
    undecided: str = ""
    deciding: tuple[tuple[str, Int], ...] = attrs.field(default=(), eq=key_of)

    @mask.validator
    def _is_one_a_thread(self, attribute: Any, mask: Any) -> None:
        threads = self.cta_threads
        if mask is not None and (type(mask) is not tuple or len(mask) != threads or set(map(type, mask)) != {bool}):
            raise RequestError(
                f"ActiveThreads: mask must be a tuple of one bool per thread (cta_threads={threads}), got {short_repr(mask)}"
            )

    def why_not_all(self, scope: Scope) -> str | None:
        """Return a message if a thread of the scope may be inactive, else None."""
        if scope.kind == "thread":
            return None
        size = _SIZES.get(scope.kind)
        if self.cta_threads is not None:
            if size is not None and self.cta_threads % size:
                return f"the CTA must have a multiple of {size} threads for scope {scope.kind}, got {self.cta_threads} threads"
            if scope.kind == "cta" and scope.threads != self.cta_threads:
                return f"the scope must have all {self.cta_threads} threads of the CTA, got {scope.threads} threads"
        return self.why_split(scope)

    def why_split(self, scope: Scope) -> str | None:
        """Return a message if some threads of the scope may be active and others inactive, else None."""
        size, warps = _SIZES.get(scope.kind), "wid_in_wg" if scope.kind == "warpgroup" else "warpid"
        differing = [(text, value) for text, value in self.deciding if differs_within(value, scope)]
        if self.undecided or differing:
            unsure = self.undecided or differing[0][0]
            axis = "laneid" if self.undecided or differs_within(differing[0][1], warp()) else warps
            return f"every thread of the {scope.kind} must be active, but the enclosing condition '{unsure}' may differ along {axis}"
        if self.mask is None or all(self.mask):
            return None
        mask, size = np.array(self.mask), size or len(self.mask)
        groups = [mask[first : first + size] for first in range(0, len(mask), size)]
        partial = [group for group in groups if group.any() and not group.all()]
        if not partial:
            return None
        lanes_whole = all(len(set(group[i : i + 32])) == 1 for group in partial for i in range(0, len(group), 32))
        axis = warps if lanes_whole else "laneid"
        active = f"{int(partial[0].sum())} of the {scope.kind}'s {len(partial[0])} threads"
        return f"every thread must be active, but an enclosing condition leaves only {active} active (the condition differs along {axis})"

    def count(self) -> int | None:
        """Return the number of active threads of the CTA, or None if the number cannot be determined."""
        if self.cta_threads is None or self.undecided:
            return None
        if any(differs_within(value, Scope("cta", self.cta_threads)) for _, value in self.deciding):
            return None
        return self.cta_threads if self.mask is None else sum(self.mask)


def _may_differ(value: Int) -> bool:
    return any(s.varies == "thread" or any(map(_may_differ, s.source)) for s in symbols_of(value))
