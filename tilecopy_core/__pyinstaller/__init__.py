"""The PyInstaller hook of tilecopy. PyInstaller finds it through the entry-point group ``pyinstaller40``."""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Return the folder that contains tilecopy's PyInstaller hook."""
    return [str(Path(__file__).parent)]
