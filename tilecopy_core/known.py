"""First-party variants and their packages, for the "pip install" line of errors.

tests/test_packages.py holds this table against plugins/*/pyproject.toml.
"""

from __future__ import annotations

from itertools import permutations

import attrs


@attrs.frozen
class KnownVariant:
    """A variant that can be installed, by the distribution ``package``; the rest as :class:`~tilecopy_core.Variant` has it."""

    package: str
    op: str
    spaces: tuple[tuple[str, str], ...]
    options: tuple[str, ...] = ()
    edges: bool = False


KNOWN_VARIANTS: dict[str, KnownVariant] = {
    "bulk": KnownVariant("tilecopy-bulk", "copy_async", (("global", "shared"),), ("mbar", "prefetch")),
    "bulk_store": KnownVariant("tilecopy-bulk", "copy_async", (("shared", "global"),)),
    "dsmem": KnownVariant("tilecopy-dsmem", "copy_async", (("shared", "shared"),), ("mbar", "remote_cta_id")),
    "gmem_smem": KnownVariant(
        "tilecopy-gmem-smem", "copy", (("global", "shared"), ("shared", "global")), ("relaxed",), edges=True
    ),
    "ldgsts": KnownVariant("tilecopy-ldgsts", "copy_async", (("global", "shared"),), edges=True),
    "ragged": KnownVariant(
        "tilecopy-ragged", "copy", tuple(permutations(("global", "shared", "local"), 2)), ("relaxed",), edges=True
    ),
    "ragged_async": KnownVariant("tilecopy-ragged", "copy_async", (("global", "shared"),), edges=True),
    "reg": KnownVariant(
        "tilecopy-reg",
        "copy",
        (("shared", "local"), ("local", "shared"), ("global", "local"), ("local", "global")),
        ("relaxed",),
        edges=True,
    ),
    "regperm": KnownVariant("tilecopy-regperm", "copy", (("local", "local"),)),
    "regperm_shfl": KnownVariant("tilecopy-regperm", "copy", (("local", "local"),)),
    "tcgen05_cp": KnownVariant("tilecopy-tcgen05-cp", "copy_async", (("shared", "tmem"),), ("cta_group",)),
}
KNOWN_EXECUTORS: dict[str, str] = {"cuda": "tilecopy-core", "emulator": "tilecopy-emulator"}
