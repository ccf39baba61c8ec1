"""The variants that can be installed, as data of another package: for errors and listings, which say what to install."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import attrs

from .loading import installed, load, said, warn

KNOWN_GROUP = "tilecopy.known.v1"
"""Entry-point group of tables of :class:`KnownVariant` by name."""


@attrs.frozen
class KnownVariant:
    """A variant that can be installed, by the distribution ``package``; the rest as :class:`~tilecopy_core.Variant` has it.

    Attributes:
        install: what to do for that, in words.
    """

    package: str
    op: str
    spaces: tuple[tuple[str, str], ...]
    options: tuple[str, ...] = ()
    edges: bool = False
    install: str = ""


@cache
def known_variants() -> Mapping[str, KnownVariant]:
    """The variants that installed tables name, read once; a table that fails to load is left out with a warning."""
    found: dict[str, KnownVariant] = {}
    for source in installed(KNOWN_GROUP):
        if source.incompatible:
            continue
        try:
            table = load(source)
            found = {name: known for name, known in table.items() if isinstance(known, KnownVariant)} | found
        except Exception as error:
            warn(f"the table of known variants of {source.owner} is left out: {said(error)}")
    return found
