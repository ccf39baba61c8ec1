"""Bulk copies between global and shared memory, both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import mentions

MBAR = tc.Buffer(1, "uint64", space="shared", name="mbar", align_bytes=8)
SWIZZLED = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[64, 64]))
PADDED = TileLayout(S[(64, 64) : (72, 1)])


def plan(
    rows: slice = slice(0, 64),
    columns: slice = slice(0, 64),
    *,
    store: bool = False,
    layout: tc.Layout | None = None,
    strides: tuple[int, ...] = (64, 1),
    target: str = "sm_90",
    align_bytes: int = 16,
    **options: Any,
) -> tc.Plan:
    array = tc.Buffer(
        (64, 64),
        "float16",
        space="global",
        name="A",
        layout=TileLayout(S[(64, 64) : strides]),
        align_bytes=align_bytes,
    )[rows, columns]
    tile = tc.Buffer((64, 64), "float16", space="shared", layout=layout, name="tile")[rows, columns]
    dst, src = (array, tile) if store else (tile, array)
    options = ({"variant": "bulk_store"} if store else {"variant": "bulk", "mbar": MBAR[0]}) | options
    return tc.plan(dst, src, op="copy_async", scope=tc.thread(), target=target, **options)


def reason(*, store: bool = False, **arguments: Any) -> str:
    with pytest.raises(tc.NoVariantError) as caught:
        plan(store=store, **arguments)
    return caught.value.declined["bulk_store" if store else "bulk"]


@pytest.mark.parametrize("store", [False, True])
def test_a_chunk_is_as_long_as_both_sides_allow(store: bool) -> None:
    def chunks(**arguments: Any) -> tuple[int, int]:
        found = plan(store=store, **arguments).partition
        found = found if store else found.copies
        return found.chunk_bytes, len(found.chunks)

    assert chunks() == (8192, 1)
    assert plan(store=True).partition.summary() == "1 bulk copy of 8192 bytes"
    assert chunks(columns=slice(0, 32)) == (64, 64)
    assert chunks(layout=PADDED) == (128, 64)
    assert chunks(strides=(80, 1)) == (128, 64)
    assert chunks(layout=SWIZZLED) == (16, 512)


@pytest.mark.parametrize("store", [False, True])
def test_declines_with_the_numbers(store: bool) -> None:
    assert mentions(8).search(reason(store=store, columns=slice(0, 4)))
    assert mentions(24).search(reason(store=store, columns=slice(0, 12)))
    assert mentions(8).search(reason(store=store, columns=slice(4, 12)))
    assert mentions(68, 16).search(reason(store=store, strides=(68, 1)))
    assert mentions(8, 16).search(reason(store=store, align_bytes=8))
    assert mentions("sm_90").search(reason(store=store, target="sm_89"))


def test_options_are_looked_at() -> None:
    inside = tc.ActiveThreads(cta_threads=1)
    assert mentions("mbar").search(reason(mbar=tc.Buffer(4, "uint32", space="shared", name="words")[0:2]))
    assert mentions("mbar").search(reason(mbar=None, active=inside))
    assert plan(mbar=MBAR).variant == "bulk"
    other = tc.Buffer((64, 64), "float32", space="global", name="other")
    assert "float16" in reason(prefetch=other[:, :])
    assert mentions("global").search(reason(prefetch=tc.Buffer((64, 64), "float16", space="shared", name="t")[:, :]))
    narrow = tc.Buffer((64, 64), "float16", space="global", name="narrow", layout=TileLayout(S[(64, 64) : (1, 64)]))
    assert mentions(2).search(reason(prefetch=narrow[:, :]))


def test_more_bytes_than_a_phase_counts_are_declined_inwards_alone() -> None:
    array = tc.Buffer((1 << 20,), "uint8", space="global", name="A")
    tile = tc.Buffer((1 << 20,), "uint8", space="shared", name="tile")
    with pytest.raises(tc.NoVariantError, match=mentions(1048576)):
        tc.plan(tile[:], array[:], op="copy_async", scope=tc.thread(), target="sm_90", mbar=MBAR[0])
    store = tc.plan(array[:], tile[:], op="copy_async", scope=tc.thread(), target="sm_90", variant="bulk_store")
    assert store.partition.chunk_bytes == 1 << 20


def pipeline(
    tiles: int,
    stages: int,
    layout: tc.Layout | None,
    *,
    prefetch: bool = False,
    without: str = "",
    cap: bool = True,
    target: str = "sm_90",
) -> tc.BuiltKernel:
    """One thread copies tiles of 64 rows through a ring, in and out by the bulk engine."""
    k = tc.KernelBuilder("pipeline", threads=32)
    a, b = (k.param(name, (tiles * 64, 64), "float16") for name in "AB")
    ring = [k.shared((64, 64), "float16", layout=layout, name=f"tile{stage}") for stage in range(stages)]
    full = k.mbarrier("full", count=stages)

    def rows(tile: Any) -> slice:
        return slice(tile * 64, tile * 64 + 64)

    def fetch(tile: int) -> None:
        slot, later = tile % stages, tile + 1
        options = {"prefetch": a[rows(min(later, tiles - 1) if cap else later), :]} if prefetch else {}
        if without != "expect":
            full.arrive_expect_tx(64 * 64 * 2, index=slot)
        k.thread.copy_async(ring[slot][:, :], a[rows(tile), :], mbar=full[slot], variant="bulk", **options)

    with k.if_(k.thread_id() == 0):
        for stage in range(stages):
            full.init(1, index=stage)
        k.fence_mbarrier_init()
        for tile in range(min(stages - 1, tiles)):
            fetch(tile)
        for tile in range(tiles):
            if without != "wait":
                full.wait(tile // stages % 2, index=tile % stages)
            k.thread.copy_async(b[rows(tile), :], ring[tile % stages][:, :], variant="bulk_store")
            if without != "commit":
                k.bulk_commit()
            if without != "read":
                k.bulk_wait(1, read=True)
            if tile + stages - 1 < tiles:
                fetch(tile + stages - 1)
        k.bulk_wait(0, read=without == "end")
    k.cta_sync()
    with k.if_(k.thread_id() == 1):
        k.store(b[0, 0], k.load(b[0, 0]))
    return k.build(target=target, grid=1)


@pytest.mark.parametrize("layout", [None, PADDED, SWIZZLED])
@pytest.mark.parametrize(("tiles", "stages"), [(1, 2), (5, 2), (7, 3)])
def test_a_ring_of_stages(tiles: int, stages: int, layout: tc.Layout | None) -> None:
    a = byte_arrays.random_array((tiles * 64, 64), "float16")
    b = np.zeros_like(a)
    pipeline(tiles, stages, layout)(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize("without", ["expect", "wait", "commit", "read", "end"])
def test_every_step_is_needed(without: str) -> None:
    a = byte_arrays.random_array((5 * 64, 64), "float16")
    with pytest.raises(tc.HazardError):
        pipeline(5, 2, None, without=without)(a, np.zeros_like(a), executor="emulator")


def test_a_prefetch_goes_with_the_copy() -> None:
    kernel = pipeline(5, 2, PADDED, prefetch=True)
    assert kernel.ptx.count("cp.async.bulk.prefetch.L2.global") == 5 * 64
    assert "64 bulk copies of 128 bytes, prefetches of 128 bytes" in kernel.plans[0].explain()
    a = byte_arrays.random_array((5 * 64, 64), "float16")
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)
    with pytest.raises(tc.LayoutError, match="outside"):
        pipeline(5, 2, None, prefetch=True, cap=False)


HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a) {
.reg .b64 %rd<4>; .reg .pred %p; .reg .b32 %r<4>;
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.eq.u32 %p, %r1, 3; mov.b64 %rd2, 0;
"""


def run(line: str) -> None:
    run_ptx(f"{HEAD}{line}\nret; }}", [np.zeros(256, np.uint8)], grid=2, block=32)


@pytest.mark.parametrize(
    "line",
    [
        "@%p cp.async.bulk.prefetch.L2.global [%rd1+128], 128;",
        "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], 16, %rd2;",
    ],
)
def test_the_emulator_takes_a_prefetch(line: str) -> None:
    run(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("@%p cp.async.bulk.prefetch.L2.global [%rd1+128], 144;", "bounds"),
        ("@%p cp.async.bulk.prefetch.L2.global [%rd1+8], 16;", "alignment"),
        ("mov.u32 %r2, 24; @%p cp.async.bulk.prefetch.L2.global [%rd1], %r2;", "alignment"),
        ("@%p cp.async.bulk.prefetch.L2.global [%rd2], 16;", "bounds"),
    ],
)
def test_the_emulator_judges_a_prefetch(line: str, kind: str) -> None:
    with pytest.raises(tc.HazardError) as caught:
        run(line)
    assert (caught.value.kind, caught.value.line) == (kind, 7)


@pytest.mark.parametrize(
    "line",
    [
        "cp.async.bulk.prefetch.L2.global [%rd1];",
        "cp.async.bulk.prefetch.L2.global [%rd1], 24;",
        "cp.async.bulk.prefetch.L2.shared [%rd1], 16;",
    ],
)
def test_the_emulator_refuses_what_is_no_prefetch(line: str) -> None:
    with pytest.raises(UnsupportedPtxError):
        run(line)
