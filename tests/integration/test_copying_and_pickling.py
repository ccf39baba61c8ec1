"""Data, plans and kernels are the same when they are copied or pickled."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TileLayout
from tilecopy.kernel.active_threads import inside_condition
from tilecopy_test_helpers.fuzz_objects import TARGET, Objects
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core import plugin

COPIES = {"pickled": lambda thing: pickle.loads(pickle.dumps(thing)), "deep-copied": copy.deepcopy, "copied": copy.copy}


@pytest.mark.parametrize("how", COPIES)
def test_data_is_the_same_when_copied(how: str) -> None:
    again, w = COPIES[how], Objects()
    rows = w.s[w.k.thread_id() * 0 + 8 : 16, :]
    swizzled = tc.SwizzledLayout(tc.swizzle("128B", "float16"), w.layout)
    fragment = TileLayout(S[(8, 8) : (8 @ tc.laneid, 1)] + R[4 : 32 @ tc.TLane] + 4)
    active = inside_condition(tc.ActiveThreads(64), w.condition)
    described = (tc.dtype_of("bfloat16"), tc.target_of(TARGET), tc.warp(), plugin.Iter(8, 8), w.variant)
    for thing in (w.layout, swizzled, fragment, active, *described):
        assert again(thing) == thing
    assert repr(again(w.at)) == repr(w.at)  # its register is one object for each, and a copy's is another
    region = again(rows)
    assert (repr(region), region.extents) == (repr(rows), rows.extents)
    assert repr(region.sliced_layout()) == repr(rows.sliced_layout())
    assert str(again(w.request)) == str(w.request)
    assert again(w.plan).explain() == w.plan.explain()
    both = again((w.n, w.n + w.k.block_id(), w.k.block_id()))
    assert repr(both[1] - both[0] - both[2]) == "0"  # a symbol stays itself among what is copied together


@cache
def plans_of_every_variant() -> dict[str, tc.Plan]:
    """One of each first-party variant, between memories of one kernel."""
    k = tc.KernelBuilder("variants", threads=128)
    a, tile, other = k.param("A", (128, 64), "float16"), k.shared((128, 64), "float16"), k.shared((128, 64), "float16")
    owned, turned = (
        k.local((128, 64), "float16", layout=layout)
        for layout in (TileLayout(S[(128, 64) : (1 @ tc.tx, 1)]), TileLayout(S[(128, 8, 8) : (1 @ tc.tx, 1, 8)]))
    )
    rows = k.shared((32, 16), "uint8")
    columns = TileLayout(S[(32, 16) : (1 @ tc.TLane, 1 @ tc.TCol)] + R[4 : 32 @ tc.TLane])
    tmem, mbar = k.tmem((32, 16), "uint8", layout=columns), k.mbarrier()
    k.tcgen05_alloc(tmem, columns=32)
    lanes = k.tmem((128, 64), "float16", layout=TileLayout(S[(128, 64) : (1 @ tc.TLane, 1 @ tc.TCol)]))
    alone = {"op": "copy_async", "scope": tc.thread()}
    asked: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "gmem_smem": (tile, a, {}),
        "ldgsts": (tile, a, {"op": "copy_async"}),
        "reg": (owned, a, {}),
        "regperm": (turned, owned, {}),
        "ragged": (tile, a, {}),
        "bulk": (tile, a, {**alone, "mbar": mbar[0]}),
        "tma": (tile, a, {**alone, "mbar": mbar[0]}),
        "dsmem": (other, tile, {**alone, "mbar": mbar[0], "remote_cta_id": 1}),
        "tcgen05_cp": (tmem, rows, alone),
        "tcgen05_ld": (owned, lanes, {}),
        "tcgen05_st": (lanes, owned, {}),
    }
    return {
        name: tc.plan(dst[:, :], src[:, :], target=TARGET, variant=name, **{"scope": tc.cta(128), **options})
        for name, (dst, src, options) in asked.items()
    }


@pytest.mark.parametrize("how", COPIES)
def test_plans_of_every_variant_are_the_same_when_copied(how: str) -> None:
    for name, plan in plans_of_every_variant().items():
        again = COPIES[how](plan)
        assert (again.variant, again.explain(), str(again.request)) == (name, plan.explain(), str(plan.request))
        assert (type(again.partition), repr(again.partition)) == (type(plan.partition), repr(plan.partition))
        request = COPIES[how](plan.request)
        same = {"op": request.op, "scope": request.scope, "target": request.target, "variant": name}
        assert tc.plan(request.dst, request.src, **same, **request.options).explain() == plan.explain()


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_kernel_runs_and_checks_as_before(how: str) -> None:
    k = tc.KernelBuilder("copied", threads=64)
    a, b, n, first = (
        k.param("A", (256, 64), "float16"),
        k.param("B", (256, 64), "float16"),
        k.scalar("n", upper=4),
        k.scalar("first", multiple_of=8, upper=1000),
    )
    tile = k.shared((64, 64), "float16", layout=tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[64, 64])))
    for turn in k.range(n):
        k.cta.copy(tile[:, :], a[turn * 64 : turn * 64 + 64, :])
        k.cta_sync()
        with k.if_(k.block_id() == 0):
            k.cta.copy(b[first : first + 64, :], tile[:, :])
        k.cta_sync()
    kernel = COPIES[how](k.build(target="sm_80", grid=2))
    source, result = np.arange(256 * 64).astype(np.float16).reshape(256, 64), np.zeros((256, 64), np.float16)
    kernel(source, result, 3, 96, executor="emulator")
    assert (result[96:160] == source[128:192]).all() and not result[:96].any()
    for first, limit in ((200, 192), (4, 8)):
        with pytest.raises(tc.LaunchError, match=mentions(limit)):
            kernel(source, result, 3, first, executor="emulator")
    assert "gmem_smem" in kernel.explain() and kernel.source_location(1) == ""


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_kernel_keeps_its_sizes_edges_and_checked_indices(how: str) -> None:
    k = tc.KernelBuilder("gather", threads=32)
    rows = k.size("M", upper=4096)
    a, b, at = k.param("A", (rows, 8), "float32"), k.param("B", (rows, 8), "float32"), k.param("at", (4,), "int32")
    c, tile = k.param("C", (rows, 8), "float32"), k.shared((8, 8), "float32")
    start = k.block_id() * 8
    k.cta.copy(tile[:, :], a[start : start + 8, :], outside=7)
    k.cta_sync()
    k.cta.copy(b[start : start + 8, :], tile[:, :], outside="keep")
    with k.if_((k.thread_id() < 8) & (k.block_id() == 0)):
        first = k.index(k.load(at[0]), upper=rows - 1)
        k.store(c[first, k.thread_id()], 5.0)
    kernel = COPIES[how](k.build(target="sm_80", grid=(rows + 7) // 8))
    source = np.arange(88, dtype=np.float32).reshape(11, 8)
    result, marked, places = np.zeros_like(source), np.zeros_like(source), np.array([10, 0, 0, 0], np.int32)
    kernel(source, result, places, marked, executor="emulator")
    assert (result == source).all() and (marked[10] == 5).all() and not marked[:10].any()
    with pytest.raises(tc.TilecopyError, match=mentions(11, 10)):
        kernel(source, result, np.array([11, 0, 0, 0], np.int32), marked, executor="emulator")
    with pytest.raises(tc.LaunchError, match="B"):
        kernel(source, result[:9], places, marked, executor="emulator")


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_kernel_keeps_its_options(how: str) -> None:
    k = tc.KernelBuilder("pair", threads=32)
    b = k.param("B", (64,), "uint32")
    mine, theirs, mbar = k.shared((32,), "uint32"), k.shared((32,), "uint32"), k.mbarrier()
    tid, rank = k.thread_id(), k.cluster_rank()
    k.store(mine[tid], k.cast(rank * 100 + tid, "uint32"))
    with k.if_(tid == 0):
        mbar.init()
        k.fence_mbarrier_init()
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(tid == 0):
        mbar.arrive_expect_tx(128)
        k.thread.copy_async(theirs[:], mine[:], mbar=mbar, remote_cta_id=1 - rank)
    mbar.wait(0)
    k.store(b[k.block_id() * 32 + tid], k.load(theirs[tid]))
    k.cluster_sync()
    kernel = COPIES[how](k.build(target="sm_90", grid=2, cluster=2))
    result = np.zeros(64, np.uint32)
    kernel(result, executor="emulator")
    assert (result == np.concatenate([np.arange(32) + 100, np.arange(32)])).all()
    assert str(kernel.plans[0].request.options["remote_cta_id"]) == "-1*cluster_ctarank + 1"
