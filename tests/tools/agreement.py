"""Compare the emulator with a GPU: run the same modules on both, and compare every byte of every output.

`python tests/tools/agreement.py [--draws 3000] [--seed 0]` on a machine with a GPU: the demos, drawn kernels of gmem_smem, ldgsts, reg and
dsmem, and one kernel for each form of instruction (plugins/emulator/tests/compare_on_gpu.py). Kernels are built and emulated by a
pool of processes, and run on the GPU by this one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout, laneid, warpid
from tilecopy_test_helpers import demos

DTYPES = ("uint8", "uint16", "float32", "uint64")
Made = tuple[tc.BuiltKernel, list[Any]]


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an array of random bytes."""
    wanted = tc.dtype_of(dtype).numpy()
    return rng.integers(0, 256, int(np.prod(shape)) * wanted.itemsize, np.uint8).view(wanted).reshape(shape)


def shared_layout(rng: np.random.Generator, rows: int, columns: int, dtype: str) -> tc.Layout:
    """Return a random layout: row-major, padded, transposed or swizzled."""
    kind = rng.choice(["plain", "padded", "transposed", "swizzled"])
    if kind == "padded":
        return TileLayout(S[(rows, columns) : (columns + int(rng.integers(1, 9)), 1)])
    if kind == "transposed":
        return TileLayout(S[(rows, columns) : (1, rows + int(rng.integers(0, 3)))])
    plain = TileLayout(S[rows, columns])
    if kind == "plain":
        return plain
    return tc.SwizzledLayout(tc.swizzle(str(rng.choice(["32B", "64B", "128B"])), dtype), plain)


def staged(rng: np.random.Generator, *, asynchronous: bool) -> Made:
    """A box of A to shared memory and on to a box of B, by drawn scopes."""
    dtype = str(rng.choice(DTYPES))
    rows, columns = int(rng.choice([8, 16, 32, 48])), int(rng.choice([16, 32, 64, 96]))
    threads = int(rng.choice([32, 64, 128]))
    k = tc.KernelBuilder("staged", threads=threads)
    tall, wide = rows * 3 + int(rng.integers(0, 5)), columns * 2 + int(rng.integers(0, 9))
    a, b = k.param("A", (tall, wide), dtype), k.param("B", (tall, wide), dtype)
    tile = k.shared((rows, columns), dtype, layout=shared_layout(rng, rows, columns, dtype), name="tile")
    block = k.block_id("x")
    first = int(rng.integers(0, wide - columns + 1))
    box = (slice(block * rows, block * rows + rows), slice(first, first + columns))
    if asynchronous:
        try:
            tc.plan(tile[:, :], a[0:rows, box[1]], op="copy_async", scope=tc.cta(threads), target="sm_90")
            k.cta.copy_async(tile[:, :], a[box])
        except tc.NoVariantError:
            k.cta.copy(tile[:, :], a[box])
        k.cp_async_commit()
        k.cp_async_wait(0)
    else:
        k.cta.copy(tile[:, :], a[box])
    k.cta_sync()
    if rng.random() < 0.5:
        k.cta.copy(b[box], tile[:, :])
    else:
        with k.if_(k.warp_id() == 0):
            k.warp.copy(b[box], tile[:, :])
    kernel = k.build(target="sm_90", grid=3)
    return kernel, [array(rng, (tall, wide), dtype), array(rng, (tall, wide), dtype)]


def fragment(rng: np.random.Generator) -> Made:
    """A slice of A to registers, arithmetic on nothing, and back to B through another layout."""
    dtype = str(rng.choice(DTYPES))
    width = int(rng.choice([1, 2, 4, 8, 16]))
    layout, shape = [
        (TileLayout(S[(32, width) : (1 @ laneid, 1)]), (32, width)),
        (TileLayout(S[(width, 32) : (1, 1 @ laneid)]), (width, 32)),
        (TileLayout(S[(2, 32, width) : (1 @ warpid, 1 @ laneid, 1)]), (64, width)),
        (TileLayout(S[(16, width) : (2 @ laneid, 1)]), (16, width)),
    ][int(rng.integers(0, 4))]
    cta = shape[0] == 64
    threads = 64 if cta else 32
    k = tc.KernelBuilder("fragment", threads=threads)
    pad = int(rng.integers(0, 4))
    a, b = k.param("A", (shape[0], shape[1] + pad), dtype), k.param("B", (shape[0], shape[1] + pad), dtype)
    held = k.local(shape, dtype, layout=layout, name="held")
    low = int(rng.integers(0, shape[0]))
    high = int(rng.integers(low + 1, shape[0] + 1))
    box = (slice(low, high), slice(pad // 2, pad // 2 + shape[1])) if not cta else (slice(0, 64), slice(0, shape[1]))
    own = (box[0], slice(0, shape[1]))
    copies = k.cta if cta else k.warp
    if rng.random() < 0.5:
        tile = k.shared(
            shape, dtype, layout=shared_layout(rng, *shape, dtype) if min(shape) >= 8 else None, name="tile"
        )
        if (high - low) * shape[1] % threads == 0:
            copies.copy(tile[own], a[box])
        else:
            with k.if_(k.thread_id() == 0):
                k.thread.copy(tile[own], a[box])
        k.cta_sync()
        copies.copy(held[own], tile[own])
    else:
        copies.copy(held[own], a[box])
    copies.copy(b[box], held[own])
    whole = (shape[0], shape[1] + pad)
    return k.build(target="sm_90", grid=1), [array(rng, whole, dtype), array(rng, whole, dtype)]


def cluster(rng: np.random.Generator) -> Made:
    """Each CTA of a cluster sends its tile to the next, rows in a drawn order."""
    dtype = str(rng.choice(DTYPES))
    per_unit = 16 // tc.dtype_of(dtype).bytes
    rows, columns = int(rng.choice([4, 8, 16])), per_unit * int(rng.choice([1, 2, 4, 8]))
    ctas = int(rng.choice([2, 4, 8]))
    k = tc.KernelBuilder("ring", threads=32)
    a, b = k.param("A", (ctas * rows, columns), dtype), k.param("B", (ctas * rows, columns), dtype)
    swizzled = rng.random() < 0.4
    layout = tc.SwizzledLayout(tc.swizzle("128B", dtype), TileLayout(S[rows, columns])) if swizzled else None
    source = k.shared((rows, columns), dtype, layout=layout, name="source")
    target = k.shared((rows, columns), dtype, layout=layout if rng.random() < 0.7 else None, name="target")
    bar = k.mbarrier("bar")
    rank, tid = k.cluster_rank(), k.thread_id()
    with k.if_(tid == 0):
        bar.init(1)
        k.fence_mbarrier_init()
    k.cluster_sync()
    falling = rng.random() < 0.5
    with k.if_(tid == 0):
        k.thread.copy(source[:, :], a[rank * rows : rank * rows + rows, :])
        k.fence_proxy_async()
        bar.arrive_expect_tx(rows * columns * tc.dtype_of(dtype).bytes)
        with k.range(rows) as row:
            at = rows - 1 - row if falling else row
            k.thread.copy_async(
                target[at, :], source[at, :], mbar=bar[0], remote_cta_id=(rank + 1) % ctas, variant="dsmem"
            )
        bar.wait(0, cluster=True)
        k.thread.copy(b[rank * rows : rank * rows + rows, :], target[:, :])
    k.cluster_sync()
    kernel = k.build(target="sm_90", grid=ctas, cluster=ctas)
    return kernel, [array(rng, (ctas * rows, columns), dtype), array(rng, (ctas * rows, columns), dtype)]


DRAWN: dict[str, Callable[[np.random.Generator], Made]] = {
    "gmem_smem": lambda rng: staged(rng, asynchronous=False),
    "ldgsts": lambda rng: staged(rng, asynchronous=True),
    "reg": fragment,
    "dsmem": cluster,
}


def emulated(task: tuple[str, int]) -> tuple[str, tc.BuiltKernel | None, list[Any], list[Any], str]:
    """Return a random kernel, with its arguments before and after it ran on the emulator."""
    kind, seed = task
    try:
        kernel, arguments = DRAWN[kind](np.random.default_rng([seed, len(kind)]))
        after = [argument.copy() for argument in arguments]
        kernel(*after, executor="emulator")
    except tc.NoVariantError:
        return kind, None, [], [], "declined"
    except tc.TilecopyError as error:
        return kind, None, [], [], f"{kind} {seed}: {type(error).__name__}: {error}"
    return kind, kernel, arguments, after, ""


def main() -> None:
    """Print counts and every difference; exit with status 1 if there is one."""
    options = argparse.ArgumentParser()
    options.add_argument("--draws", type=int, default=3000)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    tasks = [(kind, asked.seed + i) for i in range(asked.draws // len(DRAWN)) for kind in DRAWN]
    counts: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(min(16, os.cpu_count() or 1)) as pool:
        for kind, kernel, arguments, after, trouble in pool.imap_unordered(emulated, tasks, chunksize=8):
            if kernel is None:
                counts[f"{kind}: {'declined' if trouble == 'declined' else 'FAILED'}"] += 1
                if trouble != "declined":
                    print(trouble, flush=True)
                continue
            kernel(*arguments, executor="cuda")
            same = all(x.tobytes() == y.tobytes() for x, y in zip(arguments, after, strict=True))
            counts[f"{kind}: {'same' if same else 'DIFFERS'}"] += 1
            if not same:
                print(f"{kind}: the GPU and the emulator differ\n{kernel.explain()}", flush=True)
    for name, demo in demos.DEMOS.items():
        if demo.runs("sm_90a"):
            for executor in ("emulator", "cuda"):
                demo.check(demo.make("sm_90a"), executor)
            counts["demos: same"] += 1
        else:
            counts[f"demo {name}: not for this GPU"] += 1
    for what, count in sorted(counts.items()):
        print(f"{what}: {count}")
    script = Path(__file__).parents[2] / "plugins" / "emulator" / "tests" / "compare_on_gpu.py"
    singles = subprocess.run([sys.executable, str(script)], check=False).returncode if script.exists() else 0
    raise SystemExit(bool(singles) or any("DIFFERS" in what or "FAILED" in what for what in counts))


if __name__ == "__main__":
    main()
