"""Arrays and boxes with an extent of 0: declared, viewed, copied, launched and put on a device like any other, and nothing moves."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
import tilecopy_draw
from tilecopy import S, TileLayout
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_cuda.device_array import DeviceArray
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.fake_driver import CUDA0, FakeDriver, FakeTensor, TorchDType
from tilecopy_test_helpers.mentions import mentions

EMPTY = [(0, 8), (8, 0), (0, 0)]


def through_shared(shape: tuple[Any, ...], box: tuple[Any, ...], *, asynchronous: bool = False) -> tc.BuiltKernel:
    """B[box] = A[box] through shared memory."""
    k = tc.KernelBuilder("boxes", threads=32)
    a, b = k.param("A", shape, "float32", align_bytes=4), k.param("B", shape, "float32", align_bytes=4)
    tile = k.shared((16,) * len(shape), "float32", name="t")
    part = tile[tuple(slice(0, extent) for extent in a[box].extents)]
    if asynchronous:
        k.cta.copy_async(part, a[box])
        k.cp_async_commit()
        k.cp_async_wait(0)
    else:
        k.cta.copy(part, a[box])
    k.cta_sync()
    k.cta.copy(b[box], part)
    return k.build(target="sm_90", grid=1)


def test_random_boxes_with_extents_of_0_are_those_of_numpy() -> None:
    random, empty = Random(49), 0
    for number in range(200):
        shape = tuple(random.choice((0, 0, 1, 3, 8)) for _ in range(random.randint(1, 3)))
        box = []
        for extent in shape:
            start = random.randint(0, extent)
            box.append(slice(start, random.choice((start, random.randint(start, extent)))))
        kernel = through_shared(shape, tuple(box), asynchronous=number % 2 == 0)
        source, result = byte_arrays.random_array(shape, "float32", number), np.zeros(shape, np.float32)
        wanted = result.copy()
        wanted[tuple(box)] = source[tuple(box)]
        empty += not wanted[tuple(box)].size
        assert bool(kernel.plans) == bool(wanted[tuple(box)].size)
        kernel(source, result, executor="emulator")
        assert byte_arrays.same_bytes(result, wanted), (shape, box)
    assert empty > 100


@pytest.mark.parametrize("shape", EMPTY)
def test_views_of_an_array_without_elements(shape: tuple[int, int]) -> None:
    k = tc.KernelBuilder("views", threads=32)
    a, b = k.param("A", shape, "float16"), k.param("B", shape, "float16")
    views = [(x.T, x.permute(0, 1), x.view(shape=(4, 0, 2)), x.view(shape=0), x.view(dtype="uint8")) for x in (a, b)]
    for source, destination in zip(*views, strict=True):
        assert source.span_bytes == 0 == source[...].size
        k.warp.copy(destination[...], source[...])
    with pytest.raises(tc.LayoutError, match=mentions("A", (3, 8))):
        a.view(shape=(3, 8))
    x = np.zeros(shape, np.float16)
    k.build(target="sm_75", grid=1)(x, x.copy(), executor="emulator")


def test_padded_strides_of_an_array_without_elements_span_nothing() -> None:
    assert tc.KernelBuilder("padded", threads=32).param("A", (0, 8), "int8", strides=(16, 2)).span_bytes == 0


def test_copies_of_no_elements_at_every_scope_and_between_all_memories() -> None:
    k = tc.KernelBuilder("all", threads=128)
    a, b = k.param("A", (4, 8), "float32"), k.param("B", (0, 8), "float32")
    tile, mbar = k.shared((4, 8), "float32", name="t"), k.mbarrier("mbar")
    fragment = k.local((4, 8), "float32", layout=TileLayout(S[(4, 8) : (8 @ tc.tx, 1 @ tc.tx)]), name="f")
    for copies in (k.thread, k.warp, k.warpgroup, k.cta):
        for destination, source in ((tile, a), (b, tile), (fragment, tile), (b, fragment), (b, a), (tile, tile)):
            copies.copy(destination[0:0, :], source[2:2, :] if source is a else source[0:0, :])
            copies.copy_async(destination[0:0, :], source[0:0, :], outside="zero")
    k.thread.copy_async(tile[0:0, :], a[0:0, :], mbar=mbar[0], variant="bulk")
    kernel = k.build(target="sm_90", grid=1)
    assert kernel.plans == () == tuple(kernel.plans)
    x = np.ones((4, 8), np.float32)
    kernel(x, np.zeros((0, 8), np.float32), executor="emulator")


def test_a_copy_of_no_elements_is_checked_as_any_other() -> None:
    def build(destination: Any, source: Any) -> None:
        k = tc.KernelBuilder("wrong", threads=32)
        memory = {"A": k.param("A", (0, 8), "float32"), "t": k.shared((8, 8), "float32", name="t")}
        memory["h"] = k.shared((8, 8), "float16", name="h")
        k.cta.copy(destination(memory), source(memory))
        k.build(target="sm_90", grid=1)

    build(lambda m: m["t"][8:8, :], lambda m: m["A"][:, :])
    for destination, error, values in (
        (lambda m: m["t"][0:0, 0:4], tc.RequestError, ((0, 4), (0, 8))),
        (lambda m: m["t"][0:1, :], tc.RequestError, ("t", "A")),
        (lambda m: m["h"][0:0, :], tc.RequestError, ("float16", "float32")),
        (lambda m: m["t"][9:9, :], tc.LayoutError, ("t", 9, 8)),
        (lambda m: m["t"][4:3, :], tc.LayoutError, ("t", 4, 3)),
    ):
        with pytest.raises(error, match=mentions(*values)):
            build(destination, lambda m: m["A"][:, :])


def test_loops_of_no_turns_and_sizes_of_0() -> None:
    k = tc.KernelBuilder("loops", threads=32)
    m = k.size("M", lower=0)
    a, b, tile = k.param("A", (m, 8), "float32"), k.param("B", (m, 8), "float32"), k.shared((1, 8), "float32")
    for count in (0, m):
        for i in k.range(count):
            k.cta.copy(tile[:, :], a[i : i + 1, :], outside="zero")
            k.cta_sync()
            k.cta.copy(b[i : i + 1, :], tile[:, :], outside="zero")
            k.cta_sync()
    k.cta.copy(b[m:m, :], tile[0:0, :])
    kernel = k.build(target="sm_90", grid=1)
    for rows in (0, 3):
        x, y = byte_arrays.random_array((rows, 8), "float32", 1), np.zeros((rows, 8), np.float32)
        kernel(x, y, executor="emulator")
        assert byte_arrays.same_bytes(x, y)


@pytest.mark.parametrize("shape", EMPTY)
def test_launches_of_arrays_without_elements_on_a_device(shape: tuple[int, int]) -> None:
    kernel, fake = through_shared(shape, (slice(None), slice(None))), FakeDriver(sizes=(8, 8))
    cuda = CudaExecutor(fake)
    arrays = [DeviceArray(shape, "float32", executor=cuda) for _ in range(2)]
    host = np.zeros(shape, np.float32)
    arrays[0].copy_from(host)
    arrays[0].fill(1)
    arrays[0].copy_to(host)
    tensor = FakeTensor(0, shape, dtype=TorchDType("float32"), device=CUDA0)
    for arguments in ((*arrays,), (tensor, tensor), (host, host), (arrays[0], host)):
        cuda.launch(kernel, arguments)
        cuda.launch(kernel, arguments)
    cuda.prepare(kernel, tuple(arrays))
    host.flags.writeable = False
    kernel(host, host, executor="emulator")  # nothing is written
    assert len(fake.launches) == 8 and fake.calls["cuMemFree"] == fake.calls["cuMemAlloc"]
    with arrays[0]:
        pass
    with pytest.raises(tc.LaunchError, match=mentions(-1)):
        DeviceArray((0, -1), "float32", executor=cuda)


def test_what_needs_elements_says_so() -> None:
    a = tc.Buffer((0, 8), "float32", space="global", name="A")
    t = tc.Buffer((8, 8), "float32", space="shared", name="t")
    for refused in (
        lambda: tc.plan(t[0:0, :], a[:, :], scope=tc.cta(32), target="sm_90"),
        lambda: tc.compare(t[0:0, :], a[:, :], scope=tc.cta(32), targets=("sm_90",)),
    ):
        with pytest.raises(tc.RequestError, match=mentions((0, 8))):
            refused()
    with pytest.raises(tc.RequestError, match=mentions("t[0:0, 0:8]")):
        tilecopy_draw.draw(t[0:0, :])
    for space in ("shared", "local"):
        with pytest.raises(tc.LayoutError, match=mentions(1, (0, 4))):
            tc.Buffer((0, 4), "float32", space=space)


def test_elements_of_4_bits_beside_a_border_of_bytes() -> None:
    """NVIDIA/cutlass#3111: the advice names bytes that a view has."""
    a, t = (tc.Buffer((4, 16), "int4", space=space, name=name) for space, name in (("global", "A"), ("shared", "t")))
    how: dict[str, Any] = {"scope": tc.warp(), "target": "sm_80"}
    advice = ("A.view(dtype='uint8')[0:4, 0:5]", "t.view(dtype='uint8')[0:4, 0:5]")
    for box in (slice(1, 9), slice(0, 9), slice(1, 10)):
        with pytest.raises(tc.NoVariantError, match=mentions(1, 2, *advice)):
            tc.plan(t[:, box], a[:, box], **how)
    with pytest.raises(tc.NoVariantError) as refused:  # no bytes hold both
        tc.plan(t[:, 0:8], a[:, 1:9], **how)
    assert "view" not in str(refused.value)
