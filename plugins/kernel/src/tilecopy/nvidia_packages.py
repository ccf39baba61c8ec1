"""The remedy that error messages give for a missing NVIDIA package."""

import sys

__all__ = ["remedy"]


def remedy(command: str) -> str:
    """Return the remedy for a missing NVIDIA package: on Linux and Windows, the command that installs the package.

    On macOS, for which NVIDIA does not publish its packages, return a sentence that says so and what works there.
    """
    if sys.platform == "darwin":
        return (
            "NVIDIA publishes the package only for Linux and Windows; on macOS, the emulator runs kernels and the .ptx "
            "files of nvcc (see docs/emulator.md)"
        )
    return command
