"""tma and tma_store move what NumPy says, on the emulator and on the GPU; what they decline, and why."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.executors import unavailable_reason
from tilecopy_test_helpers.mentions import mentions

EXECUTORS = ["emulator", "cuda"]
DTYPES = ["uint8", "float16", "float32", "float64"]


def usable(executor: str) -> str:
    """The executor, where it runs here."""
    why = unavailable_reason(executor)
    if why:
        pytest.skip(why)
    return executor


def tile_layout(extents: tuple[int, ...], dtype: str, swizzle: str | None) -> Any:
    """A tile of boxes whose rows are the span of a swizzle, one beside the other; row major without one."""
    if swizzle is None:
        return TileLayout(S[extents])
    span = int(swizzle.removesuffix("B")) // tc.dtype_of(dtype).bytes
    *outer, inner = extents
    width = min(span, inner)
    shape, strides, step = [], [], span
    for extent in reversed(outer):
        shape.insert(0, extent)
        strides.insert(0, step)
        step *= extent
    layout = TileLayout(S[(*shape, inner // width, width) : (*strides, step, 1)])
    return tc.SwizzledLayout(tc.swizzle(swizzle, dtype), layout)


def through(
    shape: tuple[int, ...], extents: tuple[int, ...], dtype: str, swizzle: str | None, shift: int = 0
) -> tuple[tc.BuiltKernel, tuple[int, ...]]:
    """A -> tile by tma; tile -> B by tma_store, and to C, which has room for whole tiles, by a plain copy."""
    tiles = tuple(-(-n // t) for n, t in zip(shape, extents, strict=True))
    padded = tuple(n * t for n, t in zip(tiles, extents, strict=True))
    k = tc.KernelBuilder("through", threads=64)
    a, b, c = k.param("A", shape, dtype), k.param("B", shape, dtype), k.param("C", padded, dtype)
    tile = k.shared(extents, dtype, layout=tile_layout(extents, dtype, swizzle), align_bytes=1024)
    bar, at, block = k.mbarrier("bar"), list[Any](), k.block_id("x")
    for count in reversed(tiles):
        at.insert(0, block % count if count > 1 else 0)
        block = block // count
    starts = [i * t for i, t in zip(at, extents, strict=True)]
    inside = tuple(slice(s, s + t) for s, t in zip(starts, extents, strict=True))
    moved = (*(slice(s - shift, s - shift + t) for s, t in zip(starts[:1], extents[:1], strict=True)), *inside[1:])
    whole = (slice(None),) * len(shape)
    with k.if_(k.thread_id() == 0):
        bar.init(1)
        k.fence_mbarrier_init()
        bar.arrive_expect_tx(prod(extents) * tc.dtype_of(dtype).bytes)
        k.thread.copy_async(tile[whole], a[moved], mbar=bar[0], outside="zero", variant="tma")
    k.cta_sync()
    bar.wait(0)
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(b[inside], tile[whole], outside="zero", variant="tma_store")
        k.bulk_commit()
        k.bulk_wait(0)
    k.cta.copy(c[inside], tile[whole])
    return k.build(target="sm_90", grid=prod(tiles)), padded


def expected(a: np.ndarray[Any, Any], padded: tuple[int, ...], shift: int) -> np.ndarray[Any, Any]:
    """A in its place, shifted along the first dimension, and zeros around it."""
    room = np.zeros((padded[0] + shift, *padded[1:]), a.dtype)
    room[tuple(slice(shift * (dim == 0), shift * (dim == 0) + n) for dim, n in enumerate(a.shape))] = a
    return room[: padded[0]]


def check(
    executor: str, shape: tuple[int, ...], extents: tuple[int, ...], dtype: str, swizzle: str | None, shift: int = 0
) -> None:
    kernel, padded = through(shape, extents, dtype, swizzle, shift)
    bits = np.random.default_rng(prod(shape)).integers(0, 256, (*shape, tc.dtype_of(dtype).bytes), np.uint8)
    a = bits.reshape(-1).view(f"u{tc.dtype_of(dtype).bytes}").reshape(shape)
    b, c = np.full_like(a, 1), np.full(padded, 1, a.dtype)
    kernel(*(array.view(tc.dtype_of(dtype).numpy()) for array in (a, b, c)), executor=executor)
    wanted = expected(a, padded, shift)
    assert (c == wanted).all()
    assert (b == wanted[tuple(map(slice, shape))]).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("dtype", "swizzle"), list(product(DTYPES, [None, "32B", "64B", "128B"])))
def test_every_swizzle_and_width(executor: str, dtype: str, swizzle: str | None) -> None:
    inner = 256 // tc.dtype_of(dtype).bytes
    check(usable(executor), (40, 3 * inner), (16, inner), dtype, swizzle)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("shape", "extents"),
    [
        ((1008,), (256,)),
        ((50, 72), (16, 64)),
        ((5, 18, 40), (2, 8, 32)),
        ((3, 5, 6, 24), (2, 2, 4, 16)),
        ((3, 3, 3, 5, 16), (2, 2, 2, 4, 8)),
        ((3, 2, 304, 16), (1, 2, 304, 8)),
    ],
)
@pytest.mark.parametrize("shift", [0, 3])
def test_one_to_five_dimensions_with_edges(
    executor: str, shape: tuple[int, ...], extents: tuple[int, ...], shift: int
) -> None:
    if shift and len(shape) == 1:
        shift = 8  # the innermost start is a multiple of 16 bytes
    check(usable(executor), shape, extents, "float16", None, shift)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [2, 4])
def test_multicast_reaches_the_ctas_of_the_mask(executor: str, ctas: int) -> None:
    """Each CTA loads its share of the rows for all."""
    rows, columns = 64, 64
    k = tc.KernelBuilder("multicast", threads=64)
    a, b = k.param("A", (4 * rows, columns), "float16"), k.param("B", (4, ctas, rows, columns), "float16")
    tile = k.shared((rows, columns), "float16", layout=tile_layout((rows, columns), "float16", "128B"))
    bar, x = k.mbarrier("bar"), k.block_id("x")
    rank, share = k.cluster_rank(), rows // ctas
    with k.if_(k.thread_id() == 0):
        bar.init(1)
        k.fence_mbarrier_init()
        bar.arrive_expect_tx(rows * columns * 2)
    k.cluster_sync()
    with k.if_(k.thread_id() == 0):
        part = slice(rank * share, rank * share + share)
        start = x // ctas * rows + rank * share
        source = a[start : start + share, :]
        k.thread.copy_async(tile[part, :], source, mbar=bar[0], multicast=(1 << ctas) - 1, variant="tma")
    bar.wait(0)
    k.cta.copy(b[x // ctas, rank, :, :], tile[:, :])
    k.cluster_sync()
    kernel = k.build(target="sm_90", grid=4 * ctas, cluster=ctas)
    x_in = np.random.default_rng(0).random((4 * rows, columns)).astype(np.float16)
    x_out = np.zeros((4, ctas, rows, columns), np.float16)
    kernel(x_in, x_out, executor=usable(executor))
    assert all((x_out[:, cta] == x_in.reshape(4, rows, columns)).all() for cta in range(ctas))


def test_multicast_needs_a_cluster() -> None:
    k = tc.KernelBuilder("multicast", threads=32)
    a, tile, bar = k.param("A", (64, 64), "float16"), k.shared((64, 64), "float16", align_bytes=128), k.mbarrier("bar")
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(tile[:, :], a[:, :], mbar=bar[0], multicast=3, variant="tma")
    with pytest.raises(tc.NoVariantError, match=mentions("multicast", 3)):
        k.build(target="sm_90", grid=2)
    assert ".multicast::cluster" in k.build(target="sm_90", grid=2, cluster=2).ptx


def plan(dst: Any, src: Any, **options: Any) -> tc.Plan:
    bar = tc.Buffer((1,), "uint64", space="shared", name="bar")
    if dst.buffer.space == "shared":
        options["mbar"] = bar[0]
    variant = "tma" if dst.buffer.space == "shared" else "tma_store"
    return tc.plan(dst, src, op="copy_async", scope=tc.thread(), target="sm_90", variant=variant, **options)


def shared(shape: tuple[int, ...], dtype: str = "float16", **more: Any) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="shared", name="tile", **more)


def array(shape: tuple[Any, ...], dtype: str = "float16", **more: Any) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="global", name="A", **more)


def test_a_tile_of_two_spans_is_one_box_of_three_dimensions() -> None:
    tile = shared((64, 128), layout=tile_layout((64, 128), "float16", "128B"))
    found = plan(tile[:, :], array((256, 256))[64:128, 128:256]).partition
    assert (found.instructions_per_thread, found.map.box, found.box_bytes) == (1, (64, 64, 2), 16384)
    assert found.coordinates(0) == [128, 64, 0] and found.map.strides_bytes == (512, 128)


@pytest.mark.parametrize(
    ("extents", "shape", "priority"),
    [
        ((4096,), (8192,), 5),  # one bulk copy
        ((2, 1024), (8, 1024), 5),  # one, of two rows
        ((64, 64), (64, 128), 30),  # 64 bulk copies, one box
        ((3, 64 * 257), (8, 20000), 5),  # 3 bulk copies, 3 * 257 boxes
        ((3, 2048), (8, 4096), 30),  # 3 bulk copies, one box
    ],
)
def test_what_as_few_bulk_copies_move_is_left_to_them(
    extents: tuple[int, ...], shape: tuple[int, ...], priority: int
) -> None:
    part = array(shape)[tuple(slice(0, extent) for extent in extents)]
    tile = shared(extents)[(slice(None),) * len(extents)]
    assert (plan(tile, part).priority, plan(part, tile).priority) == (priority, priority)
    assert plan(tile, part).variant == "tma"


def test_a_long_dimension_is_two_of_the_map() -> None:
    found = plan(shared((600, 16))[:, :], array((1200, 32))[0:600, 0:16]).partition
    assert (found.map.box, found.instructions_per_thread) == ((16, 200, 3), 1)


def test_iters_of_the_array_may_be_split_joined_or_of_extent_1() -> None:
    tile, box = shared((8, 1, 64)), (slice(8, 16), slice(0, 1), slice(64, 128))
    wanted = plan(tile[:, :, :], array((64, 1, 128))[box]).partition
    for notation in (S[64 * 128], S[8, 8, 2, 64], S[(1, 64, 128, 1) : (3, 128, 1, 7)]):
        found = plan(tile[:, :, :], array((64, 1, 128), layout=TileLayout(notation))[box]).partition
        assert found.map.strides_bytes == wanted.map.strides_bytes and found.map.sizes == wanted.map.sizes
        assert found.coordinates(0) == wanted.coordinates(0) and found.map.box == wanted.map.box


def test_where_it_may_overhang_each_span_is_a_box() -> None:
    """The third dimension would have no edge of its own."""
    tile = shared((64, 128), layout=tile_layout((64, 128), "float16", "128B"))
    found = plan(tile[:, :], array((256, 200))[64:128, 128:256], outside="zero").partition
    assert (found.instructions_per_thread, found.map.box, found.box_bytes) == (2, (64, 64), 8192)
    assert (found.coordinates(0), found.coordinates(1)) == ([128, 64], [192, 64])


def wide(row_bytes: int) -> tc.Buffer:
    """Rows that lie so far apart."""
    return array((8, 16), layout=TileLayout(S[(8, 16) : (row_bytes // 2, 1)]))


AT_LEAST = tc.symbol("n", lower=2**31, upper=2**32)
PLANES = shared((2, 8, 8), layout=TileLayout(S[(2, 8, 8) : (72, 8, 1)]))


@pytest.mark.parametrize(
    ("dst", "src", "why"),
    [
        (shared((8, 64))[:, :], array((64, 100))[0:8, 0:64], (200,)),
        (shared((8, 64))[:, :], array((64, 128))[0:8, 4:68], (8,)),
        (PLANES[:, :, :], array((4, 8, 64))[0:2, :, 0:8], (144,)),
        (shared((16, 4))[:, :], array((64, 128))[0:16, 0:4], (8,)),
        (shared((8, 64), align_bytes=64)[:, :], array((64, 128))[0:8, 0:64], (64,)),
        (shared((1, 2, 2, 2, 2, 8))[0], array((3, 4, 4, 4, 4, 8))[1:2, 1:3, 1:3, 1:3, 1:3, :], (6,)),
        (shared((8, 64))[:, :], array((128, 64)).T[0:8, 0:64], ("tma", "A")),
        (
            shared((16, 16))[:, :],
            array((16, 16), layout=TileLayout(S[(16, 2, 8) : (1, 256, 16)]))[:, :],
            ("tma", "layout"),
        ),
        (
            shared((16, 16))[:, :],
            array((16, 16), layout=TileLayout(S[16, 16] + 16))[:, :],
            ("tma", "layout"),
        ),
        (shared((8, 8), "complex128")[:, :], array((64, 8), "complex128")[0:8, :], (16,)),
        (
            shared((8, 32), layout=tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[8, 32])))[:, :],
            array((64, 128))[0:8, 0:32],
            (64,),
        ),
        (array((64, 128))[0:8, 4:68], shared((8, 64))[:, :], (8,)),
        (
            shared((64, 16))[:, :],
            array((2**31, 32))[0:64, 0:16],
            (2147483648, 31),
        ),
        (array((64, 2**40))[0:64, 0:16], shared((64, 16))[:, :], (1099511627776,)),
        (shared((8, 16))[:, :], array((AT_LEAST, 16))[0:8, :], (2147483648,)),
        (
            shared((8, 16))[:, :],
            wide(2**40)[:, :],
            (1099511627776, 40),
        ),
    ],
)
def test_what_the_hardware_refuses_is_declined(dst: Any, src: Any, why: tuple[object, ...]) -> None:
    with pytest.raises(tc.NoVariantError, match=mentions(*why)):
        plan(dst, src)


@pytest.mark.parametrize(
    ("extents", "mode", "numbers"),
    [
        ((16, 24), "32B", ("t", 48, "32B", 32)),
        ((16, 72), "128B", ("t", 144, "128B", 128)),
        ((16, 8), "32B", ("t", 16, "32B", 32)),
        ((16, 20), None, ("t", 40, 16)),
        ((16, 20), "32B", ("t", 40, 32)),
        ((257, 32), None, (257, 256, 64, 128, 1)),
        ((514, 8), None, (514, 256, 2, 32, 128, 512)),
        ((8, 2056), None, (2056, 256, 8, 2048)),
        ((2, 2, 2, 8, 32), "32B", ("t", 64, 32, 128)),
    ],
)
def test_a_reason_has_the_numbers_that_were_written(
    extents: tuple[int, ...], mode: str | None, numbers: tuple[object, ...]
) -> None:
    """Bytes of a row, the span of a swizzle and the size of a box, not the pieces that a partition made of the tile."""
    layout: Any = TileLayout(S[extents])
    if mode is not None:
        layout = tc.SwizzledLayout(tc.swizzle(mode, "float16"), layout)
    a, t = array(extents), tc.Buffer(extents, "float16", space="shared", name="t", layout=layout, align_bytes=1024)
    with pytest.raises(tc.NoVariantError, match=mentions("tma", *numbers)) as refused:
        plan(t[:], a[:])
    reason = refused.value.declined["tma"]
    assert "step between" not in reason and "innermost extent" not in reason


def test_a_size_that_the_launch_knows_is_told_what_it_must_be_a_multiple_of() -> None:
    k = tc.KernelBuilder("k", threads=32)
    width, rows = k.size("K", multiple_of=2), k.size("M")
    a, t = k.param("A", (rows, width), "float16"), k.shared((8, 64), "float16", name="t")
    full = k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(t[:, :], a[0:8, 0:64], mbar=full[0], variant="tma")
    with pytest.raises(tc.NoVariantError, match=mentions("K", "multiple_of=8", 4, 16)):
        k.build(target="sm_90", grid=1)


def test_the_largest_extent_and_stride_of_a_map_are_taken_and_past_them_others_take_the_copy() -> None:
    tile, bar = shared((8, 16), align_bytes=128)[:, :], tc.Buffer((1,), "uint64", space="shared", name="bar")
    n = tc.symbol("n", lower=1, upper=2**32)  # which the launch knows
    for fits in (array((2**31 - 1, 16))[0:8, :], array((n, 16))[0:8, :], wide(2**40 - 16)[:, :]):
        assert plan(tile, fits, outside="zero").variant == "tma"
    for past in (array((2**31, 32))[0:8, 0:16], wide(2**40)[:, :]):
        found = tc.plan(tile, past, op="copy_async", scope=tc.thread(), target="sm_90", mbar=bar[0])
        assert found.variant == "bulk" and "tma" in found.declined


def test_a_fill_other_than_zero_and_a_store_below_zero_are_declined() -> None:
    with pytest.raises(tc.NoVariantError, match=mentions("outside")):
        plan(shared((8, 64))[:, :], array((12, 64))[8:16, :], outside="keep")
    i = tc.symbol("i", lower=-8, upper=8)
    with pytest.raises(tc.NoVariantError, match=mentions(0, "tma_store", "A")):
        plan(array((12, 64))[i : i + 8, :], shared((8, 64))[:, :], outside="zero")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_start_far_outside_is_outside(executor: str) -> None:
    """Coordinates have 32 bits: one that does not fit must not come back inside."""
    k = tc.KernelBuilder("far", threads=32)
    a, b = k.param("A", (256, 32), "uint8"), k.param("B", (256, 32), "uint8")
    row, tile, bar = (
        k.scalar("row", "int64", lower=0, upper=2**40),
        k.shared((64, 16), "uint8", align_bytes=128),
        k.mbarrier("m"),
    )
    seen = k.param("seen", (64, 16), "uint8")
    with k.if_(k.thread_id() == 0):
        bar.init(1)
        k.fence_mbarrier_init()
        bar.arrive_expect_tx(1024)
        k.thread.copy_async(tile[:, :], a[row : row + 64, 0:16], mbar=bar[0], outside="zero", variant="tma")
    k.cta_sync()
    bar.wait(0)
    k.cta.copy(seen[:, :], tile[:, :])
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(b[row : row + 64, 0:16], tile[:, :], outside="zero", variant="tma_store")
        k.bulk_commit()
        k.bulk_wait(0)
    kernel = k.build(target="sm_90", grid=1)
    ones = np.ones((256, 32), np.uint8)
    for start, inside in ((0, 64), (224, 32), (256, 0), (2**31 - 64, 0), (2**31, 0), (2**32, 0), (2**40, 0)):
        shown, written = np.full((64, 16), 7, np.uint8), np.full((256, 32), 7, np.uint8)
        kernel(ones, written, start, shown, executor=usable(executor))
        assert shown[:inside].all() and not shown[inside:].any(), start
        assert (written == 1).sum() == inside * 16 and (written == 7).sum() == written.size - inside * 16, start


def test_dimensions_in_halves_count_among_the_five_of_a_map() -> None:
    layout = TileLayout(S[(2, 2, 2, 2, 2, 8) : (128, 64, 16, 32, 8, 1)])
    box = shared((2, 4, 4, 8), layout=layout)
    found = plan(box[:, :, :, :], array((4, 8, 8, 64))[0:2, 0:4, 0:4, 0:8]).partition
    assert len(found.map.sizes) == len(found.map.box) == 5
    assert found.instructions_per_thread * prod(found.map.box) == prod(box.shape)


@pytest.mark.parametrize(("rows", "tensor_copies"), [(256, 1), (257, 257)])
def test_a_dimension_of_a_box_has_up_to_256_elements(rows: int, tensor_copies: int) -> None:
    a = tc.Buffer((512, 64), "float16", space="global", name="A")
    tile = tc.Buffer((rows, 64), "float16", space="shared", name="tile")
    mbar = tc.Buffer((1,), "uint64", space="shared", name="mbar")
    plan = tc.plan(
        tile[:, :],
        a[:rows, :],
        op="copy_async",
        scope=tc.thread(),
        target="sm_90a",
        variant="tma",
        mbar=mbar,
    )
    assert plan.partition.instructions_per_thread == tensor_copies
