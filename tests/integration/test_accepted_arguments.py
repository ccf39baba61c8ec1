"""Integers of NumPy, short names and slices are taken as users write them; what is near a name gets a hint."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TileLayout
from tilecopy_test_helpers.fuzz_objects import TARGET, Objects
from tilecopy_test_helpers.mentions import mentions

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
