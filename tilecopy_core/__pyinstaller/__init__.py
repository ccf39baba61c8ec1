"""Where PyInstaller finds the hook of tilecopy: the entry-point group ``pyinstaller40`` names it. tilecopy never imports this package."""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Return the folder of the hooks, as PyInstaller asks for it."""
    return [str(Path(__file__).parent)]
