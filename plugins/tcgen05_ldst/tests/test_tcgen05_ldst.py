"""tcgen05_ld and tcgen05_st: the instructions of TVM's cases and ours, what is declined, what assembles; the emulator runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane, laneid, tid_in_wg, tx, wgid, wid_in_wg
from tilecopy.assemblers import assemble
from tilecopy_test_helpers.mentions import mentions

TARGETS = ["sm_100a", "sm_100f", "sm_103a", "sm_110a"]
WIDE = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}
"""Columns of 32 bits of x1."""
FORMS = [
    (shape, 1 << power)
    for shape, most in (("32x32b", 128), ("16x64b", 128), ("16x128b", 64), ("16x256b", 32))
    for power in range(most.bit_length())
]


def fragment(shape: str, rows: int, columns: int, dtype: str) -> TileLayout:
    """A warpgroup's fragment of a tile of so many rows and elements."""
    return tc.tile_fragment(tc.mma_fragment(shape, "C", dtype), (rows, columns), (4, 1), warp_axis=wid_in_wg)


def lanes(shape: str, rows: int) -> tuple[Any, Any]:
    """The lanes of a tile: each warp's own 32, or 16 of them (data path F)."""
    return ((128,), (1 @ TLane,)) if rows == 128 else ((4, 16), (32 @ TLane, 1 @ TLane))


def tensor(shape: str, rows: int, columns: int, *, step: int = 1, upper: bool = False) -> TileLayout:
    extents, strides = lanes(shape, rows)
    layout = TileLayout(S[(*extents, columns) : (*strides, step @ TCol)])
    return layout + 16 @ TLane if upper else layout


def planned(
    into: TileLayout,
    out_of: TileLayout,
    shape: tuple[int, ...],
    dtype: str = "float32",
    *,
    store: bool = False,
    **more: Any,
) -> tc.Plan:
    """A plan between tensor memory (``out_of``) and registers (``into``)."""
    boxes = {name: more.pop(name, tuple(slice(0, e) for e in shape)) for name in ("box", "own")}
    registers = tc.Buffer(more.pop("whole", shape), dtype, space="local", layout=into, name="frag")[boxes["own"]]
    memory = tc.Buffer(more.pop("memory", shape), dtype, space="tmem", layout=out_of, name="tmem")[boxes["box"]]
    pair = (memory, registers) if store else (registers, memory)
    return tc.plan(*pair, **({"scope": tc.warpgroup(), "target": "sm_100a"} | more))


def forms(plan: tc.Plan) -> list[str]:
    return [f"{each.shape}.x{each.repeats}" for each in plan.partition.transfers]


def reason(*arguments: Any, **more: Any) -> str:
    with pytest.raises(tc.NoVariantError) as caught:
        planned(*arguments, **more)
    return caught.value.declined["tcgen05_st" if more.get("store") else "tcgen05_ld"]


# ------------------------------------------------------------------------------------------------- TVM's cases


@pytest.mark.parametrize("store", [False, True])
def test_each_form_of_32_bits_is_one_instruction(store: bool) -> None:
    for shape, repeats in FORMS:
        rows, columns = (128 if shape == "32x32b" else 64), WIDE[shape] * repeats
        found = planned(
            fragment(shape, rows, columns, "float32"), tensor(shape, rows, columns), (rows, columns), store=store
        )
        assert forms(found) == [f"{shape}.x{repeats}"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("store", [False, True])
def test_each_form_of_halves_of_columns_is_one_instruction(dtype: str, store: bool) -> None:
    for shape, repeats in FORMS:
        rows, columns = (128 if shape == "32x32b" else 64), 2 * WIDE[shape] * repeats
        if columns > 512:
            continue
        into = fragment(shape, rows, columns, dtype)
        found = planned(into, tensor(shape, rows, columns, step=2), (rows, columns), dtype, store=store)
        assert forms(found) == [f"{shape}.x{repeats}"]
        assert found.partition.halves
        dense = planned(into, tensor(shape, rows, columns), (rows, columns), dtype, store=store)
        assert forms(dense) == [f"{shape}.x{repeats}"]
        assert not dense.partition.halves


@pytest.mark.parametrize("shape", ["16x64b", "16x128b", "16x256b"])
@pytest.mark.parametrize("repeats", [1, 2, 4])
def test_128_rows_of_16_lane_shapes_are_two_instructions(shape: str, repeats: int) -> None:
    columns = WIDE[shape] * repeats
    found = planned(fragment(shape, 128, columns, "float32"), tensor(shape, 128, columns), (128, columns))
    assert forms(found) == [f"{shape}.x{repeats}"] * 2
    assert [each.lane for each in found.partition.transfers] == [0, 16]
    for upper in (False, True):  # each half of the lanes as a view of its own
        own = planned(fragment(shape, 64, columns, "float32"), tensor(shape, 64, columns, upper=upper), (64, columns))
        assert [(form, each.lane) for form, each in zip(forms(own), own.partition.transfers, strict=True)] == [
            (f"{shape}.x{repeats}", 16 * upper)
        ]


@pytest.mark.parametrize("columns", [32, 64, 128, 256])
def test_columns_split_across_halves_of_the_lanes_are_one_instruction(columns: int) -> None:
    split = (64, 2, columns // 2)
    for store in (False, True):
        found = planned(
            TileLayout(S[split : (1 @ tid_in_wg, 64 @ tid_in_wg, 1)]),
            TileLayout(S[split : (1 @ TLane, 64 @ TLane, 1 @ TCol)]),
            (64, columns),
            store=store,
        )
        assert forms(found) == [f"32x32b.x{columns // 2}"]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_slices_of_both_sides_are_one_instruction(dtype: str) -> None:
    per = 32 // tc.dtype_of(dtype).bits
    for width in (2, 4, 8, 16, 32, 64, 128):
        for offset in (0, 3, 10):
            for skipped in (0, 2, 4):
                columns, begin, own = width * per, offset * per, skipped * per
                found = planned(
                    TileLayout(S[(128, own + columns) : (1 @ tid_in_wg, 1)]),
                    TileLayout(S[(128, begin + columns) : (1 @ TLane, 1 @ TCol)]),
                    (128, columns),
                    dtype,
                    whole=(128, own + columns),
                    memory=(128, begin + columns),
                    own=(slice(0, 128), slice(own, own + columns)),
                    box=(slice(0, 128), slice(begin, begin + columns)),
                )
                assert forms(found) == [f"32x32b.x{width}"]
                assert found.partition.column == offset
                assert found.partition.transfers[0].registers == tuple(range(skipped, skipped + width))


@pytest.mark.parametrize(("shape", "repeats", "chunks"), [("16x256b", 32, 4), ("16x128b", 16, 2), ("16x64b", 32, 4)])
def test_slices_of_a_wide_fragment_are_two_instructions_each(shape: str, repeats: int, chunks: int) -> None:
    columns = WIDE[shape] * repeats
    for chunk in range(chunks):
        box = (slice(0, 128), slice(chunk * columns // chunks, (chunk + 1) * columns // chunks))
        found = planned(
            fragment(shape, 128, columns, "float32"), tensor(shape, 128, columns), (128, columns), own=box, box=box
        )
        assert forms(found) == [f"{shape}.x{repeats // chunks}"] * 2


# ------------------------------------------------------------------------------------------------- ours


def test_any_count_of_columns_is_as_few_instructions_as_powers_of_two_allow() -> None:
    for columns, wanted in ((7, [4, 2, 1]), (96, [64, 32]), (200, [128, 64, 8])):
        found = planned(fragment("32x32b", 128, columns, "float32"), tensor("32x32b", 128, columns), (128, columns))
        assert forms(found) == [f"32x32b.x{n}" for n in wanted]


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # once per process; the plan has the note each time
def test_no_instruction_has_more_than_128_registers() -> None:
    tile, layout = tensor("32x32b", 128, 256), fragment("32x32b", 128, 256, "float32")
    found = planned(layout, tile, (128, 256))
    assert forms(found) == ["32x32b.x128"] * 2
    assert any("256" in note.text for note in found.notes)


def test_the_order_of_registers_is_free() -> None:
    backwards = TileLayout(S[(128, 2, 16) : (1 @ tid_in_wg, 16, 1)])
    turned = TileLayout(S[(128, 2, 16) : (1 @ TLane, 16 @ TCol, 1 @ TCol)])
    assert forms(planned(backwards, turned, (128, 32))) == ["32x32b.x32"]
    swapped = TileLayout(S[(128, 16, 2) : (1 @ tid_in_wg, 1, 16)])
    found = planned(swapped, tensor("32x32b", 128, 32), (128, 32))
    assert forms(found) == ["32x32b.x32"]
    assert found.partition.transfers[0].registers[:4] == (0, 16, 1, 17)


def test_two_halves_of_a_warp() -> None:
    found = planned(
        tc.mma_fragment("16x32bx2.x8", "C", "float32"),
        TileLayout(S[(16, 2, 8) : (1 @ TLane, 24 @ TCol, 1 @ TCol)]),
        (16, 2, 8),
        scope=tc.warp(),
    )
    assert forms(found) == ["16x32bx2.x8"]
    assert found.partition.transfers[0].split == 24


def test_warps_and_warpgroups() -> None:
    whole, rows = TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)]), TileLayout(S[(128, 64) : (1 @ tid_in_wg, 1)])
    one = (slice(32, 64), slice(0, 64))
    found = planned(rows, whole, (128, 64), own=one, box=one)
    assert found.partition.warps == (1, 1)
    by_groups = TileLayout(S[(128, 2, 32) : (1 @ tid_in_wg, 1 @ wgid, 1)])
    found = planned(by_groups, whole, (128, 64), scope=tc.cta(256))
    assert (forms(found), found.partition.column_step) == (["32x32b.x32"], 32)
    replicated = TileLayout(S[(32, 64) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    found = planned(TileLayout(S[(32, 64) : (1 @ laneid, 1)]), replicated, (32, 64))
    assert forms(found) == ["32x32b.x64"]


def test_declines_name_the_first_register_and_what_would_fit() -> None:
    whole = tensor("32x32b", 128, 64)
    columns_by_lane = TileLayout(S[(32, 2, 32) : (2, 1, 1 @ laneid)])
    why = reason(columns_by_lane, TileLayout(S[(32, 64) : (1 @ TLane, 1 @ TCol)]), (32, 64), scope=tc.warp())
    assert mentions("frag").search(why)
    assert mentions("32x32b", "C", "float32", "tile_fragment", "mma_fragment", 32, 64).search(why)
    reversed_warps = TileLayout(S[(2, 64, 64) : (64 @ TLane, 1 @ TLane, 1 @ TCol)])
    swapped = TileLayout(S[(64, 2, 64) : (1 @ tid_in_wg, 64 @ tid_in_wg, 1)])
    why = reason(swapped, reversed_warps, (128, 64))
    assert mentions("frag", 16, 32).search(why)
    assert mentions("warp").search(why)
    fitting = why[why.index("tile_fragment") : why.index(" would fit")]
    layout = eval(fitting, {**{name: getattr(tc, name) for name in tc.__all__}, "wid_in_wg": wid_in_wg})
    assert forms(planned(layout, reversed_warps, (128, 64))) == ["32x32b.x64"]
    half = (slice(0, 16), slice(0, 64))
    why = reason(TileLayout(S[(128, 64) : (1 @ tid_in_wg, 1)]), whole, (128, 64), own=half, box=half)
    assert mentions(16, "frag").search(why)
    odd = (slice(0, 128), slice(1, 33))
    why = reason(TileLayout(S[(128, 32) : (1 @ tid_in_wg, 1)]), whole, (128, 32), "float16", memory=(128, 64), box=odd)
    assert mentions(16).search(why)
    part = (slice(0, 128), slice(0, 3))
    why = reason(TileLayout(S[(128, 3) : (1 @ tid_in_wg, 1)]), whole, (128, 3), "float16", memory=(128, 64), box=part)
    assert mentions("frag").search(why)
    apart = tensor("32x32b", 128, 32, step=2)
    why = reason(TileLayout(S[(128, 32) : (1 @ tid_in_wg, 1)]), apart, (128, 32), "uint8")
    assert mentions("frag", 4, 6).search(why)
    upper = (slice(0, 8), slice(0, 8))
    why = reason(
        tc.mma_fragment("16x128b.x2", "C", "float32"), TileLayout(S[(32, 8) : (1 @ TLane, 1 @ TCol)]), (16, 8), memory=(32, 8),
        own=upper, box=upper, scope=tc.warp(),
    )  # fmt: skip
    assert mentions("frag", "16x128b", 8).search(why)
    assert mentions(64, "int64").search(
        reason(TileLayout(S[(128, 8) : (1 @ tid_in_wg, 1)]), tensor("32x32b", 128, 8), (128, 8), "int64")
    )
    assert mentions("scope").search(
        reason(
            TileLayout(S[(1, 8)]),
            tensor("32x32b", 128, 8),
            (1, 8),
            memory=(128, 8),
            box=(slice(0, 1), slice(0, 8)),
            scope=tc.thread(),
        )
    )
    assert mentions("tcgen05").search(
        reason(fragment("32x32b", 128, 64, "float32"), whole, (128, 64), target="sm_120a")
    )
    wide = tc.Buffer(
        (128, 8), "float32", space="tmem", layout=tensor("32x32b", 128, 8), name="tmem", storage_offset=508
    )
    frag = tc.Buffer(
        (128, 8), "float32", space="local", layout=TileLayout(S[(128, 8) : (1 @ tid_in_wg, 1)]), name="frag"
    )
    with pytest.raises(tc.NoVariantError, match=mentions(512)):
        tc.plan(frag[:, :], wide[:, :], scope=tc.warpgroup(), target="sm_100a")


def test_warps_of_one_warpgroup_have_the_same_columns() -> None:
    tile = TileLayout(S[(32, 4, 8) : (1 @ TLane, 8 @ TCol, 1 @ TCol)] + R[4 : 32 @ TLane])
    why = reason(TileLayout(S[(32, 4, 8) : (1 @ laneid, 1 @ wid_in_wg, 1)]), tile, (32, 32))
    assert mentions(8).search(why)


def test_declines_of_stores() -> None:
    whole = TileLayout(S[(32, 64) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    own = TileLayout(S[(32, 64) : (1 @ laneid, 1)])
    assert mentions("frag", "laneid", 32, 128).search(reason(own, whole, (32, 64), store=True))
    shared = TileLayout(S[(32, 64) : (1 @ laneid, 1)] + R[4 : 1 @ wid_in_wg])
    assert forms(planned(shared, whole, (32, 64), store=True)) == ["32x32b.x64"]
    assert mentions(2048, 8192).search(reason(own, whole, (32, 64), store=True, scope=tc.warp()))
    twice = TileLayout(S[(128, 64) : (1 @ tid_in_wg, 1)] + R[2 : 1 @ wgid])
    why = reason(twice, tensor("32x32b", 128, 64), (128, 64), store=True, scope=tc.cta(256))
    assert mentions("frag").search(why)


# ------------------------------------------------------------------------------------------------- kernels


def round_trip(
    shape: str, rows: int, columns: int, dtype: str, *, step: int = 1, target: str = "sm_100a", wait: bool = True
) -> tc.BuiltKernel:
    """Registers to tensor memory and back; what is in them is the caller's."""
    k = tc.KernelBuilder("round_trip", threads=128)
    layout = fragment(shape, rows, columns, dtype)
    count = rows * columns // 128
    a, b = (k.param(name, (128, count), dtype) for name in "AB")
    source, result = (k.local((rows, columns), dtype, layout=layout, name=name) for name in ("source", "result"))
    memory = k.tmem((rows, columns), dtype, layout=tensor(shape, rows, columns, step=step), name="memory")
    allocated = max(32, 1 << (columns * step * tc.dtype_of(dtype).bits // 32 - 1).bit_length())
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(memory, columns=allocated)
    k.cta_sync()
    mine = [k.registers(source), k.registers(result)]
    for i in range(count):
        k.store(mine[0][i], k.load(a[k.thread_id(), i]))
    k.warpgroup.copy(memory[:, :], source[:, :])
    k.warpgroup.copy(result[:, :], memory[:, :], **({} if wait else {"wait": False}))
    if not wait:
        k.tcgen05_wait_ld()
    for i in range(count):
        k.store(b[k.thread_id(), i], k.load(mine[1][i]))
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(memory, columns=allocated)
    return k.build(target=target, grid=1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("assembler", ["nvjitlink", "ptxas"])
def test_assembles(target: str, assembler: str) -> None:
    for shape, wide in WIDE.items():
        for step in (1, 2):
            rows = 128 if shape == "32x32b" else 64
            kernel = round_trip(shape, rows, 4 * wide, "float16", step=step, target=target)
            assert kernel.ptx.count("tcgen05.ld.") == kernel.ptx.count("tcgen05.st.") == 1
            assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"


def test_the_wait_is_inside_unless_it_is_asked_for() -> None:
    inside, outside = (round_trip("32x32b", 128, 8, "float32", wait=wait) for wait in (True, False))
    assert inside.ptx == outside.ptx
    a, b = np.random.default_rng(0).random((128, 8), np.float32), np.zeros((128, 8), np.float32)
    outside(a, b, executor="emulator")
    assert (a == b).all()


def by_warps(threads: int, rows: tc.Int | None = None) -> tc.BuiltKernel:
    """Each warp's own 32 lanes, or those of ``rows``, there and back."""
    k = tc.KernelBuilder("by_warps", threads=threads)
    b = k.param("B", (threads, 4), "float32")
    memory = k.tmem((128, 4), "float32", layout=tensor("32x32b", 128, 4), name="memory")
    frag = k.local((32, 4), "float32", layout=TileLayout(S[(32, 4) : (1 @ laneid, 1)]), name="frag")
    first = 32 * k.warp_id() if rows is None else rows
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(memory, columns=32)
    k.cta_sync()
    for i in range(4):
        k.store(k.registers(frag)[i], k.cast(4 * k.thread_id() + i, "float32"))
    k.warp.copy(memory[first : first + 32, :], frag[:, :])
    k.warp.copy(frag[:, :], memory[first : first + 32, :])
    k.warp.copy(b[32 * k.warp_id() : 32 * k.warp_id() + 32, :], frag[:, :])
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(memory, columns=32)
    return k.build(target="sm_100a", grid=1)


def test_each_warp_reaches_its_own_lanes() -> None:
    b = np.zeros((128, 4), np.float32)
    by_warps(128)(b, executor="emulator")
    assert (b.ravel() == np.arange(512)).all()
    with pytest.raises(tc.NoVariantError, match=mentions(32, 63)):
        by_warps(128, 0)


def test_only_the_warps_that_own_a_slice_load_it() -> None:
    k = tc.KernelBuilder("slice", threads=128)
    b = k.param("B", (128, 4), "float32")
    layout = TileLayout(S[(128, 4) : (1 @ tid_in_wg, 1)])
    memory = k.tmem((128, 4), "float32", layout=tensor("32x32b", 128, 4), name="memory")
    ones, frag = (k.local((128, 4), "float32", layout=layout, name=name) for name in ("ones", "frag"))
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(memory, columns=32)
    k.cta_sync()
    for i in range(4):
        k.store(k.registers(ones)[i], 1.0)
        k.store(k.registers(frag)[i], 2.0)
    k.warpgroup.copy(memory[:, :], ones[:, :])
    k.warpgroup.copy(frag[32:96, :], memory[32:96, :])
    k.warpgroup.copy(b[:, :], frag[:, :])
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(memory, columns=32)
    found = np.zeros((128, 4), np.float32)
    k.build(target="sm_100a", grid=1)(found, executor="emulator")
    assert (found[32:96] == 1).all()
    assert (found[:32] == 2).all()
    assert (found[96:] == 2).all()


def test_the_wait_that_is_left_out_is_a_hazard() -> None:
    k = tc.KernelBuilder("no_wait", threads=128)
    b = k.param("B", (128, 4), "float32")
    layout = TileLayout(S[(128, 4) : (1 @ tx, 1)])
    memory = k.tmem((128, 4), "float32", layout=tensor("32x32b", 128, 4), name="memory")
    frag = k.local((128, 4), "float32", layout=layout, name="frag")
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(memory, columns=32)
    k.cta_sync()
    for i in range(4):
        k.store(k.registers(frag)[i], 1.0)
    k.cta.copy(memory[:, :], frag[:, :])
    k.cta.copy(frag[:, :], memory[:, :], wait=False)
    k.cta.copy(b[:, :], frag[:, :])
    with pytest.raises(tc.HazardError, match="tcgen05.wait::ld"):
        k.build(target="sm_100a", grid=1)(np.zeros((128, 4), np.float32), executor="emulator")
