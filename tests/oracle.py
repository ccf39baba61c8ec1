"""What layouts mean, written from the definition alone and in plain NumPy: knows nothing of the lowering."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np


def addresses(extents: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
    """Element address of each flat index: split across the extents, last fastest, times the strides."""
    flat = np.arange(prod(extents))
    total = np.full(len(flat), offset)
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        total += flat % extent * stride
        flat = flat // extent
    return total


def swizzled(address: Any, per_element: int, swizzle_len: int, atom_len: int) -> Any:
    """XOR of bits [S, S+B) of ``address >> M`` into bits [0, B)."""
    high = address >> per_element
    low = address & ((1 << per_element) - 1)
    return ((high ^ ((high >> atom_len) & ((1 << swizzle_len) - 1))) << per_element) | low


def box_flat(shape: tuple[int, ...], starts: tuple[int, ...], extents: tuple[int, ...]) -> Any:
    """Flat indices, in the shape, of the elements of a box in row-major order."""
    result = []
    for coordinate in product(*(range(s, s + e) for s, e in zip(starts, extents, strict=True))):
        flat = 0
        for index, extent in zip(coordinate, shape, strict=True):
            flat = flat * extent + index
        result.append(flat)
    return np.array(result)


def random_array(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Random bytes as an array of any dtype."""
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(seed).integers(0, 256, prod(shape) * dtype.itemsize, np.uint8)
    return raw.view(dtype).reshape(shape)


def same_bytes(left: Any, right: Any) -> bool:
    """Whether two arrays hold the same bytes (NaNs and all)."""
    return left.tobytes() == right.tobytes()
