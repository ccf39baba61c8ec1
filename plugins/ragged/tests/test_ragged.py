"""What the others leave: counts, threads and starts that do not divide."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given, settings
from hypothesis import strategies as st
from tilecopy import R, S, TileLayout, laneid, warpid
from tilecopy_test_helpers import byte_arrays


def there_and_back(
    shape: tuple[int, ...], dtype: str, threads: int, *, scope: str = "cta", op: str = "copy", layout: Any = None
) -> tc.BuiltKernel:
    k = tc.KernelBuilder("k", threads=threads)
    a, b = k.param("A", shape, dtype), k.param("B", shape, dtype)
    s = k.shared(shape, dtype, layout=layout, name="s")
    copies, everything = getattr(k, scope), tuple(slice(None) for _ in shape)
    getattr(copies, op)(s[everything], a[everything])
    if op == "copy_async":
        k.cp_async_commit()
        k.cp_async_wait(0)
    k.cta_sync()
    copies.copy(b[everything], s[everything])
    return k.build(target="sm_80", grid=1)


def check(kernel: tc.BuiltKernel, shape: tuple[int, ...], dtype: str) -> None:
    a = byte_arrays.random_array(shape, tc.dtype_of(dtype).numpy())
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # drawn copies may be slow
@given(st.data())
@settings(max_examples=25)
def test_every_count_is_copied(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3), "shape"))
    threads = data.draw(st.sampled_from([1, 7, 32, 33, 96, 128]), "threads")
    scopes = ["cta"] + ["warp"] * (threads == 32)
    dtype = data.draw(st.sampled_from(["uint8", "float16", "float32", "complex64", "complex128"]), "dtype")
    op = data.draw(st.sampled_from(["copy", "copy_async"]), "op")
    if prod(shape) * tc.dtype_of(dtype).bytes > 48 * 1024:
        shape = shape[-1:]
    check(there_and_back(shape, dtype, threads, scope=data.draw(st.sampled_from(scopes)), op=op), shape, dtype)


def test_vectors_stay_wide_where_only_the_threads_do_not_divide() -> None:
    kernel = there_and_back((77, 64), "float16", 128)
    assert [plan.variant for plan in kernel.plans] == ["ragged", "ragged"]
    assert kernel.plans[0].partition.vec_bits == 128
    check(kernel, (77, 64), "float16")


def test_rounds_past_the_unroll_limit_roll() -> None:
    check(there_and_back((131, 67), "uint8", 32), (131, 67), "uint8")


def through_padded_rows(a_elems: int, into: slice, source: slice, op: str, **options: Any) -> tc.BuiltKernel:
    """B to 64 elements in rows of eight with a gap, a box of A into some of them, and all of them back to B."""
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (a_elems,), "float32"), k.param("B", (64,), "float32")
    s = k.shared((64,), "float32", layout=TileLayout(S[(8, 8) : (9, 1)]), name="s")
    k.cta.copy(s[:], b[:])
    k.cta_sync()
    getattr(k.cta, op)(s[into], a[source], **options)
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[:], s[:])
    return k.build(target="sm_80", grid=1)


@pytest.mark.parametrize("op", ["copy", "copy_async"])
@pytest.mark.parametrize("start", [0, 3, 4, 13])
def test_a_box_may_cut_inside_an_iter(start: int, op: str) -> None:
    kernel = through_padded_rows(40, slice(start, start + 40), slice(0, 40), op)
    x, y = np.arange(40, dtype=np.float32), np.full(64, -1, np.float32)
    kernel(x, y, executor="emulator")
    assert np.array_equal(y, np.concatenate([np.full(start, -1), x, np.full(24 - start, -1)]))


@pytest.mark.parametrize("op", ["copy", "copy_async"])
@pytest.mark.parametrize("outside", ["zero", "keep"])
def test_a_box_that_cuts_inside_an_iter_may_overhang(outside: str, op: str) -> None:
    kernel = through_padded_rows(37, slice(13, 53), slice(-2, 38), op, outside=outside)
    assert kernel.plans[1].variant in ("ragged", "ragged_async")
    x, y = np.arange(1, 38, dtype=np.float32), np.full(64, -1, np.float32)
    kernel(x, y, executor="emulator")
    gap = 0 if outside == "zero" else -1
    wanted = np.concatenate([np.full(13, -1), np.full(2, gap), x, np.full(1, gap), np.full(11, -1)])
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize("op", ["copy", "copy_async"])
def test_rounds_of_a_box_that_cuts_inside_an_iter_are_of_the_box(op: str) -> None:
    """The layout of the whole buffer comes apart into rounds of 8 elements; the box begins inside one of them."""
    k = tc.KernelBuilder("k", threads=8)
    a, b = k.param("a", (40,), "float32"), k.param("b", (64,), "float32")
    s = k.shared((64,), "float32", layout=TileLayout(S[(4, 16) : (1, 4)]), name="s")
    getattr(k.cta, op)(s[3:43], a[:])
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[3:43], s[3:43])
    kernel = k.build(target="sm_90", grid=1)
    assert kernel.plans[0].partition.outer == 5
    x, y = np.arange(1, 41, dtype=np.float32), np.zeros(64, np.float32)
    kernel(x, y, executor="emulator")
    assert np.array_equal(y[3:43], x) and not y[:3].any() and not y[43:].any()


def test_fewer_than_four_bytes_are_copied_asynchronously_too() -> None:
    kernel = there_and_back((32, 3), "float16", 32, op="copy_async")
    assert kernel.plans[0].variant == "ragged_async" and kernel.plans[0].completion == "cp_async_group"
    check(kernel, (32, 3), "float16")


def test_rows_are_wide_vectors_and_a_rest() -> None:
    padded = there_and_back((16, 33), "float16", 96, layout=TileLayout(S[(16, 33) : (40, 1)]))
    assert padded.plans[0].partition.tail is None, "rows of 33 elements in global memory allow no vector"
    contiguous = there_and_back((77, 33), "float16", 96)
    body = contiguous.plans[0].partition
    assert (body.vec_bits, body.outer, body.tail.vec_bits, body.tail.outer) == (128, 4, 16, 1)
    check(contiguous, (77, 33), "float16")
    k = tc.KernelBuilder("k", threads=96)
    a, b = (k.param(name, (16, 33), "float16", strides=(40, 1)) for name in "AB")
    s = k.shared((16, 33), "float16", layout=TileLayout(S[(16, 33) : (48, 1)]), name="s")
    k.cta.copy_async(s[:, :], a[:, :])
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(b[:, :], s[:, :])
    kernel = k.build(target="sm_80", grid=1)
    assert "cp.async.cg" in kernel.ptx and kernel.plans[0].partition.rounds == 2
    x, y = byte_arrays.random_array((16, 40), "float16"), np.zeros((16, 40), np.float16)
    kernel(x[:, :33], y[:, :33], executor="emulator")
    assert (
        byte_arrays.same_bytes(np.ascontiguousarray(x[:, :33]), np.ascontiguousarray(y[:, :33])) and not y[:, 33:].any()
    )


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize(("rows", "columns"), [((3, 9), (1, 5)), ((0, 16), (0, 8)), ((5, 12), (3, 4))])
@pytest.mark.parametrize("first_register", [0, 4])
def test_a_box_of_a_fragment_may_cut_inside_its_threads(
    rows: tuple[int, int], columns: tuple[int, int], dtype: str, first_register: int
) -> None:
    k = tc.KernelBuilder("k", threads=64)
    extents = rows[1] - rows[0], columns[1] - columns[0]
    a, b = k.param("A", extents, dtype), k.param("B", extents, dtype)
    first, last = k.param("first", (16, 8), dtype), k.param("last", (16, 8), dtype)
    layout = TileLayout(S[(2, 8, 2, 4) : (1 @ warpid, 4 @ laneid, 2 @ laneid, 1)] + R[2 : 1 @ laneid]) + first_register
    frag = k.local((16, 8), dtype, layout=layout)
    s = k.shared((16, 8), dtype, layout=TileLayout(S[(16, 8) : (9, 1)]), name="s")
    box = frag[rows[0] : rows[1], columns[0] : columns[1]]
    k.cta.copy(s[:, :], first[:, :])
    k.cta_sync()
    k.cta.copy(frag[:, :], s[:, :])
    k.cta.copy(box, a[:, :], variant="ragged")
    k.cta.copy(last[:, :], frag[:, :])
    k.cta.copy(b[:, :], box, variant="ragged")
    kernel = k.build(target="sm_80", grid=1)
    x, before = (byte_arrays.random_array(n, tc.dtype_of(dtype).numpy(), i) for i, n in enumerate((extents, (16, 8))))
    y, out = np.zeros_like(x), np.zeros_like(before)
    kernel(x, y, before, out, executor="emulator")
    before[rows[0] : rows[1], columns[0] : columns[1]] = x
    assert byte_arrays.same_bytes(out, before) and byte_arrays.same_bytes(x, y)


@pytest.mark.parametrize("outside", ["zero", 2, "keep"])
def test_fragments_that_do_not_divide_have_edges_too(outside: object) -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, first, last = (
        k.param("A", (9, 7), "float16"),
        k.param("first", (8, 16), "float16"),
        k.param("last", (8, 16), "float16"),
    )
    frag = k.local((8, 16), "float16", layout=TileLayout(S[(8, 4, 4) : (4 @ laneid, 1 @ laneid, 1)]))
    k.warp.copy(frag[:, :], first[:, :])
    k.warp.copy(frag[1:7, 3:14], a[5:11, -2:9], outside=outside)
    k.warp.copy(last[:, :], frag[:, :])
    k.warp.copy(a[5:11, -2:9], frag[1:7, 3:14], outside="keep")
    kernel = k.build(target="sm_80", grid=1)
    assert [plan.variant for plan in kernel.plans] == ["reg", "ragged", "reg", "ragged"]
    x = np.arange(63, dtype=np.float16).reshape(9, 7)
    before, out = np.full((8, 16), -1, np.float16), np.zeros((8, 16), np.float16)
    kernel(x.copy(), before, out, executor="emulator")
    if outside != "keep":
        before[1:7, 3:14] = 0 if outside == "zero" else 2
    before[1:5, 5:12] = x[5:9, 0:7]
    assert np.array_equal(out, before)


@pytest.mark.parametrize("rows", ["plain", "at launch"])
def test_where_one_side_cuts_inside_an_iter_the_other_may_have_any_shape(rows: str) -> None:
    k = tc.KernelBuilder("k", threads=32)
    m = 8 if rows == "plain" else k.size("M")
    a, b, j = k.param("A", (m, 2), "float16"), k.param("B", (4, 2), "float16"), k.scalar("j", upper=2)
    s = k.shared((4, 2), "float16", layout=TileLayout(S[(2, 2, 2) : (1, 4, 2)]))
    k.cta.copy(s[j : j + 2, :], a[j : j + 2, :], outside="zero")
    k.cta_sync()
    k.cta.copy(b[j : j + 2, :], s[j : j + 2, :])
    kernel = k.build(target="sm_80", grid=1)
    assert [plan.variant for plan in kernel.plans] == ["ragged", "ragged"]
    source, result = np.arange(16, dtype=np.float16).reshape(8, 2), np.zeros((4, 2), np.float16)
    kernel(source, result, 1, executor="emulator")
    assert np.array_equal(result[1:3], source[1:3]) and not result[[0, 3]].any()
