"""The commands ``tilecopy cache``: the cache of compiled kernels."""

from __future__ import annotations

import attrs
import click
from tilecopy_cli.command import Answer, NearestGroup, shown, table

from .cache import ModuleCache


@click.group("cache", cls=NearestGroup, short_help="The cache of compiled kernels: info, clear.")
def cache_group() -> None:
    """Kernels that were assembled in earlier processes, kept on disk.

    TILECOPY_CACHE=0 turns the cache off, TILECOPY_CACHE_DIR is its folder, TILECOPY_CACHE_LIMIT_MIB its limit.
    """


@cache_group.command("info")
def cache_info() -> Answer:
    """Say where the cache is, what it holds, and whether it is used."""
    info = ModuleCache().info()
    rows = [
        ("used", "yes" if info.on else f"off: {info.why_off}"),
        ("folder", shown(info.folder) or "none"),
        ("entries", info.entries),
        ("bytes", info.bytes),
        ("limit", f"{info.limit_bytes} bytes"),
    ]
    return Answer(attrs.asdict(info), lambda: table(rows))


@cache_group.command("clear")
def cache_clear() -> Answer:
    """Remove every entry."""
    removed = ModuleCache().clear()
    told = {"folder": removed.folder, "removed_entries": removed.entries, "removed_bytes": removed.bytes}
    text = f"removed {removed.entries} entries, {removed.bytes} bytes, from {shown(removed.folder)}\n"
    return Answer(told, lambda: text)
