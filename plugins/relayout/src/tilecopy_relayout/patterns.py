"""The parser of patterns such as ``"b (h p) w -> b h w p"``.

Patterns are those of einops without repeats and reductions. They have names, ``1``, ``...`` and parentheses. Parentheses split a
dimension on the left and merge dimensions on the right. The first name in parentheses is the slowest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NoReturn

from tilecopy_core import RequestError
from tilecopy_core.plugin import frozen, short_repr

from .rearrangement import Rearrangement
from .validation import normalize, sizes_of

_TOKENS = r"->|\.\.\.|[^\W\d]\w*|\d+|\S"
_ELLIPSIS = "..."
TAKEN = ("array", "axes", "out", "stream", "device", "executor", "placements")
"""Parameters of relayout, which cannot be the length of an axis: ``out=`` is the array for the result."""
_POINTED = 200
"""The longest pattern that a message repeats with a mark under the place of the error."""


@frozen
class Term:
    """A frozen record of a token, such as a name or ``...``, and the index of the token's first character."""

    text: str
    at: int


@frozen
class DimensionTerms:
    """A frozen record of one dimension in a pattern: the terms, and the index of the dimension's first character.

    The slowest term is the first. A dimension ``1`` has no terms.
    """

    terms: tuple[Term, ...]
    at: int


@frozen
class Pattern:
    """A frozen record of a pattern: the string, and the tokens to the left and to the right of the arrow."""

    text: str
    left: Sequence[Term]
    right: Sequence[Term]

    def error(self, at: int, message: str) -> NoReturn:
        """Raise RequestError with the pattern and a mark under the character at index ``at``."""
        pointer = f"\n  {self.text}\n  {' ' * at}^" if len(self.text) <= _POINTED and self.text.isprintable() else ""
        raise RequestError(f"axes: pattern {short_repr(self.text)}: {message}{pointer}")

    def resolve(self, shape: Sequence[int], sizes: Mapping[str, Any]) -> Rearrangement:
        """Return the rearrangement that the pattern defines for an array's shape."""
        names = {token.text for token in self.left if token.text.isidentifier()}
        for name, size in sizes.items():
            if normalize(name) not in names:
                axes = ", ".join(sorted(names))
                self.error(0, f"{name}={short_repr(size)}: the pattern has no axis named {name!r}; its axes are {axes}")
        known = sizes_of(sizes, partial(self.error, 0))
        rank, named = len(shape), len(self.dimensions(self.left, []))
        has_ellipsis = any(token.text == _ELLIPSIS for token in self.left)
        if rank < named or (rank > named and not has_ellipsis):
            least = "at least " if has_ellipsis else ""
            self.error(0, f"the left side must have {rank} dimensions for shape {tuple(shape)}, got {least}{named}")
        spread = [f"...{index}" for index in range(rank - named)]
        left, right = [self.dimensions(tokens, spread) for tokens in (self.left, self.right)]
        split = [self._extents(group, extent, known) for group, extent in zip(left, shape, strict=True)]
        place = {name: index for index, name in enumerate(term.text for group in left for term in group.terms)}
        order = [place[term.text] for group in right for term in group.terms]
        return Rearrangement(tuple(split), tuple(order), tuple(len(group.terms) for group in right))

    def dimensions(self, tokens: Sequence[Term], spread: Sequence[str]) -> list[DimensionTerms]:
        """Return the dimensions of one side of the pattern. ``...`` stands for the axis names in ``spread``."""
        groups: list[DimensionTerms] = []
        opened: Term | None = None
        inside: list[Term] = []
        for token in tokens:
            if token.text == "(":
                if opened is not None:
                    self.error(token.at, "parentheses must not be nested")
                opened, inside = token, []
            elif token.text == ")":
                if opened is None:
                    self.error(token.at, "unmatched ')'")
                groups.append(DimensionTerms(tuple(inside), opened.at))
                opened = None
            elif token.text.isdigit() and not _is_one(token.text):
                number = short_repr(token.text).strip("'")
                self.error(token.at, f"an axis must be a name, got {number}: name it, and pass its length as a keyword")
            elif not (token.text == _ELLIPSIS or token.text.isidentifier() or _is_one(token.text)):
                self.error(token.at, f"a term must be a name, '1', '...' or a parenthesis, got {token.text!r}")
            else:
                names = spread if token.text == _ELLIPSIS else [] if _is_one(token.text) else [token.text]
                terms = [Term(name, token.at) for name in names]
                if opened is not None:
                    inside += terms
                elif _is_one(token.text):
                    groups.append(DimensionTerms((), token.at))
                else:
                    groups += [DimensionTerms((term,), term.at) for term in terms]
        if opened is not None:
            self.error(opened.at, "'(' was never closed")
        return groups

    def _extents(self, group: DimensionTerms, extent: int, known: dict[str, Any]) -> tuple[int, ...]:
        """Return the extents that a dimension of the source splits into, and add a length that follows from them to ``known``."""
        terms = group.terms
        open_terms = [term for term in terms if term.text not in known]
        if len(open_terms) > 1:
            names = [term.text for term in open_terms]
            message = f"the lengths of {' and '.join(names)} cannot be inferred from {extent} elements: pass all but one of them"
            if taken := [name for name in names if name in TAKEN]:
                message += f"; {taken[0]!r} is a parameter of relayout and cannot name an axis: rename the axis"
            self.error(open_terms[0].at, message)
        product = prod(known[term.text] for term in terms if term.text in known)
        if open_terms:
            if product == 0 or extent % product:
                self.error(group.at, f"the product of known lengths must divide {extent} elements, got {product}")
            known[open_terms[0].text] = extent // product
        elif product != extent:
            factors = "1" if not terms else " x ".join(f"{term.text}={known[term.text]}" for term in terms)
            self.error(group.at, f"the axis lengths must multiply to the dimension's {extent} elements, got {factors}")
        return tuple(known[term.text] for term in terms)


@lru_cache(maxsize=1024)
def parse(text: str) -> Pattern:
    """Parse a pattern, and check that each name appears once on each side."""
    tokens = [Term(normalize(match[0]), match.start()) for match in re.finditer(_TOKENS, text)]
    arrows = [index for index, token in enumerate(tokens) if token.text == "->"]
    first = arrows[0] if arrows else len(tokens)
    pattern = Pattern(text, tokens[:first], tokens[first + 1 :])
    if len(arrows) != 1:
        at = tokens[arrows[1]].at if arrows else len(text)
        pattern.error(at, f"a pattern must have one '->', got {len(arrows)}; a permutation is written as '0,2,1'")
    sides = [pattern.dimensions(tokens, [_ELLIPSIS]) for tokens in (pattern.left, pattern.right)]
    left, right = dict[str, Term](), dict[str, Term]()
    for groups, seen in zip(sides, (left, right), strict=True):
        for term in (term for group in groups for term in group.terms):
            if term.text in seen:
                pattern.error(term.at, f"axis {term.text!r} appears twice; repeats and diagonals are not supported")
            seen[term.text] = term
    for group in sides[0]:
        for term in group.terms:
            if term.text == _ELLIPSIS and term.at != group.at:  # the group begins with its parenthesis
                pattern.error(term.at, "'...' must not be in parentheses on the left")
    for name, term in right.items():
        if name not in left:
            pattern.error(term.at, f"axis {name!r} is not on the left (spaces separate axes); only '1' can be new")
    for name, term in left.items():
        if name not in right:
            pattern.error(term.at, f"axis {name!r} is not on the right; reductions are not supported")
    return pattern


def _is_one(text: str) -> bool:
    return text.isdecimal() and text.lstrip("0") == "1"
