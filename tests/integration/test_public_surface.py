"""Integers of NumPy, names and hints are taken as users write them; data, plans and kernels can be copied and pickled."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TileLayout
from tilecopy.kernel.active_threads import inside_condition
from tilecopy_test_helpers.fuzz_objects import TARGET, Objects
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core import plugin

N = tc.symbol("n", upper=8)


@pytest.mark.parametrize(
    "act",
    [
        lambda: N + 1.5,
        lambda: N == None,  # noqa: E711
        lambda: np.arange(4) + N,
        lambda: N + np.array(1.5),
        lambda: N / 2,
        lambda: 8 // N,
        lambda: bool(N < 3),
    ],
)
def test_index_arithmetic_takes_integers(act: Callable[[], Any]) -> None:
    with pytest.raises(tc.RequestError):
        act()


def test_integers_of_both_kinds_add_up() -> None:
    assert repr(N + np.int64(3)) == repr(np.int64(3) + N) == "n + 3"


def made_with(number: Callable[[int], Any]) -> tc.BuiltKernel:
    """A kernel in which whatever may be an integer is one of some type."""
    n = number
    k = tc.KernelBuilder("counted", threads=n(32))
    rows, upper = k.size("M", multiple_of=n(2), lower=n(2), upper=n(64)), k.scalar("s", multiple_of=n(2), upper=n(8))
    a = k.param("A", (rows, n(8)), "float32", strides=(n(8), n(1)), align_bytes=n(16))
    tile = k.shared(
        (n(2), n(8)), "float32", layout=TileLayout(S[(n(2), n(8)) : (n(9), n(1))] + n(1)), align_bytes=n(16)
    )
    part = k.local((32, n(4)), "float32", layout=TileLayout(S[(32, n(4)) : (n(1) @ tc.laneid, n(1))]))
    bar = k.mbarrier(count=n(2))
    bar.init(n(1), n(1))
    bar.arrive_expect_tx(n(64), index=n(1))
    bar.wait(n(0), n(1))
    for turn in k.range(n(3), start=n(1)):
        k.cta.copy_async(
            tile[n(0) : n(2), :], a[upper + tc.minimum(turn, n(0)) : upper + tc.minimum(turn, n(0)) + n(2), n(0) :]
        )
    k.cp_async_commit()
    k.cp_async_wait(n(0))
    k.bulk_wait(pending=n(0), read=True)
    k.store(a[n(0), tc.symbol("free", lower=n(0), upper=n(0)) * 0 + n(1)], n(3))
    k.cta.copy(part.permute(n(0), n(1))[:, :], k.param("B", (n(32), n(4)), "float32")[:, :])
    return k.build(target="sm_90a", grid=(n(4), n(2)), cluster=n(2), min_ctas_per_sm=n(2))


def test_an_integer_of_numpy_is_an_integer() -> None:
    plain = made_with(int)
    for kind in (np.int64, np.uint8):
        assert made_with(kind).ptx == plain.ptx
    assert tc.cta(np.int32(64)) == tc.cta(64) and type(tc.cta(np.int32(64)).threads) is int
    assert tc.Swizzle(np.int64(3), np.int8(3), 3) == tc.Swizzle(3, 3, 3)
    layout = TileLayout(S[8, 4])
    assert layout.apply(np.int64(1), np.int64(2)) == {"m": 6} and layout.permute(np.array([1, 0]).tolist()).shard
    assert layout.permute((np.int64(1), np.int64(0))) == layout.permute((1, 0))
    part = layout.slice((8, 4), (slice(np.int64(2), np.int64(4)), slice(None)))
    assert part == layout.slice((8, 4), ((2, 4), (0, 4)))
    assert type(tc.maximum(np.int64(1), np.int64(2))) is int
    with pytest.raises(tc.RequestError, match=mentions("np.True_")):
        tc.cta(np.True_)  # type: ignore[arg-type]


def test_shorter_names_of_element_types_and_spaces_are_taken() -> None:
    for short, name in (("f16", "float16"), ("bf16", "bfloat16"), ("f32", "float32"), ("f64", "float64")):
        assert tc.dtype_of(short) is tc.dtype_of(name)
    for short, space in (("gmem", "global"), ("smem", "shared"), ("reg", "local")):
        assert str(tc.Buffer(4, "f16", space=short)) == str(tc.Buffer(4, "float16", space=space))
    k = tc.KernelBuilder("k", threads=32)
    assert k.param("A", (4,), "bf16").dtype == k.shared(4, "bfloat16").dtype
    assert tc.swizzle("128B", "f16") == tc.swizzle("128B", "float16")
    assert tc.mma_fragment("m16n8k16", "A", "f16") == tc.mma_fragment("m16n8k16", "A", "float16")


def test_values_and_integers_mix_in_arithmetic_and_conditions() -> None:
    k = tc.KernelBuilder("mixed", threads=8)
    a, b, n = k.param("A", (8,), "int32"), k.param("B", (8,), "int32"), k.scalar("n", upper=100)
    tid = k.thread_id()
    value = k.load(a[tid])
    with k.if_((value + n > tid) & (n + value > 2) & True):
        k.store(b[tid], tid - value)
    with pytest.raises(tc.RequestError, match=mentions("x")):
        value < "x"
    source, result = np.arange(8, dtype=np.int32) % 3, np.full(8, 99, np.int32)
    k.build(target="sm_80", grid=1)(source, result, 2, executor="emulator")
    tids = np.arange(8)
    assert (result == np.where((source + 2 > tids) & (source + 2 > 2), tids - source, 99)).all()


@pytest.mark.parametrize("index", [1.5, np.array(1.5), slice(None, None, 2), (..., ...), None, (0, 0, 0)])
def test_a_buffer_takes_integers_and_slices(index: Any) -> None:
    with pytest.raises(tc.LayoutError):
        Objects().a[index]


@pytest.mark.parametrize(
    "make",
    [
        lambda k: k.local((2**31,), "uint8"),
        lambda k: k.shared((2**31, 2), "uint8"),
        lambda k: k.param("huge", (2**40, 2**40), "uint8"),
        lambda k: k.param("far", (8, 8), "uint8", strides=(2**70, 1)),
        lambda k: k.mbarrier(count=2**31),
        lambda k: k.tmem((128, 2**20), "uint32", layout=TileLayout(S[(128, 2**20) : (1 @ tc.TLane, 1 @ tc.TCol)])),
        lambda k: k.range(range(10**18)),
        lambda k: TileLayout(S[8] + R[2**40 : 1]).places(0),
    ],
)
def test_what_nothing_has_room_for_is_refused_at_once(make: Callable[[tc.KernelBuilder], Any]) -> None:
    with pytest.raises(tc.TilecopyError):
        make(tc.KernelBuilder("room", threads=32))


# ------------------------------------------------------------------------------------------------- errors point home


def test_a_build_error_names_the_line_that_made_the_statement() -> None:
    k = tc.KernelBuilder("line", threads=32)
    a, s = k.param("A", (32,), "float32"), k.shared((32,), "float16")
    k.cta_sync()
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    k.cta.copy(s[:], a[:])
    with pytest.raises(tc.RequestError, match=mentions(Path(__file__).name, line)):
        k.build(target="sm_80", grid=1)


@pytest.mark.parametrize(
    ("act", "meant"),
    [
        (lambda w: tc.dtype_of("flaot16"), "float16"),
        (lambda w: tc.target_of("sm_90b"), "sm_90"),
        (lambda w: tc.swizzle("128b", "float16"), "128B"),
        (lambda w: tc.Buffer(4, "int8", space="shraed"), "shared"),
        (lambda w: tc.symbol("s", varies="threads"), "thread"),
        (lambda w: tc.Axis("mine", "memroy"), "memory"),
        (lambda w: w.ptx.reg("b23"), "b32"),
        (lambda w: tc.plan(w.s[:, :], w.a[:, :], scope=tc.cta(64), target=TARGET, variant="gmem_smen"), "gmem_smem"),
        (lambda w: tc.plan(w.s[:, :], w.a[:, :], scope=tc.cta(64), target=TARGET, variant="gmem"), "gmem_smem"),
        (lambda w: tc.plan(w.a[:, :], w.s[:, :], op="copy_async", scope=tc.thread(), target=TARGET, mbarr=1), "mbar"),
    ],
)
def test_near_misses_get_a_hint(act: Callable[[Objects], Any], meant: str) -> None:
    with pytest.raises(tc.TilecopyError, match=mentions(meant)):
        act(Objects())


def test_reprs_are_short() -> None:
    w = Objects()
    w.k.cta.copy(w.s[:, :], w.a[:, :])
    for thing in (w.k, w.kernel, w.a, w.s, w.n, w.mbar, w.value, w.layout, w.condition, w.at, tc.cta(64)):
        assert len(repr(thing)) <= 200, repr(thing)


# ----------------------------------------------------------------------------------------------- copies and pickles

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
