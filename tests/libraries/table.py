"""A row of the table: one kernel of a library, what it is given and what NumPy makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np


@attrs.frozen(eq=False)
class Kernel:
    """One kernel. Its arguments are what is given, then one array of zeros for each array that the oracle returns."""

    name: str
    source: str
    oracle: Callable[..., list[Any]]
    given: tuple[Any, ...] = ()
    grid: Any = 1
    block: Any = 128
    cluster: Any = None
    arch: str = "90"
    shared: int = 0
    allow: tuple[str, ...] = ()
    """Hazards that the kernel's author knows of."""
    lacks: str = ""
    """What the emulator does not do yet: the kernel is refused or flagged with these words, and once it runs the row must say so."""
    tolerance: float = 1e-5
    constants: dict[str, Any] | None = None
    """Triton's constexpr parameters."""
    warps: int = 4
    launches: Callable[..., None] | None = None
    """Makes the launches of one call of a library, in the place of one: from a function that launches an entry, and the arguments."""


def ints(*shape: int, low: int = -1000, high: int = 1000, dtype: Any = np.int32) -> Any:
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
