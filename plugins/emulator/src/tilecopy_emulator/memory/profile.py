"""What a profiler would count: sectors of global memory, wavefronts of shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..threads.registers import Registers
from ..threads.threads import Lanes


def count_global(machine: Registers, lanes: Lanes, addresses: Any, sizes: Any) -> None:
    """Requests and 32-byte sectors of one access to global memory, of at most 32 bytes a thread; who moves 0 bytes has no part."""
    shape = (machine.size(lanes), machine.copies)
    index = machine.index(lanes)
    warps = machine.warp_of[index][:, None] + np.arange(machine.copies) * machine.unit_ctas * machine.warps_per_cta
    sizes = np.broadcast_to(sizes, shape)
    moves = sizes > 0
    warps, sizes = warps[moves].astype(np.uint64), sizes[moves].astype(np.uint64)
    found = machine.launch.memory.unskewed(np.broadcast_to(addresses, shape)[moves])
    reached = np.concatenate([found >> np.uint64(5), (found + sizes - np.uint64(1)) >> np.uint64(5)])
    counters = machine.launch.counters
    counters["global_requests"] += len(np.unique(warps))
    counters["global_sectors"] += np.unique(np.stack([np.tile(warps, 2), reached]), axis=1).shape[1]


def count_bulk(machine: Registers, addresses: Any, moved: Any = True) -> None:
    """Requests and 32-byte sectors of a bulk or tensor copy's side in global memory, by the units of 16 bytes that each copy moves."""
    addresses, moved = (np.broadcast_to(each, (len(addresses), machine.copies)) for each in (addresses, moved))
    machine.launch.counters["global_requests"] += machine.copies
    for copy in range(machine.copies):
        first = machine.launch.memory.unskewed(addresses[moved[:, copy], copy].astype(np.uint64))
        sectors = np.concatenate([first, first + np.uint64(15)]) >> np.uint64(5)
        machine.launch.counters["global_sectors"] += len(np.unique(sectors))


def count_shared(machine: Registers, lanes: Lanes, places: Any, size: int) -> None:
    """Requests and wavefronts of one access to shared memory.

    A request of more than 4 bytes a thread is served 128 bytes' worth of threads at a time; each part takes as many
    wavefronts as the most different words that fall on one of the 32 banks.
    """
    index = machine.index(lanes)
    words = max(1, size // 4)
    warp = machine.warp_of[index].astype(np.int64)
    lane = machine.lane[index, 0].astype(np.int64)
    phase = warp * 8 + lane * words // 32
    word = (places // 4)[:, None] + np.arange(words)
    keys = np.unique(np.stack([np.broadcast_to(phase[:, None], word.shape).ravel(), word.ravel()]), axis=1)
    banks, per_bank = np.unique(keys[0] * 32 + keys[1] % 32, return_counts=True)
    worst: dict[int, int] = {}
    for part, found in zip((banks // 32).tolist(), per_bank.tolist(), strict=True):
        worst[part] = max(worst.get(part, 0), found)
    counters = machine.launch.counters
    counters["shared_requests"] += len(np.unique(warp)) * machine.copies
    counters["shared_wavefronts"] += sum(worst.values()) * machine.copies
