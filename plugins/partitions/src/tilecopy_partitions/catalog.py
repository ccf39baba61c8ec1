"""A table of the first-party variants and their packages, for error messages.

The core reads :data:`KNOWN_VARIANTS` through the entry-point group ``tilecopy.known.v1``. tests/integration/test_packages.py compares it with the
records of the variants and with plugins/*/pyproject.toml.
"""

from __future__ import annotations

from itertools import permutations

from tilecopy_core.registry import KnownVariant

__all__ = ["KNOWN_VARIANTS", "install_line"]


def install_line(package: str) -> str:
    """Return the phrase of an error message that says how to install a package of this project."""
    folder = package.removeprefix("tilecopy-").replace("-", "_")
    return f"install {package} (from a checkout: pip install plugins/{folder})"


def _first_party(package: str, op: str, spaces: tuple[tuple[str, str], ...], *, edges: bool = False) -> KnownVariant:
    return KnownVariant(package, op, spaces, edges, install_line(package))


KNOWN_VARIANTS: dict[str, KnownVariant] = {
    "bulk": _first_party("tilecopy-bulk", "copy_async", (("global", "shared"),)),
    "bulk_store": _first_party("tilecopy-bulk", "copy_async", (("shared", "global"),)),
    "dsmem": _first_party("tilecopy-dsmem", "copy_async", (("shared", "shared"),)),
    "gmem_smem": _first_party("tilecopy-gmem-smem", "copy", (("global", "shared"), ("shared", "global")), edges=True),
    "ldgsts": _first_party("tilecopy-ldgsts", "copy_async", (("global", "shared"),), edges=True),
    "ldmatrix": _first_party("tilecopy-ldmatrix", "copy", (("shared", "local"),)),
    "ragged": _first_party(
        "tilecopy-ragged", "copy", tuple(permutations(("global", "shared", "local"), 2)), edges=True
    ),
    "ragged_async": _first_party("tilecopy-ragged", "copy_async", (("global", "shared"),), edges=True),
    "reg": _first_party(
        "tilecopy-reg",
        "copy",
        (("shared", "local"), ("local", "shared"), ("global", "local"), ("local", "global")),
        edges=True,
    ),
    "regperm": _first_party("tilecopy-regperm", "copy", (("local", "local"),)),
    "regperm_shfl": _first_party("tilecopy-regperm", "copy", (("local", "local"),)),
    "stmatrix": _first_party("tilecopy-ldmatrix", "copy", (("local", "shared"),)),
    "tcgen05_cp": _first_party("tilecopy-tcgen05-cp", "copy_async", (("shared", "tmem"),)),
    "tcgen05_ld": _first_party("tilecopy-tcgen05-ldst", "copy", (("tmem", "local"),)),
    "tcgen05_st": _first_party("tilecopy-tcgen05-ldst", "copy", (("local", "tmem"),)),
    "tma": _first_party("tilecopy-tma", "copy_async", (("global", "shared"),), edges=True),
    "tma_store": _first_party("tilecopy-tma", "copy_async", (("shared", "global"),), edges=True),
}
