"""Validators for users' arguments, shared by all packages: the core's validators, and validators for paths and mappings.

Functions are decorated with :func:`checked`, or call ``VALIDATOR.check(value, where, name)`` if the decorator is too late or too slow.
Attributes of attrs classes take each of these as ``validator=``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilecopy_core.errors import FLAG, TEXT, Validator, checked, instance_of, integer_in, one_of, optional, tuple_of

__all__ = ["FLAG", "FUNCTION", "PATH", "TEXT", "Validator", "checked", "instance_of", "integer_in", "mapping_of"]
__all__ += ["one_of", "optional", "tuple_of"]

_LONGEST_PATH = 4096
"""PATH_MAX of Linux."""


def _is_path(value: Any) -> bool:
    if not isinstance(value, (str, Path)) or not 0 < len(str(value)) <= _LONGEST_PATH or "\0" in str(value):
        return False
    return bool(os.fsencode(value))  # raises if no file system has such a name


PATH = Validator("a non-empty string or pathlib.Path that the file system accepts", _is_path)
FUNCTION = Validator("a function", callable)


def mapping_of(validator: Validator) -> Validator:
    """Return a validator for mappings from strings to values. ``validator`` checks the values."""
    return Validator(
        f"a mapping from strings to values, where each value is {validator.rule}",
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(name, str) and validator.fits(value[name]) for name in value)
        ),
    )
