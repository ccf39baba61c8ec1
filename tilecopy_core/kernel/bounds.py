"""Regions stay inside their buffers: what enclosing conditions and loops say, and proving it when sizes are known.

A *fact* is an integer that is not negative where a statement stands (``i < n`` gives ``n - i - 1``). The enclosing
conditions and loops of a statement give alternatives, each a tuple of facts that hold together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import attrs

from ..errors import LayoutError
from ..expr import (
    Condition,
    Expr,
    FloorDiv,
    Int,
    Symbol,
    add,
    bounds_of,
    constant_of,
    is_int,
    mul,
    of_atom,
    substitute,
    terms_of,
)
from ..memory import Region

Facts = tuple["Int", ...]
Alternatives = tuple[Facts, ...]
NOTHING: Alternatives = ((),)
"""No condition around."""

_MOST_ALTERNATIVES = 16
_STEPS = 4


def together(left: Alternatives, right: Alternatives) -> Alternatives:
    """What is known where both are; of more alternatives than are worth looking at, the outer ones are kept."""
    if len(left) * len(right) > _MOST_ALTERNATIVES:
        return left
    return tuple(a + b for a, b in product(left, right))


def known_by(condition: Condition, *, negated: bool = False) -> Alternatives:
    """What is known where a condition holds (or does not)."""
    if condition.op == "not":
        return known_by(condition.left, negated=not negated)
    if condition.op in ("and", "or"):
        left, right = known_by(condition.left, negated=negated), known_by(condition.right, negated=negated)
        if (condition.op == "and") != negated:
            return together(left, right)
        return left + right if len(left) + len(right) <= _MOST_ALTERNATIVES else NOTHING
    if not (is_int(condition.left) and is_int(condition.right)):
        return NOTHING
    more = add(condition.left, mul(condition.right, -1))  # left - right
    at_least, above = implied(more), implied(add(more, -1))
    less = mul(more, -1)
    at_most, below = implied(less), implied(add(less, -1))
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


def implied(fact: Int) -> Facts:
    """A fact, and what it says of the dividend when it bounds a quotient: ``e // d >= q`` is ``e >= q * d``."""
    terms = terms_of(fact)
    quotient, coefficient = terms[0] if len(terms) == 1 else (None, 0)
    if not isinstance(quotient, FloorDiv):
        return (fact,)
    const = constant_of(fact)
    if coefficient > 0:
        return fact, *implied(add(quotient.dividend, -(-const // coefficient) * quotient.by))
    most = const // -coefficient * quotient.by + quotient.by - 1
    return fact, *implied(add(mul(quotient.dividend, -1), most))


def proves(facts: Sequence[Int], goal: Int, steps: int = _STEPS) -> bool:
    """Whether ``goal >= 0`` follows from facts that are not negative, adding multiples of at most some of them."""
    lower, _ = bounds_of(goal)
    if lower is not None and lower >= 0:
        return True
    if steps == 0:
        return False
    wanted = dict(terms_of(goal))
    for position, fact in enumerate(facts):
        for atom, coefficient in terms_of(fact):
            have = wanted.get(atom, 0)
            if have and (have > 0) == (coefficient > 0):  # the fact bounds this term on the side that matters
                scaled, taken = (
                    (goal, have // coefficient) if have % coefficient == 0 else (mul(goal, abs(coefficient)), abs(have))
                )
                rest = add(scaled, mul(fact, -taken))
                if proves([*facts[:position], *facts[position + 1 :]], rest, steps - 1):
                    return True
    return False


def of_quotients(values: Sequence[Int]) -> list[Int]:
    """What quotients are: ``e - d * (e // d)`` lies in ``[0, d - 1]``."""
    found = dict.fromkeys(atom for value in values for atom, _ in terms_of(value) if isinstance(atom, FloorDiv))
    rests = [(add(atom.dividend, mul(of_atom(atom), -atom.by)), atom.by) for atom in found]
    return [fact for rest, by in rests for fact in (rest, add(mul(rest, -1), by - 1))]


def narrowed(facts: Sequence[Int]) -> dict[Symbol, Int]:
    """Symbols that facts bound by themselves, with those bounds."""
    bounds: dict[Symbol, tuple[int | None, int | None]] = {}
    for fact in facts:
        terms = terms_of(fact)
        if len(terms) == 1 and isinstance(terms[0][0], Symbol):
            found, coefficient = terms[0][0], terms[0][1]
            low, high = bounds.get(found, (found.lower, found.upper))
            if coefficient > 0:  # coefficient * symbol + const >= 0
                least = -(constant_of(fact) // coefficient)
                low = least if low is None else max(low, least)
            else:
                most = constant_of(fact) // -coefficient
                high = most if high is None else min(high, most)
            bounds[found] = low, high
    return {
        found: low if low is not None and low == high else of_atom(found.bounded(low, high))
        for found, (low, high) in bounds.items()
        if (low, high) != (found.lower, found.upper) and (low is None or high is None or low <= high)
    }


@attrs.frozen(eq=False)
class Bound:
    """A start that must keep a region inside its buffer; checked when the grid and the scalars are known.

    Attributes:
        region: what must stay inside.
        dim: the dimension that this is about; its start must lie in ``[0, limit]``.
        known: what the conditions and loops around say.
        where: the line of the program that made the statement.
    """

    region: Region
    dim: int
    known: Alternatives
    where: str = ""

    @property
    def start(self) -> Int:
        """Where the region begins."""
        return self.region.starts[self.dim]

    @property
    def limit(self) -> Int:
        """Extent of the buffer less that of the region."""
        return add(self.region.buffer.shape[self.dim], -self.region.extents[self.dim])

    def holds(self, facts: Facts) -> bool:
        """Whether :meth:`check` passes for all values of which these facts are true."""
        try:
            attrs.evolve(self, known=together(self.known, (facts,))).check({})
        except LayoutError:
            return False
        return True

    def check(self, replacements: Mapping[Symbol, Int]) -> None:
        """Raise :class:`LayoutError` when the start cannot be shown to stay in ``[0, limit]``."""
        start, most_start = substitute(self.start, replacements), substitute(self.limit, replacements)
        for facts in self.known:
            found = [substitute(fact, replacements) for fact in facts]
            if any((most := bounds_of(fact)[1]) is not None and most < 0 for fact in found):
                continue  # this alternative never happens
            tight = narrowed(found)
            inside, limit = substitute(start, tight), substitute(most_start, tight)
            facts_left = [substitute(fact, tight) for fact in found]
            facts_left += of_quotients([*facts_left, inside, limit])
            if proves(facts_left, inside) and proves(facts_left, add(limit, mul(inside, -1))):
                continue
            lower, upper = bounds_of(inside)
            guard = " (the conditions around it do not exclude that)" if facts else ""
            extent = self.region.buffer.shape[self.dim]
            known = f" = {substitute(extent, replacements)}" if isinstance(extent, Expr) and replacements else ""
            raise LayoutError(
                f"{self.region}, dimension {self.dim} of extent {extent}{known}: the start {self.start} reaches from {lower} to {upper}; it must stay in 0 to {limit}"
                f"{guard}" + (f"\n  at {self.where}" if self.where else "")
            )


def bounds_checks(region: Region, known: Alternatives, where: str = "") -> list[Bound]:
    """The checks of a region that stands where some facts are known."""
    return [
        Bound(region, dim, known, where)
        for dim, (start, extent) in enumerate(zip(region.starts, region.buffer.shape, strict=True))
        if isinstance(start, Expr) or isinstance(extent, Expr)
    ]
