"""Arrays of random bytes, their comparison, and the indices of a box."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tilecopy_testkit.oracle import coordinates


def box_flat(shape: Sequence[int], starts: Sequence[int], extents: Sequence[int]) -> Any:
    """Flat indices, in the shape, of the elements of a box in row-major order."""
    flat = np.zeros(prod(extents), np.int64)
    for column, start, size in zip(coordinates(extents).T, starts, shape, strict=True):
        flat = flat * size + column + start
    return flat


def random_array(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Random bytes as an array of any dtype."""
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(seed).integers(0, 256, prod(shape) * dtype.itemsize, np.uint8)
    return raw.view(dtype).reshape(shape)


def same_bytes(left: Any, right: Any) -> bool:
    """Whether two arrays hold the same bytes (NaNs and all)."""
    return bool(left.tobytes() == right.tobytes())
