"""The selection of a part of a picture, such as ``"instruction 2, warp 1"`` or ``"rows 0:32"``."""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from tilecopy_core.plugin import short_repr

_WORD = re.compile(r"(instruction|warp|phase|thread) (\d{1,6})\Z|(rows|columns) (\d{1,6}):(\d{1,6})\Z")
_NUMBERS = ("instruction", "warp", "phase", "thread")
WINDOWS = ((32, 64), (16, 32), (16, 16), (8, 8), (4, 4), (1, 4), (1, 1))
"""Rows and columns to suggest if a picture is too large, largest first."""
RULE = (
    "parts separated by commas, such as 'instruction 2', 'warp 1', 'phase 0', 'thread 5', 'rows 0:32', 'columns 0:64'"
)


@attrs.frozen
class Selection:
    """A frozen record of the part of a picture to draw. A field that is None selects everything.

    Attributes:
        instruction, warp, phase, thread: the number of each that an access must have.
        rows, columns: the range of the grid by coordinate, from 0.
    """

    instruction: int | None = None
    warp: int | None = None
    phase: int | None = None
    thread: int | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None

    @property
    def is_partial(self) -> bool:
        """True if the selection is not the whole picture."""
        return self != Selection()

    @classmethod
    def read(cls, text: Any) -> Selection:
        """Parse a selection. If ``text`` is None, select the whole picture.

        Raises:
            RequestError: the text does not have the form of a selection, or a range is empty.
        """
        if text is None:
            return cls()
        fields: dict[str, Any] = {}
        for word in text.split(",") if isinstance(text, str) else [""]:
            match = _WORD.match(" ".join(word.split()))
            name = (match[1] or match[3]) if match else ""
            fits = match is not None and name not in fields and (match[3] is None or int(match[4]) < int(match[5]))
            if match is None or not fits:
                raise tc.RequestError(f"draw: select must be {RULE}, got {short_repr(text)}")
            fields[name] = int(match[2]) if match[1] else (int(match[4]), int(match[5]))
        return cls(**fields)

    def of(self, **values: Any) -> Any:
        """Return a mask of the selected accesses or registers. For example, ``warp`` is an array of their warp numbers.

        Raises:
            RequestError: the selection is empty, or names something that the picture does not have.
        """
        count = len(next(iter(values.values()), ()))
        chosen = np.ones(count, bool)
        for name in _NUMBERS:
            wanted, numbers = getattr(self, name), values.get(name)
            if wanted is None or (numbers is not None and not count):
                continue
            if numbers is None:
                raise tc.RequestError(f"draw: select: {name} is not supported for this kind of picture: omit {name}")
            if not (numbers == wanted).any():
                raise tc.RequestError(
                    f"draw: select: {name} must be from {numbers.min()} to {numbers.max()}, got {wanted}"
                )
            chosen &= numbers == wanted
        if count and not chosen.any():
            raise tc.RequestError("draw: no access matches all parts of select: pass fewer parts")
        return chosen

    def mask(self, accesses: Any) -> Any:
        """Return a mask of the selected rows in a table of accesses."""
        return self.of(**{name: accesses[name] for name in _NUMBERS})

    def window(self, shape: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the selected ranges of rows and columns of a grid. Raise RequestError if a range exceeds ``shape``."""
        for name, wanted, size in (("rows", self.rows, shape[0]), ("columns", self.columns, shape[1])):
            if wanted is not None and wanted[1] > size:
                raise tc.RequestError(f"draw: select: {name} must be within 0:{size}, got {wanted[0]}:{wanted[1]}")
        return self.rows or (0, shape[0]), self.columns or (0, shape[1])


@attrs.frozen
class TooLargeError(Exception):
    """Raised when no figure of a picture fits on a page.

    Attributes:
        what: what the picture has too many of, with the number.
        parts: groups of selections that may fit; the message suggests the first that fits of each group.
        count_note: the total number of what the first group selects from.
    """

    what: str
    parts: tuple[tuple[str, ...], ...]
    count_note: str = ""

    @classmethod
    def of(
        cls, what: str, shape: tuple[int, int], accesses: tuple[str, ...] = (), count_note: str = ""
    ) -> TooLargeError:
        """Return an error that suggests selections: the given ``accesses``, then ranges of rows and columns."""
        windows = (f"rows 0:{min(rows, shape[0])}, columns 0:{min(columns, shape[1])}" for rows, columns in WINDOWS)
        return cls(what, (accesses, tuple(dict.fromkeys(windows))), count_note)
