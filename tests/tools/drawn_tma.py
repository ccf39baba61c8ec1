"""Compare random tensor copies with NumPy: `python tests/tools/drawn_tma.py --count 2000 --executor cuda --seed 1`.

Each draw loads tiles of an array of 1 to 5 dimensions through shared memory by tma, stores them by tma_store into a second array (cut at its upper ends)
and by plain stores into a third that has room for whole tiles. Shapes, pitches, views, tiles, dtypes, swizzles and starts (also below zero) are drawn. The
emulator runs the same draws, so that equal seeds compare it with a GPU byte for byte.
"""

from __future__ import annotations

import argparse
import random
from math import prod
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout

DTYPES = ["uint8", "int16", "float16", "float32", "int64", "float64"]
SWIZZLES = [None, None, "32B", "64B", "128B"]


def tile_layout(extents: tuple[int, ...], size: int, dtype: str, swizzle: str | None) -> Any:
    """A tile whose rows are at most the span of the swizzle, so many beside each other as it takes."""
    if swizzle is None:
        return TileLayout(S[extents])
    span = int(swizzle.removesuffix("B")) // size
    *outer, inner = extents
    width = min(span, inner)
    strides, step = list[int](), span
    for extent in reversed(outer):
        strides.insert(0, step)
        step *= extent
    layout = TileLayout(S[(*outer, inner // width, width) : (*strides, step, 1)])
    return tc.SwizzledLayout(tc.swizzle(swizzle, dtype), layout)


def one(rng: random.Random, executor: str) -> str:
    """Run one draw and return its description, or "" if the variant declines it."""
    dtype, swizzle, rank = rng.choice(DTYPES), rng.choice(SWIZZLES), rng.randint(1, 5)
    size = tc.dtype_of(dtype).bytes
    unit = 16 // size
    span = 256 // size if swizzle is None else int(swizzle.removesuffix("B")) // size
    inner = span * rng.choice([1, 1, 2, 3]) if swizzle and rng.random() < 0.7 else unit * rng.randint(1, 256 // 16)
    if swizzle and inner > span:
        inner -= inner % span
    extents = [*(rng.choice([1, 2, 3, 4, 5, 8, 16]) for _ in range(rank - 1)), min(inner, 4096 // size)]
    while prod(extents) * size > 32768:
        extents[rng.randrange(rank - 1) if rank > 1 else 0] = unit if rank == 1 else 1
    shape = [max(1, extent * rng.randint(1, 3) - rng.randint(0, extent // 2)) for extent in extents]
    shape[-1] = -(-shape[-1] // unit) * unit
    shift = rng.choice([0, 0, unit if rank == 1 else rng.randint(1, 4)])
    order = list(range(rank - 1))
    rng.shuffle(order)  # how the outer dimensions lie in memory
    pitch, strides = shape[-1] + unit * rng.randint(0, 2), [0] * rank
    strides[-1] = 1
    for dim in order:
        strides[dim], pitch = pitch, pitch * shape[dim]
    tiles = [-(-n // t) for n, t in zip(shape, extents, strict=True)]
    padded = [n * t for n, t in zip(tiles, extents, strict=True)]
    k = tc.KernelBuilder("drawn", threads=32)
    a, b = k.param("A", shape, dtype, strides=strides), k.param("B", shape, dtype)
    c = k.param("C", padded, dtype)
    tile = k.shared(tuple(extents), dtype, layout=tile_layout(tuple(extents), size, dtype, swizzle), align_bytes=1024)
    bar, block, at = k.mbarrier("bar"), k.block_id("x"), list[Any]()
    for count in reversed(tiles):
        at.insert(0, block % count if count > 1 else 0)
        block = block // count
    starts = [i * t for i, t in zip(at, extents, strict=True)]
    inside = tuple(slice(s, s + t) for s, t in zip(starts, extents, strict=True))
    moved = (slice(starts[0] - shift, starts[0] - shift + extents[0]), *inside[1:])
    whole = (slice(None),) * rank
    try:
        with k.if_(k.thread_id() == 0):
            bar.init(1)
            k.fence_mbarrier_init()
            bar.arrive_expect_tx(prod(extents) * size)
            k.thread.copy_async(tile[whole], a[moved], mbar=bar[0], outside="zero", variant="tma")
        k.cta_sync()
        bar.wait(0)
        with k.if_(k.thread_id() == 0):
            k.thread.copy_async(b[inside], tile[whole], outside="zero", variant="tma_store")
            k.bulk_commit()
            k.bulk_wait(0)
        k.cta.copy(c[inside], tile[whole])
        kernel = k.build(target="sm_90", grid=prod(tiles))
    except tc.NoVariantError as error:
        return f"declined {str(error).splitlines()[1].split(':')[-1]}"
    number = np.dtype(f"u{size}")
    memory = np.frombuffer(rng.randbytes(pitch * size), number)
    x = np.lib.stride_tricks.as_strided(memory, shape, [s * size for s in strides])
    y, z = np.full(shape, 1, number), np.full(padded, 1, number)
    real = tc.dtype_of(dtype).numpy()
    kernel(x.view(real), y.view(real), z.view(real), executor=executor)
    wanted = np.zeros((padded[0] + shift, *padded[1:]), number)
    wanted[tuple(slice(shift * (d == 0), shift * (d == 0) + n) for d, n in enumerate(shape))] = x
    wanted = wanted[: padded[0]]
    right = (z == wanted).all() and (y == wanted[tuple(map(slice, shape))]).all()
    told = f"{dtype} {shape} strides {strides} tile {extents} swizzle {swizzle} shift {shift}"
    if not right:
        raise AssertionError(f"wrong: {told}\n{kernel.explain()}")
    return told


def main() -> None:
    """Run the draws, and print the number of correct results and the reasons of declines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--executor", default="emulator")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    right, wrong, declined = 0, list[str](), dict[str, int]()
    for number in range(given.count):
        try:
            told = one(random.Random(given.seed * 1_000_003 + number), given.executor)
        except (AssertionError, tc.TilecopyError) as error:
            wrong.append(f"draw {number}: {type(error).__name__}: {str(error)[:600]}")
            continue
        if told.startswith("declined"):
            reason = "".join(" " if letter.isdigit() else letter for letter in told)
            declined[reason] = declined.get(reason, 0) + 1
        else:
            right += 1
    print(f"{given.executor}: {right} right, {len(wrong)} wrong, {sum(declined.values())} declined")
    for reason, count in sorted(declined.items(), key=lambda item: -item[1])[:8]:
        print(f"  {count} {reason}")
    for each in wrong[:5]:
        print(each)


if __name__ == "__main__":
    main()
