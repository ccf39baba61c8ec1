"""Counts of memory traffic: 32-byte sectors of global memory, and wavefronts of shared memory (32 banks).

The emulator's profile and :func:`tilecopy.cost` count by these functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.ma

SECTOR_BYTES, LINE_BYTES = 32, 128
"""The bytes of a sector of global memory, and of a line of four sectors."""
BANKS, BANK_BYTES = 32, 4
"""The number of banks of shared memory, and the bytes of a bank's word."""


def distinct_sectors(requests: Any, addresses: Any, sizes_bytes: Any, unit_bytes: int = SECTOR_BYTES) -> int:
    """Return the number of sectors that memory requests touch. A sector that two requests touch counts twice.

    Args:
        requests: the request of each access, as an integer per warp and instruction, or one integer for all.
        addresses: the first byte of each access.
        sizes_bytes: the bytes of each access, 1 to ``unit_bytes``, or one integer for all.
        unit_bytes: the bytes of the unit that is counted: 32 for sectors, 128 for lines.
    """
    first = np.asarray(addresses).astype(np.int64)
    last = first + np.asarray(sizes_bytes).astype(np.int64) - 1
    sectors = np.concatenate([first // unit_bytes, last // unit_bytes])
    numbers = np.tile(np.broadcast_to(requests, first.shape), 2)
    order = np.lexsort((sectors, numbers))
    sectors, numbers = sectors[order], numbers[order]
    return int(((sectors[1:] != sectors[:-1]) | (numbers[1:] != numbers[:-1])).sum()) + (len(sectors) > 0)


def distinct_wavefronts(requests: Any, lanes: Any, places: Any, size_bytes: int) -> int:
    """Return the number of wavefronts that requests to shared memory take.

    The hardware splits a request of more than 4 bytes per thread into parts of 128 bytes. Each part takes as many
    wavefronts as the most distinct words that are in one bank.

    Args:
        requests: the request of each access, as an integer per warp and instruction.
        lanes: the lane of each access in its warp.
        places: the first byte of each access in shared memory.
        size_bytes: the bytes of an access.
    """
    words = max(1, size_bytes // BANK_BYTES)
    part = np.asarray(requests).astype(np.int64) * 8 + np.asarray(lanes).astype(np.int64) * words // BANKS
    word = (np.asarray(places).astype(np.int64) // BANK_BYTES)[:, None] + np.arange(words)
    distinct = np.unique((part[:, None] << 32) + word)
    banks, per_bank = np.unique(distinct // 2**32 * BANKS + distinct % BANKS, return_counts=True)
    starts = np.flatnonzero(np.diff(banks // BANKS, prepend=-1))
    return int(np.maximum.reduceat(per_bank, starts).sum()) if len(starts) else 0
