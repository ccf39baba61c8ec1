"""reg against its specification, and an oracle for every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import assume, given
from hypothesis import strategies as st
from tilecopy import R, S, TileLayout, laneid, tid_in_wg, tx, warpid, wgid
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples

from tilecopy_core.plugin import Decline, Iter
from tilecopy_partitions import by_thread, digits_of, owner_conditions


def plan(
    r_layout: tc.Layout, shape: tuple[int, ...], dtype: str = "float32", *, s_layout: tc.Layout | None = None,
    scope: tc.Scope | None = None, store: bool = False, box: tuple[slice, ...] | None = None,
) -> tc.Plan:  # fmt: skip
    r = tc.Buffer(shape, dtype, space="local", layout=r_layout, name="R")
    s = tc.Buffer(shape, dtype, space="shared", layout=s_layout, name="s")
    whole = box or tuple(slice(0, e) for e in shape)
    dst, src = (s, r) if store else (r, s)
    return tc.plan(dst[whole], src[whole], scope=scope or tc.warp(), target="sm_90a")


def reason(**arguments: Any) -> str:
    with pytest.raises(tc.NoVariantError) as caught:
        plan(**arguments)
    return caught.value.declined["reg"]


@pytest.mark.parametrize(
    ("dtype", "k", "registers", "vec", "outer"),
    [("float32", 8, 8, 4, 2), ("float32", 16, 16, 4, 4), ("float16", 8, 8, 8, 1), ("float16", 16, 16, 8, 2)],
)
@pytest.mark.parametrize("store", [False, True])
def test_the_seeds_four_row_table(dtype: str, k: int, registers: int, vec: int, outer: int, store: bool) -> None:
    found = plan(TileLayout(S[(32, k) : (1 @ laneid, 1)]), (32, k), dtype, store=store)
    assert found.variant == "reg"
    assert found.partition.fragment.buffer.span_elems == registers
    assert (found.partition.vec, found.partition.outer, found.partition.vec_bits) == (vec, outer, 128)


def test_what_a_thread_adds_on_the_other_side_counts() -> None:
    layout = TileLayout(S[(32, 8) : (1 @ laneid, 1)])
    assert plan(layout, (32, 8), s_layout=TileLayout(S[(32, 8) : (9, 1)])).partition.vec == 1
    assert plan(layout, (32, 8), s_layout=TileLayout(S[(32, 8) : (10, 1)])).partition.vec == 2
    assert plan(layout, (32, 8), s_layout=TileLayout(S[(32, 8) : (12, 1)])).partition.vec == 4
    for per_element, vec in ((2, 4), (1, 2), (0, 1)):
        swizzled = tc.SwizzledLayout(tc.Swizzle(per_element, 2, 3), TileLayout(S[32, 8]))
        assert plan(layout, (32, 8), s_layout=swizzled).partition.vec == vec


def test_declines_with_the_reason() -> None:
    rows = TileLayout(S[(32, 8) : (1 @ laneid, 1)])
    assert mentions("scope").search(
        reason(r_layout=TileLayout(S[(4, 32, 2) : (1 @ warpid, 1 @ laneid, 1)]), shape=(128, 2))
    )
    repeated = TileLayout(S[(32, 8) : (8, 1)] + R[2:256])
    assert mentions("s").search(reason(r_layout=rows, shape=(32, 8), s_layout=repeated))
    assert mentions(32, "laneid", 31).search(reason(r_layout=TileLayout(S[(33, 8) : (1 @ laneid, 1)]), shape=(33, 8)))
    assert mentions(128, 256).search(
        reason(r_layout=TileLayout(S[(128, 8) : (1 @ tid_in_wg, 1)]), shape=(128, 8), scope=tc.cta(256), store=True)
    )
    assert reason(r_layout=tc.SwizzledLayout(tc.Swizzle(2, 1, 1), rows), shape=(32, 8))
    assert mentions(32, 128).search(reason(r_layout=rows, shape=(32, 8), scope=tc.cta(128), store=True))
    assert mentions(63, "laneid").search(reason(r_layout=TileLayout(S[(64, 2) : (1 @ laneid, 1)]), shape=(64, 2)))
    halves = TileLayout(S[(2, 32, 2) : (1 @ warpid, 1 @ laneid, 1)])
    for store in (False, True):  # each axis alone has place 16 and place 1
        assert mentions(16, "laneid", 48).search(reason(r_layout=halves, shape=(64, 2), scope=tc.cta(48), store=store))
    there = plan(TileLayout(S[(2, 16, 2) : (1 @ warpid, 1 @ laneid, 1)]), (32, 2), scope=tc.cta(48))
    assert there.variant == "reg"
    assert reason(r_layout=TileLayout(S[(32, 4, 2) : (1 @ tx, 1 @ laneid, 1)]), shape=(128, 2), scope=tc.cta(128))


@pytest.mark.parametrize("rows", [(0, 1), (31, 32), (4, 8), (7, 20), (0, 32)])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_a_slice_of_a_fragment_is_owned_by_whom_its_layout_says(rows: tuple[int, int], space: str) -> None:
    """Loads and stores of some rows, each held by one lane, leave the others' registers and memory alone."""
    k = tc.KernelBuilder("slices", threads=32)
    a, b, kept = (k.param(name, (32, 4), "float32") for name in ("A", "B", "KEPT"))
    fragment = k.local((32, 4), "float32", layout=TileLayout(S[(32, 4) : (1 @ laneid, 1)]), name="f")
    staging = k.shared((32, 4), "float32", name="s") if space == "shared" else None
    box = slice(*rows)
    own = k.registers(fragment)
    for i in range(4):
        k.store(own[i], -1.0)
    if staging is not None:
        for i in range(4):  # no other variant need be installed
            k.store(staging[k.lane_id(), i], k.load(a[k.lane_id(), i]))
        k.warp_sync()
    k.warp.copy(fragment[box, :], (staging or a)[box, :], variant="reg")
    for i in range(4):
        k.store(kept[k.lane_id(), i], k.load(own[i]))
        k.store(own[i], k.load(own[i]) + 1.0)
    k.warp.copy(b[box, :], fragment[box, :], variant="reg")
    kernel = k.build(target="sm_80", grid=1)
    source = byte_arrays.random_array((32, 4), np.uint32).astype(np.float32)
    result, held = np.full((32, 4), 7, np.float32), np.zeros((32, 4), np.float32)
    kernel(source, result, held, executor="emulator")
    wanted, registers = np.full((32, 4), 7, np.float32), np.full((32, 4), -1, np.float32)
    wanted[box], registers[box] = source[box] + np.float32(1), source[box]
    assert np.array_equal(held, registers)
    assert np.array_equal(result, wanted)


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from([1, 2, 3, 4, 6, 8, 16])), min_size=1, max_size=3
    ),
    st.lists(st.tuples(st.sampled_from([2, 3]), st.sampled_from([1, 2, 4, 8, 16])), max_size=1),
    st.sampled_from([0, 1, 3]),
)
def test_who_owns_what_is_what_the_layout_says(
    shard: list[tuple[int, int]], replica: list[tuple[int, int]], first: int
) -> None:
    """A lane owns the element whose place is its own, or none; where two have one place there is no answer."""
    layout = TileLayout.of([Iter(*it, laneid) for it in shard], [Iter(*it, laneid) for it in replica], {laneid: first})
    assume(layout.span(laneid) <= 32)
    weight, pairs = layout.size, []
    for it in layout.shard:
        weight //= it.extent
        pairs.append((it, Iter(it.extent, weight)))
    digits = digits_of(pairs, layout, [laneid])
    places = [
        [place["laneid"] for place in layout.places(element, shape=(layout.size,))] for element in range(layout.size)
    ]
    every = [place for of_element in places for place in of_element]
    if len(set(every)) < len(every):
        assert isinstance(digits, Decline) and "overlap" in digits.reason
    if isinstance(digits, Decline):
        return
    tid = tc.cta(64).tid
    lane = np.arange(64) % 32
    for store, wanted in ((False, every), (True, [of_element[0] for of_element in places])):
        owned = np.ones(64, bool)
        for condition in owner_conditions(digits, tid, 64, store=store):
            owned &= by_thread(condition, 64)
        assert (owned == np.isin(lane, wanted)).all()
    found = sum(np.broadcast_to(by_thread(d.value(tid), 64), 64) * d.step for d in digits if not d.replica)
    for element, of_element in enumerate(places):
        assert (found[np.isin(lane, of_element)] == element).all()


def test_a_gap_between_registers_ends_the_vector() -> None:
    layout = TileLayout(S[(32, 8) : (1 @ laneid, 2)])
    found = plan(layout, (32, 8))
    assert found.partition.vec == 1 and found.partition.fragment.buffer.span_elems == 15


FRAGMENTS: dict[str, tuple[tuple[int, ...], tc.TileLayout, int, str]] = {
    "rows": ((32, 8), TileLayout(S[(32, 8) : (1 @ laneid, 1)]), 32, "warp"),
    "cyclic": ((8, 32), TileLayout(S[(8, 32) : (1, 1 @ laneid)]), 32, "warp"),
    "cyclic vectors": ((4, 128), TileLayout(S[(4, 32, 4) : (4, 1 @ laneid, 1)]), 32, "warp"),
    "two rows": ((8, 16), TileLayout(S[(8, 2, 4, 2) : (4 @ laneid, 1 @ warpid, 1 @ laneid, 1)]), 64, "cta"),
    "gaps": ((32, 8), TileLayout(S[(32, 4, 2) : (1 @ laneid, 3, 1)]), 32, "warp"),
    "warps": ((64, 16), TileLayout(S[(2, 32, 16) : (1 @ warpid, 1 @ laneid, 1)]), 64, "cta"),
    "tx": ((96, 4), TileLayout(S[(96, 4) : (1 @ tx, 1)]), 96, "cta"),
    "warpgroups": ((256, 4), TileLayout(S[(2, 128, 4) : (1 @ wgid, 1 @ tid_in_wg, 1)]), 256, "cta"),
    "in warpgroup": ((128, 4), TileLayout(S[(128, 4) : (1 @ tid_in_wg, 1)]), 128, "warpgroup"),
    "few lanes": ((16, 8), TileLayout(S[(16, 8) : (1 @ laneid, 1)]), 32, "warp"),
    "strided lanes": ((16, 8), TileLayout(S[(16, 8) : (2 @ laneid, 1)]), 32, "warp"),
    "replicated lanes": ((16, 8), TileLayout(S[(16, 8) : (1 @ laneid, 1)] + R[2 : 16 @ laneid]), 32, "warp"),
    "not a power of two": ((24, 6), TileLayout(S[(3, 8, 6) : (8 @ laneid, 1 @ laneid, 1)]), 32, "warp"),
    "one thread": ((4, 8), TileLayout(S[4, 8]), 1, "thread"),
}


def fragment_kernel(
    name: str, dtype: str, space: str, s_layout: tc.Layout | None, target: str = "sm_90a"
) -> tc.BuiltKernel:
    """A -> (shared ->) fragment -> (shared ->) B."""
    shape, layout, threads, scope = FRAGMENTS[name]
    k = tc.KernelBuilder("fragment", threads=threads)
    a, b = k.param("A", shape, dtype), k.param("B", shape, dtype)
    fragment = k.local(shape, dtype, layout=layout, name="R")
    copies = getattr(k, scope)
    if space == "global":
        copies.copy(fragment[:, :], a[:, :])
        copies.copy(b[:, :], fragment[:, :])
        return k.build(target=target, grid=1)
    s = k.shared(shape, dtype, layout=s_layout, name="s")
    o = k.shared(shape, dtype, layout=s_layout, name="o")
    rows, columns = shape
    with k.range(-(-rows // threads)) as turn, k.if_(turn * threads + k.thread_id() < rows):
        i = turn * threads + k.thread_id()
        for j in range(columns):
            k.store(s[i, j], k.load(a[i, j]))
            k.store(o[i, j], 0)
    k.cta_sync()
    copies.copy(fragment[:, :], s[:, :])
    copies.copy(o[:, :], fragment[:, :])
    k.cta_sync()
    with k.range(-(-rows // threads)) as turn, k.if_(turn * threads + k.thread_id() < rows):
        i = turn * threads + k.thread_id()
        for j in range(columns):
            k.store(b[i, j], k.load(o[i, j]))
    return k.build(target=target, grid=1)


def check_fragment(
    name: str, dtype: str, space: str, s_layout: tc.Layout | None, executor: str, target: str = "sm_90a"
) -> None:
    shape = FRAGMENTS[name][0]
    a = byte_arrays.random_array(shape, dtype)
    b = np.zeros_like(a)
    fragment_kernel(name, dtype, space, s_layout, target)(a, b, executor=executor)
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_every_fragment_round_trips(name: str, dtype: str, space: str) -> None:
    check_fragment(name, dtype, space, None, "emulator")


@examples(40)
@given(
    st.sampled_from(sorted(FRAGMENTS)),
    st.sampled_from(["uint8", "int16", "uint32"]),
    st.sampled_from([0, 1, 2, 3, 8]),
    st.sampled_from([None, (2, 2, 2), (0, 2, 3), (3, 3, 3)]),
)
def test_padded_and_swizzled_shared_memory(
    name: str, dtype: str, pad: int, swizzle: tuple[int, int, int] | None
) -> None:
    shape = FRAGMENTS[name][0]
    layout: tc.Layout = TileLayout(S[shape : (shape[1] + pad, 1)])
    if swizzle is not None:
        layout = tc.SwizzledLayout(tc.Swizzle(*swizzle), layout)
    check_fragment(name, dtype, "shared", layout, "emulator")


@pytest.mark.parametrize("name", ["rows", "two rows", "cyclic", "gaps"])
def test_each_lane_holds_what_the_layout_says(name: str) -> None:
    shape, layout, threads, scope = FRAGMENTS[name]
    span = layout.span()
    k = tc.KernelBuilder("held", threads=threads)
    a, b = k.param("A", shape, "float32"), k.param("B", (threads, span), "float32")
    fragment = k.local(shape, "float32", layout=layout, name="R")
    getattr(k, scope).copy(fragment[:, :], a[:, :])
    held = sorted({int(layout.apply(i)["m"]) for i in range(layout.size)})
    for register in held:
        k.store(b[k.thread_id(), register], k.load(k.registers(fragment)[register]))
    source = byte_arrays.random_array(shape, "uint32").view(np.float32)
    result = np.zeros((threads, span), np.float32)
    k.build(target="sm_80", grid=1)(source, result, executor="emulator")
    for flat in range(layout.size):
        place = layout.apply(flat)
        thread = place.get("laneid", 0) + 32 * place.get("warpid", 0)
        assert result.view(np.uint32)[thread, place["m"]] == source.view(np.uint32).ravel()[flat]


def test_slices_of_a_fragment() -> None:
    k = tc.KernelBuilder("halves", threads=32)
    a, b = k.param("A", (32, 8), "float16"), k.param("B", (32, 8), "float16")
    fragment = k.local((32, 8), "float16", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]), name="R")
    for half in (slice(0, 4), slice(4, 8)):
        k.warp.copy(fragment[:, half], a[:, half])
    for part in (slice(0, 3), slice(3, 8)):
        k.warp.copy(b[:, part], fragment[:, part])
    source = byte_arrays.random_array((32, 8), "float16")
    result = np.zeros_like(source)
    k.build(target="sm_80", grid=1)(source, result, executor="emulator")
    assert byte_arrays.same_bytes(source, result)


def test_registers_are_never_local_memory() -> None:
    kernel = fragment_kernel("rows", "int16", "global", None)
    assert ".local" not in kernel.ptx
