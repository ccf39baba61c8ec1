"""How tests recognise an error: by the values that it mentions, never by its wording."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen
from tilecopy import HazardError


def mentions(*values: object) -> re.Pattern[str]:
    """Return a pattern that finds a text with all of some values in it, each as a whole word, in any order.

    >>> bool(mentions(128, "A_smem").search("rows of A_smem have 128 bytes"))
    True
    >>> bool(mentions(12).search("rows of A_smem have 128 bytes"))
    False
    """
    return re.compile(r"\A" + "".join(f"(?=.*{_whole_word(value)})" for value in values), re.DOTALL)


def _whole_word(value: object) -> str:
    """Return a regular expression of a value with no letter or digit beside it; 1024 may be written 1,024."""
    text = str(value)
    spellings = [text, f"{value:,}"] if isinstance(value, int) else [text]
    before = r"(?<!\w)" if text[:1].isalnum() else ""
    after = r"(?!\w)" if text[-1:].isalnum() else ""
    return f"{before}(?:{'|'.join(map(re.escape, spellings))}){after}"


def is_hazard(kind: str, *values: object) -> Callable[[HazardError], bool]:
    """Return a ``check=`` of ``pytest.raises``: whether an error of the emulator is of a kind and mentions some values."""
    return Hazard(kind, values)


@frozen
class Hazard:
    """What a hazard is recognised by."""

    kind: str
    values: tuple[object, ...]

    def __call__(self, error: HazardError) -> bool:
        """Return whether an error is of the kind and mentions the values."""
        return error.kind == self.kind and mentions(*self.values).search(str(error)) is not None
