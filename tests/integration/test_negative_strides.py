"""Arrays with negative strides, such as ``a[::-1]``, in kernels: every way of copying, on the emulator and as the driver is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
import tilecopy_draw
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.fake_driver import FakeDriver
from tilecopy_test_helpers.mentions import mentions

SHAPE = (16, 48)
TURNS = pytest.mark.parametrize("turn", [(-1, 1), (1, -1), (-1, -1)], ids=["rows", "columns", "both"])


def turned(array: Any, turn: tuple[int, int]) -> Any:
    return array[:: turn[0], :: turn[1]]


def copies(
    turn: tuple[int, int], way: str, *, dtype: str = "float32", known: bool = True, target: str = "sm_90"
) -> tc.BuiltKernel:
    """B = A by tiles of 8 x 16, both with the strides of turned arrays of 64 columns."""
    k = tc.KernelBuilder("turned", threads=32)
    shape: tuple[Any, ...] = SHAPE if known else (k.size("M"), k.size("N"))
    a, b = (k.param(n, shape, dtype, strides=(turn[0] * 64, turn[1]), align_bytes=4) for n in "AB")
    y, x = k.block_id("y") * 8, k.block_id("x") * 16
    source, result = (array[y : y + 8, x : x + 16] for array in (a, b))
    tile = k.shared((8, 16), dtype, name="tile")
    if way == "shared":
        k.warp.copy(tile[:, :], source)
        k.cta_sync()
        k.warp.copy(result, tile[:, :])
    elif way == "cp.async":
        k.warp.copy_async(tile[:, :], source)
        k.cp_async_commit()
        k.cp_async_wait(0)
        k.cta_sync()
        k.warp.copy(result, tile[:, :])
    elif way == "local":
        fragment = k.local((8, 16), dtype, layout=tc.TileLayout(tc.S[(8, 4, 4) : (4 @ tc.laneid, 1 @ tc.laneid, 1)]))
        k.warp.copy(fragment[:, :], source)
        k.warp.copy(result, fragment[:, :])
    elif way == "elements":
        t = k.thread_id()
        for row in k.range(8):
            with k.if_(t < 16):
                k.store(b[y + row, x + t], k.load(a[y + row, x + t]))
    else:
        views = [array.T.permute(1, 0).view(dtype="uint32") for array in (a, b)]
        first, second = (view[y : y + 8, x : x + 16] for view in views)
        words = tile.view(dtype="uint32")
        k.warp.copy(words[:, :], first)
        k.cta_sync()
        k.warp.copy(second, words[:, :])
    return k.build(target=target, grid=(3, 2))


@TURNS
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("way", ["shared", "cp.async", "local", "elements", "view"])
def test_reversed_arrays_are_copied(turn: tuple[int, int], way: str, known: bool) -> None:
    kernel = copies(turn, way, known=known)
    memory = np.zeros((18, 64), np.float32)
    a, b = turned(byte_arrays.random_array((16, 64), "float32", 3)[:, 8:56], turn), turned(memory[1:17, 8:56], turn)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(np.ascontiguousarray(a), np.ascontiguousarray(b))
    outside = memory.copy()
    outside[1:17, 8:56] = 0
    assert not outside.any()


@TURNS
def test_reversed_host_arrays_are_staged_whole(turn: tuple[int, int]) -> None:
    fake = FakeDriver(sizes=(8, 8))
    kernel, memory = copies(turn, "shared"), np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    a, b = turned(memory[:, 8:56], turn), turned(np.zeros((16, 64), np.float32)[:, 8:56], turn)
    before = memory.copy()
    CudaExecutor(fake).launch(kernel, (a, b))
    first = [address % 4 for address in fake.launches[0].numbers()]
    assert first == [0, 0] and np.array_equal(memory, before)
    assert fake.calls["cuMemAlloc"] == 2 == fake.calls["cuMemFree"]
    assert min(fake.allocated) >= (15 * 64 + 48) * 4


def test_a_stride_that_is_the_negative_of_a_size() -> None:
    k = tc.KernelBuilder("rows", threads=32)
    m, n = k.size("m"), k.size("n", multiple_of=4, upper=1024)
    a, b = k.param("A", (m, n), "float32", strides=(-n, 1)), k.param("B", (m, n), "float32")
    y, t = k.block_id("x"), k.thread_id()
    with k.if_(t < n):
        k.store(b[y, t], k.load(a[y, t]))
    kernel = k.build(target="sm_80", grid=(m,))
    for shape in ((1, 4), (5, 12), (7, 32)):
        x, y_ = byte_arrays.random_array(shape, "float32", 1), np.zeros(shape, np.float32)
        kernel(x[::-1], y_, executor="emulator")
        assert byte_arrays.same_bytes(y_, np.ascontiguousarray(x[::-1]))
        if shape[0] > 1:
            with pytest.raises(tc.LaunchError, match=mentions("A")):
                kernel(x, y_, executor="emulator")


def test_a_loaded_kernel_takes_reversed_arrays_too(tmp_path: Any) -> None:
    kernel = tc.load_kernel(copies((-1, 1), "shared").save(tmp_path / "turned"))
    x, y = byte_arrays.random_array((16, 64), "float32", 1)[::-1, :48], np.zeros((16, 64), np.float32)[::-1, :48]
    kernel(x, y, executor="emulator")
    assert byte_arrays.same_bytes(np.ascontiguousarray(x), np.ascontiguousarray(y))


def test_a_tensor_map_is_declined_for_a_negative_stride() -> None:
    k = tc.KernelBuilder("tensor", threads=32)
    a = k.param("A", (64, 64), "float16", strides=(-64, 1))
    tile, bar = k.shared((64, 64), "float16"), k.mbarrier("bar")
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(tile[:, :], a[:, :], mbar=bar[0], variant="tma")
    with pytest.raises(tc.NoVariantError, match=mentions("tma", "A", 0)):
        k.build(target="sm_90a", grid=1)


def test_edges_of_a_reversed_array() -> None:
    k = tc.KernelBuilder("edges", threads=32)
    m = k.size("m")
    a, b = k.param("A", (m, 16), "float32", strides=(-16, 1)), k.param("B", (m, 16), "float32")
    tile, y = k.shared((8, 16), "float32"), k.block_id("x") * 8
    k.warp.copy(tile[:, :], a[y : y + 8, :], outside="zero")
    k.cta_sync()
    k.warp.copy(b[y : y + 8, :], tile[:, :], outside="zero")
    kernel = k.build(target="sm_80", grid=((m + 7) // 8,))
    for rows in (3, 8, 13):
        x, result = byte_arrays.random_array((rows, 16), "float32", rows), np.zeros((rows, 16), np.float32)
        kernel(x[::-1], result, executor="emulator")
        assert byte_arrays.same_bytes(result, np.ascontiguousarray(x[::-1]))


def test_no_picture_of_a_reversed_array_is_drawn() -> None:
    with pytest.raises(tc.RequestError, match="negative"):
        tilecopy_draw.draw(copies((-1, 1), "shared").plans[0], "moves")
