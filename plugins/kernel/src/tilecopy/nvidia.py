"""What a message says if a package of NVIDIA is missing."""

from __future__ import annotations

import sys

__all__ = ["remedy"]


def remedy(command: str) -> str:
    """Return what to do about a missing package of NVIDIA.

    Args:
        command: the command that installs it on Linux and Windows.

    Returns:
        The command; on macOS, for which NVIDIA publishes none of its packages, that and what works there instead.
    """
    if sys.platform == "darwin":
        return (
            "NVIDIA publishes it for Linux and Windows alone; on macOS the emulator runs kernels, and .ptx files that nvcc made "
            "elsewhere (docs/emulator.md)"
        )
    return command
