"""Measure the exchange of Ulysses attention on all GPUs of this machine: `python tests/benchmarks/bench_shards.py [RANKS]`, on two or four.

bfloat16, 32 heads of 128, from parts of the tokens to parts of the heads and back. Microseconds of the slowest rank, medians: of a call
among others like it, and of one in a CUDA graph of ten. Beside relayout_shards: NCCL's all_to_all_single alone, and with the
permutations before and after it that torch needs. "into" is `out=` in symmetric memory, without the copy into a new tensor.
Every way's result is compared with torch's by bits. Takes about two minutes.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from tilecopy_relayout import relayout_shards
from torch.distributed import _symmetric_memory as symmetric

HEADS, DEPTH = 32, 128
TOKENS = (1 << 12, 1 << 14, 1 << 16, 1 << 18)
DIRECTIONS: dict[str, tuple[str, tuple[int, ...], int, int]] = {
    "S/W H D to S H/W D": ("SHD", (0, 1, 2), 0, 1),
    "S/W H D to H/W S D": ("SHD", (1, 0, 2), 0, 0),
    "S/W H D to H/W D S": ("SHD", (1, 2, 0), 0, 0),
    "S H/W D to S/W H D": ("SHD", (0, 1, 2), 1, 0),
    "H/W S D to S/W H D": ("HSD", (1, 0, 2), 0, 0),
    "H/W D S to S/W H D": ("HDS", (2, 0, 1), 0, 0),
}
"""The array's dimensions, the permutation, and the dimensions that are divided: of the array, and of the result."""
WAYS = ("relayout_shards", "into", "NCCL alone", "permute, NCCL, permute")
CALLS = 10
Work = Callable[[], torch.Tensor]


class Case:
    """One exchange: this rank's part, and the ways to do it."""

    def __init__(self, direction: str, tokens: int, *, uneven: bool = False) -> None:
        names, self.axes, self.split, self.out_shard_dim = DIRECTIONS[direction]
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        extents = {"S": tokens, "H": HEADS, "D": DEPTH}
        shape = [extents[name] for name in names]
        each = shape[self.split] // self.ranks
        self.parts = [each] * self.ranks
        if uneven:  # an eighth more for the first
            self.parts = [each + each // 8, *[each] * (self.ranks - 2), each - each // 8]
        generator = torch.Generator(device="cuda").manual_seed(tokens)
        whole = torch.randint(0, 1 << 15, shape, dtype=torch.int16, device="cuda", generator=generator)
        whole = whole.view(torch.bfloat16)
        self.x = whole.split(self.parts, self.split)[self.rank].contiguous()
        self.expected = whole.permute(self.axes).chunk(self.ranks, self.out_shard_dim)[self.rank].contiguous()
        self.out = symmetric.empty(self.expected.shape, dtype=torch.bfloat16, device="cuda")
        self.sent = [x.numel() for x in self.x.chunk(self.ranks, self.axes[self.out_shard_dim])]
        of_one = self.expected.numel() // sum(self.parts)
        self.received = [of_one * extent for extent in self.parts]

    def shards(self) -> torch.Tensor:
        """Ours, a new tensor."""
        return relayout_shards(self.x, self.axes, shard_dim=self.split, out_shard_dim=self.out_shard_dim)

    def into(self) -> torch.Tensor:
        """Ours, into symmetric memory."""
        return relayout_shards(self.x, self.axes, shard_dim=self.split, out_shard_dim=self.out_shard_dim, out=self.out)

    def alone(self) -> torch.Tensor:
        """The bytes that NCCL moves, wherever they belong."""
        made = torch.empty_like(self.expected).view(-1)
        dist.all_to_all_single(made, self.x.view(-1), self.received, self.sent)
        return made

    def permuted(self) -> torch.Tensor:
        """As torch does it, with one copy on each side at most."""
        parts = self.x.unflatten(self.axes[self.out_shard_dim], (self.ranks, -1)).movedim(
            self.axes[self.out_shard_dim], 0
        )
        packed = parts.permute(0, *(axis + 1 for axis in self.axes)).contiguous().view(-1)
        made = packed.new_empty(sum(self.received))
        dist.all_to_all_single(made, packed, self.received, self.sent)
        place = self.axes.index(self.split)
        shape = list(self.expected.shape)
        bounds = pairwise(accumulate(self.received, initial=0))
        shapes = [[*shape[:place], extent, *shape[place + 1 :]] for extent in self.parts]
        if len(set(self.parts)) == 1:
            return made.view(self.ranks, *shapes[0]).movedim(0, place).flatten(place, place + 1).contiguous()
        return torch.cat([made[a:b].view(size) for (a, b), size in zip(bounds, shapes, strict=True)], place)

    def ways(self) -> dict[str, Work]:
        """By name."""
        return dict(zip(WAYS, (self.shards, self.into, self.alone, self.permuted), strict=True))


def slowest(seconds: float) -> float:
    """Of all ranks, in microseconds."""
    found = torch.tensor(seconds * 1e6, device="cuda")
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def measured(work: Callable[[], object], calls: int, runs: int = 7) -> float:
    """Median of the slowest rank's microseconds a call; ``work`` is so many calls."""
    times = []
    for run in range(runs + 2):
        torch.cuda.synchronize()
        dist.barrier()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        taken = slowest(start.elapsed_time(stop) / 1e3 / calls)
        if run > 1:
            times.append(taken)
    return statistics.median(times)


def repeated(work: Work, calls: int) -> Callable[[], None]:
    """So many calls behind one another."""

    def several() -> None:
        for _ in range(calls):
            work()

    return several


def both(name: str, work: Work, expected: torch.Tensor) -> tuple[float, float]:
    """Microseconds of plain calls, and in a graph; the results are compared."""
    for _ in range(3):
        made = work()
    if name != "NCCL alone":
        assert made.shape == expected.shape, (name, made.shape)
        assert torch.equal(made.view(torch.int16), expected.view(torch.int16)), name
    calls = max(4, min(CALLS, (1 << 28) // (expected.numel() * 2)))
    plain = measured(repeated(work, calls), calls)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        repeated(work, calls)()
    return plain, measured(graph.replay, calls)


def row(title: str, case: Case) -> dict[str, tuple[float, float]]:
    """A line of the table."""
    found = {name: both(name, work, case.expected) for name, work in case.ways().items()}
    if case.rank == 0:
        cells = " | ".join(f"{plain:.0f}, {graph:.0f}" for plain, graph in found.values())
        best = min(found["permute, NCCL, permute"])
        print(f"| {title} | {cells} | {best / min(found['relayout_shards']):.2f} |", flush=True)
    return found


def main(rank: int, ranks: int, store: str) -> None:
    """One rank's process."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl",
        store=dist.FileStore(store, ranks),
        rank=rank,
        world_size=ranks,
        timeout=dt.timedelta(seconds=120),
        device_id=torch.device("cuda", rank),
    )
    if rank == 0:
        name = torch.cuda.get_device_name()
        print(f"{ranks} {name}; microseconds: a call, a call in a graph\n\n| S, case | {' | '.join(WAYS)} | times |")
        print(f"|{'---|' * (len(WAYS) + 2)}", flush=True)
    ratios: Sequence[float] = []
    cases: list[tuple[int, str, bool]] = [(tokens, direction, False) for tokens in TOKENS for direction in DIRECTIONS]
    for tokens, direction, uneven in [*cases, (1 << 14, "S/W H D to H/W S D", True)]:
        title = f"{tokens}, {direction}{', uneven' if uneven else ''}"
        found: Any = row(title, Case(direction, tokens, uneven=uneven))
        ratios = [*ratios, min(found["permute, NCCL, permute"]) / min(found["relayout_shards"])]
    if rank == 0:
        print(f"\ngeometric mean over permute, NCCL, permute: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else min(4, torch.cuda.device_count())
    if count < 2:
        raise SystemExit("two GPUs are needed")
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(main, (count, f"{folder}/store"), nprocs=count)
