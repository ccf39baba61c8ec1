"""``python -m tilecopy``: the command line, with this interpreter."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from .known import install_line


def main() -> None:
    """Run the console script ``tilecopy``, which tilecopy-cli declares."""
    points = entry_points(group="console_scripts", name="tilecopy")
    if not points:
        sys.exit(f"tilecopy: the command line is not installed: {install_line('tilecopy-cli')}")
    next(iter(points)).load()()


if __name__ == "__main__":
    main()
