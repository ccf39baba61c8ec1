"""The profile counters: requests, sectors of global memory, and wavefronts of shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from tilecopy.costs import distinct_sectors, distinct_wavefronts

from ..threads.registers import Registers
from ..threads.threads import Lanes

FIRST_GLOBAL = 16
"""The smallest address of global memory, in units of 2**40 bytes (see :mod:`.memories`)."""


def count_global(machine: Registers, lanes: Lanes, addresses: Any, sizes: Any) -> None:
    """Count the requests and 32-byte sectors of an access to global memory. A thread accesses at most 32 bytes."""
    shape = (machine.size(lanes), machine.copies)
    index = machine.index(lanes)
    warps = machine.warp_of[index][:, None] + np.arange(machine.copies) * machine.unit_ctas * machine.warps_per_cta
    sizes = np.broadcast_to(sizes, shape)
    moves = sizes > 0
    warps, sizes = warps[moves], sizes[moves]
    starts = machine.launch.memory.unskew(np.broadcast_to(addresses, shape)[moves])
    counters = machine.launch.counters
    counters["global_requests"] += len(np.unique(warps))
    counters["global_sectors"] += distinct_sectors(warps, starts, sizes)


def count_atomic(machine: Registers, lanes: Lanes, addresses: Any, size: int) -> None:
    """Count the requests and 32-byte sectors of an atomic. Ignore generic addresses outside global memory."""
    high = np.asarray(addresses).astype(np.uint64) >> np.uint64(40)
    count_global(machine, lanes, addresses, np.where(high >= FIRST_GLOBAL, size, 0))


def count_bulk(machine: Registers, addresses: Any, moved: Any = True) -> None:
    """Count the requests and 32-byte sectors of a bulk or tensor copy, from the global address of each 16-byte unit."""
    addresses, moved = (np.broadcast_to(array, (len(addresses), machine.copies)) for array in (addresses, moved))
    machine.launch.counters["global_requests"] += machine.copies
    for copy in range(machine.copies):
        first = machine.launch.memory.unskew(addresses[moved[:, copy], copy].astype(np.uint64))
        machine.launch.counters["global_sectors"] += distinct_sectors(0, first, 16)


def count_shared(machine: Registers, lanes: Lanes, places: Any, size: int) -> None:
    """Count the requests and wavefronts of an access to shared memory."""
    index = machine.index(lanes)
    warp = machine.warp_of[index]
    counters = machine.launch.counters
    counters["shared_requests"] += len(np.unique(warp)) * machine.copies
    counters["shared_wavefronts"] += distinct_wavefronts(warp, machine.lane[index, 0], places, size) * machine.copies
