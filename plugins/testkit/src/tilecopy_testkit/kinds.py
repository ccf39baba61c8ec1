"""What the arguments of the kit's public names may be, and why a file that they name is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tilecopy as tc

from tilecopy_core.errors import Kind, instance_of, integer_in, one_of, optional
from tilecopy_core.plugin import is_int_like

MOST = 2**62
ANY = integer_in(-MOST, MOST)
NATURAL = integer_in(0, MOST)
POSITIVE = integer_in(1, MOST)


def tuples(kind: Kind) -> Kind:
    """A tuple, as records that are compared have them, in which each is that."""
    return Kind(
        f"a tuple in which each is {kind.rule}",
        lambda value: isinstance(value, tuple) and all(map(kind.fits, value)),
    )


def by_name(kind: Kind) -> Kind:
    """A mapping from names, in which each value is that."""
    return Kind(
        f"a mapping from names, in which each value is {kind.rule}",
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(key, str) and kind.fits(each) for key, each in value.items())
        ),
    )


def several(kind: Kind) -> Kind:
    """None, or a tuple or list in which each is that, at least one."""
    return Kind(
        f"None, or a tuple, not empty, in which each is {kind.rule}",
        lambda value: (
            value is None or (isinstance(value, (tuple, list)) and bool(value) and all(map(kind.fits, value)))
        ),
    )


SHAPE = tuples(integer_in(1, MOST))
SHAPE_FROM_0 = tuples(NATURAL)
VALUES = Kind(
    "a mapping from block, turn, unit and n to integers",
    lambda value: (
        isinstance(value, Mapping) and all(isinstance(key, str) and is_int_like(each) for key, each in value.items())
    ),
)
FUNCTION = Kind("a function", callable)
MAYBE_FUNCTION = optional(FUNCTION)
PATH = Kind(
    "the path of a file", lambda value: isinstance(value, (str, Path)) and bool(value) and "\0" not in str(value)
)
_MEMORIES = ("global", "shared", "local", "tmem")
PAIR = Kind(
    "a pair of memories, such as ('global', 'shared')",
    lambda value: (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(each, str) and each in _MEMORIES for each in value)
    ),
)
SPACES = several(PAIR)
DTYPES = several(one_of(*tc.DTYPES))
TARGETS = several(one_of(*tc.TARGETS))
WIDTHS = Kind(
    "widths in bits, widest first; () where vectors are not compared",
    lambda value: (
        isinstance(value, (tuple, list))
        and all(map(integer_in(1, 1024).fits, value))
        and list(value) == sorted(value, reverse=True)
    ),
)
OPTIONS = tuples(
    Kind(
        "a name and a plain value",
        lambda each: (
            isinstance(each, tuple)
            and len(each) == 2
            and isinstance(each[0], str)
            and (each[1] is None or isinstance(each[1], (str, bool, float)) or ANY.fits(each[1]))
        ),
    )
)
OUTSIDE = Kind(
    "'zero', 'keep', a number, or None",
    lambda value: (
        value is None
        or (isinstance(value, str) and value in ("zero", "keep"))
        or (isinstance(value, (int, float, complex)) and (not isinstance(value, int) or ANY.fits(int(value))))
    ),
)
VARIANT = instance_of("a Variant", tc.Variant)
NAMES = Kind(
    "a collection of names",
    lambda value: (
        isinstance(value, (tuple, list, set, frozenset, dict)) and all(isinstance(each, str) for each in value)
    ),
)


def said_by_system(error: Exception) -> str:
    """Why a file was refused, without its path."""
    return getattr(error, "strerror", None) or type(error).__name__
