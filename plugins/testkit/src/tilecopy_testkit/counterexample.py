"""The error for a variant that breaks a rule. The error contains the copy that breaks the rule."""

from __future__ import annotations

from difflib import unified_diff
from functools import partial

import tilecopy as tc

from tilecopy_core.errors import TEXT, checked, integer_in, optional

from .copy_case import CASE, CopyCase

MOST_LINES, MOST_CHARACTERS = 12, 120
"""The most lines of a difference of two texts, and the most characters of a line."""


class Counterexample(tc.TilecopyError, AssertionError):  # noqa: N818 - the usual word
    """Raised when a variant breaks a rule.

    Attributes:
        rule: the rule, as a sentence.
        found: what breaks it.
        case: the copy that breaks it, or None.
        line: the number of a PTX line that shows it, from 1, or 0.
        text: the text of this line.
    """

    @checked(rule=TEXT, found=TEXT, case=optional(CASE), line=integer_in(0, 2**31), text=TEXT)
    def __init__(self, rule: str, found: str, case: CopyCase | None = None, *, line: int = 0, text: str = "") -> None:
        self.rule, self.found, self.case, self.line, self.text = rule, found, case, line, text.strip()
        parts = [f"rule: {rule}", f"found: {found}"]
        if line:
            parts.append(f"PTX line {line}: {self.text}")
        if case is not None:
            parts.append(f"request: {case}")
            parts.append(f"replay: tilecopy testkit replay '{case.to_json()}'")
        super().__init__("\n".join(parts))
        self.__suppress_context__ = True  # the larger copy that failed first is not shown

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.rule, self.found, self.case, line=self.line, text=self.text), ()


def difference(here: str | None, there: str | None) -> str:
    """Return a unified diff of two strings, in at most 12 lines of at most 120 characters."""
    if here is None or there is None:
        one, other = ("none" if text is None else text[:MOST_CHARACTERS] for text in (here, there))
        return f"-{one}\n+{other}"
    _, _, *diff_lines = unified_diff(_parts(here), _parts(there), n=1, lineterm="")
    more = len(diff_lines) - MOST_LINES
    return "\n".join(diff_lines if more <= 0 else [*diff_lines[: MOST_LINES - 1], f"... and {more + 1} more lines"])


def _parts(text: str) -> list[str]:
    """Return the lines of a text; lines that are too long are split."""
    return [
        line[at : at + MOST_CHARACTERS]
        for line in text.split("\n")
        for at in range(0, max(1, len(line)), MOST_CHARACTERS)
    ]
