"""Tables in which packages list the variants that can be installed. Error messages and listings use the tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache

from ..errors.attrs_classes import frozen
from .entry_points import installed_sources, load, short_error, warn_outside

KNOWN_GROUP = "tilecopy.known.v1"
"""Entry-point group of tables of :class:`KnownVariant` by name."""


@frozen
class KnownVariant:
    """A frozen record of a variant that can be installed: package, op, memory spaces, edge support, install command."""

    package: str
    op: str
    spaces: tuple[tuple[str, str], ...]
    edges: bool = False
    install: str = ""


def known_variants() -> Mapping[str, KnownVariant]:
    """Return a dict from names to the variants of all installed tables. A table that fails to load causes a warning."""
    return _found_on(tuple(map(str, sys.path)))


@lru_cache(maxsize=1)
def _found_on(path: tuple[str, ...]) -> Mapping[str, KnownVariant]:
    """What is installed on a path, which is read once."""
    variants: dict[str, KnownVariant] = {}
    for source in (source for source in installed_sources(KNOWN_GROUP) if not source.incompatible):
        try:
            table = load(source)
            variants = {name: known for name, known in table.items() if isinstance(known, KnownVariant)} | variants
        except Exception as error:
            warn_outside(f"the table of installable variants of {source.owner} is ignored: {short_error(error)}")
    return variants
