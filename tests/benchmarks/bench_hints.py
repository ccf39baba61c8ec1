"""Measure the effect of cache hints on global loads and stores for each variant: `python tests/benchmarks/bench_hints.py`.

Every kernel reads 2 GiB once and writes 2 GiB once, far more than the caches hold, with the text that it has ("as emitted")
and with each hint of tilecopy_test_helpers.cache_hints in the place of its own: first each hint alone, then the best loads together with the
best stores, measured anew. A measurement is ten launches between device events; all hints of a kernel and torch's `copy_` take
turns, so that a change of clocks meets all of them, and the table has medians. `spread` is the distance of the quartiles over
the median: a difference below it is none. "as emitted" is one of the other rows again, and shows the same.
Random bytes, every result compared. `--quick` takes 512 MiB and fewer turns, `--json FILE` writes the figures ("-": to standard
output). Needs torch.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import tilecopy as tc
from figures import record
from tilecopy import S, TileLayout
from tilecopy.executors import get_executor
from tilecopy_test_helpers import cache_hints
from tilecopy_test_helpers.cache_hints import Hints
from tilecopy_test_helpers.programs import round_trip

NBYTES = 2 << 30
QUICK_NBYTES = 512 << 20
COLUMNS = 32768
LAUNCHES = 10
FINALISTS = 3
"""So many loads are combined with so many stores."""
COPY = "torch copy_"
EMITTED = "as emitted"
NONE = Hints()

Build = Callable[[tuple[int, int], str], tc.BuiltKernel]
"""From the shape of A and the target."""


@attrs.frozen
class Case:
    """A kernel from A to B.

    Attributes:
        name: variant, element type, tile, threads.
        dtype: of the elements.
        tile: A's rows and columns are multiples of it.
        build: makes the kernel.
        transposes: B is A's transpose.
        short: rows and columns that A lacks of those multiples.
    """

    name: str
    dtype: str
    tile: tuple[int, int]
    build: Build
    transposes: bool = False
    short: tuple[int, int] = (0, 0)

    def shape(self, nbytes: int, columns: int = COLUMNS) -> tuple[int, int]:
        """A's shape in about so many bytes."""
        rows = nbytes * 8 // (columns * tc.dtype_of(self.dtype).bits)
        return rows - self.short[0], columns - self.short[1]


# ------------------------------------------------------------------------------------------------------------ kernels


def gmem_smem(tile: tuple[int, int], threads: int) -> Case:
    """Global to shared to global memory by gmem_smem."""

    def build(shape: tuple[int, int], target: str) -> tc.BuiltKernel:
        return round_trip(shape, tile, "float16", threads=threads, target=target)

    return Case(f"gmem_smem float16 {tile[0]}x{tile[1]} @{threads}", "float16", tile, build)


def ldgsts(tile: tuple[int, int], threads: int) -> Case:
    """To shared memory by cp.async, on by gmem_smem."""

    def build(shape: tuple[int, int], target: str) -> tc.BuiltKernel:
        k = tc.KernelBuilder("ldgsts", threads=threads)
        a, b = k.param("A", shape, "float16"), k.param("B", shape, "float16")
        staging = k.shared(tile, "float16", name="tile")
        box = _box(k, tile)
        k.cta.copy_async(staging[:, :], a[box], variant="ldgsts")
        k.cp_async_commit()
        k.cp_async_wait(0)
        k.cta_sync()
        k.cta.copy(b[box], staging[:, :])
        return k.build(target=target, grid=(shape[1] // tile[1], shape[0] // tile[0]))

    return Case(f"ldgsts float16 {tile[0]}x{tile[1]} @{threads}", "float16", tile, build)


def reg(vectors: int, threads: int = 256) -> Case:
    """Through registers alone, ``vectors`` times 16 bytes a thread, consecutive threads on consecutive 16 bytes."""
    elements = vectors * threads * 4

    def build(shape: tuple[int, int], target: str) -> tc.BuiltKernel:
        k = tc.KernelBuilder("reg", threads=threads)
        a, b = k.param("A", shape, "float32"), k.param("B", shape, "float32")
        layout = TileLayout(S[(1, vectors, threads, 4) : (1, 4, 1 @ tc.tx, 1)])
        fragment = k.local((1, elements), "float32", layout=layout, name="fragment")
        box = _box(k, (1, elements))
        k.cta.copy(fragment[:, :], a[box])
        k.cta.copy(b[box], fragment[:, :])
        return k.build(target=target, grid=(shape[1] // elements, shape[0]))

    return Case(f"reg {elements * 4 >> 10} KiB @{threads}", "float32", (1, elements), build)


def transpose(dtype: str, side: int, threads: int) -> Case:
    """B = A.T: tiles to shared memory by gmem_smem, read down the columns and stored by reg in 16 bytes.

    A warp stores 128 contiguous bytes of four rows of B (of eight for float16) and reads eight blocks of rows by four words
    of 4 bytes at once. The swizzle takes its bits from the number of the block, so that the 32 words lie in 32 banks; elements
    of 2 bytes are then permuted within each thread.
    """
    bits = tc.dtype_of(dtype).bits
    word, vec, warps = 32 // bits, 128 // bits, threads // 32
    high, blocks = side // (8 * vec), side // (4 * word)
    atom = (side // vec).bit_length() - 1 + vec.bit_length() - 1
    swizzle = tc.Swizzle(per_element=vec.bit_length() - 1, swizzle_len=3, atom_len=atom)
    split = (high, 8, vec, blocks // warps, warps, 4, word)

    def fragment(row: int, column: int) -> TileLayout:
        each = vec * word
        return TileLayout(S[split : (each, 1 @ tc.tx, row, each * high, 32 @ tc.tx, 8 @ tc.tx, column)])

    def build(shape: tuple[int, int], target: str) -> tc.BuiltKernel:
        k = tc.KernelBuilder("transpose", threads=threads)
        a, b = k.param("A", shape, dtype), k.param("B", shape[::-1], dtype)
        layout = tc.SwizzledLayout(swizzle, TileLayout(S[side, side]))
        tile = k.shared((side, side), dtype, layout=layout, name="tile")
        box = _box(k, (side, side))
        k.cta.copy(tile[:, :], a[box])
        k.cta_sync()
        values = k.local((side, side), dtype, layout=fragment(word, 1), name="by_rows")
        k.cta.copy(values[:, :], tile[:, :])
        if word > 1:
            by_rows, values = values, k.local((side, side), dtype, layout=fragment(1, vec), name="by_columns")
            k.cta.copy(values[:, :], by_rows[:, :])
        k.cta.copy(b.T[box], values[:, :])
        return k.build(target=target, grid=(shape[1] // side, shape[0] // side))

    return Case(f"transpose {dtype} {side}x{side} @{threads}", dtype, (side, side), build, transposes=True)


def edges(tile: tuple[int, int] = (64, 64), threads: int = 256) -> Case:
    """Tiles that overhang, rows an odd number of float32 apart: single elements, what is outside is kept."""

    def build(shape: tuple[int, int], target: str) -> tc.BuiltKernel:
        k = tc.KernelBuilder("edges", threads=threads)
        a, b = k.param("A", shape, "float32"), k.param("B", shape, "float32")
        staging = k.shared(tile, "float32", name="tile")
        box = _box(k, tile)
        k.cta.copy(staging[:, :], a[box], outside="keep")
        k.cta_sync()
        k.cta.copy(b[box], staging[:, :], outside="keep")
        return k.build(target=target, grid=(-(-shape[1] // tile[1]), -(-shape[0] // tile[0])))

    return Case(f"edges float32 {tile[0]}x{tile[1]} @{threads}", "float32", tile, build, short=(3, 19))


def _box(k: tc.KernelBuilder, tile: tuple[int, int]) -> tuple[slice, slice]:
    y, x = k.block_id("y") * tile[0], k.block_id("x") * tile[1]
    return slice(y, y + tile[0]), slice(x, x + tile[1])


CASES = (
    gmem_smem((16, 64), 128),
    gmem_smem((64, 64), 128),
    gmem_smem((128, 128), 512),
    ldgsts((32, 64), 128),
    ldgsts((64, 64), 128),
    reg(1),
    reg(4),
    transpose("float32", 64, 128),
    transpose("float32", 64, 512),
    transpose("float16", 128, 512),
    edges(),
)


# -------------------------------------------------------------------------------------------------------- measurement


def alone(kernel: tc.BuiltKernel) -> list[Hints]:
    """No hints, each load's alone, and each store's alone."""
    loads = cache_hints.PREFETCHES if cache_hints.is_asynchronous(kernel.ptx) else cache_hints.LOADS
    return [*(Hints(load) for load in loads), *(Hints("", store) for store in cache_hints.STORES if store)]


def combined(seconds: Mapping[Hints, float]) -> list[Hints]:
    """The best loads, each with each of the best stores; no hints too. Fastest first, as they were alone."""
    ranked = sorted(seconds, key=seconds.__getitem__)
    loads = [hints.load for hints in ranked if not hints.store][:FINALISTS]
    stores = [hints.store for hints in ranked if not hints.load][:FINALISTS]
    pairs = [Hints(load, store) for load in loads for store in stores]
    return pairs if NONE in pairs else [*pairs, NONE]


@attrs.frozen
class Row:
    """One line of a table.

    Attributes:
        stage: ``alone`` or ``combined``; ratios are to what was measured in the same one.
        load: its hint, or None of torch's copy.
        store: its hint, or None.
        name: words for the two.
        tb_per_s: bytes read and written a second, over 1e12.
        of_none: against the kernel without hints.
        of_copy: against torch's copy of as many bytes.
        spread: distance of the quartiles of the times over their median.
    """

    stage: str
    load: str | None
    store: str | None
    name: str
    tb_per_s: float
    of_none: float
    of_copy: float
    spread: float


def in_turn(torch: Any, works: Mapping[Any, Callable[[], Any]], turns: int) -> dict[Any, list[float]]:
    """Seconds of one launch of each, by events around ten, once a turn; nothing waits within a turn."""
    times: dict[Any, list[float]] = {key: [] for key in works}
    for _ in range(turns):
        events = {}
        for key, work in works.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            work()  # the caches hold what the same kernel left there
            start.record()
            for _ in range(LAUNCHES):
                work()
            stop.record()
            events[key] = start, stop
        torch.cuda.synchronize()
        for key, (start, stop) in events.items():
            times[key].append(start.elapsed_time(stop) * 1e-3 / LAUNCHES)
    return times


def table(stage: str, times: Mapping[Any, list[float]], nbytes: int, emitted: Hints) -> list[Row]:
    """The rows of a stage; ``emitted`` are the hints that the kernel has."""
    medians = {key: statistics.median(values) for key, values in times.items()}
    rows = []
    for key, seconds in medians.items():
        low, _, high = statistics.quantiles(times[key], n=4, method="inclusive")
        load, store, name = None, None, str(key)
        if key != COPY:
            load, store = attrs.astuple(emitted if key == EMITTED else key)
            name = f"{load or 'none'} / {store or 'none'}" + (f", {EMITTED}" if key == EMITTED else "")
        ratios = medians[NONE] / seconds, medians[COPY] / seconds
        rows.append(Row(stage, load, store, name, nbytes / seconds / 1e12, *ratios, (high - low) / seconds))
    return rows


def measure(torch: Any, case: Case, memory: tuple[Any, Any], target: str, turns: tuple[int, int]) -> list[Row]:
    """Both stages of a kernel.

    Args:
        torch: the module.
        case: the kernel.
        memory: bytes of A, random, and of B.
        target: the GPU's.
        turns: of each stage.

    Raises:
        SystemExit: a result differs.
    """
    shape = case.shape(memory[0].numel())
    count, size_bytes = shape[0] * shape[1], tc.dtype_of(case.dtype).bits // 8
    dtype, bits = getattr(torch, case.dtype), getattr(torch, f"int{size_bytes * 8}")
    source, result = (data[: count * size_bytes] for data in memory)
    a, b = source.view(dtype).view(shape), result.view(dtype).view(shape[::-1] if case.transposes else shape)
    kernel = case.build(shape, target)
    (emitted,) = cache_hints.hints_of(kernel.ptx)
    stream = torch.cuda.current_stream().cuda_stream
    launches: dict[Any, Callable[[], Any]] = {COPY: lambda: result.copy_(source)}

    def launch_of(hints: Hints | str) -> Callable[[], Any]:
        if hints not in launches:
            chosen = cache_hints.with_hints(kernel, hints) if isinstance(hints, Hints) else kernel
            launch = chosen.prepare(a, b, stream=stream)
            result.zero_()
            launch()
            expected = a.view(bits).T if case.transposes else a.view(bits)
            if not bool((b.view(bits) == expected).all()):
                raise SystemExit(f"{case.name} with {hints}: the result differs")
            launches[hints] = launch
        return launches[hints]

    def stage(name: str, hints: list[Hints], count_turns: int) -> tuple[dict[Any, list[float]], list[Row]]:
        keys: list[Hints | str] = [COPY, EMITTED, *hints]
        times = in_turn(torch, {key: launch_of(key) for key in keys}, count_turns)
        return times, table(name, times, 2 * count * size_bytes, emitted)

    times, first = stage("alone", alone(kernel), turns[0])
    medians = {key: statistics.median(values) for key, values in times.items() if isinstance(key, Hints)}
    _, second = stage("combined", combined(medians), turns[1])
    return first + second


# ------------------------------------------------------------------------------------------------------------- output


def printed(case: Case, rows: list[Row]) -> None:
    """A kernel's table."""
    print(f"\n{case.name:<56}{'TB/s':>8}{'of none':>9}{'of copy_':>10}{'spread':>8}")
    for stage in ("alone", "combined"):
        print(f"  {stage}, load / store")
        for row in (row for row in rows if row.stage == stage):
            print(f"    {row.name:<52}{row.tb_per_s:>8.3f}{row.of_none:>9.3f}{row.of_copy:>10.3f}{row.spread:>8.3f}")


def summary(results: Mapping[str, list[Row]]) -> None:
    """The best of each kernel's combinations beside what it has."""
    print(f"\n{'best of the combinations, load / store':<32}{'':<38}{'TB/s':>7}{'of none':>9}{'of emitted':>12}")
    for name, rows in results.items():
        last = [row for row in rows if row.stage == "combined"]
        emitted = next(row for row in last if row.name.endswith(EMITTED))
        best = max((row for row in last if row.name != COPY and row != emitted), key=lambda row: row.tb_per_s)
        ratio = best.tb_per_s / emitted.tb_per_s
        record(f"hints: {name}", emitted.tb_per_s, "TB/s", best_hinted=best.tb_per_s)
        print(f"{name:<32}{best.name:<38}{best.tb_per_s:>7.3f}{best.of_none:>9.3f}{ratio:>12.3f}")


def gpu() -> tuple[Any, str]:
    """The module torch and the GPU's target.

    Raises:
        SystemExit: there is none, with one line that says why.
    """
    cuda: Any = get_executor("cuda")
    why = cuda.unavailable_reason()
    if why is not None:
        raise SystemExit(f"bench_hints needs a GPU: {' '.join(why.split())}")
    try:
        import torch
    except ImportError:
        raise SystemExit("bench_hints needs torch: pip install torch") from None
    if not torch.cuda.is_available():
        raise SystemExit("bench_hints needs a torch that sees the GPU; this one was built without CUDA or sees none")
    major, minor = cuda.devices()[0].capability
    return torch, f"sm_{major}{minor}"


def main() -> None:
    """Measure, print a table a kernel and the best of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="use 512 MiB and fewer rounds")
    parser.add_argument(
        "--json", metavar="FILE", help='write the figures to this file; "-" prints them instead of the tables'
    )
    options = parser.parse_args()
    torch, target = gpu()
    nbytes, turns = (QUICK_NBYTES, (3, 3)) if options.quick else (NBYTES, (5, 7))
    source = torch.randint(0, 256, (nbytes,), dtype=torch.uint8, device="cuda")
    memory = source, torch.empty_like(source)
    results: dict[str, list[Row]] = {}
    for case in CASES:
        results[case.name] = measure(torch, case, memory, target, turns)
        if options.json != "-":
            printed(case, results[case.name])
    if options.json != "-":
        summary(results)
    if options.json:
        kernels = {name: [attrs.asdict(row) for row in rows] for name, rows in results.items()}
        text = json.dumps({"gpu": torch.cuda.get_device_name(), "bytes_read": nbytes, "kernels": kernels}, indent=1)
        if options.json == "-":
            print(text)
        else:
            Path(options.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
