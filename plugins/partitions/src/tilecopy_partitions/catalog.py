"""The first-party variants and their packages: what an error tells to install.

The core reads :data:`KNOWN_VARIANTS` through the entry-point group ``tilecopy.known.v1``. tests/test_packages.py compares it with the
records of the variants and with plugins/*/pyproject.toml.
"""

from __future__ import annotations

from itertools import permutations

from tilecopy_core.registry import KnownVariant

__all__ = ["KNOWN_VARIANTS", "install_line"]


def install_line(package: str) -> str:
    """Return what to do to install a package of this project."""
    folder = package.removeprefix("tilecopy-").replace("-", "_")
    return f"install {package} (from a checkout: pip install plugins/{folder})"


def _known(package: str, op: str, spaces: tuple[tuple[str, str], ...], *, edges: bool = False) -> KnownVariant:
    return KnownVariant(package, op, spaces, edges, install_line(package))


KNOWN_VARIANTS: dict[str, KnownVariant] = {
    "bulk": _known("tilecopy-bulk", "copy_async", (("global", "shared"),)),
    "bulk_store": _known("tilecopy-bulk", "copy_async", (("shared", "global"),)),
    "dsmem": _known("tilecopy-dsmem", "copy_async", (("shared", "shared"),)),
    "gmem_smem": _known("tilecopy-gmem-smem", "copy", (("global", "shared"), ("shared", "global")), edges=True),
    "ldgsts": _known("tilecopy-ldgsts", "copy_async", (("global", "shared"),), edges=True),
    "ldmatrix": _known("tilecopy-ldmatrix", "copy", (("shared", "local"),)),
    "ragged": _known("tilecopy-ragged", "copy", tuple(permutations(("global", "shared", "local"), 2)), edges=True),
    "ragged_async": _known("tilecopy-ragged", "copy_async", (("global", "shared"),), edges=True),
    "reg": _known(
        "tilecopy-reg",
        "copy",
        (("shared", "local"), ("local", "shared"), ("global", "local"), ("local", "global")),
        edges=True,
    ),
    "regperm": _known("tilecopy-regperm", "copy", (("local", "local"),)),
    "regperm_shfl": _known("tilecopy-regperm", "copy", (("local", "local"),)),
    "stmatrix": _known("tilecopy-ldmatrix", "copy", (("local", "shared"),)),
    "tcgen05_cp": _known("tilecopy-tcgen05-cp", "copy_async", (("shared", "tmem"),)),
    "tcgen05_ld": _known("tilecopy-tcgen05-ldst", "copy", (("tmem", "local"),)),
    "tcgen05_st": _known("tilecopy-tcgen05-ldst", "copy", (("local", "tmem"),)),
    "tma": _known("tilecopy-tma", "copy_async", (("global", "shared"),), edges=True),
    "tma_store": _known("tilecopy-tma", "copy_async", (("shared", "global"),), edges=True),
}
