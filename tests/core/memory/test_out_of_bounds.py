"""Regions that overhang their arrays: what arrives, what is left alone, and what it costs."""

from __future__ import annotations

import re
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given, settings
from hypothesis import strategies as st
from tilecopy import R, S, TileLayout, laneid, warpid
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import tiles

from tilecopy_core.integers import evaluate, symbols_of
from tilecopy_core.memory import outside_of
from tilecopy_core.plugin import Iter
from tilecopy_partitions import Guard

SENTINEL = 7


def check_tiles(
    shape: tuple[int, int], tile: tuple[int, int], dtype: str = "float16", *, fill: Any = 0, halo: int = 0, **more: Any
) -> tc.BuiltKernel:
    """Run :func:`tiles` on the emulator and compare with NumPy; what lies between rows and after the last stays."""
    kernel = tiles(shape, tile, dtype, outside="zero" if repr(fill) == "0" else fill, halo=halo, **more)
    element, row = tc.dtype_of(dtype).numpy(), more.get("row") or shape[1]
    memory = np.random.default_rng(0).integers(1, 9, (shape[0], row)).astype(element)
    target = np.full((shape[0], row), SENTINEL, element)
    a, b = memory[:, : shape[1]], target[:, : shape[1]]
    counts = kernel.grid[1], kernel.grid[0]
    c = np.zeros((*counts, tile[0] + 2 * halo, tile[1] + 2 * halo), element)
    kernel(a, b, c, executor="emulator")
    padded = np.full([n * t + 2 * halo for n, t in zip(counts, tile, strict=True)], fill, element)
    padded[halo : halo + shape[0], halo : halo + shape[1]] = a
    for i, j in np.ndindex(*counts):
        box = padded[i * tile[0] :, j * tile[1] :][: c.shape[2], : c.shape[3]]
        assert c[i, j].tobytes() == np.ascontiguousarray(box).tobytes(), (i, j)
    if not halo:
        assert np.array_equal(
            b.view(f"u{element.itemsize}") if element.itemsize < 16 else b,
            a.view(f"u{element.itemsize}") if element.itemsize < 16 else a,
        )
        assert (target[:, shape[1] :] == np.array(SENTINEL).astype(element)).all()
    return kernel


@pytest.mark.parametrize("op", ["copy", "copy_async"])
@pytest.mark.parametrize("fill", [0, -1.5, float("inf")])
@pytest.mark.parametrize(
    ("shape", "row"), [((100, 72), None), ((100, 76), 80), ((96, 77), 80)], ids=["any rows", "4 of 8", "any of 8"]
)
def test_tiles_at_the_edge_arrive_filled(shape: tuple[int, int], row: int | None, fill: float, op: str) -> None:
    check_tiles(shape, (16, 64), row=row, fill=fill, op=op)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("bool", True),
        ("uint8", 255),
        ("int64", -(2**62)),
        ("bfloat16", -0.0),
        ("float8_e4m3fn", float("nan")),
        ("complex64", 1 - 2j),
        ("complex128", complex(0.5, -0.0)),
    ],
)
def test_every_dtype_is_filled_with_its_bits(dtype: str, fill: Any) -> None:
    check_tiles((37, 24), (16, 16), dtype, fill=fill)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_halo_tiles_overhang_at_both_ends(dtype: str) -> None:
    check_tiles((64, 64), (16, 16), dtype, halo=1, threads=36)


@pytest.mark.parametrize(
    "layout",
    [TileLayout(S[(16, 64) : (72, 1)]), tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[16, 64]))],
    ids=["padded", "swizzled"],
)
@pytest.mark.parametrize("op", ["copy", "copy_async"])
def test_shared_memory_may_be_padded_or_swizzled(layout: tc.Layout, op: str) -> None:
    kernel = check_tiles((40, 72), (16, 64), layout=layout, op=op)
    assert kernel.plans[0].partition.edge.vec_bits == 128


def test_vectors_at_the_edge_are_as_wide_as_its_size_allows() -> None:
    def edge_bits(columns: int, row: int = 1024) -> int:
        return tiles((1000, columns), (64, 64), row=row).plans[0].partition.edge.vec_bits

    assert [edge_bits(n) for n in (1000, 1004, 1002, 1001)] == [128, 64, 32, 16]
    assert tiles((1000, 1024), (64, 64)).plans[0].partition.vec_bits == 128
    assert tiles((1024, 1024), (64, 64)).plans[0].partition.edge is None, "the grid proves every tile inside"
    assert "at edges" in tiles((1000, 1000), (64, 64)).plans[0].explain()


@pytest.mark.parametrize("shape", [(150, 13), (128, 11), (128, 8)])
def test_wide_vectors_and_a_rest_of_each_row_at_the_edge(shape: tuple[int, int]) -> None:
    """Rows of 13 bytes, 16 apart: 8, 4 and 1 at a time; the last tile has 22 rows, and none outside is touched."""
    kernel = check_tiles(shape, (64, 13), "uint8", row=16, layout=TileLayout(S[(64, 13) : (16, 1)]))
    assert "ragged" in kernel.explain() and "; then outer" in kernel.explain()


@pytest.mark.parametrize("lowest", [-8, 0])
@pytest.mark.parametrize("multiple", [1, 2, 4])
@pytest.mark.parametrize("size", [12, 13, 14])
@pytest.mark.parametrize("extent", [2, 3, 4, 8])
def test_vectors_that_a_guard_allows_lie_inside_or_outside(lowest: int, multiple: int, size: int, extent: int) -> None:
    """Every order of the elements of a small box, wherever it lies: a vector straddles no edge that it is proved not to."""
    index = tc.symbol("i", lower=lowest // multiple, upper=16 // multiple)
    (i,) = symbols_of(index)
    start, allowed = index * multiple, 0
    for along, inner in product(("0", "1"), (1, 2, 3, 4)):
        shape, dim = ((size, inner), 0) if along == "0" else ((inner, size), 1)
        buffer = tc.Buffer(shape, "uint8", space="global")
        region = buffer[start : start + extent, :] if dim == 0 else buffer[:, start : start + extent]
        guard = Guard.of(region, dim)
        assert guard is not None and guard.ends == (lowest < 0, True)
        split = (Iter(2, extent // 2), Iter(extent // 2, 1)) if extent > 2 and extent % 2 == 0 else (Iter(extent, 1),)
        orders = [*permutations((*split, Iter(inner, 0))), *permutations((Iter(extent, 1), Iter(inner, 0)))]
        for order, vec in product(orders, (1, 2, 4)):
            here = guard.over([it for it in order if it.extent > 1])
            if here.why_split(vec) is not None:
                assert vec > 1
                continue
            allowed += vec > 1
            for number in range(lowest // multiple, 16 // multiple + 1):
                places = np.array([evaluate(here.position(at), {i: number}) for at in range(extent * inner)])
                inside = ((places >= 0) & (places < size)).reshape(-1, vec)
                assert (inside.all(axis=1) | ~inside.any(axis=1)).all(), (order, vec, number)
    assert allowed > 0


@pytest.mark.parametrize(("place", "uniform"), [("thread", False), ("warp", True), ("cta", True)])
def test_the_branch_at_the_edge_is_uniform_where_the_threads_of_a_warp_agree(place: str, uniform: bool) -> None:
    k = tc.KernelBuilder("rows", threads=64)
    a, b = k.param("A", (50, 4), "float32"), k.param("B", (64, 4), "float32")
    row = {"thread": k.thread_id(), "warp": k.warp_id() * 50, "cta": k.block_id() * 50}[place]
    own = k.local((1, 4), "float32")
    k.thread.copy(own[:, :], a[row : row + 1, :], outside="zero")
    k.thread.copy(b[k.thread_id() : k.thread_id() + 1, :], own[:, :])
    kernel = k.build(target="sm_80") if place == "cta" else k.build(target="sm_80", grid=1)
    assert ("bra.uni" in kernel.ptx) == uniform
    source, target = np.arange(1, 201, dtype=np.float32).reshape(50, 4), np.zeros((64, 4), np.float32)
    kernel(source, target, grid=1, executor="emulator")
    rows = {"thread": np.arange(64), "warp": np.arange(64) // 32 * 50, "cta": np.zeros(64, int)}[place]
    assert np.array_equal(target, np.vstack([source, np.zeros((14, 4), np.float32)])[rows])


def test_which_ends_a_box_of_plain_numbers_leaves() -> None:
    buffer = tc.Buffer((8,), "uint8", space="global", align_bytes=4)
    for start, stop, ends in (
        (0, 8, (False, False)),
        (-1, 7, (True, False)),
        (1, 9, (False, True)),
        (-1, 9, (True, True)),
    ):
        assert buffer[start:stop].exceeds(0) == ends
    somewhere = tc.symbol("i", lower=-4, upper=8)
    for inside in ((False, False), (True, False), (False, True), (True, True)):
        region = tc.Region(buffer, (somewhere,), (4,), (inside,))
        assert region.exceeds(0) == (not inside[0], not inside[1])
    for align_bytes in (0, 3, 12, True, 2**33):
        with pytest.raises(tc.RequestError, match=mentions("align_bytes")):
            tc.Buffer((8,), "uint8", space="global", align_bytes=align_bytes)


def test_what_is_kept_is_no_zero() -> None:
    kept, zero, one = (outside_of(asked, tc.dtype_of("float16")) for asked in ("keep", "zero", 1.0))
    assert (kept.is_zero, zero.is_zero, one.is_zero) == (False, True, False)
    assert not outside_of(-0.0, tc.dtype_of("float16")).is_zero


def test_a_branch_is_all_that_a_tile_inside_pays() -> None:
    kernel = tiles((1000, 1000), (64, 64), row=1024)
    lines = kernel.ptx.splitlines()
    before = next(i for i, line in enumerate(lines) if "bra.uni $inside_0" in line)
    plain = tiles((1024, 1024), (64, 64), row=1024).ptx.splitlines()
    head = [line for line in lines[:before] if (line.startswith("\t") and "setp" in line) or "and.pred" in line]
    assert len(head) == 3, "one compare a dimension, and their conjunction"
    first = lines.index("$inside_0:")
    inside = lines[first + 1 : lines.index("$endinside_0:")]
    assert (
        len(inside)
        == len([line for line in plain if "global" in line and "param" not in line and "cvta" not in line]) * 2 / 3
    )


def test_an_overhang_without_outside_is_an_error() -> None:
    a = tc.Buffer((32, 32), "float32", space="global", name="A")
    s = tc.Buffer((34, 32), "float32", space="shared", name="s")
    for box in (a[-1:33, :], a[0:34, :]):
        with pytest.raises(tc.LayoutError, match=mentions("outside", 32)):
            tc.plan(s[:, :], box, scope=tc.warp(), target="sm_90")
    k = tc.KernelBuilder("k", threads=32)
    b = k.param("B", (32,), "float32")
    for element in (32, -1):  # a load and a store do not take outside=
        with pytest.raises(tc.LayoutError, match=mentions("B", 32, element)) as failure:
            k.load(b[element]) if element > 0 else k.store(b[element], 0)
        assert not mentions("outside").search(str(failure.value))


@pytest.mark.parametrize(
    ("dtype", "outside"),
    [
        ("int8", 128),
        ("uint8", -1),
        ("int32", 0.5),
        ("int32", -0.0),
        ("int32", float("inf")),
        ("float16", 65520),
        ("float16", 0.1),
        ("bfloat16", 257),
        ("float8_e4m3fn", float("inf")),
        ("float8_e4m3fnuz", -0.0),
        ("float8_e8m0fnu", 0),
        ("float32", 1j),
        ("float32", True),
        ("bool", 2),
        ("complex64", 0.1),
        ("complex64", 0.1j),
        ("complex64", 10**400),
        ("float32", 10**400),
        ("float64", 2**53 + 1),
        ("float32", "Zero"),
        ("float32", [0]),
        ("float32", b"zero"),
    ],
)
def test_a_fill_that_the_dtype_does_not_hold_is_refused(dtype: str, outside: Any) -> None:
    a = tc.Buffer(40, dtype, space="global", name="A")
    s = tc.Buffer(64, dtype, space="shared", name="s")
    with pytest.raises(tc.RequestError, match="outside"):
        tc.plan(s[:], a[0:64], scope=tc.warp(), target="sm_90", outside=outside)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ({"outside": "zeros"}, ("outside", "zeros", "zero")),
        ({"outside": "kep"}, ("outside", "kep", "keep")),
        ({"op": "copyasync"}, ("copy_async",)),
    ],
)
def test_a_word_that_is_nearly_one_is_told(asked: dict[str, str], meant: tuple[object, ...]) -> None:
    a, s = (tc.Buffer((64,), "float16", space=space)[:] for space in ("global", "shared"))
    with pytest.raises(tc.RequestError, match=mentions(*meant)):
        tc.plan(s, a, scope=tc.warp(), target="sm_90", **asked)


def copied(dst: Any, src: Any, dst_starts: Any, src_starts: Any, extents: Any, fill: Any) -> Any:
    """What a copy between two boxes leaves, element by element."""
    result = dst.copy()
    for offset in np.ndindex(*extents):
        to = tuple(a + b for a, b in zip(dst_starts, offset, strict=True))
        at = tuple(a + b for a, b in zip(src_starts, offset, strict=True))
        if all(0 <= i < n for i, n in zip(to, dst.shape, strict=True)):
            if all(0 <= i < n for i, n in zip(at, src.shape, strict=True)):
                result[to] = src[at]
            elif fill != "keep":
                result[to] = fill
    return result


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # drawn copies may be slow
@given(st.data())
@settings(max_examples=50)
def test_any_box_of_any_array(data: st.DataObject) -> None:
    """Both operands overhang where they like, at starts known now or at launch; nothing else is touched or read."""
    rank = data.draw(st.integers(1, 4), "rank")
    extents = tuple(data.draw(st.sampled_from([1, 2, 3, 4, 8, 16][: 7 - rank]), "extent") for _ in range(rank))
    dtype = data.draw(st.sampled_from(["uint8", "float16", "float32", "complex128"]), "dtype")
    op = data.draw(st.sampled_from(["copy", "copy_async"]), "op")
    fill = data.draw(st.sampled_from(["keep", 0, 3]), "fill")
    scope, threads = data.draw(st.sampled_from([("cta", 32), ("cta", 24), ("warp", 32), ("thread", 1)]), "scope")

    def array(name: str) -> tuple[tuple[int, ...], list[int], list[bool]]:
        shape = tuple(data.draw(st.integers(1, 20 if rank < 3 else 5), f"{name} shape") for _ in extents)
        starts = [data.draw(st.integers(-e, n), f"{name} start") for e, n in zip(extents, shape, strict=True)]
        return shape, starts, [data.draw(st.booleans(), f"{name} symbolic") for _ in extents]

    (shape, starts, dynamic), (tile, places, moving) = array("A"), array("s")
    pad = data.draw(st.sampled_from([0, 0, 3]), "pad")
    strides = np.cumprod([1, tile[-1] + pad, *tile[-2:0:-1]])[:rank][::-1].tolist()

    k = tc.KernelBuilder("k", threads=threads)
    a, b = k.param("A", shape, dtype), k.param("B", shape, dtype)
    first, last = k.param("first", tile, dtype), k.param("last", tile, dtype)
    scalars = []

    def given_as(value: int, symbolic: bool) -> Any:
        if not symbolic:
            return value
        step = 4 if value % 4 == 0 else 1
        scalars.append(value)
        return k.scalar(f"n{len(scalars)}", lower=-100, upper=100, multiple_of=step)

    box = tuple(slice(s, s + e) for s, e in zip(map(given_as, starts, dynamic), extents, strict=True))
    place = tuple(slice(s, s + e) for s, e in zip(map(given_as, places, moving), extents, strict=True))
    whole = (slice(None),) * rank
    s = k.shared(tile, dtype, layout=TileLayout(S[tile : tuple(strides)]), name="s")
    copies = getattr(k, scope)
    copies.copy(s[whole], first[whole])
    k.cta_sync()
    getattr(copies, op)(s[place], a[box], outside="zero" if fill == 0 else fill)
    if op == "copy_async":
        k.cp_async_commit()
        k.cp_async_wait(0)
    k.cta_sync()
    copies.copy(last[whole], s[whole])
    copies.copy(b[box], s[place], outside=fill)
    kernel = k.build(target="sm_80", grid=1)

    element = tc.dtype_of(dtype).numpy()
    rng = np.random.default_rng(0)
    x, y, before = (rng.integers(4, 9, n).astype(element) for n in (shape, shape, tile))
    filled = copied(before, x, places, starts, extents, fill)
    target, out = y.copy(), np.zeros_like(before)
    kernel(x, target, before, out, *scalars, executor="emulator")
    assert np.array_equal(out, filled)
    assert np.array_equal(target, copied(y, filled, starts, places, extents, fill))


FRAGMENTS = {
    "a row a lane": ((32, 8), TileLayout(S[(32, 8) : (1 @ laneid, 1)]), 32),
    "two warps, lanes in pairs": ((32, 16), TileLayout(S[(2, 16, 2, 8) : (1 @ warpid, 2 @ laneid, 1 @ laneid, 1)]), 64),
    "registers between lanes": ((32, 4), TileLayout(S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)]), 32),
    "replicas": ((8, 8), TileLayout(S[(8, 8) : (4 @ laneid, 1)] + R[4 : 1 @ laneid]), 32),
}


@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("fill", [0, -1.5, "keep"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_fragments_are_loaded_and_stored_at_the_edge(name: str, fill: Any, dtype: str, symbolic: bool) -> None:
    extents, layout, threads = FRAGMENTS[name]
    shape, element = (29, 12), tc.dtype_of(dtype).numpy()
    k = tc.KernelBuilder("k", threads=threads)
    a, b = k.param("A", shape, dtype), k.param("B", shape, dtype)
    first, last = k.param("first", extents, dtype), k.param("last", extents, dtype)
    row, column = (k.scalar("row", lower=-99), k.scalar("column", lower=-99, multiple_of=2)) if symbolic else (-3, 6)
    box = (slice(row, row + extents[0]), slice(column, column + extents[1]))
    frag = k.local(extents, dtype, layout=layout)
    k.cta.copy(frag[:, :], first[:, :])
    k.cta.copy(frag[:, :], a[box], outside=fill)
    k.cta.copy(last[:, :], frag[:, :])
    k.cta.copy(b[box], frag[:, :], outside="keep")
    kernel = k.build(target="sm_80", grid=1)
    for starts in [(-3, 6)] + [(0, 2), (28, -4), (-40, 0)] * symbolic:
        rng = np.random.default_rng(0)
        x, y, before = (rng.integers(1, 9, n).astype(element) for n in (shape, shape, extents))
        after = copied(before, x, (0, 0), starts, extents, fill)
        target, out = y.copy(), np.zeros_like(before)
        kernel(x, target, before, out, *(starts if symbolic else ()), executor="emulator")
        assert np.array_equal(out, after)
        assert np.array_equal(target, copied(y, after, starts, (0, 0), extents, "keep"))


def test_a_fragment_may_overhang_too() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (40, 12), "float32"), k.param("B", (40, 12), "float32")
    frag = k.local((32, 8), "float32", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    k.warp.copy(frag[-2:38, -2:10], a[:, :], outside="zero")
    k.warp.copy(b[:, :], frag[-2:38, -2:10], outside="keep")
    kernel = k.build(target="sm_80", grid=1)
    x, y = np.arange(480, dtype=np.float32).reshape(40, 12), np.full((40, 12), -1, np.float32)
    kernel(x, y, executor="emulator")
    want = np.full((40, 12), -1, np.float32)
    want[2:34, 2:10] = x[2:34, 2:10]
    assert np.array_equal(y, want)
    filled = tc.plan(b[:, :], frag[-2:38, -2:10], scope=tc.warp(), target="sm_80", outside="zero")
    assert filled.variant == "ragged" and "no thread fills elements out of bounds" in filled.declined["reg"]


@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("fill", [0, -1.5, "keep"])
@pytest.mark.parametrize(("space", "dtype"), [("global", "float16"), ("shared", "complex64")])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_fragment_that_overhangs_is_the_source_of_a_fill(
    name: str, fill: Any, space: str, dtype: str, symbolic: bool
) -> None:
    """Both sides overhang: what faces no register is filled, once, by whichever thread; the rest of B stays."""
    (rows, columns), layout, threads = FRAGMENTS[name]
    shape, element, extents, target = (37, 21), tc.dtype_of(dtype).numpy(), (rows + 5, columns + 3), (-1, 2)
    k = tc.KernelBuilder("k", threads=threads)
    a, b = k.param("A", (rows, columns), dtype), k.param("B", shape, dtype)
    row, column = (k.scalar("row", lower=-99), k.scalar("column", lower=-99)) if symbolic else (-3, -2)
    frag = k.local((rows, columns), dtype, layout=layout)
    k.cta.copy(frag[:, :], a[:, :])
    result = b if space == "global" else k.shared(shape, dtype)
    if space == "shared":
        k.cta.copy(result[:, :], b[:, :])
        k.cta_sync()
    box = result[target[0] : target[0] + extents[0], target[1] : target[1] + extents[1]]
    k.cta.copy(box, frag[row : row + extents[0], column : column + extents[1]], outside=fill)
    k.cta_sync()
    if space == "shared":
        k.cta.copy(b[:, :], result[:, :])
    kernel = k.build(target="sm_80", grid=1)
    for starts in [(-3, -2)] + [(0, 0), (-50, 0), (1, 3)] * symbolic:
        rng = np.random.default_rng(0)
        x, y = (rng.integers(1, 9, n).astype(element) for n in ((rows, columns), shape))
        after = y.copy()
        kernel(x, after, *(starts if symbolic else ()), executor="emulator")
        assert np.array_equal(after, copied(y, x, target, starts, extents, fill))


def test_one_thread_fills_around_its_registers_in_a_loop() -> None:
    k = tc.KernelBuilder("k", threads=1)
    b, frag = k.param("B", (30, 40), "uint8"), k.local((2, 4), "uint8", layout=TileLayout(S[2, 4]))
    for i in range(2):
        for j in range(4):
            k.store(frag[i, j], 10 * i + j + 1)
    k.thread.copy(b[:, :], frag[-7:23, -30:10], outside=99)
    kernel = k.build(target="sm_80", grid=1)
    assert "$loop" in kernel.ptx
    y, want = np.zeros((30, 40), np.uint8), np.full((30, 40), 99, np.uint8)
    want[7:9, 30:34] = [[1, 2, 3, 4], [11, 12, 13, 14]]
    kernel(y, executor="emulator")
    assert np.array_equal(y, want)


def test_variants_of_whole_boxes_decline_what_may_overhang() -> None:
    a = tc.Buffer((64, 8), "uint8", space="shared", name="a")
    b = tc.Buffer((64, 8), "uint8", space="shared", name="b")
    with pytest.raises(tc.NoVariantError) as caught:
        tc.plan(b[0:64, :], a[8:72, :], op="copy_async", scope=tc.thread(), target="sm_90", outside="zero")
    assert mentions("dsmem", "mask").search(caught.value.declined["dsmem"])
    plan = tc.plan(b[:, :], a[:, :], op="copy_async", scope=tc.thread(), target="sm_90", outside="zero")
    assert plan.variant == "dsmem", "what lies inside may have any outside="


def test_the_grid_proves_tiles_inside_and_leaves_the_text_as_it_was() -> None:
    def made(**outside: Any) -> str:
        k = tc.KernelBuilder("k", threads=128)
        a, s = k.param("A", (128, 64), "float16"), k.shared((64, 64), "float16", name="s")
        k.cta.copy(s[:, :], a[k.block_id() * 64 : k.block_id() * 64 + 64, :], **outside)
        return k.build(target="sm_90", grid=2).ptx

    assert made(outside="zero") == made()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100"])
def test_edge_copies_assemble(target: str) -> None:
    kernels = [
        tiles((100, 72), (16, 64), outside=outside, op=op, target=target, halo=halo, grid=grid)
        for outside in ("zero", 1, "keep")
        for op, halo, grid in (("copy", 0, True), ("copy_async", 0, False), ("copy_async", 1, True))
    ]
    for kernel in kernels:
        for assembler in ASSEMBLERS:
            assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("grid", [(16,), None])
def test_a_pipeline_over_ragged_rows(dtype: str, grid: tuple[int] | None) -> None:
    """M = 1000 rows of K = 77: three stages in flight, zeros past the last column and row."""
    rows, columns, stages = 1000, 77, 3
    k = tc.KernelBuilder("pipeline", threads=64)
    a, b = k.param("A", (rows, columns), dtype), k.param("B", (rows, 80), dtype)
    tile = k.shared((stages, 64, 16), dtype, name="tile")
    y = k.block_id("x")

    def fetch(turn: Any) -> None:
        box = a[y * 64 : y * 64 + 64, turn * 16 : turn * 16 + 16]
        k.cta.copy_async(tile[turn % stages, :, :], box, outside="zero")
        k.cp_async_commit()

    for turn in range(stages - 1):
        fetch(turn)
    for turn in k.range(5):
        k.cp_async_wait(stages - 2)
        k.cta_sync()
        k.cta.copy(b[y * 64 : y * 64 + 64, turn * 16 : turn * 16 + 16], tile[turn % stages, :, :], outside="keep")
        fetch(turn + stages - 1)
    k.cp_async_wait(0)  # what the last turns fetched is nobody's, and must have landed before the end
    kernel = k.build(target="sm_80", grid=grid)
    x, out = np.random.default_rng(0).random((rows, columns)).astype(dtype), np.full((rows, 80), 7, dtype)
    kernel(x, out, grid=16 if grid is None else None, executor="emulator")
    assert np.array_equal(out[:, :columns], x) and not out[:, columns:].any()


def test_edges_roll_past_the_unroll_limit() -> None:
    check_tiles((70, 130), (65, 129), "uint8", threads=32)
    check_tiles((70, 130), (65, 129), "float32", threads=32, fill=2, op="copy_async")


def test_a_variant_that_does_not_declare_edges_is_never_asked_for_one() -> None:
    asked: list[bool] = []

    class Eager:
        variant = tc.Variant(
            name="eager", op="copy", priority=99, summary="takes everything", spaces=(("global", "shared"),)
        )

        @tc.hookimpl
        def tilecopy_predicate(self, request: tc.CopyRequest) -> Any:
            asked.append(request.may_exceed_bounds)
            return tc.Decline("only looking")

        @tc.hookimpl
        def tilecopy_partition(self, request: tc.CopyRequest) -> Any:
            return tc.Decline("only looking")

        @tc.hookimpl
        def tilecopy_emit(self, request: tc.CopyRequest, partition: Any, ptx: Any) -> None:
            raise AssertionError

    registry = tc.Registry()
    registry.register(Eager(), name="eager")
    a = tc.Buffer((64, 64), "float32", space="global", name="A")
    s = tc.Buffer((64, 64), "float32", space="shared", name="s")
    for box in (a[1:65, :], a[:, :]):
        plan = tc.plan(s[:, :], box, scope=tc.warp(), target="sm_80", outside=0, registry=registry)
        assert plan.variant == "gmem_smem"
    assert asked == [False]


def whole_boxes_alone(*pair: str, op: str = "copy") -> tc.Registry:
    """A registry with one variant that takes a pair of memories and lowers no edges."""

    class Seed:
        variant = tc.Variant(name="seed", op=op, priority=10, summary="whole boxes", spaces=(pair,))

        @tc.hookimpl
        def tilecopy_predicate(self, request: tc.CopyRequest) -> Any:
            return tc.Accept()

        @tc.hookimpl
        def tilecopy_partition(self, request: tc.CopyRequest) -> Any:
            return "some"

        @tc.hookimpl
        def tilecopy_emit(self, request: tc.CopyRequest, partition: Any, ptx: Any) -> None: ...

    registry = tc.Registry(())
    registry.register(Seed(), name="seed")
    return registry


@pytest.mark.parametrize(
    ("op", "pair", "packages"),
    [
        ("copy", ("global", "shared"), {"tilecopy-gmem-smem", "tilecopy-ragged"}),
        ("copy_async", ("global", "shared"), {"tilecopy-ldgsts", "tilecopy-ragged", "tilecopy-tma"}),
        ("copy", ("shared", "local"), {"tilecopy-reg", "tilecopy-ragged"}),
        ("copy_async", ("shared", "shared"), set()),
    ],
)
def test_what_lowers_edges_and_is_not_installed_is_named(op: str, pair: tuple[str, str], packages: set[str]) -> None:
    src, dst = (tc.Buffer((64, 8), "float32", space=space, name=f"b{n}") for n, space in enumerate(pair))
    registry = whole_boxes_alone(*pair, op=op)
    with pytest.raises(tc.NoVariantError) as caught:
        tc.plan(dst[:, :], src[1:65, :], op=op, scope=tc.warp(), target="sm_90", outside="zero", registry=registry)
    assert mentions("seed").search(str(caught.value))
    assert set(re.findall(r"\b(tilecopy-\S+) \(", str(caught.value))) == packages
    assert tc.plan(dst[:, :], src[:, :], op=op, scope=tc.warp(), target="sm_90", registry=registry).variant == "seed"


@pytest.mark.parametrize("op", ["copy", "copy_async"])
@pytest.mark.parametrize("fill", ["zero", "keep", -1.5])
def test_on_the_gpu(gpu: str, op: str, fill: Any) -> None:
    """Halo tiles of an array that no tile divides, by symbolic and by proved starts: as NumPy says, and nothing else touched."""
    rows, columns = 131, 77
    for grid in ((3, 2), None):
        k = tc.KernelBuilder("halo", threads=128)
        a, b = k.param("A", (rows, columns), "float32"), k.param("B", (2, 3, 66, 50), "float32")
        tile = k.shared((66, 50), "float32", name="tile")
        x, y = k.block_id("x"), k.block_id("y")
        k.cta.copy(tile[:, :], b[y, x, :, :])
        k.cta_sync()
        box = a[y * 64 - 1 : y * 64 + 65, x * 48 - 1 : x * 48 + 49]
        getattr(k.cta, op)(tile[:, :], box, outside=fill)
        k.cp_async_commit()
        k.cp_async_wait(0)
        k.cta_sync()
        k.cta.copy(b[y, x, :, :], tile[:, :])
        kernel = k.build(target=gpu, grid=grid)
        source = np.random.default_rng(0).random((rows, columns)).astype(np.float32)
        result = np.full((2, 3, 66, 50), 7, np.float32)
        kernel(source, result, grid=None if grid else (3, 2), executor="cuda")
        padded = np.full(
            (rows + 200, columns + 200), 7 if fill == "keep" else 0 if fill == "zero" else fill, np.float32
        )
        padded[1 : rows + 1, 1 : columns + 1] = source
        for at_y in range(2):
            for at_x in range(3):
                wanted = padded[at_y * 64 : at_y * 64 + 66, at_x * 48 : at_x * 48 + 50]
                assert np.array_equal(result[at_y, at_x], wanted)


GUARDS = {
    "rows of a size": lambda k, r, m: k.if_(r + 128 <= m),
    "both together": lambda k, r, m: k.if_((r <= m - 128) & (k.block_id("y") < 3)),
    "the opposite of too many": lambda k, r, m: k.if_(~(r + 127 >= m)),
}


@pytest.mark.parametrize("name", GUARDS)
@pytest.mark.parametrize("op", ["copy", "copy_async"])
@pytest.mark.parametrize("outside", ["zero", "keep", -1.5])
def test_an_enclosing_condition_proves_tiles_inside(name: str, op: str, outside: Any) -> None:
    """The text is that of the copy without edges, whose bounds the condition proves too."""

    def made(**given: Any) -> tc.BuiltKernel:
        k = tc.KernelBuilder("k", threads=128)
        m = k.size("M")
        a, b = k.param("A", (m, 64), "float16"), k.param("B", (m, 64), "float16")
        s = k.shared((128, 64), "float16", name="s")
        row = k.block_id("x") * 128
        with GUARDS[name](k, row, m):
            getattr(k.cta, op)(s[:, :], a[row : row + 128, :], **given)
            k.cp_async_commit()
            k.cp_async_wait(0)
            k.cta_sync()
            k.cta.copy(b[row : row + 128, :], s[:, :], **given)
        return k.build(target="sm_90")

    plain = made()
    assert not plain.bounds
    assert made(outside=outside).ptx == plain.ptx


def test_a_condition_proves_the_ends_that_it_speaks_of() -> None:
    """Of a halo tile in a loop the low end is open in the first turn alone; what no condition speaks of stays guarded."""
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M")
    a, b = k.param("A", (m, 8), "float32"), k.param("B", (m, 8), "float32")
    s = k.shared((10, 8), "float32", name="s")
    for i in k.range((m + 7) // 8):
        with k.if_(i > 0):
            k.cta.copy(s[:, :], a[i * 8 - 1 : i * 8 + 9, :], outside="zero")
        with k.if_(i == 0):
            k.cta.copy(s[:, :], a[i * 8 - 1 : i * 8 + 9, :], outside="zero")
        k.cta_sync()
        k.cta.copy(b[i * 8 : i * 8 + 8, :], s[1:9, :], outside="keep")
        with k.if_((i * 8 + 8 <= m) | (i % 2 == 1)):
            k.cta.copy(b[i * 8 : i * 8 + 8, :], s[1:9, :], outside="keep")
        k.cta_sync()
    kernel = k.build(target="sm_80", grid=1)
    ends = [[g.ends for g in plan.partition.edge.guards if g.dim == 0] for plan in kernel.plans]
    assert ends == [[(False, True)], [(True, True)], [(False, True)], [(False, True)]]
    for rows in (1, 7, 8, 9, 40):
        x, y = np.random.default_rng(0).random((rows, 8)).astype(np.float32), np.zeros((rows, 8), np.float32)
        kernel(x, y, executor="emulator")
        assert np.array_equal(x, y)


def test_a_grid_of_sizes_proves_tiles_inside() -> None:
    def made(multiple: int, **outside: Any) -> tc.BuiltKernel:
        k = tc.KernelBuilder("k", threads=128)
        m = k.size("M", multiple_of=multiple)
        a, s = k.param("A", (m, 64), "float16"), k.shared((64, 64), "float16", name="s")
        row = k.block_id() * 64
        k.cta.copy(s[:, :], a[row : row + 64, :], **outside)
        return k.build(target="sm_90", grid=((m + 63) // 64,))

    assert made(64, outside="zero").ptx == made(64).ptx
    assert made(8, outside="zero").plans[0].partition.edge is not None


@pytest.mark.parametrize("rows", [0, 5, 20, 31, 32, 40])
def test_both_ends_of_a_box_may_be_one_comparison(rows: int) -> None:
    """Of twice as many elements as where the box begins, each end says something of the size alone."""
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M", lower=0)
    a, _, b = k.param("A", (2 * m,), "int32"), k.param("Z", (m,), "int8"), k.param("B", (48,), "int32")
    s = k.shared((48,), "int32")
    k.cta.copy(s[:], a[m - 32 : m + 16], outside="zero")
    k.cta_sync()
    k.cta.copy(b[:], s[:])
    source, result = np.arange(1, 2 * rows + 1, dtype=np.int32), np.full(48, -1, np.int32)
    k.build(target="sm_80", grid=1)(source, np.zeros(rows, np.int8), result, executor="emulator")
    assert np.array_equal(result, np.pad(source, 64)[rows + 32 : rows + 80])


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_box_larger_than_its_array_overhangs_in_a_loop_of_no_turns_too(turns: int) -> None:
    k = tc.KernelBuilder("k", threads=32)
    b, f, t = k.param("B", (32, 1, 2), "int8"), k.local((2, 2), "int8"), k.thread_id()
    k.thread.copy(f[:, :], b[t, 0:2, :], outside=5)
    for i in k.range(turns):
        k.thread.copy(b[t, i : i + 2, :], f[:, :], outside="keep")
    result = np.arange(64, dtype=np.int8).reshape(32, 1, 2)
    k.build(target="sm_80", grid=1)(result, executor="emulator")
    assert np.array_equal(result, np.arange(64, dtype=np.int8).reshape(32, 1, 2))


EMPTY = pytest.mark.parametrize("shape", [(0, 32), (8, 0), (0, 0)])


@EMPTY
@pytest.mark.parametrize("strides", [None, (64, 1), (-64, 1)])
@pytest.mark.parametrize("way", ["copy", "copy_async", "view"])
def test_an_array_of_no_elements_is_all_outside(shape: tuple[int, int], strides: Any, way: str) -> None:
    k = tc.KernelBuilder("empty", threads=32)
    a, b = k.param("A", shape, "float32", strides=strides), k.param("B", (8, 32), "float32")
    tile = k.shared((8, 32), "float32")
    if way == "view":
        a = a.T.permute(1, 0).view(dtype="uint32").view(dtype="float32")
    if way == "copy_async":
        k.warp.copy_async(tile[:, :], a[0:8, 0:32], outside="zero")
        k.cp_async_commit()
        k.cp_async_wait(0)
    else:
        k.warp.copy(tile[:, :], a[0:8, 0:32], outside="zero")
    k.cta_sync()
    k.warp.copy(b[:, :], tile[:, :])
    kernel, result = k.build(target="sm_90a", grid=1), np.ones((8, 32), np.float32)
    kernel(np.zeros(shape, np.float32), result, executor="emulator")
    assert not result.any()
    with pytest.raises(tc.LaunchError, match=mentions("A", "shape")):
        kernel(np.zeros((8, 32), np.float32), result, executor="emulator")


@EMPTY
def test_a_box_inside_an_array_of_no_elements_is_refused(shape: tuple[int, int]) -> None:
    k = tc.KernelBuilder("empty", threads=32)
    a, tile = k.param("A", shape, "float32"), k.shared((8, 32), "float32")
    with pytest.raises(tc.LayoutError, match="A"):
        k.warp.copy(tile[:, :], a[0:8, 0:32])
    with pytest.raises(tc.LayoutError):
        k.shared(shape, "float32")
    with pytest.raises(tc.LayoutError):
        k.param("C", (-1, *shape), "float32")
