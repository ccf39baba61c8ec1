"""The expected cost of a tiling: factors for sectors, wavefronts and CTAs, with weights measured on an H200.

Every factor is one or more. The expected throughput is that of a plain copy, divided by the product of the factors. The
weights agree with a sweep of all candidates over fifteen large relayouts and nine of narrow elements at odd places (the
repository's plugins/relayout/tests/sweep.json and sweep_narrow.json, made by tests/benchmarks/sweep_relayout.py). A test
compares every choice with them.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, log2, prod

from tilecopy_core.plugin import frozen

from .problem import Problem
from .tilings import (
    CHUNK_BYTES,
    LANES,
    LINE_BYTES,
    SCATTERS,
    SECTOR_BYTES,
    SIDES,
    Side,
    Tiling,
    dims_by_stride,
    smem_layout_of,
    thread_values_of,
    vector,
)

BANKS, BANK_BYTES = 32, 4
SMS, SM_THREADS, SM_CTAS, SM_SHARED_BYTES = 132, 2048, 32, 227 * 1024
"""Properties of an H200. On another GPU the order of the candidates changes little."""
LONG_RUN_BYTES = 256
"""Contiguous bytes of a box. Longer runs gain nothing."""
LEADING_RUN_PENALTY = {"src": 0.035, "dst": 0.02}
"""The cost of runs of half this length on the side that consecutive CTAs follow. Each further halving doubles the cost."""
OTHER_RUN_PENALTY = {"src": 0.05, "dst": 0.08}
"""The cost of such runs on the other side."""
PARTIAL = {"src": 0.7, "dst": 1.5}
"""The cost of a sector in which a run begins or ends. L2 must complete a sector that is partially written."""
LEFT_PARTIAL = 7.0
"""The cost of such a sector in a destination whose neighbouring runs are written much later."""
BYTES_OF_THREAD = {"direct": 16, "gather": 32, "scatter": 32, "shifted": 32}
"""The best number of bytes for a thread. With fewer bytes, memory is idle; with more, there are fewer threads."""
TOO_FEW = 0.11
"""The cost of half as many bytes."""
DOUBLED = {"direct": 0.006, "gather": 0.012, "scatter": 0.018, "shifted": 0.0}
"""The cost of twice as many bytes."""
FULL_CTA = 1024
"""The threads of a CTA from which ``scatter`` is as good as ``gather``: all its loads are in flight before any store."""
BEST_SHARE = 0.97
"""The share of a plain copy that a relayout reaches if all factors are 1."""
DRAM_BYTES_PER_CYCLE = 8.1
"""Bytes that an SM copies in a cycle when DRAM is the limit; L1 and shared memory take one wavefront in it."""
L2_SECTORS_PER_DRAM_SECTOR = 1.6
"""The sectors that L2 serves in the time in which DRAM serves one."""
MOST_REGISTERS, SM_REGISTERS = 255, 1 << 16
OTHER_REGISTERS, ON_THE_WAY = 24, 64
"""Registers of a thread for addresses and guards, and for the data in flight of a copy to or from shared memory."""
SPILLED = 4.0
"""The factor of a tiling whose registers spill to local memory."""
MOST_ACTIVE, IDLE = 1.25, 0.1
"""The number of threads per active thread that costs nothing, and the cost of each further thread."""
NARROW_THREADS, NARROW_CTA = 128, 0.02
"""From this number of threads in a CTA, accesses narrower than a word are slower; the cost of twice as many threads."""
NARROW_BYTES, NARROW_BOX = 1 << 15, 0.1
"""The number of bytes of a box from which they are slower, and the cost of twice as many, if both sides have such accesses."""
EXTRA, EDGE = 0.3, 0.2
"""The cost of an element outside the array, and of a box that overhangs, relative to those inside."""
LATENCY_CYCLES, FEW_WAVES = 1500.0, 4
"""The latency of a CTA's start, loads and stores in cycles, and the number of waves that hides it."""
ELEMENT_BY_ELEMENT = 2.0
"""The factor of one element per thread, which has no alternatives to compare with."""
P_NORM = 6
"""The norm that combines limits: the larger it is, the less a lower limit counts."""
NOT_BUSY: float = (
    1 + (DRAM_BYTES_PER_CYCLE * 4 / LINE_BYTES) ** P_NORM + (1 / L2_SECTORS_PER_DRAM_SECTOR) ** P_NORM
) ** (1 / P_NORM)
"""The combined limits for whole sectors and no conflicts, where the factor must be 1."""


@frozen
class TilingCost:
    """A frozen record of the factors by which a tiling is slower than a plain copy.

    Attributes:
        sectors: the factor of sectors in which runs begin and end.
        runs: the factor of short contiguous runs, which use DRAM pages poorly.
        threads: the factor of the bytes and registers of a thread, and of idle threads.
        accesses: the factor of instructions that keep L1, shared memory or L2 busy longer than DRAM.
        edges: the factor of boxes that reach out of bounds, and of their elements there.
        tail: the factor of too few CTAs to hide latency.
    """

    sectors: float
    runs: float
    threads: float
    accesses: float
    edges: float
    tail: float

    @property
    def total(self) -> float:
        """The expected cost of the tiling: the product of all factors."""
        return self.sectors * self.runs * self.threads * self.accesses * self.edges * self.tail


def cost_of(problem: Problem, tiling: Tiling) -> TilingCost:
    """Return the expected cost of a tiling."""
    if tiling.kind == "element":
        return TilingCost(1.0, 1.0, 1.0, ELEMENT_BY_ELEMENT, 1.0, 1.0)
    sectors, runs, threads, edges, tail = _factors(problem, tiling)
    return TilingCost(sectors, runs, threads, _accesses(problem, tiling), edges, tail)


def least_total(problem: Problem, tiling: Tiling) -> float:
    """Return the product of all factors except ``accesses``. This product is a lower bound of the total cost."""
    return prod(_factors(problem, tiling))


def _factors(problem: Problem, tiling: Tiling) -> tuple[float, float, float, float, float]:
    """Return the factors of :class:`TilingCost` without ``accesses``."""
    ctas, nbytes, edges, by_side = _box(problem, tiling.tile, tiling.kind == "shifted")
    sectors, runs = by_side["dst" if tiling.order[-1] == len(problem.extents) - 1 else "src"]
    threads = _threads(tiling, nbytes) * _crowding(problem, tiling)
    busy = sectors * runs * threads * edges
    return sectors, runs, threads, edges, max(1.0, _tail(problem, tiling, ctas, nbytes) / busy)


@lru_cache(maxsize=4096)
def _box(
    problem: Problem, tile: tuple[int, ...], shifted: bool
) -> tuple[int, int, float, dict[Side, tuple[float, float]]]:
    """Return the number of boxes, the bytes of one, ``edges``, and ``sectors`` and ``runs`` by the side that the CTAs follow."""
    tiling = Tiling("shifted" if shifted else "direct", tile, 1, ())
    counts, steps, extents = tiling.counts(problem), tiling.steps(problem), problem.extents
    whole = prod((extent // s) / c for c, s, extent in zip(counts, steps, extents, strict=True))
    extra = prod(c * t / extent for c, t, extent in zip(counts, tile, extents, strict=True)) - 1
    short: dict[Side, float] = {}
    partial: dict[Side, float] = {}
    for side in SIDES:
        elems, inside = _run(problem, tiling, side)
        run_bytes = elems * problem.elem_bytes
        short[side] = max(0.0, LONG_RUN_BYTES / run_bytes - 1)
        outside = [step for n, step in enumerate(getattr(problem, side)) if n not in inside]
        phase = gcd(SECTOR_BYTES, *(step * problem.elem_bytes for step in [elems, *outside]))
        partial[side] = 0.0 if shifted and side == "dst" else (SECTOR_BYTES - phase) / run_bytes
    by_side: dict[Side, tuple[float, float]] = {}
    for side, facing in (SIDES, SIDES[::-1]):
        weights = PARTIAL if side == "dst" else {**PARTIAL, "dst": LEFT_PARTIAL}
        sectors = 1 + sum(weights[edge] * share for edge, share in partial.items())
        runs = 1 + LEADING_RUN_PENALTY[side] * short[side] + OTHER_RUN_PENALTY[facing] * short[facing]
        by_side[side] = sectors, runs
    edges = 1 + EXTRA * extra + EDGE * max(0.0, 1 - whole)
    return prod(counts), tiling.nbytes(problem), edges, by_side


def _tail(problem: Problem, tiling: Tiling, ctas: int, nbytes: int) -> float:
    """Return the time of CTAs that are too few to hide their latency, relative to a plain copy of the same bytes."""
    resident = min(SM_THREADS // tiling.threads, SM_CTAS)
    if tiling.kind != "direct":
        resident = max(1, min(resident, SM_SHARED_BYTES // (nbytes + 1024)))
    waves = -(-ctas // (SMS * resident))
    if waves > FEW_WAVES:
        return 1.0
    together = min(resident, -(-ctas // SMS))
    cycles = waves * (LATENCY_CYCLES + together * nbytes / DRAM_BYTES_PER_CYCLE)
    return cycles * SMS * DRAM_BYTES_PER_CYCLE / problem.size_bytes


def _run(problem: Problem, tiling: Tiling, side: Side) -> tuple[int, list[int]]:
    """Return the number of contiguous elements of a box on one side, and the dimensions that they span."""
    have, whole = 1, list[int]()
    for n in dims_by_stride(problem, side):
        if getattr(problem, side)[n] != have:
            break
        have *= tiling.tile[n]
        whole.append(n)
        if tiling.tile[n] < problem.extents[n]:
            break
    return have, whole


def _threads(tiling: Tiling, nbytes: int) -> float:
    """Return the factor of the number of bytes per thread."""
    ratio = nbytes / tiling.threads / BYTES_OF_THREAD[tiling.kind]
    if ratio < 1:
        return 1 + TOO_FEW * (1 / ratio - 1)
    weight = DOUBLED[tiling.kind]
    if tiling.threads >= FULL_CTA:
        weight = min(weight, DOUBLED["direct"])
    return 1 + weight * log2(ratio) + (0.001 if tiling.kind == "gather" else 0)


def _crowding(problem: Problem, tiling: Tiling) -> float:
    """Return the factor of idle threads, and of registers that spill.

    Elements narrower than a word that are read or written one by one take a register each: all elements of a thread in
    its fragment, and on the other side as many as are in flight at once.
    """
    narrow = _narrow(problem)
    if tiling.divides and (tiling.kind == "direct" or not any(narrow.values())):
        return 1.0
    elems, idle = prod(tiling.tile) / tiling.threads, 0.0
    if not tiling.divides:
        active = thread_values_of(problem, tiling).threads
        elems, idle = prod(tiling.tile) / active, max(0.0, tiling.threads / active - MOST_ACTIVE)
    if tiling.kind == "direct":
        return 1 + IDLE * idle
    thread_side: Side = "src" if tiling.kind in SCATTERS else "dst"
    words = elems * problem.elem_bytes / BANK_BYTES
    registers = {side: elems if is_narrow else words for side, is_narrow in narrow.items()}
    needed = max(amount if side == thread_side else min(amount, ON_THE_WAY) for side, amount in registers.items())
    fits = needed + OTHER_REGISTERS < min(MOST_REGISTERS, SM_REGISTERS // tiling.threads)
    many = NARROW_CTA * log2(max(1, tiling.threads / NARROW_THREADS)) if any(narrow.values()) else 0.0
    large = NARROW_BOX * log2(max(1, tiling.nbytes(problem) / NARROW_BYTES)) if all(narrow.values()) else 0.0
    return (1 + IDLE * idle + many + large) * (1.0 if fits else SPILLED)


@lru_cache(maxsize=512)
def _narrow(problem: Problem) -> dict[Side, bool]:
    """Return for each side True if a thread accesses less than a word at a time."""
    return {
        side: vector(problem, dims_by_stride(problem, side)[0], side) * problem.elem_bytes < BANK_BYTES
        for side in SIDES
    }


def _accesses(problem: Problem, tiling: Tiling) -> float:
    """Return the factor of L1, shared memory and L2. It is 1 if they need less time than DRAM."""
    thread_values, elem = thread_values_of(problem, tiling), problem.elem_bytes
    side: Side = "src" if tiling.kind in SCATTERS else "dst"
    steps = [step * elem for step in getattr(problem, side)]
    lanes = thread_values.lanes(lambda d: d.weight * steps[d.dim])
    nbytes = len(lanes) * thread_values.vec * elem
    sectors = _sectors(lanes, thread_values.vec * elem) * SECTOR_BYTES / nbytes
    wavefronts = [sectors / LINE_BYTES] * (2 if tiling.kind == "direct" else 1)
    if tiling.kind != "direct":
        facing: Side = "dst" if side == "src" else "src"
        width = vector(problem, dims_by_stride(problem, facing)[0], facing) * elem
        smem_layout = smem_layout_of(problem, tiling, thread_values)
        words = [lane * elem for lane in thread_values.lanes(smem_layout.step)]
        wavefronts += [1 / min(LINE_BYTES, LANES * width)] * 2
        vectors = thread_values.vec if thread_values.word == tiling.tile[thread_values.other] else 1
        access_bytes = thread_values.word * elem * vectors
        wavefronts.append(_conflicts(words, access_bytes) / (len(words) * access_bytes))
    busy = [DRAM_BYTES_PER_CYCLE * sum(wavefronts), (1 + sectors) / 2 / L2_SECTORS_PER_DRAM_SECTOR]
    return max(1.0, float((1 + sum(times**P_NORM for times in busy)) ** (1 / P_NORM) / NOT_BUSY))


def _sectors(lanes: list[int], width_bytes: int) -> int:
    """Return the sectors of global memory that a warp's access touches."""
    step = min(width_bytes, SECTOR_BYTES)
    return len({(lane + at) // SECTOR_BYTES for lane in lanes for at in range(0, width_bytes, step)})


def _conflicts(lanes: list[int], width_bytes: int) -> int:
    """Return the wavefronts of a warp's access to shared memory: the most words of one bank in each phase of 128 bytes."""
    words = max(1, min(width_bytes, CHUNK_BYTES) // BANK_BYTES)
    group, waves = max(1, len(lanes) // words), 0
    for first in range(0, len(lanes), group):
        touched = {lane // BANK_BYTES + word for lane in lanes[first : first + group] for word in range(words)}
        banks = [word % BANKS for word in touched]
        waves += max(map(banks.count, set(banks)))
    return waves * max(1, width_bytes // CHUNK_BYTES)
