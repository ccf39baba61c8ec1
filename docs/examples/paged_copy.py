"""A paged copy: pages of 16 rows, found through a block table, to contiguous sequences.

``out[s, 16 * j : 16 * j + 16] = pool[table[s, j]]``, by a CTA a page or by a warp a page; one build for any number of pages,
sequences and blocks. Run it: `python docs/examples/paged_copy.py`.
"""

from __future__ import annotations

import numpy as np
import tilecopy as tc

PAGE = 16


def paged_copy(scope: str, width: int, dtype: str, table_dtype: str = "int32", *, warps: int = 4) -> tc.BuiltKernel:
    """The kernel: ``scope`` is "cta" or "warp"; arguments pool, table, out."""
    k = tc.KernelBuilder(f"paged_by_{scope}", threads=32 * warps)
    pages, sequences, blocks = k.size("pages"), k.size("sequences"), k.size("blocks")
    pool = k.param("pool", (pages, PAGE, width), dtype)
    table = k.param("block_table", (sequences, blocks), table_dtype)
    out = k.param("out", (sequences, blocks * PAGE, width), dtype)
    workers = 1 if scope == "cta" else warps
    worker = 0 if scope == "cta" else k.warp_id()
    tile = k.shared((workers, PAGE, width), dtype, name="tile")
    sequence, j = k.block_id("y"), k.block_id("x") * workers + worker
    copies = getattr(k, scope)
    with k.if_(j < blocks):
        page = k.index(k.load(table[sequence, j]), lower=0, upper=pages - 1)
        copies.copy(tile[worker, :, :], pool[page, :, :])
        k.cta_sync() if scope == "cta" else k.warp_sync()
        copies.copy(out[sequence, j * PAGE : j * PAGE + PAGE, :], tile[worker, :, :])
    return k.build(target="sm_80", grid=((blocks + workers - 1) // workers, sequences))


def main() -> None:
    """Both scopes, a few shapes."""
    rng = np.random.default_rng(0)
    for scope in ("cta", "warp"):
        kernel = paged_copy(scope, 64, "float16")
        for pages, sequences, blocks in ((8, 2, 3), (40, 3, 8)):
            pool = rng.random((pages, PAGE, 64)).astype(np.float16)
            table = rng.integers(0, pages, (sequences, blocks), np.int32)
            out = np.zeros((sequences, blocks * PAGE, 64), np.float16)
            kernel(pool, table, out)
            same = (out.reshape(sequences, blocks, PAGE, 64) == pool[table]).all()
            print(f"by {scope}, {sequences} x {blocks} of {pages} pages: {'equal' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
