"""How many examples hypothesis draws; helpers beside the tests."""

import sys
from pathlib import Path

import tilecopy_test_helpers.profiles  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
