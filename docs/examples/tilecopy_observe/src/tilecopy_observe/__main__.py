"""``python -m tilecopy_observe SCRIPT [ARGUMENTS]``: run a script and print a table of its dispatches on standard error."""

from __future__ import annotations

import runpy
import sys

from . import show


def main() -> None:
    """Run the script as Python would, and print whatever way it ends."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tilecopy_observe SCRIPT [ARGUMENTS]")
    del sys.argv[0]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        show()


if __name__ == "__main__":
    main()
