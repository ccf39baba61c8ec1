"""Faults and correct kernels written with KernelBuilder: kind, threads, bytes, and the builder's own statement."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane, laneid, warpid

for variant in ("dsmem", "gmem_smem", "ldgsts", "reg", "tcgen05_cp"):
    pytest.importorskip(f"tilecopy_{variant}")

K = tc.KernelBuilder


@attrs.frozen
class Built:
    """A kernel written twice: with ``correct`` False it has its fault.

    Attributes:
        write: writes and builds it.
        kinds: hazards that may be reported.
        words: patterns that the message must contain.
        of: part of the builder's statement that the message must name, "" where the line belongs to no copy.
        arguments: of the launch.
    """

    write: Callable[[bool], tc.BuiltKernel]
    kinds: str
    words: tuple[str, ...] = ()
    of: str = ""
    arguments: Callable[[], list[Any]] = lambda: [np.arange(1, 129, dtype=np.float32)]


FAULTS: dict[str, Built] = {}


def built(kinds: str, *words: str, of: str = "", arguments: Any = None) -> Callable[[Any], Any]:
    """Register a fault."""

    def add(write: Callable[[bool], tc.BuiltKernel]) -> Callable[[bool], tc.BuiltKernel]:
        more = {} if arguments is None else {"arguments": arguments}
        FAULTS[write.__name__.strip("_")] = Built(write, kinds, words, of, **more)
        return write

    return add


def halves() -> list[Any]:
    return [np.arange(4096).astype(np.float16).reshape(128, 32), np.zeros((128, 32), np.float16)]


@built("race", r"s bytes? \d+", r"thread \d+ of CTA \(0,0,0\).*thread \d+ of CTA", of="copy B", arguments=halves)
def _copy_out_without_a_barrier(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=128)
    a, b = k.param("A", (128, 32), "float16"), k.param("B", (128, 32), "float16")
    s = k.shared((128, 32), "float16", name="s")
    k.cta.copy_async(s[:, :], a[:, :], variant="ldgsts")
    k.cp_async_commit()
    k.cp_async_wait(0)
    if correct:
        k.cta_sync()
    k.cta.copy(b[:, 0:16], s[:, 0:16])
    return k.build(target="sm_90a", grid=1)


@built("async|race", "s byte", of="copy B", arguments=halves)
def _copy_out_without_a_wait(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=128)
    a, b = k.param("A", (128, 32), "float16"), k.param("B", (128, 32), "float16")
    s = k.shared((128, 32), "float16", name="s")
    k.cta.copy_async(s[:, :], a[:, :], variant="ldgsts")
    k.cp_async_commit()
    if correct:
        k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[:, 0:16], s[:, 0:16])
    k.cp_async_wait(0)
    return k.build(target="sm_90a", grid=1)


@built("lifetime|async", of="copy_async s", arguments=halves)
def _copies_in_flight_at_exit(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=128)
    a = k.param("A", (128, 32), "float16")
    k.param("B", (128, 32), "float16")
    s = k.shared((128, 32), "float16", name="s")
    k.cta.copy_async(s[:, :], a[:, :], variant="ldgsts")
    k.cp_async_commit()
    if correct:
        k.cp_async_wait(0)
    return k.build(target="sm_90a", grid=1)


@built("race", "A bytes? 0", "thread 0 of CTA", "thread 1 of CTA")
def _two_threads_store_different_values(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=64)
    a = k.param("A", (128,), "float32")
    t = k.thread_id()
    with k.if_(t < (1 if correct else 2)):
        k.store(a[0], k.cast(t, "float32"))
    return k.build(target="sm_90a", grid=1)


@built("race", r"A bytes? \d+")
def _store_then_load_the_mirror(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=64)
    a = k.param("A", (128,), "float32")
    t = k.thread_id()
    k.store(a[t], 1.0)
    if correct:
        k.cta_sync()
    k.store(a[64 + t], k.load(a[63 - t]))
    return k.build(target="sm_90a", grid=1)


@built("race", r"CTA \(0,0,0\)", r"CTA \(1,0,0\)", "A byte")
def _two_ctas_write_the_same_bytes(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    a = k.param("A", (128,), "float32")
    k.store(a[k.thread_id() + (32 * k.block_id("x") if correct else 0)], k.cast(k.block_id("x"), "float32"))
    return k.build(target="sm_90a", grid=2)


@built("race", r"CTA \(0,0,0\)", r"CTA \(1,0,0\)", of="copy B", arguments=halves)
def _two_ctas_copy_to_overlapping_tiles(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    a, b = k.param("A", (128, 32), "float16"), k.param("B", (128, 32), "float16")
    s = k.shared((32, 32), "float16", name="s")
    step = 32 if correct else 31
    x = k.block_id("x")
    k.warp.copy(s[:, :], a[x * step : x * step + 32, :])
    k.cta_sync()
    k.warp.copy(b[x * step : x * step + 32, :], s[:, :])
    return k.build(target="sm_90a", grid=2)


@built("poison", "s byte", of="copy B", arguments=halves)
def _copy_of_a_tile_that_is_half_filled(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=128)
    a, b = k.param("A", (128, 32), "float16"), k.param("B", (128, 32), "float16")
    s = k.shared((128, 32), "float16", name="s")
    rows = slice(0, 128 if correct else 64)
    k.cta.copy(s[rows, :], a[rows, :])
    k.cta_sync()
    k.cta.copy(b[:, :], s[:, :])
    return k.build(target="sm_90a", grid=1)


@built("poison", "s byte 12")
def _load_behind_a_copy_is_not_the_copys(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    a = k.param("A", (128,), "float32")
    u, s = k.shared((128,), "float32", name="u"), k.shared((64,), "float32", name="s")
    k.warp.copy(u[:], a[:])
    if correct:
        with k.if_(k.thread_id() == 0):
            k.store(s[3], 1.0)
        k.cta_sync()
    k.store(a[k.thread_id()], k.load(s[3]))
    return k.build(target="sm_90a", grid=1)


@built("barrier", "96|64")
def _named_barrier_of_too_few(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=96)
    a = k.param("A", (128,), "float32")
    k.named_barrier(1, 96 if correct else 64)
    k.store(a[k.thread_id()], 1.0)
    return k.build(target="sm_90a", grid=1)


@built("barrier")
def _named_barrier_of_two_groups(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=128)
    k.param("A", (128,), "float32")
    with k.if_(k.warp_id() < 2):
        k.named_barrier(1, 64)
    with k.if_(k.warp_id() >= 2):
        k.named_barrier(2 if correct else 1, 64)
    return k.build(target="sm_90a", grid=1)


@built("aligned|barrier")
def _elect_in_half_a_warp(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    a = k.param("A", (128,), "float32")
    with k.if_(k.thread_id() < (32 if correct else 16)), k.elect():
        k.store(a[0], 1.0)
    k.cta_sync()  # the others wait here: threads that have exited would not count
    return k.build(target="sm_90a", grid=1)


@built("mbarrier|race|poison", "thread (0|32|64|96) of CTA")
def _three_arrivals_and_one_wait(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=128)
    a = k.param("A", (128,), "float32")
    s, m = k.shared(4, "float32", name="s"), k.mbarrier("m")
    t = k.thread_id()
    with k.if_(t == 0):
        m.init(3 if correct else 1)
    k.cta_sync()
    with k.if_(k.warp_id() < 3), k.if_(k.lane_id() == 0):
        k.store(s[k.warp_id()], 1.0)
        m.arrive()
    with k.if_(t == 96):
        m.wait(0)
        k.store(a[0], k.load(s[0]) + k.load(s[1]) + k.load(s[2]))
    return k.build(target="sm_90a", grid=1)


@built("deadlock", "phase 0", "m byte 0", "1 of (the )?2 arrivals")
def _an_arrival_is_missing(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    k.param("A", (128,), "float32")
    m = k.mbarrier("m")
    with k.if_(k.thread_id() == 0):
        m.init(1 if correct else 2)
    k.cta_sync()
    with k.if_(k.thread_id() == 0):
        m.arrive()
    m.wait(0)
    return k.build(target="sm_90a", grid=1)


def _pair(k: tc.KernelBuilder, count: int = 1) -> tuple[Any, Any]:
    """mbarriers and the start of a cluster."""
    m = k.mbarrier("m", count=count)
    with k.if_(k.thread_id() == 0):
        for i in range(count):
            m.init(1, index=i)
        k.fence_mbarrier_init()
    k.cluster_sync()
    return m, k.cluster_rank()


@built("async|poison|race", "d byte")
def _two_mbarriers_confused(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    a = k.param("A", (128,), "float32")
    s, d = k.shared((2, 32), "float32", name="s"), k.shared((2, 32), "float32", name="d")
    m, rank = _pair(k, 2)
    with k.if_(rank == 0):
        for i in range(2):
            k.store(s[i, k.thread_id()], 1.0)
        k.fence_proxy_async()
        k.cta_sync()
        with k.if_(k.thread_id() == 0):
            for i in range(2):
                k.thread.copy_async(d[i, :], s[i, :], mbar=m[i], remote_cta_id=1)
    with k.if_(rank == 1), k.if_(k.thread_id() == 0):
        for i in range(2):
            m.arrive_expect_tx(128, index=i)
        m.wait(0, index=1)
        k.store(a[0], k.load(d[1 if correct else 0, 0]))
        m.wait(0, index=0)
    k.cluster_sync()
    return k.build(target="sm_90a", grid=2, cluster=2)


@built("async|race", "src byte")
def _each_writes_its_source_when_it_has_received(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    k.param("A", (128,), "float32")
    src, dst = k.shared((32,), "float32", name="src"), k.shared((32,), "float32", name="dst")
    m, rank = _pair(k)
    t = k.thread_id()
    k.store(src[t], 1.0)
    k.fence_proxy_async()
    k.cta_sync()
    with k.if_(t == 0):
        m.arrive_expect_tx(128)
        k.thread.copy_async(dst[:], src[:], mbar=m[0], remote_cta_id=1 - rank)
    m.wait(0)
    if correct:
        k.cluster_sync()
    k.store(src[t], 2.0)
    k.cluster_sync()
    return k.build(target="sm_90a", grid=2, cluster=2)


@built("proxy", "src byte", of="copy_async dst")
def _fence_of_the_wrong_space(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    k.param("A", (128,), "float32")
    src, dst = k.shared((32,), "float32", name="src"), k.shared((32,), "float32", name="dst")
    m, rank = _pair(k)
    t = k.thread_id()
    k.store(src[t], 1.0)
    k.fence_proxy_async("shared::cta" if correct else "global")
    k.cta_sync()
    with k.if_(t == 0):
        m.arrive_expect_tx(128)
        k.thread.copy_async(dst[:], src[:], mbar=m[0], remote_cta_id=1 - rank)
    m.wait(0)
    k.cluster_sync()
    return k.build(target="sm_90a", grid=2, cluster=2)


@built("deadlock", "phase 0", "m byte 0", "128 bytes")
def _twice_the_bytes_are_expected(correct: bool) -> tc.BuiltKernel:
    k = K("k", threads=32)
    k.param("A", (128,), "float32")
    src, dst = k.shared((32,), "float32", name="src"), k.shared((32,), "float32", name="dst")
    m, rank = _pair(k)
    t = k.thread_id()
    k.store(src[t], 1.0)
    k.fence_proxy_async()
    k.cta_sync()
    with k.if_(t == 0):
        m.arrive_expect_tx(128 if correct else 256)
        k.thread.copy_async(dst[:], src[:], mbar=m[0], remote_cta_id=1 - rank)
    m.wait(0)
    k.cluster_sync()
    return k.build(target="sm_90a", grid=2, cluster=2)


@attrs.frozen
class Tensor:
    """What a kernel with tensor memory needs around its copies."""

    k: tc.KernelBuilder
    b: tc.Buffer
    x: tc.Buffer
    y: tc.Buffer
    m: Any
    tmem: tc.Buffer
    fragment: tc.Buffer

    @classmethod
    def start(cls) -> Tensor:
        k = K("k", threads=128)
        b = k.param("B", (128, 4), "uint32")
        x, y = (k.shared((32, 16), "uint8", name=name, align_bytes=1024) for name in "xy")
        m = k.mbarrier("m")
        layout = TileLayout(S[(32, 32) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
        tmem = k.tmem((32, 32), "uint8", layout=layout, name="tmem")
        fragment = k.local(8, "uint32", name="fragment")
        with k.if_(k.warp_id() == 0):
            k.tcgen05_alloc(tmem, columns=32)
        with k.if_(k.thread_id() == 0):
            m.init(1)
        for tile in (x, y):
            for i in range(4):
                k.store(tile[k.thread_id() // 4, k.thread_id() % 4 * 4 + i], 1)
        k.fence_proxy_async()
        k.cta_sync()
        return cls(k, b, x, y, m, tmem, fragment)

    def copy(self, tile: tc.Buffer, column: int, thread: int = 0, *, commit: bool = True) -> None:
        with self.k.if_(self.k.thread_id() == thread):
            self.k.thread.copy_async(self.tmem[:, column : column + 16], tile[:, :])
            if commit:
                self.k.tcgen05_commit(self.m[0])

    def read(self) -> None:
        k = self.k
        k.tcgen05_fence_after()
        k.tcgen05_ld(self.fragment, self.tmem)
        k.tcgen05_wait_ld()

    def end(self) -> tc.BuiltKernel:
        k = self.k
        k.tcgen05_fence_before()
        k.cta_sync()
        with k.if_(k.warp_id() == 0):
            k.tcgen05_dealloc(self.tmem, columns=32)
        return k.build(target="sm_100a", grid=1)


def words() -> list[Any]:
    return [np.zeros((128, 4), np.uint32)]


@built("async", "y byte", arguments=words)
def _source_of_the_copy_behind_the_commit(correct: bool) -> tc.BuiltKernel:
    t = Tensor.start()
    t.copy(t.x, 0, commit=not correct)
    t.copy(t.y, 16, commit=correct)
    t.m.wait(0)
    with t.k.if_(t.k.thread_id() == 0):
        t.k.store(t.y[0, 0], 0)
        if not correct:
            t.k.tcgen05_commit(t.m[0])
    if not correct:
        t.m.wait(1)
    return t.end()


@built("async", "column", arguments=words)
def _another_thread_commits(correct: bool) -> tc.BuiltKernel:
    t = Tensor.start()
    t.copy(t.x, 0, commit=False)
    t.copy(t.y, 16, commit=False)
    with t.k.if_(t.k.thread_id() == (0 if correct else 32)):
        t.k.tcgen05_commit(t.m[0])
    t.m.wait(0)
    t.read()
    return t.end()


@built("race", "column", of="copy_async tmem", arguments=words)
def _copy_over_columns_that_others_read(correct: bool) -> tc.BuiltKernel:
    t = Tensor.start()
    t.copy(t.x, 0, commit=False)
    t.copy(t.y, 16)
    t.m.wait(0)
    t.read()
    if correct:
        t.k.tcgen05_fence_before()
        t.k.cta_sync()
        t.k.tcgen05_fence_after()
    t.copy(t.x, 0)
    t.m.wait(1)
    t.k.tcgen05_fence_after()
    return t.end()


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_reported(name: str) -> None:
    fault = FAULTS[name]
    kernel = fault.write(False)
    with pytest.raises(tc.HazardError) as caught:
        kernel(*fault.arguments(), executor="emulator")
    error, message = caught.value, str(caught.value)
    assert error.kind in fault.kinds.split("|"), message
    assert f"PTX line {error.line}: " in message
    for word in fault.words:
        assert re.search(word, message, re.S), f"{word!r} is not in {message}"
    origin = getattr(kernel, "source_location", lambda line: "")(error.line)
    assert re.findall(r"^  in: (.*)$", message, re.M) == ([origin.split("\n")[0]] if origin else [])
    if fault.of and origin:
        assert fault.of in message
    if not fault.of:
        assert "in: copy" not in message, "a copy that has nothing to do with it"


@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_is_clean(name: str) -> None:
    FAULTS[name].write(True)(*FAULTS[name].arguments(), executor="emulator")


# ------------------------------------------------------------------------------------------------ correct kernels


def test_registers_are_values_and_no_aliases() -> None:
    k = K("k", threads=32)
    a, b = k.param("A", (32, 4), "float32"), k.param("B", (32, 4), "float32")
    fragment = k.local((32, 4), "float32", layout=TileLayout(S[(32, 4) : (1 @ laneid, 1)]), name="R")
    k.warp.copy(fragment[:, :], a[:, :])
    own = k.registers(fragment)
    v = k.load(own[0])
    with k.if_(k.thread_id() < 16):
        k.store(own[0], 7.0)
    k.store(own[1], v)
    k.warp.copy(b[:, :], fragment[:, :])
    source, result = np.arange(128, dtype=np.float32).reshape(32, 4), np.zeros((32, 4), np.float32)
    k.build(target="sm_90a", grid=1)(source, result, executor="emulator")
    expected = source.copy()
    expected[:16, 0], expected[:, 1] = 7.0, source[:, 0]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("seed", range(24))
def test_random_chains_of_copies_are_clean_and_right(seed: int) -> None:
    """global -> shared (by any variant) -> registers or another CTA -> shared -> global, over tiles."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["uint8", "float16", "float32", "float64"]))
    warps = int(rng.choice([1, 2, 4]))
    rows, columns, tiles = 32 * warps, int(rng.choice([16, 32, 64])), int(rng.integers(1, 4))
    way = str(rng.choice(["shared", "registers", "dsmem"]))
    asynchronous = bool(rng.integers(2))
    k = K("chain", threads=32 * warps)
    cluster = 2 if way == "dsmem" else 1
    ctas = cluster * int(rng.integers(1, 3))
    a, b = (k.param(name, (ctas * tiles * rows, columns), dtype) for name in "AB")
    padded = TileLayout(S[(rows, columns) : (columns + 16 // np.dtype(dtype).itemsize, 1)])
    layout = padded if rng.integers(2) and way != "dsmem" else None
    s = k.shared((rows, columns), dtype, layout=layout, name="s")
    d = k.shared((rows, columns), dtype, name="d")
    fragment = k.local(
        (rows, columns), dtype, layout=TileLayout(S[(warps, 32, columns) : (1 @ warpid, 1 @ laneid, 1)]), name="R"
    )
    t = k.thread_id()
    m = k.mbarrier("m")
    if way == "dsmem":
        with k.if_(t == 0):
            m.init(1)
            k.fence_mbarrier_init()
        k.cluster_sync()
    with k.range(tiles) as number:
        first = (k.block_id("x") * tiles + number) * rows
        if asynchronous:
            k.cta.copy_async(s[:, :], a[first : first + rows, :], variant="ldgsts")
            k.cp_async_commit()
            k.cp_async_wait(0)
        else:
            k.cta.copy(s[:, :], a[first : first + rows, :])
        if way == "dsmem":
            k.fence_proxy_async()
        k.cta_sync()
        if way == "registers":
            k.cta.copy(fragment[:, :], s[:, :])
            k.cta.copy(d[:, :], fragment[:, :])
        elif way == "dsmem":
            with k.if_(t == 0):
                m.arrive_expect_tx(rows * columns * np.dtype(dtype).itemsize)
                k.thread.copy_async(d[:, :], s[:, :], mbar=m[0], remote_cta_id=1 - k.cluster_rank())
            m.wait(number % 2)
        k.cta_sync()
        out = d if way != "shared" else s
        k.cta.copy(b[first : first + rows, :], out[:, :])
        k.cta_sync()
        if way == "dsmem":
            k.cluster_sync()
    if columns * np.dtype(dtype).itemsize > 512:
        pytest.skip("too many registers a thread")
    kernel = k.build(target="sm_90a", grid=ctas, **({"cluster": 2} if way == "dsmem" else {}))
    source = rng.integers(0, 100, (ctas * tiles * rows, columns)).astype(dtype)
    result = np.zeros_like(source)
    kernel(source, result, executor="emulator")
    parts = source.reshape(ctas // cluster, cluster, tiles * rows, columns)
    np.testing.assert_array_equal(result, parts[:, ::-1].reshape(source.shape))
