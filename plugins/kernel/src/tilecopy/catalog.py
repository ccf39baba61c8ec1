"""The first-party executors and packages, with the commands that install them. Error messages quote these commands.

tests/integration/test_packages.py compares :data:`KNOWN_EXECUTORS` and :data:`KNOWN_COMMANDS` with plugins/*/pyproject.toml.
"""

from __future__ import annotations

KNOWN_EXECUTORS: dict[str, str] = {"cuda": "tilecopy-cuda", "emulator": "tilecopy-emulator"}
KNOWN_COMMANDS: dict[str, str] = {
    "cuda": "tilecopy-export",
    "draw": "tilecopy-draw",
    "emulate": "tilecopy-emulator",
    "new-variant": "tilecopy-testkit",
    "relayout": "tilecopy-relayout",
    "testkit": "tilecopy-testkit",
}
"""Subcommand of ``tilecopy`` -> the package that has it."""
KNOWN_PACKAGES: dict[str, str] = {
    "tilecopy-draw": "pip install plugins/emulator plugins/draw",
    "tilecopy-export": "pip install plugins/export",
    "tilecopy-relayout": "pip install plugins/gmem_smem plugins/ragged plugins/reg plugins/regperm plugins/relayout",
    "tilecopy-testkit": "pip install plugins/cli plugins/emulator plugins/testkit",
}
"""Packages that are neither variants nor executors: name -> command that installs it from a checkout."""


def install_line(package: str) -> str:
    """Return the command that installs a package. See :func:`tilecopy_partitions.catalog.install_line`."""
    if package in KNOWN_PACKAGES:
        return f"install {package} (from a checkout: {KNOWN_PACKAGES[package]})"
    # Imported when it is needed, because the import takes as long as a first plan.
    from tilecopy_partitions.catalog import install_line as line_of

    return line_of(package)
