"""Rows of a matrix by an array of indices: B[i] = A[rows[i]], and back: A[rows[i]] = B[i].

One build serves every number of rows and indices. Each warp moves one row; it loads its index itself, so a copy at warp
scope may start there. Run it: `python docs/examples/gather_scatter.py`.
"""

from __future__ import annotations

import numpy as np
import tilecopy as tc

WARPS = 4


def rows_by_index(
    way: str, columns: int, dtype: str, index_dtype: str = "int32", *, clamp: bool = False
) -> tc.BuiltKernel:
    """The kernel: ``way`` is "gather" or "scatter"; arguments A, rows, B."""
    k = tc.KernelBuilder(way, threads=32 * WARPS)
    total, count = k.size("total"), k.size("count")
    table = k.param("A", (total, columns), dtype)
    rows = k.param("rows", (count,), index_dtype)
    packed = k.param("B", (count, columns), dtype)
    staged = k.shared((WARPS, columns), dtype, name="staged")
    warp = k.warp_id()
    i = k.block_id() * WARPS + warp
    with k.if_(i < count):
        row = k.index(k.load(rows[i]), lower=0, upper=total - 1, clamp=clamp)
        src, dst = (table[row, :], packed[i, :]) if way == "gather" else (packed[i, :], table[row, :])
        k.warp.copy(staged[warp, :], src)
        k.warp_sync()
        k.warp.copy(dst, staged[warp, :])
    return k.build(target="sm_80", grid=((count + WARPS - 1) // WARPS,))


def main() -> None:
    """Gather some rows, scatter them into another matrix."""
    rng = np.random.default_rng(0)
    gather, scatter = (rows_by_index(way, 64, "float32") for way in ("gather", "scatter"))
    for total, count in ((100, 7), (10, 10), (1000, 300)):
        a = rng.random((total, 64), np.float32)
        rows = rng.permutation(total)[:count].astype(np.int32)
        packed, back = np.zeros((count, 64), np.float32), np.zeros_like(a)
        gather(a, rows, packed)
        scatter(back, rows, packed)
        same = (
            (packed == a[rows]).all() and (back[rows] == a[rows]).all() and np.count_nonzero(back.any(axis=1)) == count
        )
        print(f"{count} of {total} rows: {'equal' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
