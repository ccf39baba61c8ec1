"""Special registers as symbolic integers: a CTA's index in the grid, and a CTA's rank in the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tilecopy_core.integers import Expr, Int, Symbol, of_atom, symbols_of

GRID_LIMIT = {"x": 2**31 - 1, "y": 65535, "z": 65535}
"""The most CTAs of a grid along each dimension (CUDA programming guide, compute capabilities)."""


def block_index(dim: str, count: int | None = None) -> Int:
    """Return the CTA's index along a grid dimension of ``count`` CTAs. None means that the count is unknown."""
    most = GRID_LIMIT[dim] if count is None else count
    return special_register(f"ctaid.{dim}", most - 1) if most > 1 else 0


def only_symbol(value: Int) -> Symbol:
    """Return the only symbol of an integer. The integer must have exactly one symbol."""
    (symbol,) = symbols_of(value)
    return symbol


def bounded_by(grid: Sequence[int]) -> dict[Symbol, Int]:
    """Return a dict from each block index symbol to the same symbol with the bounds of ``grid``."""
    return {BLOCK_SYMBOLS[dim]: block_index(dim, count) for dim, count in zip("xyz", grid, strict=False)}


def cluster_rank(count: int = 16) -> Int:
    """Return the CTA's rank in its cluster of at most ``count`` CTAs."""
    return special_register("cluster_ctarank", count - 1) if count > 1 else 0


@lru_cache(maxsize=64)
def special_register(name: str, upper: int) -> Expr:
    """Return the symbol of a special register such as ``ctaid.x``. Equal registers and bounds give the same symbol."""
    return of_atom(Symbol(name, 0, upper, register=f"%{name}"))


BLOCK_SYMBOLS = {dim: only_symbol(block_index(dim)) for dim in GRID_LIMIT}
"""Grid dimension -> the symbol of the CTA's index along it, for an unknown grid."""
