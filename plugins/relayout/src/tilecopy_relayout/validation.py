"""Validators of arguments from callers. A call with a cached launch skips these checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NoReturn

from tilecopy.validators import one_of

from tilecopy_core import RequestError
from tilecopy_core.errors import integer, short_repr
from tilecopy_core.registry import LOCK

MOST_DIMS = 64
"""The most dimensions of an array, as in NumPy and torch."""
EXECUTOR = one_of("cuda", "emulator")
PERMUTATION = "a permutation such as (0, 2, 3, 1), or a pattern such as 'b c h w -> b h w c'"
"""The rule for axes, for messages."""
_MOST = 2**62
"""More elements than any memory has."""
_INTEGERS = "a sequence of integers below 2**62, one per dimension"


def items_of(name: str, values: Any, rule: str = PERMUTATION) -> tuple[Any, ...]:
    """Return the items of a sequence, a 1-D array or an iterator. At most 65 items are read, 1 more than the limit."""
    listed = isinstance(values, (Sequence, Iterator)) or hasattr(type(values), "__array__")
    items: tuple[Any, ...] | None = None
    if listed and not isinstance(values, (str, bytes, bytearray, memoryview)):
        with suppress(Exception):  # an object's own
            items = tuple(islice(values, MOST_DIMS + 1))
    if items is None:
        raise RequestError(f"{name} must be {rule}, got {short_repr(values)}")
    if len(items) > MOST_DIMS:
        raise RequestError(f"{name} must have at most {MOST_DIMS} entries, got {short_repr(values)}")
    return items


def integers_of(name: str, values: Any, rule: str = _INTEGERS) -> tuple[int, ...]:
    """Return ``values`` as a tuple of integers. An error message says that ``name`` must be ``rule``."""
    items = items_of(name, values, rule)
    integers = [value if type(value) is int else integer(value) for value in items]  # torch.compile traces the first
    known = tuple(value for value in integers if value is not None and abs(value) < _MOST)
    if len(known) < len(items):
        text = short_repr(items if isinstance(values, Iterator) else values)
        raise RequestError(f"{name} must be {rule}, got {text}")
    return known


def refuse(message: str) -> NoReturn:
    """Raise RequestError with this message."""
    raise RequestError(message)


def sizes_of(sizes: Mapping[str, Any], refuse: Callable[[str], NoReturn] = refuse) -> dict[str, int]:
    """Check a pattern's axis lengths. Return a dict from axis name to length. ``refuse`` reports an invalid length."""
    extents: dict[str, int] = {}
    for name, size in sizes.items():
        extent, identifier = integer(size), normalize(name)
        if extent is None or not 0 <= extent < _MOST:
            refuse(f"the axis length {name} must be an integer of at least 0, got {short_repr(size)}")
        if extents.get(identifier, extent) != extent:
            refuse(
                f"an axis must have one length, got {name}={extent} and {extents[identifier]} for names that are equal after NFKC normalization"
            )
        extents[identifier] = extent
    return extents


def normalize(name: str) -> str:
    """Return a name in the Unicode normal form NFKC, as Python normalizes identifiers and keyword arguments."""
    if name.isascii():
        return name
    with LOCK:
        import unicodedata

    return unicodedata.normalize("NFKC", name)
