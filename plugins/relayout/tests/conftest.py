"""Helpers and profiles of the repository's tests/, and a stand-in for the planner while there is none."""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))
import profiles  # noqa: F401

_package = importlib.util.find_spec("tilecopy_relayout")
if not (Path(_package.submodule_search_locations[0]) / "planner.py").exists():
    import standin

    sys.modules["tilecopy_relayout.planner"] = standin
