"""Modules of this folder can be imported; how many examples hypothesis draws."""

import sys
from pathlib import Path

import tilecopy_test_helpers.profiles  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
