"""Validators of the fields of the kit's records, and of the arguments of the kit's public functions."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Annotated, Any, get_type_hints

import attrs
import msgspec
import tilecopy as tc
from tilecopy.validators import FUNCTION, instance_of, integer_in, mapping_of, one_of, optional, tuple_of

from tilecopy_core.errors import TEXT, Validator, integer, short_repr
from tilecopy_core.plugin import is_int_like

MOST = 2**62
MEMORIES = ("global", "shared", "local", "tmem")
Number = Annotated[int, msgspec.Meta(ge=-MOST, le=MOST)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Shape = tuple[Positive, ...]
NotEmpty = msgspec.Meta(min_length=1)


def name_of(*names: str) -> msgspec.Meta:
    """Return the constraint that a string is one of ``names``."""
    return msgspec.Meta(pattern=rf"^({'|'.join(names)})\Z")


def typed_fields(cls: type, fields: list[Any]) -> list[Any]:
    """Return the fields of a class, each with a validator for the field's type. Use as an attrs ``field_transformer``."""
    types = get_type_hints(cls, include_extras=True)
    return [
        field.evolve(validator=partial(_check_type, types[field.name])) if field.validator is None else field
        for field in fields
    ]


def _check_type(expected: Any, record: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise RequestError if a value does not have the expected type. A list becomes a tuple, an integer of a framework an int."""
    plain = None if isinstance(value, int) else integer(value)
    try:
        object.__setattr__(record, field.name, msgspec.convert(value if plain is None else plain, expected))
    except Exception as error:  # an object may raise its own
        reason = f"{str(error)[:1].lower()}{str(error)[1:]}".replace("matching regex '^(", "one of ")
        reason = reason.replace(r")\\Z'", "").replace("|", ", ")
        text = f"{type(record).__name__}: invalid {field.name} {short_repr(value)}: {reason}"
        raise tc.RequestError(text) from error


ANY = integer_in(-MOST, MOST)
NATURAL = integer_in(0, MOST)
FILL = one_of("zero", "keep")
VALUES = mapping_of(Validator("an integer", is_int_like))
MAYBE_FUNCTION = optional(FUNCTION)
_BITS = tuple_of(integer_in(1, 1024))
WIDTHS = Validator(
    "a tuple of widths in bits, widest first, or () to skip the comparison of widths",
    lambda value: _BITS.fits(value) and list(value) == sorted(value, reverse=True),
)
OUTSIDE = Validator(
    "'zero', 'keep', a number, or None",
    lambda value: value is None or isinstance(value, (bool, float, complex)) or ANY.fits(value) or FILL.fits(value),
)
VARIANT = instance_of("a Variant", tc.Variant)
NAMES = Validator("names", lambda value: isinstance(value, Collection) and all(map(TEXT.fits, value)))


def system_reason(error: Exception) -> str:
    """Return the operating system's reason for a file error, without the path."""
    return getattr(error, "strerror", None) or type(error).__name__
