"""Validators of the fields of the kit's records, and of the arguments of its public functions."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, get_type_hints

import attrs
import msgspec
import tilecopy as tc
from tilecopy.validators import FUNCTION, Validator, instance_of, integer_in, mapping_of, one_of, optional, tuple_of

from tilecopy_core.errors import integer, short_repr
from tilecopy_core.plugin import is_int_like

MOST = 2**62
MEMORIES = ("global", "shared", "local", "tmem")
Number = Annotated[int, msgspec.Meta(ge=-MOST, le=MOST)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Shape = tuple[Positive, ...]


def name_of(*names: str) -> msgspec.Meta:
    """Return the constraint that a text is one of some names."""
    return msgspec.Meta(pattern=rf"^({'|'.join(names)})\Z")


def typed_fields(cls: type, fields: list[Any]) -> list[Any]:
    """Return fields with validators for their types; a ``field_transformer`` of attrs."""
    types = get_type_hints(cls, include_extras=True)
    return [
        field.evolve(validator=partial(_check_type, types[field.name])) if field.validator is None else field
        for field in fields
    ]


def _check_type(expected: Any, record: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise RequestError if a value does not have the expected type. An integer of a framework becomes an int."""
    try:
        if msgspec.convert(value, expected) == value:
            return
        reason = "expected a tuple"
    except Exception as error:  # an object may raise its own
        reason = str(error)
    plain = integer(value)
    if plain is None or isinstance(value, int):
        reason = f"{reason[0].lower()}{reason[1:]}"
        raise tc.RequestError(f"{type(record).__name__}: invalid {field.name} {short_repr(value)}: {reason}")
    _check_type(expected, record, field, plain)
    object.__setattr__(record, field.name, plain)


def several(validator: Validator) -> Validator:
    """Return a validator of None, or a non-empty tuple or list of valid items."""
    items = tuple_of(validator)
    return Validator(
        f"None, or {items.rule} that is not empty",
        lambda value: value is None or (items.fits(value) and bool(len(value))),
    )


ANY = integer_in(-MOST, MOST)
NATURAL = integer_in(0, MOST)
VALUES = mapping_of(Validator("an integer", is_int_like))
MAYBE_FUNCTION = optional(FUNCTION)
_MEMORY = tuple_of(one_of(*MEMORIES))
PAIR = Validator(
    "a pair of memories, such as ('global', 'shared')", lambda value: _MEMORY.fits(value) and len(value) == 2
)
SPACES = several(PAIR)
DTYPES = several(one_of(*tc.DTYPES))
TARGETS = several(one_of(*tc.TARGETS))
_BITS = tuple_of(integer_in(1, 1024))
WIDTHS = Validator(
    "a tuple of widths in bits, widest first, or () to skip their comparison",
    lambda value: _BITS.fits(value) and list(value) == sorted(value, reverse=True),
)
OUTSIDE = Validator(
    "'zero', 'keep', a number, or None",
    lambda value: (
        value is None
        or (isinstance(value, str) and value in ("zero", "keep"))
        or (isinstance(value, (int, float, complex)) and (not isinstance(value, int) or ANY.fits(int(value))))
    ),
)
VARIANT = instance_of("a Variant", tc.Variant)
NAMES = Validator(
    "a collection of names",
    lambda value: (
        isinstance(value, (tuple, list, set, frozenset, dict)) and all(isinstance(name, str) for name in value)
    ),
)


def system_reason(error: Exception) -> str:
    """Return the system's reason in an error about a file, without the path."""
    return getattr(error, "strerror", None) or type(error).__name__
