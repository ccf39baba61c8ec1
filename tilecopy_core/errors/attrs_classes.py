"""Frozen attrs classes that are cheap to create. A process creates about 150 such classes before the first plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

__all__ = ["frozen"]

if TYPE_CHECKING:  # with a type checker's support for attrs
    from attrs import frozen
else:

    def frozen(cls: type | None = None, **options: Any) -> Any:
        """Return a frozen attrs class. This takes half of the time that :func:`attrs.frozen` takes.

        attrs compiles ``__eq__``, ``__hash__`` and ``__repr__`` for each class, which takes half of the time to create a class. Here
        they are functions that loop over the fields. If a class defines ``__eq__`` or caches its hash, attrs compiles these two.
        """
        if cls is None:
            return partial(frozen, **options)
        with_eq = (
            options.get("eq", True) and {"__eq__", "__hash__"}.isdisjoint(vars(cls)) and "cache_hash" not in options
        )
        with_repr = options.get("repr", "__repr__" not in vars(cls))
        record_class = attrs.frozen(cls, **options | {"repr": False} | ({"eq": False} if with_eq else {}))
        if with_eq:
            record_class.__eq__, record_class.__hash__ = _by_value(
                [field for field in attrs.fields(record_class) if field.eq]
            )
        if with_repr:
            record_class.__repr__ = _representation
        return record_class


def _by_value(fields: Sequence[Any]) -> tuple[Callable[[Any, Any], Any], Callable[[Any], int]]:
    """Return ``__eq__`` and ``__hash__`` for a class that compare these fields, with a field's ``eq=`` applied to its value."""
    names, keys = [field.name for field in fields], [field.eq_key for field in fields]
    raw: Callable[[Any], Any] = attrgetter(*names, "__class__")

    def key_values(record: Any) -> Any:
        return tuple([key(value) if key else value for key, value in zip(keys, raw(record), strict=False)])

    values = key_values if any(keys) else raw

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __eq__, __hash__


def _representation(self: Any) -> str:
    names = [field.name for field in attrs.fields(type(self)) if field.repr]
    return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
