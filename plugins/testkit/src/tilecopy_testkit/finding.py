"""What the kit finds: one rule, broken by one copy, told as a reviewer would."""

from __future__ import annotations

import tilecopy as tc

from tilecopy_core.plugin import TEXT, instance_of, integer_in, optional

from .description import Description

_DESCRIPTION = optional(instance_of("a Description", Description))


class Finding(tc.TilecopyError, AssertionError):  # noqa: N818 - what a review has
    """A variant breaks a rule.

    Attributes:
        rule: the rule, as a sentence.
        description: the copy that shows it, or None where it shows without one.
        line: of the PTX text, from 1, or 0.
        text: that line.
    """

    def __init__(
        self, rule: str, found: str, description: Description | None = None, *, line: int = 0, text: str = ""
    ) -> None:
        for name, given, kind in (
            ("rule", rule, TEXT),
            ("found", found, TEXT),
            ("description", description, _DESCRIPTION),
            ("line", line, integer_in(0, 2**31)),
            ("text", text, TEXT),
        ):
            kind.check(given, "Finding", name)
        self.rule, self.found, self.description, self.line, self.text = rule, found, description, line, text.strip()
        parts = [f"rule: {rule}", f"found: {found}"]
        if line:
            parts.append(f"PTX line {line}: {self.text}")
        if description is not None:
            parts.append(f"request: {description}")
            parts.append(f"again: python -m tilecopy_testkit again '{description.to_json()}'")
        super().__init__("\n".join(parts))

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.rule, self.found, self.description, self.line, self.text)


def _again(rule: str, found: str, description: Description | None, line: int, text: str) -> Finding:
    return Finding(rule, found, description, line=line, text=text)
