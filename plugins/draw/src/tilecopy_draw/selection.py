"""Selections from a picture by name: ``"instruction 2, warp 1"``, ``"rows 0:32"``."""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from tilecopy_core.plugin import short_repr

_WORD = re.compile(r"(instruction|warp|phase|thread) (\d{1,6})\Z|(rows|columns) (\d{1,6}):(\d{1,6})\Z")
WINDOWS = ((32, 64), (16, 32), (16, 16), (8, 8), (4, 4), (1, 4), (1, 1))
"""Rows and columns that are tried where a picture is too large."""
RULE = (
    "words such as 'instruction 2', 'warp 1', 'phase 0', 'thread 5', 'rows 0:32', 'columns 0:64', with commas between"
)


@attrs.frozen
class Selection:
    """The part of a picture that is drawn.

    Attributes:
        instruction, warp, phase, thread: only these accesses.
        rows, columns: only these of the grid by coordinate, numbered from 0.
    """

    instruction: int | None = None
    warp: int | None = None
    phase: int | None = None
    thread: int | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None

    @property
    def is_partial(self) -> bool:
        """True if it is not the whole picture."""
        return self != Selection()

    @classmethod
    def read(cls, text: Any) -> Selection:
        """Return the selection of a text.

        Raises:
            RequestError: other words, or a range without end.
        """
        if text is None:
            return cls()
        fields: dict[str, Any] = {}
        for word in text.split(",") if isinstance(text, str) else [""]:
            match = _WORD.match(" ".join(word.split()))
            name = (match[1] or match[3]) if match else ""
            fits = match is not None and name not in fields and (match[3] is None or int(match[4]) < int(match[5]))
            if match is None or not fits:
                raise tc.RequestError(f"draw: select must be {RULE}; got {short_repr(text)}")
            fields[name] = int(match[2]) if match[1] else (int(match[4]), int(match[5]))
        return cls(**fields)

    def of(self, **values: Any) -> Any:
        """Return a mask of the accesses, or registers, that are selected.

        Args:
            values: by name the number of each one's instruction, warp, phase or thread: those that a picture has.

        Raises:
            RequestError: there is something, and none of it is meant; or the picture has not what the selection names.
        """
        count = len(next(iter(values.values()), ()))
        chosen = np.ones(count, bool)
        for name in ("instruction", "warp", "phase", "thread"):
            wanted, numbers = getattr(self, name), values.get(name)
            if wanted is None or (numbers is not None and not count):
                continue
            if numbers is None:
                raise tc.RequestError(f"draw: select: this picture has no {name}")
            if not (numbers == wanted).any():
                raise tc.RequestError(
                    f"draw: select: {name} {wanted} does not exist; the numbers go from {numbers.min()} to {numbers.max()}"
                )
            chosen &= numbers == wanted
        if count and not chosen.any():
            raise tc.RequestError("draw: select: no access is in all of these")
        return chosen

    def accesses(self, *sides: Any) -> list[Any]:
        """Return the selected accesses of each side; one side may have none."""
        together = np.concatenate(sides)
        chosen = self.of(**{name: together[name] for name in ("instruction", "warp", "phase", "thread")})
        masks = np.split(chosen, np.cumsum([len(side) for side in sides])[:-1])
        return [side[mask] for side, mask in zip(sides, masks, strict=True)]

    def window(self, shape: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the selected rows and columns of a grid.

        Raises:
            RequestError: the grid has fewer.
        """
        for name, wanted, size in (("rows", self.rows, shape[0]), ("columns", self.columns, shape[1])):
            if wanted is not None and wanted[1] > size:
                raise tc.RequestError(f"draw: {name} {wanted[0]}:{wanted[1]} of a picture with {size} {name}")
        return self.rows or (0, shape[0]), self.columns or (0, shape[1])


@attrs.frozen
class TooLargeError(Exception):
    """None of the figures of a picture fits a page.

    Attributes:
        what: the number of things to draw.
        parts: parts that may fit, in groups; the first of each group that does is told.
        count_note: how many parts like the first group's there are.
    """

    what: str
    parts: tuple[tuple[str, ...], ...]
    count_note: str = ""

    @classmethod
    def of(
        cls, what: str, shape: tuple[int, int], accesses: tuple[str, ...] = (), count_note: str = ""
    ) -> TooLargeError:
        """Return the error with windows of a grid of some rows and columns."""
        windows = (f"rows 0:{min(rows, shape[0])}, columns 0:{min(columns, shape[1])}" for rows, columns in WINDOWS)
        return cls(what, (accesses, tuple(dict.fromkeys(windows))), count_note)
