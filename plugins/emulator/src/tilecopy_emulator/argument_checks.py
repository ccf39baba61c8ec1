"""Checks of the arguments that callers pass. All checks run before the kernel starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from tilecopy import LaunchError

from tilecopy_core import TilecopyError
from tilecopy_core.errors import short_repr

MOST_ITEMS = 1 << 16
"""The largest number of items in a sequence; no kernel has so many parameters."""


def demand(
    where: str, name: str, value: Any, fits: bool, rule: str, error: Callable[[str], TilecopyError] = LaunchError
) -> None:
    """Raise an error if ``fits`` is False. The message says that ``name`` must be ``rule``, and what ``value`` is."""
    if not fits:
        raise error(f"{where}: {name} must be {rule}, got {short_repr(value)}")


def is_whole(value: Any, low: int, high: int) -> bool:
    """Return True if a value is a Python or NumPy integer from ``low`` to ``high``."""
    try:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(low <= value <= high)
    except Exception:  # raised by a method of the object
        return False


def is_flag(value: Any) -> bool:
    """Return True if a value is a Python or NumPy bool."""
    return isinstance(value, (bool, np.bool_))


def items_of(value: Any) -> tuple[Any, ...] | None:
    """Return the items of a sequence. Return None for text, bytes, a non-sequence or more than ``MOST_ITEMS`` items."""
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Sequence):
        return None
    try:
        entries = tuple(islice(value, MOST_ITEMS + 1))
    except Exception:  # raised by a method of the object
        return None
    return entries if len(entries) <= MOST_ITEMS else None
