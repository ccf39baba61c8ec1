"""Executors and other packages that can be installed: what an error tells to install.

tests/test_packages.py compares :data:`KNOWN_EXECUTORS` with plugins/*/pyproject.toml.
"""

from __future__ import annotations

from tilecopy_partitions.catalog import install_line

__all__ = ["KNOWN_EXECUTORS", "KNOWN_PACKAGES", "install_line"]

KNOWN_EXECUTORS: dict[str, str] = {"cuda": "tilecopy-cuda", "emulator": "tilecopy-emulator"}
KNOWN_PACKAGES: dict[str, str] = {
    "tilecopy-draw": "pip install plugins/emulator plugins/draw",
    "tilecopy-export": "pip install plugins/export",
    "tilecopy-relayout": "pip install plugins/gmem_smem plugins/ragged plugins/reg plugins/regperm plugins/relayout",
    "tilecopy-testkit": "pip install plugins/cli plugins/emulator plugins/testkit",
}
"""Packages that are neither variants nor executors, and how to install each and what it needs from a checkout."""
