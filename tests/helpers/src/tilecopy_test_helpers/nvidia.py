"""Tests on a machine without NVIDIA's packages: macOS, for which there are none, and a session that leaves them out on purpose.

There, a test that needs one of them is skipped with the reason. Anywhere else a missing package is a failure.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import pytest

VARIABLE = "TILECOPY_TESTS_WITHOUT_NVIDIA"
"""The environment variable of the session that leaves them out."""


def without_nvidia() -> bool:
    """Return whether NVIDIA's packages are missing on purpose."""
    return sys.platform == "darwin" or os.environ.get(VARIABLE) == "1"


def nvidia_module(name: str) -> Any:
    """Import a module of NVIDIA's packages; where they are missing on purpose, skip the test or the test module."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if without_nvidia():
            pytest.skip(f"without NVIDIA's packages: {error}", allow_module_level=True)
        raise
