"""Earlier checkouts that benchmarks run beside this one."""

from __future__ import annotations

import sys
from pathlib import Path


def python_of(checkout: Path) -> str:
    """Return the interpreter of a checkout's own environment, CHECKOUT/.venv, if it has one; else the interpreter that runs.

    Entry points are those of the environment, and packages of one minor version do not load beside a core of another.
    """
    for name in ("bin/python", "Scripts/python.exe"):
        if (path := checkout / ".venv" / name).exists():
            return str(path)
    return sys.executable
