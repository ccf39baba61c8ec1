"""dsmem against its specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TileLayout
from tilecopy_test_helpers import byte_arrays, demos
from tilecopy_test_helpers.mentions import is_hazard, mentions

MBAR = tc.Buffer(1, "uint64", space="shared", name="mbar", align_bytes=8)


def plan(
    box: tuple[Any, ...] = (slice(0, 128), slice(0, 64)),
    *,
    dst_layout: tc.Layout | None = None,
    src_layout: tc.Layout | None = None,
    shape: tuple[int, ...] = (128, 64),
    dtype: str = "float16",
    target: str = "sm_90",
    src_box: tuple[Any, ...] | None = None,
    **options: Any,
) -> tc.Plan:
    dst = tc.Buffer(shape, dtype, space="shared", layout=dst_layout, name="dst_smem")
    src = tc.Buffer(shape, dtype, space="shared", layout=src_layout, name="src_smem")
    options = {"mbar": MBAR[0], "remote_cta_id": 1} | options
    return tc.plan(dst[box], src[src_box or box], op="copy_async", scope=tc.thread(), target=target, **options)


def reason(**arguments: Any) -> str:
    with pytest.raises(tc.NoVariantError) as caught:
        plan(**arguments)
    return caught.value.declined["dsmem"]


def test_the_seeds_contiguous_tile_is_one_chunk() -> None:
    found = plan()
    assert found.variant == "dsmem" and found.priority == 10
    assert found.partition.chunk_bytes == 16384
    assert len(found.partition.chunks) == 1
    assert demos.dsmem(elementwise=True).ptx.count("cp.async.bulk") == 1
    assert ", 16384, " in demos.dsmem(elementwise=True).ptx


def test_a_stride_gap_is_a_loop_of_chunks() -> None:
    found = plan((slice(0, 128), slice(0, 32)))
    assert (found.partition.chunk_bytes, len(found.partition.chunks)) == (64, 128)
    padded = plan(dst_layout=TileLayout(S[(128, 64) : (72, 1)]))
    assert (padded.partition.chunk_bytes, len(padded.partition.chunks)) == (128, 128)
    assert padded.partition.chunks[2] == (144, 128)


def test_declines_with_the_numbers() -> None:
    assert mentions(2).search(reason(src_layout=TileLayout(S[(128, 64) : (1, 128)])))
    assert mentions(8).search(reason(box=(slice(0, 128), slice(0, 4))))
    assert mentions(24).search(reason(box=(slice(0, 128), slice(0, 12))))
    assert mentions(8).search(reason(box=(slice(0, 128), slice(4, 12))))
    assert mentions(68, 16).search(reason(dst_layout=TileLayout(S[(128, 64) : (68, 1)])))
    inside = tc.ActiveThreads(cta_threads=1)
    assert mentions("mbar").search(reason(mbar=None, active=inside))
    assert mentions("mbar").search(reason(mbar="bar"))
    assert mentions("remote_cta_id").search(reason(remote_cta_id=None, active=inside))
    assert plan(mbar=None, remote_cta_id=None).variant == "dsmem", "a plan alone needs neither"
    assert plan(mbar=MBAR).variant == "dsmem"
    assert "remote_cta_id" in reason(remote_cta_id=16)
    assert type(plan(remote_cta_id=np.int64(1)).request.options["remote_cta_id"]) is int, "as everywhere else"
    several = tc.Buffer(2, "uint64", space="shared", name="mbar", align_bytes=8)
    assert mentions("mbar").search(reason(mbar=several[0:2])) and plan(mbar=several[1]).variant == "dsmem"
    assert mentions("mbar").search(reason(mbar=tc.Buffer(1, "uint32", space="shared", name="mbar")[0]))
    assert mentions("mbar").search(reason(mbar=tc.Buffer(1, "uint64", space="global", name="mbar")[0]))
    repeated = TileLayout(S[(128, 64) : (64, 1)] + R[2:8192])
    assert "replica" in reason(dst_layout=repeated) and "replica" in reason(src_layout=repeated)
    weak = tc.Buffer((128, 64), "float16", space="shared", name="weak", align_bytes=8)
    good = tc.Buffer((128, 64), "float16", space="shared", name="good")
    for pair in ((weak, good), (good, weak)):
        with pytest.raises(tc.NoVariantError, match=mentions("weak", 8, 16)):
            tc.plan(
                *(each[:, :] for each in pair), op="copy_async", scope=tc.thread(), target="sm_90", mbar=MBAR[0],
                remote_cta_id=1,
            )  # fmt: skip
    assert mentions("sm_90").search(reason(target="sm_89"))
    assert mentions(1048576).search(reason(shape=(1024, 512), box=(slice(0, 1024), slice(0, 512))))


def test_many_threads_would_each_issue_the_copy() -> None:
    k = tc.KernelBuilder("k", threads=64)
    a, b, mbar = k.shared((64,), "float32"), k.shared((64,), "float32"), k.mbarrier()
    k.thread.copy_async(a[:], b[:], mbar=mbar[0], remote_cta_id=1)
    with pytest.raises(tc.NoVariantError, match=mentions(64)):
        k.build(target="sm_90", grid=2, cluster=2)


def test_a_phase_past_the_hardwares_limit_is_refused() -> None:
    k = tc.KernelBuilder("k", threads=32)
    with pytest.raises(tc.RequestError, match=mentions(1048575, 1048576)):
        k.mbarrier().arrive_expect_tx(2**20)


SWIZZLED = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[128, 64]))


def test_equal_swizzles_at_equal_phase_are_one_chunk() -> None:
    assert plan(dst_layout=SWIZZLED, src_layout=SWIZZLED).partition.chunk_bytes == 16384


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # more than 128 chunks, as asked
def test_other_swizzles_are_runs_of_one_chunk_each() -> None:
    assert plan(dst_layout=SWIZZLED).partition.chunk_bytes == 16
    shifted = plan(
        (slice(0, 64), slice(0, 64)), src_box=(slice(1, 65), slice(0, 64)), dst_layout=SWIZZLED, src_layout=SWIZZLED
    )
    assert shifted.partition.chunk_bytes == 16
    part = (slice(0, 128), slice(0, 32))  # half of what the swizzle permutes: equal at both ends, and no run of bytes
    assert plan(part, dst_layout=SWIZZLED, src_layout=SWIZZLED).partition.chunk_bytes == 16
    fine = tc.SwizzledLayout(tc.swizzle("32B", "float16"), TileLayout(S[128, 64]))
    long = tc.SwizzledLayout(tc.Swizzle(5, 1, 1), TileLayout(S[(128, 64) : (72, 1)]))
    assert plan(dst_layout=long).partition.chunk_bytes == 16, "72 elements a row are a multiple of 8, not of 32"
    assert plan(dst_layout=fine).partition.chunk_bytes == 16
    narrow = tc.SwizzledLayout(tc.Swizzle(2, 3, 3), TileLayout(S[128, 64]))
    assert mentions(8).search(reason(dst_layout=narrow))


def send(
    dst_layout: tc.Layout | None, src_layout: tc.Layout | None, dst_row: int, src_row: int, target: str = "sm_90"
) -> tc.BuiltKernel:
    """64 rows from one layout to another, at different rows."""
    k = tc.KernelBuilder("send", threads=64)
    a, b = k.param("A", (64, 64), "float16"), k.param("B", (64, 64), "float16")
    src = k.shared((128, 64), "float16", layout=src_layout, name="src")
    dst = k.shared((128, 64), "float16", layout=dst_layout, name="dst")
    mbar, tid, rank = k.mbarrier("mbar"), k.thread_id(), k.cluster_rank()
    with k.if_(tid == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
    k.cluster_sync()
    with k.if_(rank == 1):
        demos.by_elements(k, src[src_row : src_row + 64, :], a[:, :], threads=64)
        k.fence_proxy_async()
        k.cta_sync()
        with k.if_(tid == 0):
            k.thread.copy_async(
                dst[dst_row : dst_row + 64, :], src[src_row : src_row + 64, :], mbar=mbar[0], remote_cta_id=rank - 1
            )
    with k.if_(rank == 0):
        with k.if_(tid == 0):
            mbar.arrive_expect_tx(64 * 64 * 2)
        mbar.wait(0)
        demos.by_elements(k, b[:, :], dst[dst_row : dst_row + 64, :], threads=64)
    k.cluster_sync()
    return k.build(target=target, grid=2, cluster=2)


CASES = [
    (None, None, 0, 64),
    (SWIZZLED, None, 8, 0),
    (SWIZZLED, SWIZZLED, 8, 64),
    (SWIZZLED, SWIZZLED, 3, 1),
    (TileLayout(S[(128, 64) : (72, 1)]), None, 1, 2),
    (TileLayout(S[(128, 64) : (72, 1)]), SWIZZLED, 5, 9),
]


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")
@pytest.mark.parametrize(("dst_layout", "src_layout", "dst_row", "src_row"), CASES)
def test_every_element_arrives(dst_layout: tc.Layout, src_layout: tc.Layout, dst_row: int, src_row: int) -> None:
    a = byte_arrays.random_array((64, 64), "float16")
    b = np.zeros_like(a)
    send(dst_layout, src_layout, dst_row, src_row)(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize("cluster", [2, 4, 8, 16])
@pytest.mark.parametrize("computed", [False, True])
def test_clusters(cluster: int, computed: bool) -> None:
    a = byte_arrays.random_array((128, 64), "float16")
    b = np.zeros_like(a)
    box = (slice(0, 16), slice(0, 64))
    demos.dsmem(cluster=cluster, computed=computed, elementwise=True, box=box)(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a[:16], b[:16]) and not b[16:].any()


def ring(target: str = "sm_90", stages: int = 3, rounds: int = 7) -> tc.BuiltKernel:
    """CTA 0 sends ``rounds`` rows through a ring of stages in CTA 1, two copies on one barrier each."""
    k = tc.KernelBuilder("ring", threads=32)
    a, b = k.param("A", (rounds, 64), "float32"), k.param("B", (rounds, 64), "float32")
    src = k.shared((stages, 64), "float32", name="src")
    dst = k.shared((stages, 64), "float32", name="dst")
    full, tid, rank = k.mbarrier("full", count=stages), k.thread_id(), k.cluster_rank()
    with k.if_(tid == 0):
        for stage in range(stages):
            full.init(1, index=stage)
        k.fence_mbarrier_init()
    k.cluster_sync()
    for number in range(rounds):
        stage = number % stages
        with k.if_(rank == 1), k.if_(tid == 0):
            full.arrive_expect_tx(256, index=stage)
        k.cluster_sync()
        with k.if_(rank == 0):
            demos.by_elements(k, src[stage, :], a[number, :], threads=32)
            k.fence_proxy_async()
            k.cta_sync()
            with k.if_(tid == 0):
                for half in (slice(0, 32), slice(32, 64)):
                    k.thread.copy_async(dst[stage, half], src[stage, half], mbar=full[stage], remote_cta_id=1)
        with k.if_(rank == 1):
            full.wait(number // stages % 2, index=stage)
            demos.by_elements(k, b[number, :], dst[stage, :], threads=32)
        k.cluster_sync()
    return k.build(target=target, grid=2, cluster=2)


def test_stages_of_a_ring_and_several_copies_on_one_barrier() -> None:
    a = byte_arrays.random_array((7, 64), "uint32").view(np.float32)
    b = np.zeros_like(a)
    ring()(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


def test_a_copy_to_the_own_cta_is_a_hazard() -> None:
    k = tc.KernelBuilder("own", threads=32)
    src, dst, mbar = k.shared((64,), "float32", name="src"), k.shared((64,), "float32", name="dst"), k.mbarrier("mbar")
    k.store(src[k.thread_id()], 1.0)
    k.store(src[k.thread_id() + 32], 1.0)
    with k.if_(k.thread_id() == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(dst[:], src[:], mbar=mbar[0], remote_cta_id=k.cluster_rank())
    k.cluster_sync()
    with pytest.raises(tc.HazardError, check=is_hazard("window", "cluster", "dst")):
        k.build(target="sm_90", grid=2, cluster=2)(executor="emulator")
