"""Measure relayouts from one GPU to another's memory: `python tests/benchmarks/bench_gpus.py` on a machine with two GPUs.

256 MiB of random bytes, the result compared with torch's; ten launches a measurement between events, medians of seven. Beside a
relayout straight into the other GPU: torch's copy_ of the same bytes, by the GPU's copy engine; a kernel that copies them; copy_ of
the permuted view; and a relayout followed by copy_. Then both GPUs into each other at once, each direction on streams of its own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tilecopy as tc
import torch
from tilecopy_relayout import relayout

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], torch.dtype]] = {
    "transpose f32": ((8192, 8192), (1, 0), torch.float32),
    "transpose f16": ((8192, 16384), (1, 0), torch.float16),
    "021 f16": ((512, 512, 512), (0, 2, 1), torch.float16),
    "102 f16": ((512, 512, 512), (1, 0, 2), torch.float16),
    "NCHW to NHWC f16": ((64, 128, 128, 128), (0, 2, 3, 1), torch.float16),
}
Work = Callable[[], object]


def copier(nbytes: int, tile: int = 8192) -> tc.BuiltKernel:
    """A kernel that copies bytes, a tile a CTA."""
    k = tc.KernelBuilder("copier", threads=256)
    a, b, block = k.param("A", (nbytes,), "uint8"), k.param("B", (nbytes,), "uint8"), k.block_id("x")
    part, staged = slice(block * tile, block * tile + tile), k.shared((tile,), "uint8", align_bytes=128)
    k.cta.copy_async(staged[:], a[part])
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[part], staged[:])
    return k.build(target="sm_80", grid=nbytes // tile)


class Side:
    """An array on one GPU, room for its relayout on the other and here, and the streams of this direction."""

    def __init__(self, name: str, here: int, there: int) -> None:
        shape, self.axes, dtype = CASES[name]
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.here, self.there = torch.device("cuda", here), torch.device("cuda", there)
        flat = torch.randint(0, 256, (self.nbytes,), dtype=torch.uint8, device=self.here)
        self.array = flat.view(dtype).view(shape)
        result = [shape[axis] for axis in self.axes]
        self.far = torch.empty(result, dtype=dtype, device=self.there)
        self.near = torch.empty(result, dtype=dtype, device=self.here)
        self.streams = torch.cuda.Stream(self.here), torch.cuda.Stream(self.there)
        self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Its streams as the current ones of both GPUs."""
        with torch.cuda.stream(self.streams[1]), torch.cuda.stream(self.streams[0]):
            yield

    def ways(self) -> dict[str, Work]:
        """What is measured, by name."""

        def two_steps() -> None:
            relayout(self.array, self.axes, out=self.near)
            self.far.copy_(self.near)

        copy, flat = copier(self.nbytes), self.array.view(torch.uint8).view(-1)
        return {
            "a kernel's copy": lambda: copy(flat, self.far.view(torch.uint8).view(-1), device=self.here.index),
            "copy_": lambda: self.far.copy_(self.array.view(self.far.shape)),
            "copy_ of permute": lambda: self.far.copy_(self.array.permute(self.axes)),
            "relayout, copy_": two_steps,
            "relayout": lambda: relayout(self.array, self.axes, out=self.far),
        }

    def check(self) -> None:
        """Compare the result by bits."""
        expected = self.array.permute(self.axes).contiguous().to(self.there)
        with torch.cuda.device(self.there):
            assert torch.equal(self.far.view(torch.uint8), expected.view(torch.uint8))


def seconds(sides: list[Side], works: list[Work], runs: int = 7, launches: int = 10) -> float:
    """Median time of a launch on each side at once: that of the side that takes longer."""
    times = []
    for run in range(runs + 1):
        for side in sides:
            torch.cuda.synchronize(side.here)
        for side in sides:
            side.start.record(side.streams[0])
        for _ in range(launches):
            for side, work in zip(sides, works, strict=True):
                with side.current():
                    work()
        for side in sides:
            side.stop.record(side.streams[0])
        for side in sides:
            side.stop.synchronize()
        if run:  # the first compiles
            times.append(max(side.start.elapsed_time(side.stop) for side in sides) / 1e3 / launches)
    return statistics.median(times)


def row(name: str, sides: list[Side]) -> dict[str, float]:
    """Print gigabytes a second in each direction, and what they are of one another."""
    found: dict[str, float] = {}
    ways: list[dict[str, Any]] = [side.ways() for side in sides]
    for way in ways[0]:
        found[way] = sides[0].nbytes / seconds(sides, [each[way] for each in ways]) / 1e9
    for side in sides:
        torch.cuda.synchronize(side.here)
        side.far.zero_()
        relayout(side.array, side.axes, out=side.far)
        torch.cuda.synchronize(side.here)
        side.check()
    rates = "  ".join(f"{way} {rate:4.0f}" for way, rate in found.items())
    straight = found["relayout"]
    shares = ", ".join(f"{straight / found[way]:.2f} of {way}" for way in found if way != "relayout")
    print(f"{name:<18} {rates}   relayout is {shares}", flush=True)
    return found


def main() -> None:
    """One direction, then both, for each case."""
    if torch.cuda.device_count() < 2:
        raise SystemExit("two GPUs are needed")
    for title, pairs in (("GPU 0 into GPU 1, GB/s", [(0, 1)]), ("both at once, GB/s each way", [(0, 1), (1, 0)])):
        print(title)
        ratios = []
        for name in CASES:
            found = row(name, [Side(name, here, there) for here, there in pairs])
            ratios.append([found["relayout"] / found["copy_"], found["relayout"] / found["relayout, copy_"]])
            torch.cuda.empty_cache()
        plain, steps = (statistics.geometric_mean(each) for each in zip(*ratios, strict=True))
        print(f"geometric means: {plain:.3f} of copy_, {steps:.3f} of relayout and copy_\n")


if __name__ == "__main__":
    main()
