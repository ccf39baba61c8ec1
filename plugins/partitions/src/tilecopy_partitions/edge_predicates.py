"""Predicates for bounds checks. A predicate is a bool if it is known at build time, else a predicate register."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import TypeAlias, overload

from tilecopy_core.integers import Atom, Expr, Int, fits, key_of
from tilecopy_core.plugin import PtxBuilder, Register, structural_equal
from tilecopy_core.ptx import pure_once

_Comparison: TypeAlias = "tuple[Expr, str, int]"
"""A sum without constant and common factor, ``ge`` or ``le``, and the number that it is compared with."""


def range_predicate(ptx: PtxBuilder, index: Int, size: Int, ends: tuple[bool, bool] = (True, True)) -> Register | bool:
    """Return ``0 <= index < size`` as a bool if it is known at build time, else as a predicate register.

    The constant and the common factor of ``index`` go into what it is compared with, so that indices which differ by
    a constant cost one compare each; where the low end becomes 0, one unsigned compare covers both. The two
    ``ends`` say whether the index can be below 0, and whether it can reach ``size``; only those are looked at.
    """
    low = _comparison(index) if ends[0] else True
    high = _comparison(size - 1 - index) if ends[1] else True
    if low is False or high is False:
        return False
    halves = [half for half in (low, high) if isinstance(half, tuple)]
    if len(halves) == 2 and structural_equal(halves[0][0], halves[1][0]):
        (form, op, first), (_, other, second) = halves
        least, most = (first, second) if op == "ge" else (second, first)
        if op == other:  # the size goes up with the index: one end says what the other does, and more
            halves = [(form, op, max(first, second) if op == "ge" else min(first, second))]
        elif least == 0 <= most < 2**31 and fits(form, 32):
            return _compare(ptx, form, "le", most, sign="u")
    return all_of(ptx, [_compare(ptx, *half) for half in halves])


def _compare(ptx: PtxBuilder, form: Expr, op: str, bound: int, sign: str = "s") -> Register:
    """Return the comparison of a sum with a number."""
    bits = 32 if fits(form, 32) and fits(bound, 32) else 64
    block, opcode = ptx.home(form.symbols), f"setp.{op}.{sign}{bits}"

    def compute() -> Register:
        return ptx.pure(block, opcode, "pred", ptx.value(ptx.exact(form), bits), bound)

    return block.once(("against", key_of(form), opcode, bound), compute)


def all_of(ptx: PtxBuilder, predicates: Sequence[Register | bool]) -> Register | bool:
    """Return the conjunction of predicates as a bool if it is known at build time, else as a predicate register."""
    if False in predicates:
        return False
    total, *others = dict.fromkeys(p for p in predicates if isinstance(p, Register)) or [True]
    for more in others:
        total = pure_once(ptx, ptx.blocks[-1], ("both", total, more), "and.pred", "pred", total, more)
    return total


@overload
def opposite(ptx: PtxBuilder, predicate: Register) -> Register: ...


@overload
def opposite(ptx: PtxBuilder, predicate: bool) -> bool: ...


def opposite(ptx: PtxBuilder, predicate: Register | bool) -> Register | bool:
    """Return the negation of a bool or of a predicate register."""
    if isinstance(predicate, bool):
        return not predicate
    return pure_once(ptx, ptx.blocks[-1], ("not", predicate), "not.pred", "pred", predicate)


def _comparison(value: Int) -> _Comparison | bool:
    """Return ``value >= 0``: decided, or as a comparison of a sum with a number."""
    if not isinstance(value, Expr):
        return value >= 0
    form, factor, rises = _reduced(value.terms)
    most = value.const // factor
    lower, upper = form.bounds
    worst, best = (lower, upper) if rises else (upper and -upper, lower and -lower)
    if worst is not None and worst + most >= 0:
        return True
    if best is not None and best + most < 0:
        return False
    return (form, "ge", -most) if rises else (form, "le", most)


@lru_cache(maxsize=1024)
def _reduced(terms: tuple[tuple[Atom, int], ...]) -> tuple[Expr, int, bool]:
    """Return terms without their common factor, the first of them positive; the factor; and whether the first was positive."""
    factor, rises = gcd(*(coefficient for _, coefficient in terms)), terms[0][1] > 0
    divisor = factor if rises else -factor
    return Expr(0, tuple([(atom, coefficient // divisor) for atom, coefficient in terms])), factor, rises
