"""Views: one memory through several layouts, its bytes the same; on the emulator against NumPy."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import R, S, TCol, TileLayout, TLane, laneid
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import is_hazard, mentions

from tilecopy_core.integers import evaluate, symbols_of
from tilecopy_core.layout import Iter, m

SWIZZLED = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[64, 64]))


def shared(shape: Any = (64, 64), dtype: str = "float16", **more: Any) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="shared", **({"name": "tile"} | more))


def lanes(count: int) -> tc.Buffer:
    """Rows of tensor memory, one per lane."""
    layout = TileLayout(S[(count, 8) : (1 @ tc.TLane, 1 @ tc.TCol)])
    return tc.Buffer((count, 8), "uint32", space="tmem", layout=layout, name="rows")


def transpose(rows: int, columns: int, dtype: str, layout: TileLayout | None) -> tc.BuiltKernel:
    """B = A.T by 32 x 32 tiles through shared memory, read by columns."""
    k = tc.KernelBuilder("transpose", threads=128)
    a, b = k.param("A", (rows, columns), dtype), k.param("B", (columns, rows), dtype)
    x, y = k.block_id("x") * 32, k.block_id("y") * 32
    tile = k.shared((32, 32), dtype, layout=layout, name="tile")
    k.cta.copy(tile[:, :], a[y : y + 32, x : x + 32])
    k.cta_sync()
    k.cta.copy(b[x : x + 32, y : y + 32], tile.T[:, :])
    return k.build(target="sm_80", grid=(columns // 32, rows // 32))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("layout", [None, TileLayout(S[(32, 32) : (33, 1)]), "swizzled"])
def test_a_transpose_by_a_view(dtype: str, layout: Any) -> None:
    if layout == "swizzled":
        layout = tc.SwizzledLayout(tc.swizzle("64B", dtype), TileLayout(S[32, 32]))
    kernel = transpose(64, 96, dtype, layout)
    for assembler in ASSEMBLERS:
        assemble(kernel.ptx, kernel.target, assembler)
    a = byte_arrays.random_array((64, 96), dtype)
    b = np.zeros((96, 64), a.dtype)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(b, np.ascontiguousarray(a.T))


def test_a_transpose_through_a_fragment() -> None:
    """The transpose of a global array is one too: what a lane holds of A's columns it stores as B's rows."""
    k = tc.KernelBuilder("transpose", threads=32)
    a, b = k.param("A", (64, 64), "float32"), k.param("B", (64, 64), "float32")
    fragment = k.local((32, 8), "float32", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    x, y = k.block_id("x") * 8, k.block_id("y") * 32
    k.warp.copy(fragment[...], a[y : y + 32, x : x + 8])
    k.warp.copy(b.T[y : y + 32, x : x + 8], fragment[...])
    kernel = k.build(target="sm_80", grid=(8, 2))
    assert [plan.partition.vec for plan in kernel.plans] == [4, 1]
    source, result = byte_arrays.random_array((64, 64), "uint32").view(np.float32), np.zeros((64, 64), np.float32)
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(result, np.ascontiguousarray(source.T))


def test_a_view_is_the_same_memory_and_its_arguments_are_as_declared() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a = k.param("A", (32, 64), "float16")
    assert a.T.memory is a.memory and a.T.T == a and a.permute(0, 1) == a
    assert a.T.shape == (64, 32) and a.T.align_bytes == a.align_bytes
    b = k.param("B", (64, 16), "uint64")
    seen = a.view(dtype="uint64")
    assert seen.shape == (32, 16)
    tile = k.shared((32, 16), "uint64")
    k.warp.copy(tile[:, :], seen[:, :])
    k.warp_sync()
    k.warp.copy(b.T[:, 0:32], tile.T[:, :])
    kernel = k.build(target="sm_80", grid=1)
    source, result = byte_arrays.random_array((32, 64), "float16"), np.zeros((64, 16), np.uint64)
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(result[:32], source.view(np.uint64))
    with pytest.raises(tc.LaunchError, match=mentions("A", "dtype", "uint64", "float16")):
        kernel(source.view(np.uint64), result, executor="emulator")


@given(
    st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4),
    st.data(),
    st.sampled_from(["plain", "padded", "swizzled"]),
)
def test_permuting_is_numpys(shape: list[int], data: Any, kind: str) -> None:
    order = data.draw(st.sampled_from(list(permutations(range(len(shape))))))
    strides = list(TileLayout(S[tuple(shape)]).shard)
    layout = TileLayout(S[tuple(shape) : tuple(it.stride * (2 if kind == "padded" else 1) for it in strides)])
    if kind == "swizzled":
        layout = tc.SwizzledLayout(tc.Swizzle(1, 2, 2), layout)
    whole = shared(tuple(shape), "uint8", layout=layout)
    seen = whole.permute(*order)
    assert seen.shape == tuple(shape[dim] for dim in order)
    places = np.zeros(shape, int)
    for index in np.ndindex(*shape):
        places[index] = whole.layout.apply(*index, shape=whole.shape)["m"]
    for index in np.ndindex(*seen.shape):
        assert seen.layout.apply(*index, shape=seen.shape).get("m", 0) == places.transpose(order)[index]


@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=3),
    st.sampled_from(["uint8", "float16", "float32", "int64"]),
    st.sampled_from(["uint8", "int16", "uint32", "float64"]),
    st.booleans(),
)
def test_elements_of_another_width_are_numpys_view(shape: list[int], old: str, new: str, transposed: bool) -> None:
    array = np.arange(np.prod(shape) * np.dtype(old).itemsize, dtype=np.uint8).view(old).reshape(shape)
    whole = shared(tuple(shape), old)
    if transposed:
        whole = whole.permute(*reversed(range(len(shape))))
    try:
        expected = array.view(new)
    except ValueError:
        if shape[-1] > 1:
            with pytest.raises(tc.LayoutError, match=mentions("tile")):
                whole.view(dtype=new)
        return
    if transposed and 1 in shape:
        return  # which dimension is contiguous is then another question
    seen = whole.view(dtype=new)
    expected = expected.T if transposed else expected
    assert seen.shape == expected.shape
    memory = array.reshape(-1).view(new)
    for index in np.ndindex(*seen.shape):
        at = seen.layout.apply(*index, shape=seen.shape).get("m", 0)
        assert memory[at].tobytes() == expected[index].tobytes()


def run_view(seen_of: Any, expected_of: Any, **tile: Any) -> None:
    """Fill a (64, 64) tile of float16, copy a view of it out: ``expected_of`` says which array that is."""
    k = tc.KernelBuilder("k", threads=128)
    a = k.param("A", (64, 64), "float16")
    buffer = k.shared((64, 64), "float16", name="tile", **tile)
    seen = seen_of(buffer)
    b = k.param("B", seen.shape, seen.dtype)
    k.cta.copy(buffer[:, :], a[:, :])
    k.cta_sync()
    whole = tuple(slice(None) for _ in b.shape)
    k.cta.copy(b[whole], seen[whole])
    kernel = k.build(target="sm_80", grid=1)
    source = byte_arrays.random_array((64, 64), "float16")
    expected = np.ascontiguousarray(expected_of(source))
    result = np.zeros(expected.shape, seen.dtype.numpy())
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(result, expected)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (lambda t: t.view(shape=(32, 128)), lambda a: a.reshape(32, 128)),
        (lambda t: t.view(shape=(4, 16, 64)).permute(1, 0, 2), lambda a: a.reshape(4, 16, 64).transpose(1, 0, 2)),
        (lambda t: t.view(dtype="uint32"), lambda a: a.view(np.uint32)),
        (lambda t: t.view(dtype="uint32").T, lambda a: a.view(np.uint32).T),
        (lambda t: t.view(shape=(16, 128), dtype="uint32"), lambda a: a.view(np.uint32).reshape(16, 128)),
        (lambda t: t.view(dtype="uint8").view(dtype="float64"), lambda a: a.view(np.float64)),
    ],
)
@pytest.mark.parametrize("layout", [None, SWIZZLED, TileLayout(S[(64, 64) : (72, 1)])])
def test_views_of_swizzled_and_padded_tiles(seen: Any, expected: Any, layout: Any) -> None:
    run_view(seen, expected, layout=layout)


def test_a_layout_of_its_own() -> None:
    every_other = TileLayout(S[(32, 64) : (128, 1)] + 64)
    run_view(lambda t: t.view(shape=(32, 64), layout=every_other), lambda a: a[1::2])
    halves = TileLayout(S[(64, 16) : (32, 1)])
    run_view(lambda t: t.view(shape=(64, 16), layout=halves, dtype="uint32"), lambda a: a.view(np.uint32)[:, :16])
    narrow = TileLayout(S[(8, 8) : (64, 1)])
    run_view(lambda t: t.view(shape=(8, 8), layout=narrow).view(shape=(64, 64), layout=t.layout), lambda a: a)


def test_registers_are_viewed_by_their_words() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (32, 8), "float16"), k.param("B", (32, 4), "uint32")
    rows = k.local((32, 8), "float16", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    k.warp.copy(rows[:, :], a[:, :])
    words = rows.view(dtype="uint32")
    assert words.shape == (32, 4)
    k.warp.copy(b[:, :], words[:, :])
    own = k.registers(words)
    c = k.param("C", (32,), "uint32")
    k.store(c[k.lane_id()], k.load(own[3]) + 1)
    kernel = k.build(target="sm_80", grid=1)
    source = byte_arrays.random_array((32, 8), "float16")
    result, last = np.zeros((32, 4), np.uint32), np.zeros(32, np.uint32)
    kernel(source, result, last, executor="emulator")
    assert byte_arrays.same_bytes(result, source.view(np.uint32))
    assert (last == source.view(np.uint32)[:, 3] + 1).all()


def test_tensor_memory_is_viewed() -> None:
    layout = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    buffer = tc.Buffer((32, 16), "float32", space="tmem", layout=layout, name="acc")
    assert buffer.T.layout.apply(3, 5, shape=(16, 32)) == {"TLane": 5, "TCol": 3}
    assert buffer.view(dtype="float16").shape == (32, 32)
    right = TileLayout(S[(32, 8) : (1 @ TLane, 1 @ TCol)] + 8 @ TCol)
    assert buffer.view(shape=(32, 8), layout=right).shape == (32, 8)
    with pytest.raises(tc.LayoutError, match=mentions(544, "TCol", "acc", 512)):
        buffer.view(shape=(32, 8), layout=TileLayout(S[(32, 8) : (1 @ TLane, 1 @ TCol)] + 9 @ TCol))
    with pytest.raises(tc.LayoutError, match=mentions(256, "TLane", "acc", 128)):
        buffer.view(shape=(128, 2), layout=TileLayout(S[(128, 2) : (2 @ TLane, 1 @ TCol)] + 1 @ TLane))
    with pytest.raises(tc.LayoutError, match="129"):  # one lane past the end
        buffer.view(shape=(32, 2), layout=TileLayout(S[(32, 2) : (1 @ TLane, 1 @ TCol)] + 97 @ TLane))


def test_strides_along_columns_of_tensor_memory_are_counted_in_the_new_elements() -> None:
    layout = TileLayout(S[(32, 2, 8) : (1 @ TLane, 24 @ TCol, 1 @ TCol)] + 4 @ TCol)
    held = tc.Buffer((32, 2, 8), "float16", space="tmem", layout=layout, name="t", allocated_addr=0)
    wide, narrow = held.view(dtype="float32"), held.view(dtype="uint8")
    assert wide.shape == (32, 2, 4) and narrow.shape == (32, 2, 16)
    for lane, part, column in ((0, 0, 0), (31, 1, 3), (7, 1, 0)):
        assert wide.layout.apply(lane, part, column, shape=wide.shape) == {
            "TLane": lane,
            "TCol": 2 + part * 12 + column,
        }
        own = narrow.layout.apply(lane, part, column, shape=narrow.shape)
        assert own == {"TLane": lane, "TCol": 8 + part * 48 + column}


def test_the_reach_of_a_symbolic_stride_ends_with_the_last_place() -> None:
    pitch = tc.symbol("pitch", upper=64)
    (found,) = symbols_of(pitch)
    layout = TileLayout.of([Iter(3, pitch), Iter(8, 1)])
    assert evaluate(layout.reach(m), {found: 10}) == 28
    assert evaluate(layout.reach(TCol), {found: 10}) == 1


def test_hazards_are_those_of_the_bytes() -> None:
    k = tc.KernelBuilder("race", threads=64)
    a, b = k.param("A", (64, 64), "float16"), k.param("B", (64, 64), "float16")
    tile = k.shared((64, 64), "float16")
    k.cta.copy(tile[:, :], a[:, :])
    k.cta.copy(b[:, :], tile.T[:, :])
    kernel = k.build(target="sm_80", grid=1)
    with pytest.raises(tc.HazardError) as caught:
        kernel(np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16), executor="emulator")
    assert caught.value.kind == "race"
    k = tc.KernelBuilder("poison", threads=32)
    b = k.param("B", (64,), "float16")
    tile = k.shared((64, 64), "float16")
    k.warp.copy(b[:], tile.view(shape=(64,), layout=TileLayout(S[64:64]))[:])
    with pytest.raises(tc.HazardError, check=is_hazard("poison", "B")):
        k.build(target="sm_80", grid=1)(np.zeros(64, np.float16), executor="emulator")


def test_a_view_keeps_what_is_proved_of_its_start() -> None:
    tile = shared(storage_offset=4)
    plan = tc.plan(tile.view(dtype="uint32")[:, :], tc.Buffer((64, 32), "uint32", space="global", name="A")[:, :],
                   scope=tc.warp(), target="sm_80")  # fmt: skip
    assert plan.partition.vec_bits == 64
    with pytest.raises(tc.LayoutError, match=mentions("uint32")):
        shared(storage_offset=1).view(dtype="uint32")


def test_registers_begin_where_their_layout_does() -> None:
    k = tc.KernelBuilder("part", threads=32)
    whole = k.local((32, 16), "float32", layout=TileLayout(S[(32, 16) : (1 @ laneid, 1)]))
    with pytest.raises(tc.LayoutError, match=mentions("layout", "storage_offset", 4)):
        tc.Buffer(8, "float32", space="local", memory=whole.memory, storage_offset=4)


def test_a_view_belongs_to_its_kernel_and_its_own_shape_counts() -> None:
    k, other = tc.KernelBuilder("k", threads=32), tc.KernelBuilder("other", threads=32)
    a, s = k.param("A", (32, 64), "float32"), k.shared((64, 32), "float32")
    with pytest.raises(tc.RequestError, match=mentions("A")):
        other.warp.copy(other.shared((64, 32), "float32")[:, :], a.T[:, :])
    with pytest.raises(tc.LayoutError, match=mentions("outside", 64)):
        k.warp.copy(s[0:32, :], a.T[40:72, :])
    start = k.block_id() * 32
    k.warp.copy(s[0:32, :], a.T[start : start + 32, :])
    with pytest.raises(tc.LayoutError, match=mentions(64, 32)):
        k.build(target="sm_80", grid=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shared((4, 4, 4)).T, (3, "T")),
        (lambda: shared().permute(0, 1, 0), ("permute",)),
        (lambda: shared().permute(0, 0), ("permute",)),
        (lambda: shared().permute(1), (1, 2, 0)),
        (lambda: shared((4, 6), layout=TileLayout(S[(6, 4) : (5, 1)])).T, ("tile",)),
        (lambda: shared().view(shape=(64, 65)), ("shape", 64, 65, 4160, 4096, "layout")),
        (lambda: shared().view(layout=TileLayout(S[64, 32])), (2048, "shape", 4096)),
        (
            lambda: shared().view(shape=(64, 64), layout=TileLayout(S[(64, 64) : (72, 1)])),
            (73600, "tile", 65536),
        ),
        (
            lambda: shared().view(shape=(64, 64), layout=TileLayout(S[64, 64]), dtype="uint32"),
            (131072, "tile", 65536),
        ),
        (lambda: shared((64, 3)).view(dtype="uint32"), (3,)),
        (
            lambda: shared(layout=TileLayout(S[(64, 64) : (65, 1)])).view(dtype="uint32"),
            (65,),
        ),
        (
            lambda: shared(layout=TileLayout(S[(64, 64) : (128, 2)])).view(dtype="uint32"),
            ("tile",),
        ),
        (lambda: shared(align_bytes=2).view(dtype="uint32"), (4, "tile")),
        (
            lambda: shared(layout=tc.SwizzledLayout(tc.Swizzle(1, 3, 3), TileLayout(S[64, 64]))).view(dtype="uint64"),
            (4,),
        ),
        (lambda: shared().view(layout=SWIZZLED), (1024, "tile", 128)),
        (lambda: shared().view(layout=(64, 64)), ("layout", 64)),
        (lambda: lanes(64).view(shape=(65, 8), layout=lanes(65).layout), (65, 64)),
        (
            lambda: tc.Buffer((8,), "float32", space="local", name="f").view(dtype="int64"),
            ("int64", 64, "f", 32, "float32"),
        ),
    ],
)
def test_what_is_no_view_says_why(make: Any, message: tuple[object, ...]) -> None:
    with pytest.raises(tc.LayoutError, match=mentions(*message)):
        make()


def test_a_swizzled_view_of_memory_that_is_aligned_for_it() -> None:
    run_view(lambda t: t.view(layout=SWIZZLED).view(layout=t.layout), lambda a: a, align_bytes=1024)


def test_a_view_whose_swizzle_repeats_later_than_its_own_needs_more_alignment() -> None:
    short = tc.SwizzledLayout(tc.swizzle("32B", "float16"), TileLayout(S[64, 64]))
    with pytest.raises(tc.LayoutError, match=mentions(1024, "t", 256, "align_bytes")):
        tc.Buffer((64, 64), "float16", space="shared", name="t", layout=short, align_bytes=256).view(layout=SWIZZLED)


@pytest.mark.parametrize("layout", [None, TileLayout(S[(32, 32) : (33, 1)]), "swizzled"])
def test_a_transpose_on_the_gpu(gpu: str, layout: Any) -> None:
    if layout == "swizzled":
        layout = tc.SwizzledLayout(tc.swizzle("64B", "float32"), TileLayout(S[32, 32]))
    a = byte_arrays.random_array((1024, 96), "float32")
    b = np.zeros((96, 1024), np.float32)
    transpose(1024, 96, "float32", layout)(a, b, executor="cuda")
    assert byte_arrays.same_bytes(b, np.ascontiguousarray(a.T))


def test_offsets_and_replicas_are_counted_in_the_new_elements() -> None:
    every_other = TileLayout(S[(32, 64) : (128, 1)] + 64)
    run_view(
        lambda t: t.view(shape=(32, 64), layout=every_other).view(dtype="uint32"), lambda a: a[1::2].copy().view("u4")
    )
    twice = shared((8, 8), layout=TileLayout(S[8, 8] + R[2:64]))
    assert twice.view(dtype="uint32").layout.replica == TileLayout(R[2:32]).replica
    assert twice.view(dtype="uint8").layout.replica == TileLayout(R[2:128]).replica


def test_the_first_use_of_a_memory_may_be_a_part_of_it() -> None:
    k = tc.KernelBuilder("k", threads=32)
    b, whole = k.param("B", (32, 4), "uint32"), k.local(4, "uint32")
    first = whole.view(shape=(1,), layout=TileLayout(S[1:1]))
    last = whole.view(shape=(2,), layout=TileLayout(S[2:1] + 6), dtype="uint16")
    k.store(first[0], 7)
    for i in range(1, 4):
        k.store(whole[i], i)
    k.store(last[1], 5)
    rows = whole.view(shape=(32, 4), layout=TileLayout(S[(32, 4) : (1 @ laneid, 1)]))
    k.warp.copy(b[:, :], rows[:, :])
    result = np.zeros((32, 4), np.uint32)
    k.build(target="sm_80", grid=1)(result, executor="emulator")
    assert (result == [7, 1, 2, 3 + (5 << 16)]).all()


def test_a_last_dimension_of_one_element_is_contiguous() -> None:
    assert shared((64, 1), "float32").view(dtype="uint8").shape == (64, 4)
    assert shared((1,), "float32").view(dtype="uint16").shape == (2,)
    assert shared((8, 1), "uint16").view(dtype="uint32").shape == (4, 1)


def test_an_ellipsis_is_every_other_dimension() -> None:
    tile = shared((4, 8, 16))
    start = tc.symbol("start", upper=3)
    for seen, extents in (
        (tile[...], (4, 8, 16)),
        (tile[..., 0:4], (4, 8, 4)),
        (tile[start, ...], (1, 8, 16)),
        (tile[start, ..., 3], (1, 8, 1)),
        (tile[0, 1, 2, ...], (1, 1, 1)),
    ):
        assert seen.extents == extents
    for wrong in ((..., ...), (0, 0, 0, 0, ...)):
        with pytest.raises(tc.LayoutError, match="Ellipsis|\\.\\.\\."):
            tile[wrong]


def test_halves_of_tensor_memory_by_views() -> None:
    """Two copies to two views of one allocation, read back by another; by the emulator alone."""
    k = tc.KernelBuilder("halves", threads=128)
    a, b = k.param("A", (2, 32, 16), "uint8"), k.param("B", (128, 8), "uint32")
    staging = k.shared((2, 32, 16), "uint8", align_bytes=1024)
    mbar = k.mbarrier()
    acc = k.tmem((32, 32), "uint8", layout=TileLayout(S[(32, 32) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]))
    halves = [
        acc.view(shape=(32, 16), layout=TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane] + at @ TCol))
        for at in (16, 0)
    ]
    fragment, tid = k.local(8, "uint32"), k.thread_id()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(halves[0])
    with k.if_(tid == 0):
        mbar.init(1)
    k.cta.copy(staging[...], a[...])
    k.fence_proxy_async()
    k.cta_sync()
    with k.if_(tid == 0):
        for number, half in enumerate(halves):
            k.thread.copy_async(half[...], staging[number, ...])
        k.tcgen05_commit(mbar[0])
    mbar.wait(0)
    k.tcgen05_fence_after()
    k.tcgen05_ld(fragment.view(shape=(4,), layout=TileLayout(S[4:1])), halves[0])
    k.tcgen05_ld(fragment.view(shape=(4,), layout=TileLayout(S[4:1] + 4)), acc)
    k.tcgen05_wait_ld()
    for i in range(8):
        k.store(b[tid, i], k.load(fragment[i]))
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(acc)
    kernel = k.build(target="sm_100a", grid=1)
    source, result = byte_arrays.random_array((2, 32, 16), "uint8"), np.zeros((128, 8), np.uint32)
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(
        result, np.tile(np.concatenate([source[0], source[1]], axis=1).view(np.uint32), (4, 1))
    )
    with pytest.raises(tc.RequestError, match=mentions(8)):
        k.tcgen05_ld(
            fragment, acc.view(shape=(32, 1), layout=TileLayout(S[(32, 1) : (1 @ TLane, 1 @ TCol)] + 1 @ TCol))
        )


@pytest.mark.parametrize(
    "offset", [lambda k: -32, lambda k: k.scalar("n", lower=-5, upper=3) * 32, lambda k: -3 @ laneid]
)
def test_no_layout_begins_before_its_memory(offset: Any) -> None:
    k = tc.KernelBuilder("k", threads=32)
    a = k.param("A", (64, 32), "float32")
    layout = TileLayout(S[8, 32]) + offset(k)
    with pytest.raises(tc.LayoutError, match=mentions("layout")):
        a.view(shape=(8, 32), layout=layout)
    for space in ("shared", "local"):
        with pytest.raises(tc.LayoutError, match=mentions("s")):
            tc.Buffer((8, 32), "float32", space=space, name="s", layout=layout)


def test_a_swizzled_view_whose_place_is_known_at_launch_may_end_where_its_memory_does() -> None:
    """What a swizzle permutes are whole blocks: the last one is in the memory where its last element is."""
    k = tc.KernelBuilder("k", threads=32)
    s, n = k.shared((8, 8, 8), "int32", align_bytes=1024), k.scalar("n", upper=7)
    permuted = tc.Swizzle(2, 1, 2)
    view = s.view(shape=(8, 8), layout=tc.SwizzledLayout(permuted, TileLayout(S[8, 8] + n * 64)))
    assert view.shape == (8, 8)
    with pytest.raises(tc.LayoutError, match=mentions("int32", "layout")):
        s.view(shape=(8, 8), layout=tc.SwizzledLayout(permuted, TileLayout(S[8, 8] + n * 72)))
