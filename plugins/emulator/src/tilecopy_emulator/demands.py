"""What callers pass, held against what it may be; nothing here runs while a kernel does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from tilecopy import LaunchError

from tilecopy_core import TilecopyError
from tilecopy_core.registry import LOCK

MOST_ITEMS = 1 << 16
"""Most items of a sequence; no kernel has so many parameters."""


def short_repr(value: object) -> str:
    """A value for a message, as the core writes it: its module is imported when the first message is."""
    with LOCK:
        from tilecopy_core.plugin import short_repr as by_the_core

    return by_the_core(value)


def demand(
    where: str, name: str, value: Any, fits: bool, rule: str, error: Callable[[str], TilecopyError] = LaunchError
) -> None:
    """Refuse a value that does not fit."""
    if not fits:
        raise error(f"{where}: {name} is {rule}, not {short_repr(value)}")


def is_whole(value: Any, low: int, high: int) -> bool:
    """Return whether a value is a plain or NumPy integer of a range."""
    try:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(low <= value <= high)
    except Exception:  # an object's own
        return False


def is_flag(value: Any) -> bool:
    """Return whether a value is a truth."""
    return isinstance(value, (bool, np.bool_))


def items_of(value: Any) -> tuple[Any, ...] | None:
    """Return what a sequence other than a text or bytes has; None for anything else, and for more than anybody passes."""
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Sequence):
        return None
    try:
        entries = tuple(islice(value, MOST_ITEMS + 1))
    except Exception:  # an object's own
        return None
    return entries if len(entries) <= MOST_ITEMS else None
