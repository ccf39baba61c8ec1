"""What accesses cost in memory: sectors of 32 bytes of global memory, wavefronts of 32 banks of shared memory.

The emulator's profile and :func:`tilecopy.cost` count by these functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.ma

SECTOR_BYTES, LINE_BYTES = 32, 128
"""A sector of global memory, and a line of four."""
BANKS, BANK_BYTES = 32, 4
"""Banks of shared memory, each a word wide."""


def distinct_sectors(requests: Any, addresses: Any, sizes_bytes: Any, unit_bytes: int = SECTOR_BYTES) -> int:
    """Return the number of sectors that requests touch; one that two requests touch counts twice.

    Args:
        requests: number of each access's request (of its warp), or of all.
        addresses: first byte of each access.
        sizes_bytes: of each access, or of all: 1 to ``unit_bytes`` bytes.
        unit_bytes: bytes of what is counted, such as 128 for lines.
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

    A request of more than 4 bytes per thread is served 128 bytes' worth of threads at a time; each part takes as many
    wavefronts as the most different words that fall on one bank.

    Args:
        requests: number of each access's request (of its warp).
        lanes: lane of each access in its warp.
        places: first byte of each access in shared memory.
        size_bytes: of each access.
    """
    words = max(1, size_bytes // BANK_BYTES)
    part = np.asarray(requests).astype(np.int64) * 8 + np.asarray(lanes).astype(np.int64) * words // BANKS
    word = (np.asarray(places).astype(np.int64) // BANK_BYTES)[:, None] + np.arange(words)
    distinct = np.unique((part[:, None] << 32) + word)
    banks, per_bank = np.unique(distinct // 2**32 * BANKS + distinct % BANKS, return_counts=True)
    starts = np.flatnonzero(np.diff(banks // BANKS, prepend=-1))
    return int(np.maximum.reduceat(per_bank, starts).sum()) if len(starts) else 0
