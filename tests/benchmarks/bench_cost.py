"""Measure if `tc.cost` ranks copies like an H200: `python tests/benchmarks/bench_cost.py [--part I/N] [--out FILE]`.

Copies are drawn: element type, array of 256 MiB, layout of the tile, scope. Each is done by every variant that accepts it, in three
tilings, by CTAs that copy several tiles one after the other. The time is the least of three replays of a CUDA graph of ten launches,
for each byte. `--part` measures a share of the copies, `--summary FILE...` joins what parts wrote (or reads a table), computes the costs
again from the counts and prints the share of copies whose cheapest way is within 3 percent of the fastest, and Spearman's rank
correlation of the ratios of cost and of time, over pairs of ways whose times differ by 5 percent, for each seed that copies were drawn by
and for its even and odd copies. `--recount` counts the copies anew, and `--table` writes all to a small file, such as `tests/data/costs_h200.json.gz`. `--fit` looks
for weights of the model with which the copies of even number agree better; copies of odd number are for judging it. Measuring needs torch.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import random
import sys
from itertools import combinations
from math import log
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout, tx

from tilecopy_core.layout import laneid

gpu = importlib.import_module("tilecopy.costs.h200")
"""Whose weights are fitted."""

COPIES, TILINGS, SEED = 200, 3, 2026
ARRAY_BYTES = 256 << 20
TURNS, LAUNCHES, REPLAYS = 4, 10, 3
NEAR, APART = 1.03, 1.05
VARIANTS = {
    "load": ("gmem_smem", "ragged", "ldgsts", "ragged_async", "bulk", "tma"),
    "store": ("gmem_smem", "ragged", "bulk_store", "tma_store"),
    "registers": ("reg", "ragged"),
}
"""By direction, who may do it: a tile in, a tile out, and both through a fragment."""
ASYNC = {
    "ldgsts": "group",
    "ragged_async": "group",
    "bulk": "mbar",
    "tma": "mbar",
    "bulk_store": "bulk",
    "tma_store": "bulk",
}


@attrs.frozen
class Tiling:
    """Rows and columns of a tile, and threads of a CTA."""

    rows: int
    columns: int
    threads: int


@attrs.frozen
class Case:
    """A drawn copy.

    Attributes:
        direction: of :data:`VARIANTS`.
        dtype: of the elements.
        columns: of the array.
        pad: elements between its rows.
        layout: of the tile in shared memory: rows, columns, padded, swizzled.
        scope: ``cta`` or ``warp``.
        vec: elements that a thread of a fragment holds side by side.
        tilings: ways to cut the array.
    """

    direction: str
    dtype: str
    columns: int
    pad: int
    layout: str
    scope: str
    vec: int
    tilings: tuple[Tiling, ...]

    @property
    def elem(self) -> int:
        """Bytes of an element."""
        return int(tc.dtype_of(self.dtype).bytes)

    @property
    def name(self) -> str:
        """In words."""
        how = f"vec {self.vec}" if self.direction == "registers" else self.layout
        return f"{self.direction} {self.dtype} [*, {self.columns}+{self.pad}] {how} {self.scope}"


def drawn(count: int = COPIES, seed: int = SEED) -> list[Case]:
    """The first copies of a seed."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        dtype = rng.choice(("uint8", "float16", "float16", "float32", "float32", "float64"))
        elem, direction = tc.dtype_of(dtype).bytes, rng.choice(("load", "load", "load", "store", "store", "registers"))
        scope = rng.choice(("cta", "cta", "warp"))
        layout = rng.choice(("rows", "rows", "padded", "columns", "columns padded", "swizzled", "swizzled"))
        vec = max(1, rng.choice((1, 4, 8, 16)) // elem)
        pad = rng.choice((0, 0, 0, 0, 16 // elem, 1))
        ways = [
            Tiling(tile_bytes // row_bytes, row_bytes // elem, threads)
            for row_bytes in (64, 128, 256, 512, 1024)
            for tile_bytes in ((1024, 2048, 4096) if scope == "warp" else (2048, 4096, 8192, 16384, 32768))
            for threads in (64, 128, 256)
            if 4 <= tile_bytes // row_bytes <= 256
            and _fits(direction, layout, vec, elem, scope, tile_bytes, row_bytes, threads)
        ]
        if len(ways) >= TILINGS:
            columns = rng.choice((1024, 2048, 4096))
            found.append(Case(direction, dtype, columns, pad, layout, scope, vec, tuple(rng.sample(ways, TILINGS))))
    return found


def _fits(direction: str, layout: str, vec: int, elem: int, scope: str, tile: int, row: int, threads: int) -> bool:
    """Whether a tiling can be: threads have what to do, no more than 64 words each of a fragment."""
    owners = 32 if scope == "warp" else threads
    if tile // elem < owners or (layout == "swizzled" and row < 128):
        return False
    lanes = row // elem // vec
    return direction != "registers" or (
        tile <= owners * 256 and lanes > 0 and owners % min(lanes, owners) == 0 and tile // elem % (owners * vec) == 0
    )


def layout_of(case: Case, tiling: Tiling) -> tc.Layout:
    """Of one tile in shared memory."""
    rows, columns, odd = tiling.rows, tiling.columns, max(1, 4 // case.elem)
    match case.layout:
        case "padded":
            return TileLayout(S[(rows, columns) : (columns + 16 // case.elem, 1)])
        case "columns":
            return TileLayout(S[(rows, columns) : (1, rows)])
        case "columns padded":
            return TileLayout(S[(rows, columns) : (1, rows + odd)])
        case "swizzled":
            width = 128 // case.elem
            plain = TileLayout(S[(rows, columns // width, width) : (width, rows * width, 1)])
            return tc.SwizzledLayout(tc.swizzle("128B", case.dtype), plain)
    return TileLayout(S[rows, columns])


def fragment_of(case: Case, tiling: Tiling) -> TileLayout:
    """Who holds what of one tile: ``vec`` elements side by side, then the next thread's."""
    owners, axis = (32, laneid) if case.scope == "warp" else (tiling.threads, tx)
    lanes = min(tiling.columns // case.vec, owners)
    across, down = tiling.columns // case.vec // lanes, owners // lanes
    each = tiling.rows // down
    return TileLayout(
        S[(each, down, across, lanes, case.vec) : (across * case.vec, lanes @ axis, case.vec, 1 @ axis, 1)]
    )


def kernel_of(case: Case, tiling: Tiling, variant: str, nbytes: int, whole: bool = False) -> tc.BuiltKernel:
    """The kernel of one way; ``whole`` lets a load bring every tile to B, so that it can be compared.

    Raises:
        TilecopyError: the variant does not do it.
    """
    warps = tiling.threads // 32 if case.scope == "warp" else 1
    rows = max(nbytes // (case.columns * case.elem), tiling.rows)
    across = case.columns // tiling.columns
    grid = max(1, rows // tiling.rows * across // (TURNS * warps))
    rows = max(rows, -(-grid * TURNS * warps // across) * tiling.rows)
    k = tc.KernelBuilder(f"{case.direction}_{variant}", threads=tiling.threads)
    shape, strides = (rows, case.columns), (case.columns + case.pad, 1)
    first = (warps * tiling.rows, tiling.columns)
    align = 16 if case.pad * case.elem % 16 == 0 else None
    how = {} if align else {"align_bytes": 16}
    if case.direction == "store":
        a, b = k.param("A", first, case.dtype), k.param("B", shape, case.dtype, strides=strides, **how)
    else:
        a = k.param("A", shape, case.dtype, strides=strides, **how)
        both = whole or case.direction == "registers"
        b = (
            k.param("B", shape, case.dtype, strides=strides, **how)
            if both
            else k.param("B", (grid, tiling.threads), case.dtype)
        )
    copies, me, block = getattr(k, case.scope), k.warp_id() if warps > 1 else 0, k.block_id()

    def box(turn: Any) -> tuple[slice, slice]:
        n = (block * TURNS + turn) * warps + me
        y, x = n // across * tiling.rows, n % across * tiling.columns
        return slice(y, y + tiling.rows), slice(x, x + tiling.columns)

    if case.direction == "registers":
        held = k.local((tiling.rows, tiling.columns), case.dtype, layout=fragment_of(case, tiling), name="held")
        for turn in k.range(TURNS, unroll=False):
            copies.copy(held[:, :], a[box(turn)], variant=variant)
            copies.copy(b[box(turn)], held[:, :], variant=variant)
        return k.build(target="sm_90a", grid=grid)
    one = layout_of(case, tiling)
    tiles = k.shared(
        (warps, tiling.rows, tiling.columns),
        case.dtype,
        layout=_stacked(one, warps, case.elem),
        name="tile",
        align_bytes=1024,
    )
    tile = tiles[me]
    kind, tid = ASYNC.get(variant, ""), k.thread_id()
    if case.direction == "store":
        at = slice(me * tiling.rows, me * tiling.rows + tiling.rows)
        copies.copy(tile, a[at, :], variant="ragged")
        k.fence_proxy_async()
        k.cta_sync()
        for turn in k.range(TURNS, unroll=False):
            if not kind:
                k.warp_sync()  # the tile may have changed, so it is read again
                copies.copy(b[box(turn)], tile, variant=variant)
                continue
            with k.if_(tid == 0):
                k.thread.copy_async(b[box(turn)], tile, variant=variant)
                k.bulk_commit()
        if kind:
            with k.if_(tid == 0):
                k.bulk_wait(0)
        return k.build(target="sm_90a", grid=grid)
    full = None
    if kind == "mbar":
        full = k.mbarrier("full")
        with k.if_(tid == 0):
            full.init(1)
            k.fence_mbarrier_init()
        k.cta_sync()
    for turn in k.range(TURNS, unroll=False):
        if full is not None:
            with k.if_(tid == 0):
                full.arrive_expect_tx(tiling.rows * tiling.columns * case.elem)
                k.thread.copy_async(tile, a[box(turn)], mbar=full[0], variant=variant)
            full.wait(turn % 2)
        elif kind:
            copies.copy_async(tile, a[box(turn)], variant=variant)
            k.cp_async_commit()
            k.cp_async_wait(0)
        else:
            copies.copy(tile, a[box(turn)], variant=variant)
        k.cta_sync()
        if whole:
            copies.copy(b[box(turn)], tile, variant="ragged")
            k.fence_proxy_async()
            k.cta_sync()
    if not whole:
        k.store(b[block, tid], k.load(tiles[0, tid % tiling.rows, 0]))
    return k.build(target="sm_90a", grid=grid)


def _stacked(one: tc.Layout, count: int, elem: int) -> tc.Layout:
    """The layout of some tiles, each at a multiple of 1024 bytes."""
    unit = 1024 // elem
    apart = -(-one.span() // unit) * unit
    stacked = TileLayout.of([*TileLayout(S[(count,) : (apart,)]).shard, *one.unswizzled.shard])
    return stacked if one.swizzle is None else tc.SwizzledLayout(one.swizzle, stacked)


def ways(case: Case, nbytes: int, whole: bool = False) -> list[tuple[Tiling, str, tc.BuiltKernel, list[tc.Cost]]]:
    """Every way to do a copy, with the costs of what is measured of it."""
    found = []
    for tiling in case.tilings:
        for variant in VARIANTS[case.direction]:
            if case.scope == "warp" and ASYNC.get(variant) in ("mbar", "bulk"):
                continue  # made for one tile a CTA
            try:
                kernel = kernel_of(case, tiling, variant, nbytes, whole)
            except (tc.NoVariantError, tc.PtxError):
                continue
            space = {"load": ("global", "shared"), "store": ("shared", "global")}.get(case.direction)
            plans = [p for p in kernel.plans if p.variant == variant and space in (None, p.request.spaces)]
            found.append((tiling, variant, kernel, [tc.cost(plan) for plan in plans[: 2 if space is None else 1]]))
    return found


def cycles_a_byte(costs: list[tc.Cost]) -> float:
    """What a way is ranked by: the cycles of its copies, for each byte."""
    return sum(cost.cycles / cost.nbytes for cost in costs)


def moved_bytes(case: Case, tiling: Tiling, kernel: tc.BuiltKernel) -> int:
    """Bytes of all tiles of a launch."""
    warps = tiling.threads // 32 if case.scope == "warp" else 1
    return kernel.launch_grid(None)[0] * TURNS * warps * tiling.rows * tiling.columns * case.elem


def measure(first: int, step: int, out: Path, seed: int = SEED) -> None:
    """Time a share of the copies of a seed."""
    import torch

    rows = []
    source = torch.randint(0, 255, (ARRAY_BYTES + (ARRAY_BYTES >> 3),), dtype=torch.uint8, device="cuda")
    target = torch.zeros_like(source)
    for number, case in list(enumerate(drawn(seed=seed)))[first::step]:
        for tiling, variant, kernel, costs in ways(case, ARRAY_BYTES):
            arrays = [_of(torch, base, p) for base, p in zip((source, target), kernel.arrays, strict=True)]
            launch = kernel.prepare(*arrays)
            seconds = _timed(torch, launch)
            nbytes = moved_bytes(case, tiling, kernel)
            counts = [attrs.asdict(cost) for cost in costs]
            rows.append(
                {"seed": seed, "copy": number, "name": case.name, "variant": variant, "tiling": attrs.astuple(tiling)}
                | {"seconds": seconds, "bytes": nbytes, "costs": counts}
            )
        out.write_text(json.dumps(rows))
        print(f"{number}: {case.name}, {sum(row['copy'] == number for row in rows)} ways", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    """What a part or a table holds, a row for each way."""
    if path.suffix != ".gz":
        return list(json.loads(path.read_text()))
    table = json.loads(gzip.decompress(path.read_bytes()))
    return [
        {"seed": seed, "copy": copy, "name": table["copies"][str(seed)][copy], "variant": variant, "tiling": tiling}
        | {"seconds": nanoseconds / 1e9, "bytes": nbytes}
        | {"costs": [dict(zip(table["counts"], each, strict=True)) for each in costs]}
        for seed, copy, variant, tiling, nanoseconds, nbytes, *costs in table["rows"]
    ]


def write(path: Path, rows: list[dict[str, Any]], measured: str) -> None:
    """Write a table that :func:`read` takes, a line for each way."""
    counts = list(rows[0]["costs"][0])
    copies: dict[int, dict[int, str]] = {}
    for row in rows:
        copies.setdefault(row["seed"], {})[row["copy"]] = row["name"]
    lines = [
        [row["seed"], row["copy"], row["variant"], row["tiling"], round(row["seconds"] * 1e9), row["bytes"]]
        + [[cost[name] for name in counts] for cost in row["costs"]]
        for row in rows
    ]
    names = {seed: [found[number] for number in sorted(found)] for seed, found in copies.items()}
    head = {"measured": measured, "counts": counts, "copies": names}
    text = f'{json.dumps(head)[:-1]}, "rows": [\n' + ",\n".join(map(json.dumps, lines)) + "\n]}\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def recounted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the costs of today, in place of those when they were measured."""
    cases = {seed: drawn(seed=seed) for seed in {row["seed"] for row in rows}}
    found = {
        (seed, number, variant, attrs.astuple(tiling)): [attrs.asdict(cost) for cost in costs]
        for seed, number in {_copy(row) for row in rows}
        for tiling, variant, _, costs in ways(cases[seed][number], ARRAY_BYTES)
    }
    return [row | {"costs": found[(*_copy(row), row["variant"], tuple(row["tiling"]))]} for row in rows]


def _copy(row: dict[str, Any]) -> tuple[int, int]:
    """The seed and the number of a row's copy."""
    return row["seed"], row["copy"]


def _of(torch: Any, base: Any, parameter: Any) -> Any:
    """The first bytes of a tensor as an array that fits a parameter."""
    kind = {1: torch.uint8, 2: torch.float16, 4: torch.float32, 8: torch.float64}[parameter.dtype.bytes]
    return torch.as_strided(base.view(kind), parameter.shape, parameter.strides)


def _timed(torch: Any, launch: Any) -> float:
    """Seconds of a launch: the least of some replays of a graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(LAUNCHES):
            launch()
    best = float("inf")
    for _ in range(REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / LAUNCHES / 1e3)
    return best


def _cycles(row: dict[str, Any]) -> float:
    return cycles_a_byte([tc.Cost(**{**cost, "access_bytes": tuple(cost["access_bytes"])}) for cost in row["costs"]])


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What the table says of the order of costs."""
    copies: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in rows:
        copies.setdefault(_copy(row), []).append((_cycles(row), row["seconds"] / row["bytes"]))
    near = [min(found, key=lambda way: way[0])[1] <= NEAR * min(time for _, time in found) for found in copies.values()]
    pairs = [
        (log(a[0] / b[0]), log(a[1] / b[1]))
        for found in copies.values()
        for a, b in combinations(found, 2)
        if max(a[1], b[1]) >= APART * min(a[1], b[1])
    ]
    every = [each for found in copies.values() for each in found]
    return {
        "copies": len(copies),
        "ways": len(every),
        "cheapest_within_3_percent": sum(near) / len(near),
        "spearman_of_pairs": spearman(pairs),
        "pairs_in_order": sum(cost * time > 0 for cost, time in pairs) / max(1, len(pairs)),
        "spearman_of_all": spearman(every),
    }


WEIGHTS = ("crowd_bytes", "l2_bytes", "latency_cycles", "barrier_cycles", "other_registers")
FACTORS = (0.5, 0.8, 0.9, 1.1, 1.25, 2.0)


def fitted(rows: list[dict[str, Any]], rounds: int = 4) -> dict[str, float]:
    """Weights of the model, each moved while the rows agree better: the share within 3 percent and the correlation of pairs."""

    def score() -> float:
        found = summary(rows)
        return found["cheapest_within_3_percent"] + found["spearman_of_pairs"]

    def put(name: str, value: float) -> None:
        path, _, field = name.rpartition(".")
        key, changes = tuple(path.split(" ")), {field: value}
        if path:
            changes = {"paths": {**gpu.MODEL.paths, key: attrs.evolve(gpu.MODEL.paths[key], **changes)}}
        gpu.MODEL = attrs.evolve(gpu.MODEL, **changes)

    weights = {name: float(getattr(gpu.MODEL, name)) for name in WEIGHTS}
    for key, path_model in gpu.MODEL.paths.items():
        weights |= {f"{' '.join(key)}.{field}": value for field, value in attrs.asdict(path_model).items() if value}
    best = score()
    for _ in range(rounds):
        before = best
        for name in weights:
            for value in [weights[name] * factor for factor in FACTORS]:
                put(name, value)
                if (found := score()) > best:
                    best, weights[name] = found, value
            put(name, weights[name])
        if best == before:
            break
    return {name: round(value, 3) for name, value in weights.items()}


def spearman(pairs: list[tuple[float, float]]) -> float:
    """The correlation of ranks; equal values share theirs."""

    def ranks(values: tuple[float, ...]) -> Any:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[inverse]

    left, right = (ranks(side) for side in zip(*pairs, strict=True))
    return float(np.corrcoef(left, right)[0, 1])


def worst(rows: list[dict[str, Any]]) -> list[str]:
    """The copies whose cheapest way is farthest from the fastest, in words."""
    told = []
    for copy in {_copy(row) for row in rows}:
        own = [row for row in rows if _copy(row) == copy]
        cost = {id(row): _cycles(row) for row in own}
        speed = {id(row): row["seconds"] / row["bytes"] for row in own}
        cheapest, fastest = min(own, key=lambda row: cost[id(row)]), min(own, key=lambda row: speed[id(row)])
        ratio = speed[id(cheapest)] / speed[id(fastest)]
        ways = [f"{row['variant']} {row['tiling']}" for row in (cheapest, fastest)]
        told.append((ratio, f"{ratio:.2f}  {own[0]['name']}: {ways[0]} before {ways[1]}"))
    return [text for _, text in sorted(told, reverse=True)[:12]]


def main() -> None:
    """Measure a part, or join some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", help="the part of the copies to measure, such as 2/4")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the copies; the table has those of 2026 and 7")
    parser.add_argument("--out", type=Path, help="file of the table; by default bench_cost.I.json")
    parser.add_argument(
        "--fit", action="store_true", help="with --summary: fit the weights to the copies of even number"
    )
    parser.add_argument("--recount", action="store_true", help="with --summary: count the copies again")
    parser.add_argument("--table", type=Path, help="with --summary: write all rows to this file, .json.gz")
    parser.add_argument(
        "--measured", default="", help="with --table: the machine and date, such as 'H200, driver 580, 2026'"
    )
    parser.add_argument("--summary", nargs="+", type=Path, help="join the tables of parts instead of measuring")
    options = parser.parse_args()
    if options.summary is None:
        try:
            import torch
        except ImportError:
            raise SystemExit("torch is not installed; it times the launches") from None
        if not torch.cuda.is_available():
            raise SystemExit("there is no GPU here; nothing was measured")
        first, step = map(int, options.part.split("/"))
        out = options.out or Path(f"bench_cost.{first}.json")
        measure(first - 1, step, out, options.seed)
        options.summary = [out]
    rows = [{"seed": options.seed} | row for path in options.summary for row in read(path)]
    if options.recount:
        rows = recounted(rows)
    if options.table:
        write(options.table, rows, options.measured)
    print("\n".join(worst(rows)), file=sys.stderr)
    if options.fit:
        print(json.dumps(fitted([row for row in rows if row["copy"] % 2 == 0]), indent=2))
    parts = {"all": rows}
    for seed in sorted({row["seed"] for row in rows}):
        parts |= {
            f"seed {seed}, {name}": [row for row in rows if row["seed"] == seed and row["copy"] % 2 == odd]
            for name, odd in (("even", 0), ("odd", 1))
        }
    print(json.dumps({name: summary(each) for name, each in parts.items() if each}, indent=2))


if __name__ == "__main__":
    main()
