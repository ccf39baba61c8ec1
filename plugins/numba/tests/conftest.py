"""Helpers and profiles of the repository's tests/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
import profiles  # noqa: F401
