"""gmem_smem against its specification and an oracle that knows nothing of the lowering."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import example, given
from hypothesis import strategies as st
from tilecopy import S, TileLayout
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples
from tilecopy_test_helpers.programs import round_trip, run_shared_dump
from tilecopy_testkit import oracle


def pair(shape: tuple[int, ...], dtype: str, **shared: Any) -> tuple[tc.Region, tc.Region]:
    """A whole global buffer and a whole shared one."""
    whole = tuple(slice(0, e) for e in shape)
    a = tc.Buffer(shape, dtype, space="global", name="A")
    return tc.Buffer(shape, dtype, space="shared", name="A_smem", **shared)[whole], a[whole]


def plan(dst: tc.Region, src: tc.Region, scope: tc.Scope, **more: Any) -> tc.Plan:
    return tc.plan(dst, src, scope=scope, target="sm_90a", **more)


@pytest.mark.parametrize(
    ("dtype", "vec", "copy_bytes", "outer"), [("float32", 4, 16, 8), ("float16", 8, 16, 4), ("uint8", 16, 16, 2)]
)
@pytest.mark.parametrize("direction", ["in", "out"])
def test_the_seeds_three_row_table(dtype: str, vec: int, copy_bytes: int, outer: int, direction: str) -> None:
    dst, src = pair((32, 32), dtype)
    dst, src = (dst, src) if direction == "in" else (src, dst)
    found = plan(dst, src, tc.warp())
    assert found.variant == "gmem_smem"
    assert (found.partition.vec, found.partition.vec_bytes, found.partition.outer) == (vec, copy_bytes, outer)
    assert found.partition.threads == 32
    assert found.partition.vec_bits == 128


def test_each_thread_handles_the_elements_that_the_seed_names() -> None:
    dst, src = pair((32, 32), "float32")
    partition = plan(dst, src, tc.warp()).partition
    for turn in range(8):
        for tid in range(32):
            assert partition.src.offset(turn, tid, partition.shape) == turn * 128 + tid * 4
            assert partition.dst.offset(turn, tid, partition.shape) == turn * 128 + tid * 4


@pytest.mark.parametrize(("kind", "threads"), [("thread", 1), ("warp", 32), ("warpgroup", 128), ("cta", 256)])
def test_the_scope_sets_the_thread_count(kind: str, threads: int) -> None:
    scope = tc.cta(256) if kind == "cta" else getattr(tc, kind)()
    dst, src = pair((128, 64), "float16")
    assert plan(dst, src, scope).partition.threads == threads


@pytest.mark.parametrize(
    ("what", "make", "reason"),
    [
        ("count", lambda: (*pair((5, 7), "float32"), tc.warp()), (35, 32)),
        (
            "pair",
            lambda: (
                tc.Buffer(8, "int32", space="shared", name="s")[:],
                tc.Buffer(8, "int32", space="shared", name="r")[:],
                tc.thread(),
            ),
            ("shared", "global"),
        ),
        (
            "replica",
            lambda: (
                tc.Buffer(8, "int32", space="shared", name="s", layout=TileLayout(S[8] + tc.R[2:8]))[:],
                tc.Buffer(8, "int32", space="global", name="g")[:],
                tc.thread(),
            ),
            (),
        ),
        (
            "bits",
            lambda: (
                tc.Buffer(64, "int4", space="shared", name="s")[1:33],
                tc.Buffer(64, "int4", space="global", name="g")[1:33],
                tc.warp(),
            ),
            (4,),
        ),
        (
            "slice",
            lambda: (
                tc.Buffer((64,), "int32", space="shared", name="s", layout=TileLayout(S[(8, 8) : (9, 1)]))[4:36],
                tc.Buffer(32, "int32", space="global", name="g")[:],
                tc.warp(),
            ),
            (),
        ),
    ],
)
def test_declines_with_the_reason(what: str, make: Any, reason: tuple[object, ...]) -> None:
    dst, src, scope = make()
    with pytest.raises(tc.NoVariantError, match="gmem_smem") as caught:
        tc.plan(dst, src, scope=scope, target="sm_90", variant="gmem_smem")
    assert mentions(*reason).search(caught.value.declined["gmem_smem"])


def test_narrowed_threads_are_declined_with_the_axis() -> None:
    k = tc.KernelBuilder("k", threads=64)
    a, s = k.param("A", (64,), "float32"), k.shared((64,), "float32")
    with k.if_(k.thread_id() < 48):
        k.cta.copy(s[:], a[:])
    with pytest.raises(tc.NoVariantError, match=mentions(48, 64, "cta")):
        k.build(target="sm_90a", grid=1)


def test_an_unknown_option_is_declined_not_lost() -> None:
    dst, src = pair((32, 32), "float32")
    with pytest.raises(tc.NoVariantError, match=mentions("cache")):
        plan(dst, src, tc.warp(), cache="cs")


@pytest.mark.parametrize(("start", "bits"), [(0, 128), (8, 128), (4, 64), (2, 32), (1, 16), (6, 32), (12, 64)])
def test_the_start_narrows_the_vector(start: int, bits: int) -> None:
    a = tc.Buffer((16, 256), "float16", space="global", name="A")
    s = tc.Buffer((16, 64), "float16", space="shared", name="s")
    assert plan(s[:, :], a[:, start : start + 64], tc.warp()).partition.vec_bits == bits


@pytest.mark.parametrize(("multiple", "bits"), [(8, 128), (4, 64), (2, 32), (1, 16), (12, 64), (64, 128)])
def test_a_symbolic_start_counts_for_what_it_declares(multiple: int, bits: int) -> None:
    n = tc.symbol("n", upper=10000, multiple_of=multiple)
    a = tc.Buffer((16, 20000), "float16", space="global", name="A")
    s = tc.Buffer((16, 64), "float16", space="shared", name="s")
    assert plan(s[:, :], a[:, n : n + 64], tc.warp()).partition.vec_bits == bits


def test_a_buffers_storage_offset_and_alignment_count() -> None:
    _, a = pair((32, 32), "float32")
    for offset, bits in ((0, 128), (2, 64), (1, 32)):
        s = tc.Buffer((32, 32), "float32", space="shared", name="s", storage_offset=offset)
        assert plan(s[:, :], a, tc.warp()).partition.vec_bits == bits
    weak = tc.Buffer((32, 32), "float32", space="global", name="A", align_bytes=4)
    s = tc.Buffer((32, 32), "float32", space="shared", name="s")
    found = plan(s[:, :], weak[:, :], tc.warp())
    assert found.partition.vec_bits == 32
    assert mentions("A", 4).search(found.explain())


def test_the_alignment_of_shared_memory_and_the_start_of_a_swizzled_buffer_count() -> None:
    _, a = pair((32, 32), "float32")
    for align_bytes, bits in ((16, 128), (8, 64), (4, 32)):
        s = tc.Buffer((32, 32), "float32", space="shared", name="s", align_bytes=align_bytes)
        assert plan(s[:, :], a, tc.warp()).partition.vec_bits == bits
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float32"), TileLayout(S[32, 32]))
    for offset, bits in ((0, 128), (4, 128), (2, 64), (1, 32)):
        s = tc.Buffer((32, 32), "float32", space="shared", name="s", layout=layout, storage_offset=offset)
        assert plan(s[:, :], a, tc.warp()).partition.vec_bits == bits


def test_two_rows_apart_by_an_odd_number_narrow_the_vector() -> None:
    for pitch, vec in ((64, 16), (72, 8), (65, 1)):
        a = tc.Buffer((2, 64), "uint8", space="global", name="A", layout=TileLayout(S[(2, 64) : (pitch, 1)]))
        s = tc.Buffer((2, 64), "uint8", space="shared", name="s")
        assert plan(s[:, :], a[:, :], tc.thread()).partition.vec == vec


def test_a_broadcast_does_not_hide_a_contiguous_run() -> None:
    a = tc.Buffer((4, 64), "uint8", space="global", name="A", layout=TileLayout(S[(4, 64) : (0, 1)]))
    s = tc.Buffer((4, 64), "uint8", space="shared", name="s")
    assert plan(s[:, :], a[:, :], tc.thread()).partition.vec == 16


def test_an_innermost_stride_of_two_ends_the_vector() -> None:
    a = tc.Buffer((32, 32), "float32", space="global", name="A", layout=TileLayout(S[(32, 32) : (64, 2)]))
    s = tc.Buffer((32, 32), "float32", space="shared", name="s")
    assert plan(s[:, :], a[:, :], tc.warp()).partition.vec == 1


def test_a_swizzle_caps_the_vector_at_its_chunk() -> None:
    _, a = pair((32, 64), "float16")
    for per_element, vec in ((3, 8), (2, 4), (0, 1)):
        layout = tc.SwizzledLayout(tc.Swizzle(per_element, 3, 3), TileLayout(S[32, 64]))
        s = tc.Buffer((32, 64), "float16", space="shared", name="s", layout=layout)
        assert plan(s[:, :], a, tc.warp()).partition.vec == vec


DTYPES = ["uint8", "int16", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "int64", "float64"]


@st.composite
def copies(draw: st.DrawFn) -> dict[str, Any]:
    """A copy of a box of a strided global array into a box of a shared buffer with a layout of its own."""
    dtype = draw(st.sampled_from(DTYPES))
    box = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 16]), min_size=2, max_size=3)))
    starts = tuple(draw(st.sampled_from([0, 0, 1, 2, 4, 8])) for _ in box)
    shape = tuple(e + s + draw(st.sampled_from([0, 0, 1, 8])) for e, s in zip(box, starts, strict=True))
    order = draw(st.permutations(range(len(shape))))
    strides = [0] * len(shape)
    step = draw(st.sampled_from([1, 1, 1, 2]))
    for dim in order:
        strides[dim] = step
        step = step * shape[dim] + draw(st.sampled_from([0, 0, 1, 8]))
    s_starts = tuple(draw(st.sampled_from([0, 0, 1, 4])) for _ in box)
    s_shape = tuple(e + s for e, s in zip(box, s_starts, strict=True))
    s_order = draw(st.permutations(range(len(s_shape))))
    s_strides = [0] * len(s_shape)
    step = 1
    for dim in s_order:
        s_strides[dim] = step
        step = step * s_shape[dim] + draw(st.sampled_from([0, 0, 1, 4]))
    swizzle = draw(st.sampled_from([None, None, (0, 2, 3), (2, 2, 2), (3, 3, 3), (1, 3, 4)]))
    count = prod(box)
    threads = draw(st.sampled_from([t for t in (1, 2, 3, 8, 24, 32, 64) if count % t == 0]))
    return {
        "dtype": dtype,
        "shape": shape,
        "strides": tuple(strides),
        "starts": starts,
        "box": box,
        "s_shape": s_shape,
        "s_strides": tuple(s_strides),
        "s_starts": s_starts,
        "swizzle": swizzle,
        "threads": threads,
    }


def check_copy(case: dict[str, Any], executor: str, target: str = "sm_90a") -> tc.BuiltKernel:
    """Shared memory holds, at the addresses that the definition gives, the elements of the box."""
    plain = TileLayout(S[case["s_shape"] : case["s_strides"]])
    found = oracle.addresses(case["s_shape"], case["s_strides"])
    layout: tc.Layout = plain
    if case["swizzle"] is not None:
        layout = tc.SwizzledLayout(tc.Swizzle(*case["swizzle"]), plain)
        found = oracle.swizzle_address(found, *case["swizzle"])
    chosen = byte_arrays.box_flat(case["s_shape"], case["s_starts"], case["box"])
    kernel, out, expected = run_shared_dump(
        case["shape"],
        case["strides"],
        tuple(slice(s, s + e) for s, e in zip(case["starts"], case["box"], strict=True)),
        case["s_shape"],
        layout,
        tuple(slice(s, s + e) for s, e in zip(case["s_starts"], case["box"], strict=True)),
        found[chosen],
        case["dtype"],
        threads=case["threads"],
        executor=executor,
        target=target,
    )
    assert byte_arrays.same_bytes(out, expected), kernel.explain()
    return kernel


PAST_48_KIB = {
    "dtype": "int64", "shape": (16, 16, 16), "strides": (1, 16, 256), "starts": (0, 0, 0), "box": (16, 16, 16),
    "s_shape": (16, 16, 20), "s_strides": (1, 20, 320), "s_starts": (0, 0, 4), "swizzle": None, "threads": 1,
}  # fmt: skip
"""Its shared memory is dynamic."""


@example(PAST_48_KIB)
@examples(150)
@given(copies())
def test_shared_memory_holds_what_the_layout_says(case: dict[str, Any]) -> None:
    check_copy(case, "emulator")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scope", ["cta", "warp", "warpgroup", "thread"])
def test_round_trip_at_every_scope(dtype: str, scope: str) -> None:
    threads = {"thread": 1, "warp": 32, "warpgroup": 128, "cta": 96}[scope]
    kernel = round_trip((64, 192), (32, 96), dtype, threads=threads, scope=scope)
    a = byte_arrays.random_array((64, 192), tc.dtype_of(dtype).numpy())
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


def test_more_rounds_than_are_unrolled_become_a_loop() -> None:
    kernel = round_trip((128, 128), (128, 128), "uint8", threads=16, layout=TileLayout(S[(128, 128) : (129, 1)]))
    assert kernel.plans[0].partition.outer == 1024
    assert "bra" in kernel.ptx and kernel.ptx.count("\n") < 400
    a = byte_arrays.random_array((128, 128), np.uint8)
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize(("rows", "threads"), [(48, 1), (50, 1), (67, 2), (96, 32)])
def test_rounds_where_a_box_overhangs_become_a_loop_sooner(rows: int, threads: int) -> None:
    """At the edge few boxes pass; the assembler keeps the loop rolled, and a rest of rounds comes after it."""
    k = tc.KernelBuilder("edge", threads=threads)
    a, b = k.param("a", (rows - 3, 5), "uint8"), k.param("b", (rows - 3, 5), "uint8")
    tile = k.shared((rows, 8), "uint8", name="tile")
    k.cta.copy(tile[:, :], a[0:rows, 0:8], outside="zero")
    k.cta_sync()
    k.cta.copy(b[0:rows, 0:8], tile[:, :], outside="keep")
    kernel = k.build(target="sm_90a", grid=1)
    rolled = rows * 8 // threads > 16
    assert ('.pragma "nounroll"' in kernel.ptx) == rolled and kernel.ptx.count("ld.global.u8") <= 33
    source = byte_arrays.random_array((rows - 3, 5), np.uint8)
    result = np.zeros_like(source)
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(source, result)


def test_a_shared_tile_past_48_kib_is_dynamic() -> None:
    kernel = round_trip((256, 256), (128, 256), "float16")
    assert kernel.dynamic_shared and ".extern .shared" in kernel.ptx
    a = byte_arrays.random_array((256, 256), np.float16)
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)
    with pytest.raises(tc.PtxError, match="163840|166912|101376"):
        round_trip((256, 512), (256, 256), "float32", target="sm_86")


def test_rounds_too_far_apart_for_an_immediate_have_addresses_of_their_own() -> None:
    k = tc.KernelBuilder("far", threads=128)
    a, tile = k.param("A", (16, 2**22), "float32"), k.shared((16, 64), "float32", name="tile")
    k.cta.copy(tile[:, :], a[0:16, 0:64])
    text = k.build(target="sm_90a", grid=1).ptx
    immediates = [int(found) for found in re.findall(r"\[%rd\d+\+(-?\d+)\]", text)]
    assert all(abs(found) < 2**23 for found in immediates) and text.count("ld.global") == 2
    assert re.search(r"add\.s64 %rd\d+, %rd\d+, 134217728;", text), "the second round is 8 rows on"


def test_same_request_same_text() -> None:
    first, second = round_trip((256, 64), (128, 64)), round_trip((256, 64), (128, 64))
    assert first.ptx == second.ptx
