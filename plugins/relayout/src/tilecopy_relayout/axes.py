"""The parser of ``axes``, a permutation or a pattern such as ``"b (h p) w -> b h w p"``.

Patterns are those of einops without repeats and reductions. They have names, ``1``, ``...`` and parentheses. Parentheses split a
dimension on the left and merge dimensions on the right. The first name in parentheses is the slowest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NoReturn

import attrs

from tilecopy_core import RequestError
from tilecopy_core.plugin import frozen, short_repr

from .rearrangement import Rearrangement
from .validation import PERMUTATION, integers_of, normalize, sizes_of

_TOKENS = r"->|\.\.\.|[^\W\d]\w*|\d+|\S"
_ELLIPSIS = "..."
TAKEN = ("array", "axes", "out", "stream", "device", "executor", "placements")
"""Parameters of relayout, which cannot be the length of an axis: ``out=`` is the array for the result."""
_POINTED = 200
"""The longest pattern that a message repeats with a mark under the place of the error."""


def rearrangement(axes: Any, shape: Sequence[int], sizes: Mapping[str, Any] | None = None) -> Rearrangement:
    """Return the rearrangement that ``axes`` defines for an array's shape.

    Args:
        axes: a permutation (integers, negative ones count from the end, or text such as ``"0,2,1"``) or a pattern.
        shape: the shape of the source.
        sizes: lengths of axes of the pattern.
    """
    numbers = _numbers(axes) if isinstance(axes, str) else None
    if numbers is None and isinstance(axes, str):
        return parse(axes).resolve(shape, sizes or {})
    if sizes:
        raise RequestError(
            f"axis lengths need a pattern, got {', '.join(map(repr, sizes))} with axes {short_repr(axes)}: omit them, or pass a pattern"
        )
    order = _permutation(axes, numbers, shape)
    return Rearrangement(tuple((extent,) for extent in shape), order, (1,) * len(shape))


def _permutation(axes: Any, numbers: list[int] | None, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the dimension of the array for each dimension of the result, from the numbers in text or a sequence of integers."""
    rank = len(shape)
    order = integers_of("axes", axes, PERMUTATION) if numbers is None else numbers
    positive = tuple(axis + rank if axis < 0 else axis for axis in order)
    if sorted(positive) != list(range(rank)):
        valid = f"0 to {rank - 1}; " if rank else ""
        raise RequestError(
            f"axes {short_repr(axes)} is not a permutation of {rank} dimensions ({valid}the array's shape is {tuple(shape)})"
        )
    return positive


def _numbers(text: str) -> list[int] | None:
    """Return the numbers in text such as ``"0,2,1"``, ``"0 2 1"`` or ``"(0, 2, 1)"``; None for other text, such as a pattern."""
    inside = text.strip()
    if inside[:1] + inside[-1:] in ("()", "[]"):
        inside = inside[1:-1].strip()
    parts = [part.strip() for part in inside.removesuffix(",").split(",")] if "," in inside else inside.split()
    if not all(part.removeprefix("-").isdecimal() for part in parts):
        return None
    return [int(part) if len(part) < 10 else -(10**10) for part in parts]  # too many digits for a dimension


@frozen
class Term:
    """A frozen record of a token of a pattern, such as a name or ``...``, and the index of its first character."""

    text: str
    at: int


@frozen
class DimensionTerms:
    """A frozen record of one dimension in a pattern: the terms that it splits into or merges.

    Attributes:
        terms: the terms, slowest first; none for ``1``.
        at: the index of its first character.
        parentheses: True if it is written in parentheses.
    """

    terms: tuple[Term, ...]
    at: int
    parentheses: bool

    @property
    def is_ellipsis(self) -> bool:
        """True if the dimension is ``...``, which represents any number of dimensions."""
        return not self.parentheses and [term.text for term in self.terms] == [_ELLIPSIS]


@frozen
class Pattern:
    """A frozen record of a parsed pattern.

    Attributes:
        text: the text of the pattern.
        left: the dimensions of the source.
        right: the dimensions of the destination.
    """

    text: str
    left: tuple[DimensionTerms, ...]
    right: tuple[DimensionTerms, ...]

    def error(self, at: int, message: str) -> NoReturn:
        """Raise RequestError with the pattern and a mark under the character at index ``at``."""
        pointer = f"\n  {self.text}\n  {' ' * at}^" if len(self.text) <= _POINTED and self.text.isprintable() else ""
        raise RequestError(f"axes: pattern {short_repr(self.text)}: {message}{pointer}")

    def resolve(self, shape: Sequence[int], sizes: Mapping[str, Any]) -> Rearrangement:
        """Return the rearrangement that the pattern defines for an array's shape."""
        known = sizes_of(sizes, partial(self.error, 0))
        names = {term.text for group in self.left for term in group.terms} - {_ELLIPSIS}
        for name, size in known.items():
            if name not in names:
                axes = ", ".join(sorted(names))
                self.error(0, f"{name}={size}: the pattern has no axis named {name!r}; its axes are {axes}")
        rank, dots = len(shape), [group for group in self.left if group.is_ellipsis]
        named = len(self.left) - len(dots)
        if rank < named or (rank > named and not dots):
            least = "at least " if dots else ""
            self.error(0, f"its left side has {least}{named} dimensions, but the array has {rank}: {tuple(shape)}")
        spread = [f"...{index}" for index in range(rank - named)]
        left, right = list(_expanded(self.left, spread)), list(_expanded(self.right, spread))
        split = [self._extents(group, extent, known) for group, extent in zip(left, shape, strict=True)]
        place = {name: index for index, name in enumerate(term.text for group in left for term in group.terms)}
        order = [place[term.text] for group in right for term in group.terms]
        return Rearrangement(tuple(split), tuple(order), tuple(len(group.terms) for group in right))

    def _extents(self, group: DimensionTerms, extent: int, known: dict[str, Any]) -> tuple[int, ...]:
        """Return the extents that a dimension of the source splits into, and add a length that follows from them to ``known``."""
        terms = group.terms
        open_terms = [term for term in terms if term.text not in known]
        if len(open_terms) > 1:
            names = [term.text for term in open_terms]
            message = f"the lengths of {' and '.join(names)} cannot be inferred from {extent}: pass all but one"
            if taken := [name for name in names if name in TAKEN]:
                message += f"; {taken[0]!r} is a parameter of relayout and cannot name an axis: rename the axis"
            self.error(open_terms[0].at, message)
        product = prod(known[term.text] for term in terms if term.text in known)
        if open_terms:
            if product == 0 or extent % product:
                self.error(group.at, f"a dimension of {extent} elements is not divisible by {product}")
            known[open_terms[0].text] = extent // product
        elif product != extent:
            factors = "1" if not terms else " x ".join(f"{term.text}={known[term.text]}" for term in terms)
            self.error(group.at, f"the dimension has {extent} elements, not {factors}")
        return tuple(known[term.text] for term in terms)


def _expanded(side: Sequence[DimensionTerms], spread: Sequence[str]) -> Iterator[DimensionTerms]:
    """Yield the dimensions of a side with names for what ``...`` stands for."""
    for group in side:
        names = [(term, spread if term.text == _ELLIPSIS else [term.text]) for term in group.terms]
        terms = [Term(name, term.at) for term, texts in names for name in texts]
        for dimension in [[term] for term in terms] if group.is_ellipsis else [terms]:
            yield attrs.evolve(group, terms=tuple(dimension))


@lru_cache(maxsize=1024)
def parse(text: str) -> Pattern:
    """Parse a pattern."""
    tokens = [Term(normalize(match[0]), match.start()) for match in re.finditer(_TOKENS, text)]
    whole = Pattern(text, (), ())
    arrows = [index for index, token in enumerate(tokens) if token.text == "->"]
    if len(arrows) != 1:
        at = tokens[arrows[1]].at if arrows else len(text)
        whole.error(at, "a pattern must have one '->', and a permutation must be numbers separated by commas")
    sides = tokens[: arrows[0]], tokens[arrows[0] + 1 :]
    pattern = Pattern(text, _side(whole, sides[0]), _side(whole, sides[1]))
    _check(pattern)
    return pattern


def _side(pattern: Pattern, tokens: Sequence[Term]) -> tuple[DimensionTerms, ...]:
    groups: list[DimensionTerms] = []
    opened: Term | None = None
    inside: list[Term] = []
    for token in tokens:
        if token.text == "(":
            if opened is not None:
                pattern.error(token.at, "parentheses cannot be nested")
            opened, inside = token, []
        elif token.text == ")":
            if opened is None:
                pattern.error(token.at, "unmatched ')'")
            groups.append(DimensionTerms(tuple(inside), opened.at, parentheses=True))
            opened = None
        elif (is_one := _is_one(token.text)) or token.text == _ELLIPSIS or token.text.isidentifier():
            terms = () if is_one else (token,)
            if opened is None:
                groups.append(DimensionTerms(terms, token.at, parentheses=False))
            else:
                inside += terms
        elif token.text.isdigit():
            number = short_repr(token.text).strip("'")
            pattern.error(token.at, f"an axis must be a name, got {number}: name it, and pass its length as a keyword")
        else:
            pattern.error(token.at, f"a term must be a name, '1', '...' or a parenthesis, got {token.text!r}")
    if opened is not None:
        pattern.error(opened.at, "'(' was never closed")
    return tuple(groups)


def _is_one(text: str) -> bool:
    return text.isdecimal() and text.lstrip("0") == "1"


def _check(pattern: Pattern) -> None:
    """Check that each name appears once on each side."""
    sides: list[dict[str, Term]] = []
    for groups in (pattern.left, pattern.right):
        seen: dict[str, Term] = {}
        for term in (term for group in groups for term in group.terms):
            if term.text in seen:
                pattern.error(term.at, f"axis {term.text!r} appears twice; repeats and diagonals are not supported")
            seen[term.text] = term
        sides.append(seen)
    left, right = sides
    for group in pattern.left:
        for term in group.terms:
            if term.text == _ELLIPSIS and group.parentheses:
                pattern.error(term.at, "'...' must not be in parentheses on the left")
    for name, term in right.items():
        if name not in left:
            pattern.error(term.at, f"axis {name!r} is not on the left; only '1' can be a new dimension")
    for name, term in left.items():
        if name not in right:
            pattern.error(term.at, f"axis {name!r} is not on the right; reductions are not supported")
