"""CUB's whole-device algorithms: the kernels that one call launches, in the order and with the grids of the host's dispatch.

Sums, scans by decoupled look-back and sorts by onesweep, of more tiles than one; the policies are those that the kernels were compiled with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from table import Kernel, floats, ints

Launch = Callable[[str, list[Any], int, int], None]
"""Runs an entry on arguments, with a grid and a block."""
_MOST_BLOCKS = 24
"""What the host would take from the number of multiprocessors and how many CTAs fit into each."""


def policies(launch: Launch) -> list[int]:
    """What ``device_policies`` of the source lists."""
    found = np.zeros(12, np.int32)
    launch("device_policies", [found], 1, 1)
    return [int(x) for x in found]


def reduce(launch: Launch, x: Any, out: Any) -> None:
    """``DeviceReduce::Sum``: partial sums of at most so many CTAs, then one CTA."""
    threads, items, last, *_ = policies(launch)
    tile = threads * items
    blocks = min(-(-len(x) // tile), _MOST_BLOCKS)
    partial = np.zeros(blocks, np.float32)
    launch("device_reduce", [x, partial, len(x), _MOST_BLOCKS, tile], blocks, threads)
    launch("device_reduce_last", [partial, out, blocks, 0.0], 1, last)


def scan(launch: Launch, x: Any, out: Any) -> None:
    """``DeviceScan::ExclusiveSum``: the states of tiles, then all tiles in one launch."""
    *_, threads, items, _, _, _, _, _, lookback, _ = policies(launch)
    assert lookback, "the policy asks for another algorithm"
    tiles = -(-len(x) // (threads * items))
    states = np.full(tiles + 32, 7, np.uint64)
    launch("device_scan_init", [states, tiles], -(-tiles // 128), 128)
    launch("device_scan", [x, out, states, len(x)], tiles, threads)


def sort(launch: Launch, keys: Any, out: Any) -> None:
    """``DeviceRadixSort::SortKeys``: all histograms, their sums, then a pass for each digit."""
    *_, histogram, sums, threads, items, bits, _, onesweep = policies(launch)
    assert onesweep, "the policy asks for another algorithm"
    passes, digits, blocks = -(-32 // bits), 1 << bits, -(-len(keys) // (threads * items))
    bins, counters = np.full(passes * digits, 7, np.uint32), np.full(passes, 7, np.int32)
    lookback, buffers = np.full(blocks * digits, 7, np.int32), [keys, np.zeros_like(keys), np.zeros_like(keys)]
    launch("device_sort_init", [counters, passes, bins, len(bins)], -(-len(bins) // 256), 256)
    launch("device_sort_histogram", [bins, keys, len(keys)], 4, histogram)
    launch("device_sort_sums", [bins], passes, sums)
    for number in range(passes):
        launch("device_sort_init", [lookback, len(lookback), lookback, 0], -(-len(lookback) // 256), 256)
        source, to = buffers[(number + 1) % 2 + 1 if number else 0], buffers[number % 2 + 1]
        bit = number * bits
        arguments = [lookback, counters[number:], bins[number * digits :], to, source, len(keys), bit]
        launch("device_sort_pass", [*arguments, min(bits, 32 - bit)], blocks, threads)
    out[:] = to


def sum_of(x: Any) -> list[Any]:
    """What NumPy makes of it."""
    return [x.sum(dtype=np.float64).astype(np.float32)[None]]


def sums_before(x: Any) -> list[Any]:
    """What NumPy makes of it."""
    return [(np.cumsum(x) - x).astype(np.int32)]


def sorted_keys(keys: Any) -> list[Any]:
    """What NumPy makes of it."""
    return [np.sort(keys)]


KERNELS = [
    Kernel(name, "cub_device.cu", oracle, (given,), arch=arch, launches=launches, tolerance=1e-3)
    for arch in ("80", "90")
    for name, oracle, launches, arguments in (
        ("device_reduce", sum_of, reduce, [floats(count) for count in (1, 5000, 200_003)]),
        ("device_scan", sums_before, scan, [ints(count) for count in (1, 5000, 100_003)]),
        ("device_sort", sorted_keys, sort, [ints(n, low=0, high=1 << 32, dtype=np.uint32) for n in (1, 5000, 40_003)]),
    )
    for given in arguments
]
