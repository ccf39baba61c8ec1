"""Checks that integers are in range and regions are in bounds. The checks use facts from conditions and loops.

A *fact* is an integer that is not negative when a statement is executed (``i < n`` gives ``n - i - 1``). The enclosing
conditions and loops of a statement give alternatives. Each is a tuple of facts that hold together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import gcd

import attrs

from tilecopy_core.errors import LayoutError, frozen
from tilecopy_core.integers import add, constant_of, floordiv, mul, of_atom, sub, sum_of, terms_of
from tilecopy_core.layout import surely_leaves
from tilecopy_core.memory import Region
from tilecopy_core.plugin import Condition, Expr, Int, Symbol, bounds_of, divisor_of, is_int_like, key_of, substitute

Facts = tuple["Int", ...]
Alternatives = tuple[Facts, ...]
NOTHING: Alternatives = ((),)
"""No condition around."""

_MOST_ALTERNATIVES = 16
_STEPS = 4
_MOST_GOALS = 500


def conjunction(left: Alternatives, right: Alternatives) -> Alternatives:
    """Return the logical AND of two lists of alternatives. Return ``left`` if it has too many alternatives."""
    alternatives = tuple(a + b for a, b in product(left, right))
    if len(alternatives) > _MOST_ALTERNATIVES:  # drop those that never happen
        alternatives = tuple(facts for facts in alternatives if not contradict(facts)) or alternatives[:1]
    return alternatives if len(alternatives) <= _MOST_ALTERNATIVES else left


def facts_from(condition: Condition, *, negated: bool = False) -> Alternatives:
    """Return the facts that follow from a condition. If ``negated``, return the facts that follow from its negation."""
    if condition.op == "not":
        return facts_from(condition.left, negated=not negated)
    if condition.op in ("and", "or"):
        left, right = facts_from(condition.left, negated=negated), facts_from(condition.right, negated=negated)
        if (condition.op == "and") != negated:
            return conjunction(left, right)
        return left + right if len(left) + len(right) <= _MOST_ALTERNATIVES else NOTHING
    if not (is_int_like(condition.left) and is_int_like(condition.right)):
        return NOTHING
    more, less = sub(condition.left, condition.right), sub(condition.right, condition.left)
    at_least, above, at_most, below = ((fact,) for fact in (more, add(more, -1), less, add(less, -1)))
    table: dict[str, Alternatives] = {
        "<": (below,),
        "<=": (at_most,),
        ">": (above,),
        ">=": (at_least,),
        "==": (at_least + at_most,),
        "!=": (above, below),
    }
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
    return table[opposite[condition.op] if negated else condition.op]


def normalize(fact: Int) -> Int:
    """Tighten ``fact >= 0``: divide by the gcd of the coefficients, and round the constant term down.

    The constant is first rounded down to a multiple of the divisor of the terms (a size may be a multiple of 64).
    """
    if not isinstance(fact, Expr):
        return fact
    common = gcd(*(coefficient for _, coefficient in fact.terms))
    terms = sum_of(0, fact.terms)
    step = divisor_of(terms)
    return sum_of(
        fact.const // step * step // common, ((atom, coefficient // common) for atom, coefficient in fact.terms)
    )


def derive(fact: Int) -> Facts:
    """Return a fact, and facts with fewer quotients that follow from it: ``e // d >= q`` gives ``e >= q * d``."""
    fact = normalize(fact)
    for quotient, coefficient in terms_of(fact):
        if quotient.op == "//":
            dividend, by = quotient.operands
            rest = sub(fact, mul(of_atom(quotient), coefficient))
            slack = 0 if coefficient > 0 else -coefficient * (by - 1)  # d * q >= e - (d - 1)
            return fact, *derive(add(add(mul(dividend, coefficient), mul(rest, by)), slack))
    return (fact,)


def proves(facts: Sequence[Int], goal: Int) -> bool:
    """Return True if ``goal >= 0`` follows from a sum of multiples of a few facts.

    Short proofs are tried first. After a limited number of sums the goal counts as not proved.
    """
    goal = normalize(goal)
    goals, seen = [(goal, 1, tuple(facts))], {key_of(goal)}
    for wanted, scale, unused in goals:  # the list grows in the loop
        lower, _ = bounds_of(wanted)
        if lower is not None and lower > -scale:  # of scale times an integer
            return True
        if len(unused) <= len(facts) - _STEPS:
            continue
        for position, fact in enumerate(unused):
            for rest, factor in _without(wanted, fact):
                if key_of(rest) not in seen and len(goals) < _MOST_GOALS:
                    seen.add(key_of(rest))
                    goals.append((rest, scale * factor, unused[:position] + unused[position + 1 :]))
    return False


def _without(goal: Int, fact: Int) -> Iterator[tuple[Int, int]]:
    """Yield the rest of a goal after a fact removes one of its terms, and the factor of the goal."""
    wanted = dict(terms_of(goal))
    for atom, coefficient in terms_of(fact):
        have = wanted.get(atom, 0)
        if have and (have > 0) == (coefficient > 0):  # the fact bounds this term on the side that matters
            factor = abs(coefficient) // gcd(have, coefficient)
            taken = abs(have) // gcd(have, coefficient)
            yield add(mul(goal, factor), mul(fact, -taken)), factor


def never_negative(value: Int) -> bool:
    """Return True if the bounds of an integer show that it is never negative."""
    lower, _ = bounds_of(value)
    return lower is not None and lower >= 0


def contradict(facts: Sequence[Int]) -> bool:
    """Return True if the facts contradict each other."""
    return any(
        proves((*facts[:position], *facts[position + 1 :]), sub(-1, fact)) for position, fact in enumerate(facts)
    )


def never(known: Alternatives) -> bool:
    """Return True if the facts of every alternative contradict each other, so that no thread executes the statement."""
    return all(contradict([derived for fact in facts for derived in derive(fact)]) for facts in known)


def atom_facts(values: Sequence[Int]) -> list[Int]:
    """Return facts about the quotients, remainders and minima that the integers contain.

    ``e - d * (e // d)`` is ``e % d`` and is in ``[0, d - 1]``. A minimum is not above either of its operands.
    """
    atoms = dict.fromkeys(atom for value in values for atom, _ in terms_of(value) if atom.op)
    facts: list[Int] = []
    for atom in atoms:
        itself, (left, right) = of_atom(atom), atom.operands
        if atom.op == "//":
            rest = sub(left, mul(itself, right))
            facts += [rest, sub(right - 1, rest)]
        elif atom.op == "%":
            rest = sub(sub(left, mul(floordiv(left, right), right)), itself)
            facts += [rest, sub(0, rest)]
        elif atom.op == "min":
            facts += [sub(left, itself), sub(right, itself)]
    return facts


def symbol_bounds(facts: Sequence[Int]) -> dict[Symbol, Int]:
    """Return a dict from symbols to symbols with tighter bounds. The bounds come from facts that contain one symbol."""
    bounds: dict[Symbol, tuple[int | None, int | None]] = {}
    for fact in facts:
        terms = terms_of(fact)
        if len(terms) == 1 and isinstance(terms[0][0], Symbol):
            symbol, coefficient = terms[0][0], terms[0][1]
            low, high = bounds.get(symbol, (symbol.lower, symbol.upper))
            if coefficient > 0:  # coefficient * symbol + const >= 0
                least = -(constant_of(fact) // coefficient)
                low = least if low is None else max(low, least)
            else:
                most = constant_of(fact) // -coefficient
                high = most if high is None else min(high, most)
            bounds[symbol] = low, high
    return {
        symbol: low if low is not None and low == high else of_atom(attrs.evolve(symbol, lower=low, upper=high))
        for symbol, (low, high) in bounds.items()
        if (low, high) != (symbol.lower, symbol.upper) and (low is None or high is None or low <= high)
    }


def narrow(facts: Sequence[Int], *values: Int) -> tuple[list[Int], list[Int]]:
    """Return the facts and the values with the bounds of :func:`symbol_bounds`. Add the facts of :func:`atom_facts`."""
    bounds = symbol_bounds(facts)
    near = [substitute(value, bounds) for value in values]
    near_facts = [substitute(fact, bounds) for fact in facts]
    return [*near_facts, *atom_facts([*near_facts, *near])], near


def with_ends_proved(region: Region, known: Alternatives, replacements: Mapping[Symbol, Int]) -> Region:
    """Apply ``replacements`` to a region's starts. Mark each lower or upper end that is proved to be in bounds."""
    region = attrs.evolve(region, starts=tuple(substitute(start, replacements) for start in region.starts))
    if not all(known):
        return region  # an alternative has no facts

    def ends(dim: int) -> tuple[bool, bool]:
        wanted, size = region.exceeds(dim), region.buffer.shape[dim]
        if isinstance(size, int) and region.extents[dim] > size:
            return False, False  # even if the facts prove it, for example because a loop has no iterations
        for facts in known:
            if not any(wanted):
                break
            all_facts = [derived for fact in facts for derived in derive(fact)]
            near_facts, near = narrow(all_facts, region.starts[dim], region.room(dim))
            low, high = (asked and proves(near_facts, goal) for asked, goal in zip(wanted, near, strict=True))
            wanted = low, high
        return wanted

    inside = tuple(map(ends, range(len(region.starts))))
    return attrs.evolve(region, inside=inside) if any(map(any, inside)) else region


@frozen(eq=False)
class Bound:
    """An integer and the range in which it must stay. Each launch checks the range unless the build proved it.

    Attributes:
        value: the integer, such as the start of a region.
        least, most: the range.
        known: the facts of the conditions and loops around.
        what: a description for messages.
        where: the line of the program that made the statement.
        extent: the extent of the dimension; None if the integer must fit its type.
    """

    value: Int
    least: int
    most: Int
    known: Alternatives
    what: str
    where: str = ""
    extent: Int | None = None

    def holds(self, facts: Facts) -> bool:
        """Return True if :meth:`check` passes for all values for which ``facts`` hold."""
        try:
            attrs.evolve(self, known=conjunction(self.known, (facts,))).check({})
        except LayoutError:
            return False
        return True

    def check(self, replacements: Mapping[Symbol, Int]) -> None:
        """Raise :class:`LayoutError` if the integer cannot be proved to be in the range."""
        value, most = substitute(self.value, replacements), substitute(self.most, replacements)
        if never_negative(sub(value, self.least)) and never_negative(sub(most, value)):
            return
        for facts in self.known:
            all_facts = [derived for fact in facts for derived in derive(substitute(fact, replacements))]
            facts_left, (inside, limit) = narrow(all_facts, value, most)
            if proves(facts_left, sub(inside, self.least)) and proves(facts_left, sub(limit, inside)):
                continue
            if contradict(all_facts):
                continue
            lower, upper = bounds_of(inside)
            guard = " (the enclosing conditions do not exclude that)" if facts else ""
            at = f"\n  at {self.where}" if self.where else ""
            if self.extent is None:
                past = "" if upper is None else f", but it may be too large by {sub(upper, limit)}"
                raise LayoutError(
                    f"{self.what}{past}{guard}; use KernelBuilder.cast to wrap around, or declare a scalar with a smaller upper bound{at}"
                )
            known = ""
            if isinstance(self.extent, Expr) and replacements:
                known = f" = {substitute(self.extent, replacements)}"
            raise LayoutError(
                f"{self.what} of extent {self.extent}{known}: the start {self.value} must be from {self.least} to {limit}, "
                f"but may be from {lower} to {upper}{guard}; use KernelBuilder.if_ around it, or pass outside= to a copy{at}"
            )


def bounds_checks(region: Region, known: Alternatives, where: str = "") -> list[Bound]:
    """Return checks that a region is in bounds. ``known`` has the facts that hold where the region is used."""
    return [
        Bound(start, 0, sub(size, extent), known, f"{region}, dimension {dim}", where, size)
        for dim, (start, extent, size) in enumerate(
            zip(region.starts, region.extents, region.buffer.shape, strict=True)
        )
        if known and (isinstance(start, Expr) or isinstance(size, Expr) or surely_leaves(start, extent, size))
    ]
