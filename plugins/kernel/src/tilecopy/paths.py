"""Paths of files and folders, as callers give them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tilecopy_core.errors import Kind

_LONGEST_PATH = 4096
"""PATH_MAX of Linux."""


def _is_path(value: Any) -> bool:
    if not isinstance(value, (str, Path)) or not 0 < len(str(value)) <= _LONGEST_PATH or "\0" in str(value):
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


PATH = Kind("a path: text, or a pathlib.Path", _is_path)
