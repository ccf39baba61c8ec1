"""The threads that are active inside the conditions and loops of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import attrs

from tilecopy_core.description import MAX_CTA_THREADS, WARP_THREADS, ActiveThreads, differs_within, is_thread_id
from tilecopy_core.integers import Condition, Int, bounds_of, is_int_like, symbols_of
from tilecopy_core.plugin import Scope
from tilecopy_partitions import by_thread


def inside_condition(active: ActiveThreads, condition: Condition) -> ActiveThreads:
    """Return the threads that are active inside ``if condition``."""
    return reduce(_inside_conjunct, conjuncts(condition), active)


def inside_loop(active: ActiveThreads, text: str, turns: Iterable[Int]) -> ActiveThreads:
    """Return the threads that are active inside a loop. The integers ``turns`` determine the iteration count."""
    scope = Scope("cta", active.cta_threads or MAX_CTA_THREADS)
    added = tuple((text, value) for value in turns if differs_within(value, scope))
    return attrs.evolve(active, deciding=active.deciding + added) if added else active


def leaves(condition: Condition) -> Iterator[Condition]:
    """Yield every comparison and ``elect`` in a condition, left to right."""
    sides = [side for side in (condition.left, condition.right) if isinstance(side, Condition)]
    for side in sides:
        yield from leaves(side)
    if not sides:
        yield condition


def operands_of(condition: Condition) -> Iterator[Any]:
    """Yield every operand in a condition that is not itself a condition, left to right."""
    return (side for leaf in leaves(condition) for side in (leaf.left, leaf.right) if side is not None)


def conjuncts(condition: Condition) -> Iterator[Condition]:
    """Yield conditions whose conjunction (logical and) equals ``condition``."""
    left, right = condition.left, condition.right
    if condition.op == "and":
        yield from conjuncts(left)
        yield from conjuncts(right)
    elif condition.op == "not" and left.op == "or":
        yield from conjuncts(~left.left)
        yield from conjuncts(~left.right)
    elif condition.op == "not" and left.op == "not":
        yield from conjuncts(left.left)
    else:
        yield condition


def _inside_conjunct(active: ActiveThreads, condition: Condition) -> ActiveThreads:
    mask = active.mask or (True,) * (active.cta_threads or 0)
    if condition.op == "elect" and active.count() is not None:  # any lane would do, so take the first
        first = (on and not any(mask[tid - tid % WARP_THREADS : tid]) for tid, on in enumerate(mask))
        return attrs.evolve(active, mask=tuple(first))
    deciding = [_deciding_integers(leaf) for leaf in leaves(condition)]
    if None in deciding:
        return attrs.evolve(active, undecided=active.undecided or repr(condition))
    operands = list(operands_of(condition))
    symbols = frozenset().union(*map(symbols_of, operands))
    is_by_thread = all(map(is_int_like, operands)) and all(map(is_thread_id, symbols))
    if symbols and is_by_thread and active.cta_threads is not None:
        return attrs.evolve(active, mask=tuple((mask & by_thread(condition, active.cta_threads)).tolist()))
    return inside_loop(active, repr(condition), [value for values in deciding for value in values or ()])


def _deciding_integers(leaf: Condition) -> tuple[Int, ...] | None:
    """Return integers on which a comparison depends, so that threads with equal values agree, or None if they are not known.

    For loaded data they are the address: threads that load one address get one value. For two integers they are the
    difference, or its sign: the quotient by a large power of two, which drops what a lane adds to a multiple.
    """
    left, right, op = leaf.left, leaf.right, leaf.op
    if not (is_int_like(left) and is_int_like(right)):
        sides: list[Any] = [(s,) if is_int_like(s) else getattr(s, "places", lambda: None)() for s in (left, right)]
        return None if None in sides else (*sides[0], *sides[1])
    if op in ("==", "!="):
        low, high = bounds_of(left - right)
        return () if (low or 0) > 0 or (high or 0) < 0 else (left - right,)
    return ((left - right if op in ("<", ">=") else right - left) // 2**62,)
