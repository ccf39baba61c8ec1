"""The first-party variants and their packages: what an error tells to install.

The core reads :data:`KNOWN_VARIANTS` through the entry-point group ``tilecopy.known.v1``. tests/test_packages.py compares it with the
records of the variants and with plugins/*/pyproject.toml.
"""

from __future__ import annotations

from itertools import permutations

from tilecopy_core.registry import KnownVariant

__all__ = ["KNOWN_VARIANTS", "install_line"]


def install_line(package: str) -> str:
    """What to do to install a package of this project."""
    folder = package.removeprefix("tilecopy-").replace("-", "_")
    return f"install {package} (from a checkout: pip install plugins/{folder})"


def _known(
    package: str,
    op: str,
    spaces: tuple[tuple[str, str], ...],
    options: tuple[str, ...] = (),
    *,
    edges: bool = False,
) -> KnownVariant:
    return KnownVariant(package, op, spaces, options, edges, install_line(package))


KNOWN_VARIANTS: dict[str, KnownVariant] = {
    "bulk": _known("tilecopy-bulk", "copy_async", (("global", "shared"),), ("mbar", "prefetch")),
    "bulk_store": _known("tilecopy-bulk", "copy_async", (("shared", "global"),)),
    "dsmem": _known("tilecopy-dsmem", "copy_async", (("shared", "shared"),), ("mbar", "remote_cta_id")),
    "gmem_smem": _known(
        "tilecopy-gmem-smem", "copy", (("global", "shared"), ("shared", "global")), ("relaxed",), edges=True
    ),
    "ldgsts": _known("tilecopy-ldgsts", "copy_async", (("global", "shared"),), edges=True),
    "ldmatrix": _known("tilecopy-ldmatrix", "copy", (("shared", "local"),)),
    "ragged": _known(
        "tilecopy-ragged", "copy", tuple(permutations(("global", "shared", "local"), 2)), ("relaxed",), edges=True
    ),
    "ragged_async": _known("tilecopy-ragged", "copy_async", (("global", "shared"),), edges=True),
    "reg": _known(
        "tilecopy-reg",
        "copy",
        (("shared", "local"), ("local", "shared"), ("global", "local"), ("local", "global")),
        ("relaxed",),
        edges=True,
    ),
    "regperm": _known("tilecopy-regperm", "copy", (("local", "local"),)),
    "regperm_shfl": _known("tilecopy-regperm", "copy", (("local", "local"),)),
    "stmatrix": _known("tilecopy-ldmatrix", "copy", (("local", "shared"),)),
    "tcgen05_cp": _known("tilecopy-tcgen05-cp", "copy_async", (("shared", "tmem"),), ("cta_group",)),
    "tcgen05_ld": _known("tilecopy-tcgen05-ldst", "copy", (("tmem", "local"),), ("wait",)),
    "tcgen05_st": _known("tilecopy-tcgen05-ldst", "copy", (("local", "tmem"),), ("wait",)),
    "tma": _known("tilecopy-tma", "copy_async", (("global", "shared"),), ("mbar", "multicast"), edges=True),
    "tma_store": _known("tilecopy-tma", "copy_async", (("shared", "global"),), edges=True),
}
