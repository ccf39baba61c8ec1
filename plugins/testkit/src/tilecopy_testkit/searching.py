"""Looking for a copy that breaks a rule, and for the smallest: draws that follow from a seed, each choice with its number.

Every choice is one of some options, the simplest first. So a description is a list of numbers, and a smaller one is had by
smaller numbers, and fewer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from .description import Description
from .drawing import Ranges, T, describe
from .finding import Finding

Judge = Callable[[Description], bool]
FRESH_TRIES, MOST_TRIES = 60, 260
"""Simple copies that are tried in looking for a smaller one, and all that are."""
SIMPLE = 0.8
"""Share of a simple copy's choices that are the first."""


class Numbered:
    """Choices by their numbers, and beyond those at random or, without a seed, the first.

    Args:
        given: the first numbers.
        seed: of the others.
        simple: the share of the others that are the first option whatever the seed.

    Attributes:
        numbers: of the choices so far.
    """

    def __init__(self, given: Sequence[int] = (), seed: str | None = None, simple: float = 0.0) -> None:
        self._given, self._simple, self.numbers = given, simple, list[int]()
        self._random = None if seed is None else random.Random(seed)  # noqa: S311 - no secret

    def pick(self, options: Sequence[T]) -> T:
        """One of some."""
        at = len(self.numbers)
        if at < len(self._given):
            number = min(self._given[at], len(options) - 1)
        elif self._random is None or self._random.random() < self._simple:
            number = 0
        else:
            number = int(self._random.random() * len(options))
        self.numbers.append(number)
        return options[number]


def drawn(ranges: Ranges, seed: str) -> tuple[Description, list[int]]:
    """The description of a seed, and the numbers of its choices."""
    attempt = 0
    while True:
        draw = Numbered(seed=f"{seed}:{attempt}")
        if (found := describe(draw, ranges)) is not None:
            return found, draw.numbers
        attempt += 1


def smallest(ranges: Ranges, judge: Judge, numbers: Sequence[int], finding: Finding) -> Finding:
    """What the smallest copy shows that breaks the same rule, of those that are tried.

    Args:
        ranges: what is drawn.
        judge: raises the finding.
        numbers: of the choices of a copy that breaks the rule.
        finding: of that copy.
    """
    first = describe(Numbered(numbers), ranges)
    assert first is not None
    best, told, seen = _size(first, numbers), finding, set[tuple[int, ...]]()

    def smaller(draw: Numbered) -> bool:
        nonlocal best, told
        description = describe(draw, ranges)
        size = None if description is None else _size(description, draw.numbers)
        if description is None or size is None or size >= best or tuple(size[-1]) in seen:
            return False
        seen.add(tuple(size[-1]))
        try:
            judge(description)
        except Finding as found:
            if found.rule == finding.rule:
                best, told = size, found
                return True
        return False

    for number in range(FRESH_TRIES):
        smaller(Numbered(seed=str(number), simple=SIMPLE))
    improved = True
    while improved:
        improved = False
        for candidate in _smaller(best[-1]):
            improved = smaller(Numbered(candidate))
            if len(seen) > MOST_TRIES:
                return told
            if improved:
                break
    return told


def _size(description: Description, numbers: Sequence[int]) -> tuple[int, int, list[int]]:
    """What is to become small: the choices that are not the simplest, the elements of all copies, the choices."""
    d, kept = description, _trimmed(numbers)
    return sum(map(bool, kept)), d.count * d.blocks * d.turns * d.units, kept


def _trimmed(numbers: Sequence[int]) -> list[int]:
    """Without the first choices at the end: they are made anyway."""
    kept = list(numbers)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _smaller(numbers: list[int]) -> Iterator[list[int]]:
    """Lists that may do as well, the much smaller first."""
    for size in (16, 8, 4, 2, 1):
        for at in range(0, len(numbers), size):
            if any(numbers[at : at + size]):
                yield [*numbers[:at], *[0] * len(numbers[at : at + size]), *numbers[at + size :]]
    for at in range(len(numbers)):
        yield [*numbers[:at], *numbers[at + 1 :]]
    for at, number in enumerate(numbers):
        for less in {number // 2, number - 1} - {0}:
            if number > 1:
                yield [*numbers[:at], less, *numbers[at + 1 :]]
