"""Priorities that the user sets. They override the priorities in the variants' records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from ..errors import PluginError, RequestError, integer, short_repr
from ..errors.attrs_classes import frozen

VARIABLE = "TILECOPY_PRIORITY"
_EXAMPLE = f"{VARIABLE}=tma=40,bulk=10"


@frozen
class Priority:
    """A frozen record of the effective priority of a variant.

    Attributes:
        value: higher is chosen first.
        origin: what set it, such as ``"TILECOPY_PRIORITY"``, or "" if the variant did.
    """

    value: int
    origin: str = ""

    def __str__(self) -> str:
        return f"priority {self.value}{', set by ' * bool(self.origin)}{self.origin}"


CURRENT_PRIORITIES: ContextVar[Mapping[str, Priority]] = ContextVar("CURRENT_PRIORITIES", default=MappingProxyType({}))
"""The priorities that the enclosing :func:`priorities` blocks set, by variant."""


def priorities(values: Mapping[str, int], /) -> AbstractContextManager[None]:
    """Return a context manager in which variants have other priorities: ``with tc.priorities({"tma": 40}):``.

    It holds for every dispatch of this thread or task inside the block. It overrules ``Registry(priorities=)``, which overrules
    ``TILECOPY_PRIORITY=tma=40,bulk=10``, which overrules the priority of a variant's record or predicate. Of nested blocks,
    the inner one decides for the variants that it names.

    Raises:
        RequestError: a name is not a string, or a priority is not a 64-bit integer. If no variant has a name, the next
            dispatch raises PluginError.
    """
    return _within(checked_priorities(values, "tc.priorities"))


@contextmanager
def _within(values: Mapping[str, Priority]) -> Iterator[None]:
    token = CURRENT_PRIORITIES.set({**CURRENT_PRIORITIES.get(), **values})
    try:
        yield
    finally:
        CURRENT_PRIORITIES.reset(token)


def checked_priorities(values: Any, origin: str) -> dict[str, Priority]:
    """Convert a mapping from names to integers into a dict of priorities. Raises RequestError for any other value."""
    if not isinstance(values, Mapping):
        raise RequestError(
            f"{origin} must be a mapping from variant names to integers such as {{'tma': 40}}, got {short_repr(values)}"
        )
    checked = dict[str, Priority]()
    for name, value in values.items():
        number = integer(value)
        if not isinstance(name, str) or not name.strip():
            raise RequestError(f"{origin}: a key must be a variant name such as 'tma', got {short_repr(name)}")
        if number is None or number.bit_length() > 63:
            raise RequestError(f"{origin}: the priority of {name!r} must be a 64-bit integer, got {short_repr(value)}")
        checked[name] = Priority(number, origin)
    return checked


def parsed_priorities(text: str) -> dict[str, Priority]:
    """Parse priorities such as ``tma=40,bulk=10`` from ``TILECOPY_PRIORITY``. Raises PluginError for malformed text."""
    values = dict[str, Priority]()
    for item in filter(None, map(str.strip, text.split(","))):
        name, _, digits = (part.strip() for part in item.partition("="))
        try:
            number = int(digits)
        except ValueError:
            number = None
        if not name or number is None or number.bit_length() > 63:
            raise PluginError(f"{VARIABLE}: an item must be NAME=INTEGER, got {short_repr(item)}: write {_EXAMPLE}")
        if name in values:
            raise PluginError(f"{VARIABLE} must name each variant once, got {name!r} twice in {short_repr(text)}")
        values[name] = Priority(number, VARIABLE)
    return values
