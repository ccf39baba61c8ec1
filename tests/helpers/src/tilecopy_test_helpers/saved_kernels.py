"""Kernels with everything that a saved kernel may have: sizes, checked indices, tensor maps, clusters."""

from __future__ import annotations

from collections.abc import Callable

import tilecopy as tc

from tilecopy_test_helpers import demos, host_bytes
from tilecopy_test_helpers import programs as kernels


def sized(name: str = "sized") -> tc.BuiltKernel:
    """Sizes, a scalar with bounds of sizes, a grid made of sizes, starts that are checked at launch."""
    k = tc.KernelBuilder(name, threads=64)
    m, n = k.size("M", multiple_of=8, upper=2**20), k.size("N", multiple_of=64)
    a, b = k.param("A", (m, n), "float32"), k.param("B", (2 * m, n), "float32")
    first = k.scalar("first", upper=4096)
    tile = k.shared((8, 64), "float32", name="tile")
    bx, by = k.block_id("x"), k.block_id("y")
    columns = slice(bx * 64, bx * 64 + 64)
    k.cta.copy(tile[:, :], a[by * 8 : by * 8 + 8, columns])
    k.cta_sync()
    k.cta.copy(b[by * 8 + first * 8 : by * 8 + first * 8 + 8, columns], tile[:, :])
    return k.build(target="sm_80", grid=(n // 64, m // 8))


def gather() -> tc.BuiltKernel:
    """Rows by index, checked by the emulator."""
    k = tc.KernelBuilder("gather", threads=32)
    n = k.size("n")
    a, rows = k.param("A", (n, 32), "float32"), k.param("rows", (8,), "int32")
    b = k.param("B", (8, 32), "float32")
    tile = k.shared((32,), "float32", name="tile")
    for i in k.range(8):
        row = k.index(k.load(rows[i]), lower=0, upper=n - 1)
        k.cta.copy(tile[:], a[row, :])
        k.cta_sync()
        k.cta.copy(b[i, :], tile[:])
        k.cta_sync()
    return k.build(target="sm_80", grid=1)


def drawn_back() -> tc.BuiltKernel:
    """Boxes of 8 rows of which the last begins earlier, so that it ends with the rows."""
    k = tc.KernelBuilder("drawn_back", threads=64)
    m = k.size("M", lower=8, upper=2**20)
    a, b = k.param("A", (m, 64), "float32"), k.param("B", (m, 64), "float32")
    tile = k.shared((8, 64), "float32", name="tile")
    row = tc.minimum(k.block_id("x") * 8, m - 8)
    k.cta.copy(tile[:, :], a[row : row + 8, :])
    k.cta_sync()
    k.cta.copy(b[row : row + 8, :], tile[:, :], relaxed=True)
    return k.build(target="sm_80", grid=(tc.minimum((m + 7) // 8, 4096),))


def tensor_copies() -> tc.BuiltKernel:
    """Boxes of A, from its third row on, through shared memory to B; both maps are made at each launch."""
    k = tc.KernelBuilder("tensor_copies", threads=64)
    m, n = k.size("M", multiple_of=8, upper=2**20), k.size("N", multiple_of=64)
    a, b = k.param("A", (m, n), "float32"), k.param("B", (m, n), "float32")
    tile, bar = k.shared((8, 32), "float32", name="tile"), k.mbarrier("bar")
    rows, columns = k.block_id("y") * 8, slice(k.block_id("x") * 32, k.block_id("x") * 32 + 32)
    with k.if_(k.thread_id() == 0):
        bar.init(1)
        k.fence_mbarrier_init()
        bar.arrive_expect_tx(1024)
        k.thread.copy_async(tile[:, :], a[rows + 2 : rows + 10, columns], mbar=bar[0], outside="zero", variant="tma")
        bar.wait(0)
        k.thread.copy_async(b[rows : rows + 8, columns], tile[:, :], variant="tma_store")
        k.bulk_commit()
        k.bulk_wait(0)
    return k.build(target="sm_90", grid=(n // 32, m // 8))


SAVED: dict[str, Callable[[], tc.BuiltKernel]] = {
    "sized": sized,
    "gather": gather,
    "drawn back": drawn_back,
    "dynamic shared": lambda: kernels.round_trip((512, 256), (256, 128), "float32"),
    "cluster": demos.dsmem,
    "tensor memory": demos.tcgen05_cp,
    "tensor maps": tensor_copies,
    "bytes of a function": host_bytes.last_row,
    "edges": lambda: kernels.tiles((100, 72), (16, 64), halo=1),
}
