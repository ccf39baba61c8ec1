"""Run the command line for ``python -m tilecopy``, with the same Python interpreter."""

import sys
from importlib.metadata import PackageNotFoundError, distribution

from .catalog import install_line


def main() -> None:
    """Run the console script ``tilecopy`` of the package tilecopy-cli."""
    try:
        points = distribution("tilecopy-cli").entry_points  # only of this package, because others may be broken
    except PackageNotFoundError:
        sys.exit(f"tilecopy: the command line is not installed: {install_line('tilecopy-cli')}")
    next(iter(points.select(group="console_scripts", name="tilecopy"))).load()()


if __name__ == "__main__":
    main()
