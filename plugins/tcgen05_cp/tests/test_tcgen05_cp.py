"""tcgen05_cp against its specification; an sm_100 GPU is not needed: assemblers and emulator carry it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane
from tilecopy.assemblers import assemble
from tilecopy_test_helpers import byte_arrays, demos
from tilecopy_test_helpers.mentions import mentions


def tmem(columns: int, dtype: str = "uint8", **more: Any) -> tc.Buffer:
    layout = more.pop("layout", TileLayout(S[(32, columns) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]))
    return tc.Buffer((32, columns), dtype, space="tmem", layout=layout, name="tmem", **({"allocated_addr": 0} | more))


def plan(
    columns: int = 16,
    dtype: str = "uint8",
    *,
    layout: tc.Layout | None = None,
    target: str = "sm_100a",
    align_bytes: int = 1024,
    box: tuple[slice, slice] = (slice(0, 32), slice(None)),
    tensor: dict[str, Any] | None = None,
    **options: Any,
) -> tc.Plan:
    src = tc.Buffer((32, columns), dtype, space="shared", layout=layout, name="A_smem", align_bytes=align_bytes)
    dst = tmem(columns, dtype, **(tensor or {}))
    return tc.plan(dst[box], src[box], op="copy_async", scope=tc.thread(), target=target, **options)


def reason(**arguments: Any) -> str:
    with pytest.raises(tc.NoVariantError) as caught:
        plan(**arguments)
    return caught.value.declined["tcgen05_cp"]


def test_the_seeds_tile_is_one_atom() -> None:
    found = plan()
    assert found.variant == "tcgen05_cp" and found.priority == 10
    descriptor = found.partition.descriptor
    assert (descriptor.ldo, descriptor.sdo, descriptor.swizzle) == (16, 8, 0)
    assert len(found.partition.atoms) == 1 and found.partition.elem_per_128b == 16
    assert demos.tcgen05_cp(elementwise=True).ptx.count("tcgen05.cp.cta_group::1.32x128b.warpx4") == 1


@pytest.mark.parametrize(
    ("dtype", "elements"), [("int4", 32), ("uint8", 16), ("float16", 8), ("uint32", 4), ("float64", 2)]
)
def test_the_dtype_sets_the_elements_of_128_bits(dtype: str, elements: int) -> None:
    assert plan(elements, dtype).partition.elem_per_128b == elements


@pytest.mark.parametrize(
    ("mode", "row_bytes", "index", "code", "sdo"),
    [("32B", 32, 1, 6, 16), ("64B", 64, 2, 4, 32), ("128B", 128, 3, 2, 64)],
)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "uint32"])
def test_all_swizzle_modes(mode: str, row_bytes: int, index: int, code: int, sdo: int, dtype: str) -> None:
    columns = row_bytes * 8 // tc.dtype_of(dtype).bits
    layout = tc.SwizzledLayout(tc.swizzle(mode, dtype), TileLayout(S[32, columns]))
    descriptor = plan(columns, dtype, layout=layout).partition.descriptor
    assert (descriptor.swizzle_index, descriptor.swizzle, descriptor.sdo) == (index, code, sdo)
    kernel = demos.tcgen05_cp(elementwise=True, dtype=dtype, columns=columns, layout=layout)
    assert kernel.ptx.count("tcgen05.cp.") == row_bytes // 16
    a = byte_arrays.random_array((32, columns), dtype)
    b = np.zeros((128, row_bytes // 4), np.uint32)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(b, np.tile(a.view(np.uint32), (4, 1)))


def test_unswizzled_middle_tiles_step_column_and_descriptor() -> None:
    layout = TileLayout(S[(32, 4, 16) : (16, 512, 1)])
    found = plan(64, layout=layout)
    assert [(atom.column, atom.step_16_bytes) for atom in found.partition.atoms] == [(0, 0), (4, 32), (8, 64), (12, 96)]
    kernel = demos.tcgen05_cp(elementwise=True, columns=64, layout=layout)
    a, b = byte_arrays.random_array((32, 64), "uint8"), np.zeros((128, 16), np.uint32)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(b, np.tile(a.view(np.uint32), (4, 1)))


def test_the_tmem_layout_sets_the_column_steps() -> None:
    reversed_columns = TileLayout(S[(32, 2, 16) : (1 @ TLane, 32 @ TCol, 1 @ TCol)] + R[4 : 32 @ TLane])
    found = plan(32, layout=TileLayout(S[(32, 2, 16) : (16, 512, 1)]), tensor={"layout": reversed_columns})
    assert [(atom.column, atom.step_16_bytes) for atom in found.partition.atoms] == [(0, 0), (8, 32)]


def test_the_descriptor_is_encoded_once() -> None:
    layout = tc.SwizzledLayout(tc.swizzle("128B", "uint8"), TileLayout(S[32, 128]))
    assert demos.tcgen05_cp(elementwise=True, columns=128, layout=layout).ptx.count("or.b64") == 1


def several_tiles(dtype: str = "uint8", turns: int = 6) -> tc.BuiltKernel:
    """Tiles of one buffer in a loop and alone, then of a view of it, all into the tensor memory of the same kernel."""
    k, per = tc.KernelBuilder("tiles", threads=128), 128 // tc.dtype_of(dtype).bits
    a, b = k.param("A", ((turns + 2) * 32, 16), "uint8"), k.param("B", (128, (turns + 2) * 4), "uint32")
    pool = k.shared(((turns + 2) * 32, 16), "uint8", name="A_smem", align_bytes=1024)
    tile = pool.view(shape=((turns + 2) * 32, per), dtype=dtype)
    layout = TileLayout(S[(32, (turns + 2) * per) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    t, mbar, tid = k.tmem((32, (turns + 2) * per), dtype, layout=layout), k.mbarrier(), k.thread_id()
    fragment = k.local(32, "uint32")
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(t)
    with k.if_(tid == 0):
        mbar.init(1)
    demos.by_elements(k, pool[:, :], a[:, :], threads=128)
    k.fence_proxy_async()
    k.cta_sync()
    with k.if_(tid == 0):
        for turn in k.range(turns):
            k.thread.copy_async(t[:, turn * per : turn * per + per], tile[turn * 32 : turn * 32 + 32, :])
        for turn in (turns, turns + 1):
            k.thread.copy_async(t[:, turn * per : turn * per + per], tile[turn * 32 : turn * 32 + 32, :])
        k.tcgen05_commit(mbar[0])
    mbar.wait(0)
    k.tcgen05_fence_after()
    k.tcgen05_ld(fragment, t)
    k.tcgen05_wait_ld()
    for word in range((turns + 2) * 4):
        k.store(b[tid, word], k.load(fragment[word]))
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(t)
    return k.build(target="sm_100a", grid=1)


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn", "uint8", "float16", "float32", "float64", "int64"])
def test_one_descriptor_serves_every_tile_and_turn_of_every_width(dtype: str) -> None:
    kernel = several_tiles(dtype)
    lines = [line.strip() for line in kernel.ptx.splitlines()]
    encoded = [at for at, line in enumerate(lines) if line.startswith("or.b64")]
    assert len(encoded) == 1 and encoded[0] < next(
        at for at, line in enumerate(lines) if line.startswith("bra") or "bra " in line
    )
    assert sum(line.startswith("tcgen05.cp.") for line in lines) == 3
    assert all(plan.partition.elem_per_128b == 128 // tc.dtype_of(dtype).bits for plan in kernel.plans)
    for assembler in ("nvjitlink", "ptxas"):
        assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"
    a, b = byte_arrays.random_array((256, 16), "uint8"), np.zeros((128, 32), np.uint32)
    kernel(a, b, executor="emulator")
    tiles = a.view(np.uint32).reshape(8, 32, 4).transpose(1, 0, 2).reshape(32, 32)
    assert byte_arrays.same_bytes(b, np.tile(tiles, (4, 1)))


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
@pytest.mark.parametrize("dtype", ["int4", "float64"])
def test_swizzles_of_narrow_and_wide_elements(mode: str, dtype: str) -> None:
    columns = int(mode[:-1]) * 8 // tc.dtype_of(dtype).bits
    layout = tc.SwizzledLayout(tc.swizzle(mode, dtype), TileLayout(S[32, columns]))
    atoms = plan(columns, dtype, layout=layout).partition.atoms
    assert [(atom.column, atom.step_16_bytes) for atom in atoms] == [(4 * n, n) for n in range(int(mode[:-1]) // 16)]


def test_declines_with_the_numbers() -> None:
    no_router = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)])
    assert mentions("R", 4, 32).search(reason(tensor={"layout": no_router}))
    for replica in (R[2 : 32 @ TLane], R[4 : 16 @ TLane], R[4 : 32 @ TCol]):
        other = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + replica)
        assert mentions("R", 4, 32).search(reason(tensor={"layout": other}))
    assert reason(layout=TileLayout(S[(32, 16) : (16, 1)] + R[2:512]))
    shifted = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane] + 8 @ TLane)
    assert mentions(8).search(reason(tensor={"layout": shifted}))
    inside = tc.ActiveThreads(cta_threads=1)
    assert mentions("allocated").search(reason(tensor={"allocated_addr": None}, active=inside))
    assert plan(tensor={"allocated_addr": None}).variant == "tcgen05_cp", "a plan alone needs no allocation"
    assert mentions("tcgen05").search(reason(target="sm_100"))
    assert mentions("tcgen05").search(reason(target="sm_90a"))
    assert mentions("tcgen05").search(reason(target="sm_120a"))
    assert mentions(16).search(reason(box=(slice(0, 16), slice(None))))
    assert "rows are 64 bytes apart need" not in reason(columns=48)
    assert mentions("64B").search(reason(columns=64))
    wrong = tc.SwizzledLayout(tc.swizzle("32B", "uint8"), TileLayout(S[32, 64]))
    assert mentions("64B").search(reason(columns=64, layout=wrong))
    assert mentions(48).search(reason(columns=48))
    swizzled = tc.SwizzledLayout(tc.swizzle("128B", "uint8"), TileLayout(S[32, 128]))
    assert mentions(128, 1024).search(reason(columns=128, layout=swizzled, align_bytes=128))
    view = tc.Buffer((32, 128), "uint8", space="shared", name="s", layout=swizzled, storage_offset=64)
    with pytest.raises(tc.NoVariantError, match=mentions(64, 1024)):
        tc.plan(tmem(128)[:, :], view[:, :], op="copy_async", scope=tc.thread(), target="sm_100a")
    apart = tc.SwizzledLayout(tc.swizzle("32B", "uint8"), TileLayout(S[(32, 2, 16) : (32, 1088, 1)]))
    assert mentions(64, "swizzle").search(reason(columns=32, layout=apart))
    groups = tc.SwizzledLayout(tc.swizzle("128B", "uint8"), TileLayout(S[(4, 8, 128) : (1152, 128, 1)]))
    assert mentions(8, 1152, 1024).search(reason(columns=128, layout=groups))
    odd = TileLayout(S[(32, 2, 16) : (16, 520, 1)])
    assert mentions(16, 520).search(reason(columns=32, layout=odd))
    tall = tc.SwizzledLayout(tc.swizzle("128B", "uint8"), TileLayout(S[64, 128]))
    rows = tc.Buffer((64, 128), "uint8", space="shared", name="s", layout=tall)
    eight, four = (tc.symbol("n", upper=32, multiple_of=multiple) for multiple in (8, 4))
    asked = {"op": "copy_async", "scope": tc.thread(), "target": "sm_100a"}
    assert tc.plan(tmem(128)[:, :], rows[eight : eight + 32, :], **asked).variant == "tcgen05_cp"
    with pytest.raises(tc.NoVariantError, match=mentions(1024)):
        tc.plan(tmem(128)[:, :], rows[four : four + 32, :], **asked)
    assert mentions("cta_group", 3).search(reason(cta_group=3))
    assert mentions(16).search(reason(box=(slice(0, 32), slice(0, 8))))
    whole = tc.Buffer((32, 16), "uint8", space="shared", name="s")[:, :]
    with pytest.raises(tc.NoVariantError, match=mentions("scope")):
        tc.plan(tmem(16)[:, :], whole, op="copy_async", scope=tc.warp(), target="sm_100a")


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_110a"])
@pytest.mark.parametrize("assembler", ["nvjitlink", "ptxas"])
@pytest.mark.parametrize("cta_group", [1, 2])
def test_assembles(target: str, assembler: str, cta_group: int) -> None:
    kernel = demos.tcgen05_cp(target, elementwise=True) if cta_group == 1 else pair_of_ctas(target)
    assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"


def test_sixteen_columns_cannot_be_allocated() -> None:
    k = tc.KernelBuilder("k", threads=128)
    t = k.tmem((32, 16), "uint8", layout=TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]))
    for columns in (16, 33, 1024, True, "32"):
        with pytest.raises(tc.RequestError, match=mentions(32, 64, 128, 256, 512, f"{columns!r}")):
            k.tcgen05_alloc(t, columns=columns)  # type: ignore[arg-type]


def test_columns_are_those_that_a_buffer_needs() -> None:
    for needed, allocated in ((16, 32), (32, 32), (33, 64), (300, 512)):
        k = tc.KernelBuilder("k", threads=128)
        layout = TileLayout(S[(128, needed) : (1 @ TLane, 1 @ TCol)])
        t = k.tmem((128, needed), "float32", layout=layout)
        with k.if_(k.warp_id() == 0):
            k.tcgen05_alloc(t)
            k.tcgen05_dealloc(t)
        text = k.build(target="sm_100a", grid=1).ptx
        assert f", {allocated};" in next(line for line in text.splitlines() if "tcgen05.alloc" in line)
        assert f", {allocated};" in next(line for line in text.splitlines() if "tcgen05.dealloc" in line)


def test_tensor_memory_that_nothing_allocates_is_refused() -> None:
    for write in ("copy", "load"):
        k = tc.KernelBuilder("k", threads=128)
        layout = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
        t = k.tmem((32, 16), "uint8", layout=layout, name="acc")
        if write == "copy":
            with k.if_(k.thread_id() == 0):
                k.thread.copy_async(t[:, :], k.shared((32, 16), "uint8", align_bytes=1024)[:, :])
        else:
            k.tcgen05_ld(k.local(4, "uint32"), t)
        with pytest.raises(tc.RequestError, match=mentions("acc", "tcgen05_alloc")):
            k.build(target="sm_100a", grid=1)


def pair_of_ctas(target: str = "sm_100a") -> tc.BuiltKernel:
    """cta_group 2: one issue copies from each CTA's own shared memory into its own tensor memory."""
    k = tc.KernelBuilder("pair", threads=128)
    a, b = k.param("A", (64, 16), "uint8"), k.param("B", (256, 4), "uint32")
    staging = k.shared((32, 16), "uint8", name="A_smem", align_bytes=1024)
    mbar, tid, rank = k.mbarrier("cp_mbar"), k.thread_id(), k.cluster_rank()
    t = k.tmem(
        (32, 16), "uint8", layout=TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]), name="tmem"
    )
    fragment = k.local(4, "uint32", name="fragment")
    block = k.block_id("x")
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(t, columns=32, cta_group=2)
    with k.if_(tid == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
    demos.by_elements(k, staging[:, :], a[block * 32 : block * 32 + 32, :], threads=128)
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(rank == 0), k.if_(tid == 0):
        k.thread.copy_async(t[:, :], staging[:, :], cta_group=2)
        k.tcgen05_commit(mbar[0], cta_group=2)
    with k.if_(rank == 0):
        mbar.wait(0)
    k.cluster_sync()
    k.tcgen05_fence_after()
    k.tcgen05_ld(fragment, t)
    k.tcgen05_wait_ld()
    for i in range(4):
        k.store(b[block * 128 + tid, i], k.load(fragment[i]))
    k.tcgen05_fence_before()
    k.cluster_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(t, columns=32, cta_group=2)
    return k.build(target=target, grid=2, cluster=2)


def test_cta_group_two_fills_both_ctas() -> None:
    kernel = pair_of_ctas()
    assemble(kernel.ptx, kernel.target, "ptxas")
    a, b = byte_arrays.random_array((64, 16), "uint8"), np.zeros((256, 4), np.uint32)
    kernel(a, b, executor="emulator")
    words = a.view(np.uint32)
    assert byte_arrays.same_bytes(b, np.concatenate([np.tile(words[:32], (4, 1)), np.tile(words[32:], (4, 1))]))


def columns_of(
    start: tc.Int, dtype: str = "float16", *, layout: tc.Layout | None = None, storage_offset: int = 0
) -> list[tc.Int]:
    """The column of each atom of a copy of two rows of 128 bits into wider tensor memory."""
    per = 128 // tc.dtype_of(dtype).bits
    units = TileLayout(S[(32, 2, per) : (per, 32 * per, 1)])
    src = tc.Buffer((32, 2 * per), dtype, space="shared", layout=units, name="s")
    wide = layout or TileLayout(S[(32, 64 * per) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    dst = tc.Buffer((32, wide.size // 32), dtype, space="tmem", layout=wide, name="t", storage_offset=storage_offset)
    box = dst[:, start : start + 2 * per]
    return [
        atom.column
        for atom in tc.plan(box, src[:, :], op="copy_async", scope=tc.thread(), target="sm_100a").partition.atoms
    ]


@pytest.mark.parametrize(("dtype", "per"), [("uint8", 16), ("float16", 8), ("uint32", 4)])
def test_a_row_begins_at_a_multiple_of_four_columns(dtype: str, per: int) -> None:
    assert columns_of(per, dtype) == [4, 8]
    assert columns_of(0, dtype, storage_offset=2 * per) == [8, 12]
    router = R[4 : 32 @ TLane]
    apart = TileLayout(S[(32, 2, per) : (1 @ TLane, 3 * per @ TCol, 1 @ TCol)] + router)
    assert columns_of(0, dtype, layout=apart + per @ TCol) == [4, 16]
    whole, part = (tc.symbol("n", upper=8 * per, multiple_of=multiple) for multiple in (per, per // 2))
    assert len(columns_of(whole, dtype)) == 2
    for wrong in (
        lambda: columns_of(part, dtype),
        *(lambda start=start: columns_of(start, dtype) for start in range(1, per)),
        *(lambda own=own: columns_of(0, dtype, storage_offset=own) for own in (1, per // 4, per // 2)),
        lambda: columns_of(0, dtype, layout=apart + per // 2 @ TCol),
        lambda: columns_of(
            0, dtype, layout=TileLayout(S[(32, 2, per) : (1 @ TLane, 3 * per // 2 @ TCol, 1 @ TCol)] + router)
        ),
    ):
        with pytest.raises(tc.NoVariantError, match=mentions(4)):
            wrong()


def test_tensor_memory_ends_at_512_columns() -> None:
    assert columns_of(0, storage_offset=1008) == [504, 508]
    with pytest.raises(tc.NoVariantError, match=mentions(512, 32)):
        columns_of(0, storage_offset=1016)


def test_four_rows_begin_in_the_first_quarter_of_the_lanes() -> None:
    holder = tc.Buffer(1, "uint32", space="shared", name="holder")
    layout = TileLayout(S[(4, 8) : (32 @ TLane, 1 @ TCol)] + 32 @ TLane)
    rows = tc.Buffer((4, 8), "uint32", space="tmem", layout=layout, name="rows", allocated_addr=holder)
    source = tc.Buffer((4, 8), "uint32", space="shared", name="source", align_bytes=128)
    with pytest.raises(tc.NoVariantError, match=mentions(32, "4x256b", 4)):
        tc.plan(rows[:, :], source[:, :], op="copy_async", scope=tc.thread(), target="sm_100a", variant="tcgen05_cp")
