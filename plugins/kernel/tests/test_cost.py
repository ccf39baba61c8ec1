"""What a copy costs, counted from its text, held against what the emulator's profile counts as it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy import S, TileLayout, laneid
from tilecopy_cli.builtin_commands import tilecopy as command
from tilecopy_emulator import EmulatorExecutor, run_ptx
from tilecopy_test_helpers.costed_kernels import KERNELS, swizzled
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.registry import VARIANTS_GROUP, installed_sources

COUNTED = {"global_sectors": "sectors", "shared_wavefronts": "wavefronts"}


@pytest.mark.parametrize("name", KERNELS)
def test_sectors_and_wavefronts_are_those_of_the_profile(name: str) -> None:
    kernel = KERNELS[name]()
    arrays = [np.ones(p.shape, p.dtype.numpy()) for p in kernel.arrays]
    counters = EmulatorExecutor(profile=True).launch(kernel, arrays).counters
    costs = [tc.cost(plan) for plan in kernel.plans]
    ctas = prod(kernel.launch_grid(None))
    for counter, field in COUNTED.items():
        found = sum(getattr(cost, field) * ctas * cost.copies_per_cta for cost in costs)
        assert found == counters.get(counter, 0), (counter, [str(cost) for cost in costs])
    assert not any(cost.upper_bound or cost.not_counted for cost in costs)
    for cost in costs:
        assert cost.sectors >= cost.ideal_sectors and cost.nbytes > 0
        assert cost.touched_sector_bytes >= cost.nbytes or not cost.ideal_sectors


ALONE = {
    "gmem_smem": (("global", "shared"), (32, 64), {}),
    "rolled": (
        ("global", "shared"),
        (64, 150),
        {"scope": tc.warp(), "dtype": "float32", "layout": TileLayout(S[(64, 150) : (151, 1)])},
    ),
    "swizzled": (("global", "shared"), (64, 64), {"layout": swizzled("128B", "float16", (64, 64))}),
    "ldgsts": (("global", "shared"), (32, 64), {"op": "copy_async"}),
    "ragged": (("global", "shared"), (5, 37), {}),
    "reg": (("global", "local"), (32, 16), {"scope": tc.warp(), "layout": TileLayout(S[(32, 16) : (1 @ laneid, 1)])}),
    "of some lanes": (
        ("global", "local"),
        (8, 16),
        {"scope": tc.warp(), "layout": TileLayout(S[(8, 16) : (1 @ laneid, 1)])},
    ),
    "inside an edge": (("global", "shared"), (32, 64), {"outside": "zero"}),
    "halo": (("global", "shared"), (34, 66), {"outside": "zero", "low": 1}),
}


@pytest.mark.parametrize("name", ALONE)
def test_instructions_are_those_that_run(name: str) -> None:
    """The text of a copy alone, by one CTA of the grid whose box lies inside."""
    (space, other), shape, how = ALONE[name]
    how = {"scope": tc.cta(128), "dtype": "float16", "layout": None, "low": 0} | how
    low, dtype, layout = how.pop("low"), how.pop("dtype"), how.pop("layout")
    block = tc.KernelBuilder("x", threads=32).block_id("x")
    rows = 5 * shape[0] - (1 if "outside" in how else 0)
    source = tc.Buffer((rows, shape[1] + 8), dtype, space=space, name="A")
    tile = tc.Buffer(shape, dtype, space=other, layout=layout, name="tile")
    start = block * (shape[0] - low) - low
    plan = tc.plan(tile[:, :], source[start : start + shape[0], 0 : shape[1]], target="sm_90", **how)
    waits = "\tcp.async.wait_all;\n" if plan.request.op == "copy_async" else ""
    cost, text = tc.cost(plan), tc.ptx_text(plan).replace("\tret;", f"{waits}\tret;")
    array = np.ones((rows, shape[1] + 8), tc.dtype_of(dtype).numpy())
    grid = 1 if "outside" not in how else 2
    report = run_ptx(text, [array], grid=grid, block=cost.threads)
    first = run_ptx(text, [array], grid=1, block=cost.threads) if grid == 2 else None
    found = sum(report.instructions.values()) - (sum(first.instructions.values()) if first else 0)
    assert not cost.upper_bound
    assert cost.instructions == found - cost.threads * (2 if waits else 1), (str(cost), report.instructions, text)


# --------------------------------------------------------------------------------------------- what is counted how

A = tc.Buffer((4096, 64), "float16", space="global", name="A")
TILE = tc.Buffer((128, 64), "float16", space="shared", name="tile")


def test_a_plan_of_tensor_memory_has_the_cost_of_its_kernel() -> None:
    """No kernel has allocated the memory yet; and registers count that only the text of a vector names."""
    lanes = TileLayout(S[(128, 64) : (1 @ tc.TLane, 1 @ tc.TCol)])
    owned = TileLayout(S[(128, 64) : (1 @ tc.tid_in_wg, 1)])
    k = tc.KernelBuilder("tensor", threads=128)
    a, b = (k.local((128, 64), "float32", layout=owned) for _ in "ab")
    tensor = k.tmem((128, 64), "float32", layout=lanes, name="T")
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(tensor, columns=64)
    k.cta_sync()
    k.warpgroup.copy(a[:, :], k.param("A", (128, 64), "float32")[:, :])
    k.warpgroup.copy(tensor[:, :], a[:, :])
    k.warpgroup.copy(b[:, :], tensor[:, :])
    there, back = k.build(target="sm_100a", grid=1).plans[1:]
    alone = tc.Buffer((128, 64), "float32", space="tmem", name="T", layout=lanes)
    for built, dst, src in ((there, alone[:, :], a[:, :]), (back, b[:, :], alone[:, :])):
        cost = tc.cost(tc.plan(dst, src, scope=tc.warpgroup(), target="sm_100a"))
        assert cost == tc.cost(built) and 64 < cost.registers < 68
        (row,) = tc.compare(dst, src, scope=tc.warpgroup(), targets=("sm_100a",)).rows
        assert row.cost == cost


def test_costs_have_one_order() -> None:
    whole = tc.cost(tc.plan(TILE[:, :], A[0:128, :], scope=tc.cta(128), target="sm_90a"))
    columns = tc.Buffer((128, 64), "float16", space="shared", layout=TileLayout(S[(128, 64) : (1, 128)]), name="tile")
    slow = tc.cost(tc.plan(columns[:, :], A[0:128, :], scope=tc.cta(128), target="sm_90a"))
    assert whole < slow and slow > whole and whole <= whole and sorted([slow, whole]) == [whole, slow]
    assert slow.limits["lanes"] > whole.limits["lanes"] and max(slow.limits.values()) <= slow.cycles
    with pytest.raises(TypeError):
        assert whole < 3  # type: ignore[operator]
    with pytest.raises(AttributeError):
        whole.sectors = 1  # type: ignore[misc]


def test_words_that_a_thread_reads_side_by_side_are_one_access() -> None:
    """Four columns of a row: the text has four loads of 4 bytes, the machine code one of 16."""
    held = tc.Buffer((32, 4), "float32", space="local", layout=TileLayout(S[(32, 4) : (1 @ laneid, 1)]), name="held")
    tile = tc.Buffer((32, 4), "float32", space="shared", name="tile")
    cost = tc.cost(tc.plan(held[:, :], tile[:, :], scope=tc.warp(), target="sm_90a", variant="ragged"))
    assert cost.access_bytes == (4,) and (cost.wavefronts, cost.merged_wavefronts) == (16, 4)
    far = tc.Buffer((32, 4), "float32", space="shared", layout=TileLayout(S[(32, 4) : (5, 1)]), name="tile")
    cost = tc.cost(tc.plan(held[:, :], far[:, :], scope=tc.warp(), target="sm_90a", variant="ragged"))
    assert cost.wavefronts == cost.merged_wavefronts == 4


@pytest.mark.parametrize(
    ("dtype", "apart", "columns", "stored", "loaded"),
    [
        ("uint8", 0, 64, 1, 1),  # bytes are never joined
        ("float16", 0, 64, 4, 4),  # four words of two bytes at most
        ("float16", 2, 64, 2, 2),  # as wide as their addresses are aligned
        ("float16", 0, 128, 1, 4),  # a thread has two columns: other stores lie between those that could be joined
        ("float32", 0, 64, 4, 4),
        ("float32", 1, 64, 1, 1),
    ],
)
def test_words_are_joined_as_ptxas_joins_them(dtype: str, apart: int, columns: int, stored: int, loaded: int) -> None:
    """Wavefronts of a tile of columns; how many words are one access was read from machine code of ptxas 13.0, sm_90a."""
    array = tc.Buffer((16, columns), dtype, space="global", name="A")
    layout = TileLayout(S[(16, columns) : (1, 16 + apart)])
    tile = tc.Buffer((16, columns), dtype, space="shared", layout=layout, name="tile", align_bytes=128)
    elem = tc.dtype_of(dtype).bytes
    for dst, src, words in ((tile, array, stored), (array, tile, loaded)):
        cost = tc.cost(tc.plan(dst[:, :], src[:, :], scope=tc.cta(64), target="sm_90a", variant="ragged"))
        assert cost.access_bytes == (elem,)
        per_lane = (16 + apart) * elem
        banks = [(lane * per_lane + byte) // 4 for lane in range(32) for byte in range(0, max(4, words * elem), 4)]
        most = max(sum(bank % 32 == other for bank in set(banks)) for other in range(32))
        requests = 16 * columns // 32 // words
        assert cost.merged_wavefronts == requests * most
        assert (cost.merged_wavefronts == cost.wavefronts) == (words == 1)


@pytest.mark.parametrize(
    ("variant", "data_path"), [("ldgsts", "cp.async"), ("bulk", "bulk"), ("tma", "tensor"), ("gmem_smem", "registers")]
)
@pytest.mark.parametrize("apart", [0, 8])
def test_sectors_are_split_by_rows_16_bytes_apart(variant: str, data_path: str, apart: int) -> None:
    rows = TileLayout(S[(128, 128) : (128 + apart, 1)])
    array = tc.Buffer((128, 128), "float16", space="global", layout=rows, name="A")
    tile = tc.Buffer((32, 64), "float16", space="shared", name="tile")
    scope = tc.thread() if variant in ("bulk", "tma") else tc.cta(64)
    op = "copy" if variant == "gmem_smem" else "copy_async"
    options = {"mbar": tc.Buffer((1,), "uint64", space="shared", name="full")[0]} if scope == tc.thread() else {}
    cost = tc.cost(
        tc.plan(tile[:, :], array[0:32, 0:64], op=op, scope=scope, target="sm_90a", variant=variant, **options)
    )
    assert cost.data_path == data_path
    assert cost.split_sectors == (0 if variant == "gmem_smem" or not apart else 32 // 2 * 3)


def odd_plugin(emit: Any, spaces: tuple[str, str] = ("global", "shared")) -> Any:
    """A variant that accepts every copy of a tile and writes what is told."""

    @tc.hookimpl
    def tilecopy_predicate(request: Any) -> Any:
        return tc.Accept()

    @tc.hookimpl
    def tilecopy_partition(request: Any) -> Any:
        return "some"

    @tc.hookimpl
    def tilecopy_emit(request: Any, partition: Any, ptx: Any) -> None:
        emit(ptx)

    record = tc.Variant(name="odd", op="copy", priority=1, summary="x", spaces=(spaces,), edges=True)
    hooks = {each.__name__: each for each in (tilecopy_predicate, tilecopy_partition, tilecopy_emit)}
    return SimpleNamespace(variant=record, **hooks)


def registry_of(emit: Any, *others: str, spaces: tuple[str, str] = ("global", "shared")) -> tc.Registry:
    """A registry with such a variant, and some installed ones."""
    registry = tc.Registry([each for each in installed_sources(VARIANTS_GROUP) if each.name in others])
    registry.register(odd_plugin(emit, spaces), name="odd")
    return registry


def test_threads_that_branch_come_together_again() -> None:
    def emit(ptx: Any) -> None:
        value = ptx.reg("b32")
        ptx.instr("ld.global.b32", value, ptx.address(A, ptx.tid * 2))
        with ptx.if_(ptx.predicate(ptx.tid < 5)):
            ptx.instr("ld.global.b32", value, ptx.address(A, ptx.tid * 64))
        ptx.instr("st.shared.b32", ptx.address(TILE, ptx.tid * 2), value)

    registry = registry_of(emit)
    plan = tc.plan(TILE[:, :], A[0:128, :], scope=tc.warp(), target="sm_90a", registry=registry)
    cost, text = tc.cost(plan, registry), tc.ptx_text(plan, registry=registry)
    report = run_ptx(text, [np.ones((4096, 64), np.float16)], grid=1, block=32, profile=True)
    assert cost.instructions == sum(report.instructions.values()) - 32
    assert (cost.sectors, cost.wavefronts) == (4 + 5, 1)
    assert (report.counters["global_sectors"], report.counters["shared_wavefronts"]) == (4 + 5, 1)
    assert cost.access_bytes == (4,)


def test_a_variant_whose_text_does_not_say_counts_in_full() -> None:
    """A condition on what was loaded is not known; an address that was loaded has no sectors."""

    def emit(ptx: Any) -> None:
        at = ptx.address(A, ptx.tid * 4)
        value, other = ptx.reg("b64"), ptx.reg("b32")
        ptx.instr("ld.global.b64", value, at)
        ptx.instr("cvt.u32.u64", other, value)
        found = ptx.reg("pred")
        ptx.instr("setp.ne.s32", found, other, 0)
        ptx.instr("st.global.b32", f"[{value}]", other, guard=found)

    registry = registry_of(emit)
    plan = tc.plan(TILE[:, :], A[0:128, :], scope=tc.warp(), target="sm_90a", registry=registry)
    cost = tc.cost(plan, registry)
    assert cost.upper_bound and str(cost).startswith("at most ") and cost.not_counted == ("st.global.b32",)
    assert cost.sectors is None and cost.cycles is None and cost.access_bytes == (8, 4)
    with pytest.raises(tc.PluginError, match=mentions("variant", "odd")):
        tc.cost(plan)
    assert "cost: " not in plan.explain(), "there is nothing to count it with"
    compared = tc.compare(TILE[:, :], A[0:128, :], scope=tc.warp(), registry=registry)
    assert [row.plan.variant for row in compared.rows] == ["odd"] and "<= " in str(compared)


def load_and_store(ptx: Any, *, ahead: str = "", guess: bool = False) -> None:
    """A tile by 128 threads, 16 bytes each; what is ahead of each load, and whether its address comes from memory."""
    words = [ptx.reg("b32") for _ in range(4)]
    names = ", ".join(map(str, words))
    for turn in range(8):
        where = ptx.address(A, ptx.tid * 8 + turn * 1024)
        if ahead:
            ptx.raw(ahead.format(where))
        if guess:
            pointer = ptx.reg("b64")
            ptx.instr("ld.global.b64", pointer, where)
            ptx.raw(f"ld.global.v4.b32 {{{names}}}, [{pointer}];")
        else:
            ptx.raw(f"ld.global.v4.b32 {{{names}}}, {where};")
        ptx.raw(f"st.shared.v4.b32 {ptx.address(TILE, ptx.tid * 8 + turn * 1024)}, {{{names}}};")


@pytest.mark.parametrize(
    "ahead",
    [
        "prefetch.global.L2 {};",
        "prefetch.L1 {};",
        "prefetchu.L1 {};",
        "prefetch.global.L2::evict_last {};",
        "applypriority.global.L2::evict_normal {}, 128;",
        "cp.async.bulk.prefetch.L2.global {}, 16;",
    ],
)
def test_an_instruction_that_only_names_an_address_leaves_it_known(ahead: str) -> None:
    registry = registry_of(lambda ptx: load_and_store(ptx, ahead=ahead), "gmem_smem")
    compared = tc.compare(TILE[:, :], A[0:128, :], scope=tc.cta(128), registry=registry)
    assert [row.plan.variant for row in compared.rows] == ["gmem_smem", "odd"]
    best, odd = (row.cost for row in compared.rows)
    assert (odd.sectors, odd.wavefronts, odd.not_counted) == (512, 128, ()) == (best.sectors, best.wavefronts, ())
    assert odd.touched_sector_bytes == best.touched_sector_bytes and odd.cycles >= best.cycles


def emit_loaded_addresses(ptx: Any) -> None:
    load_and_store(ptx, guess=True)


def emit_an_unlisted_instruction(ptx: Any) -> None:
    load_and_store(ptx, ahead="acme.fetch.global {};")


def emit_a_pointer_that_moves(ptx: Any) -> None:
    load_and_store(ptx)
    pointer, value, turn, again = ptx.reg("b64"), ptx.reg("b32"), ptx.reg("b32"), ptx.reg("pred")
    ptx.instr("mov.b64", pointer, ptx.address(A, 0).base)
    ptx.instr("mov.b32", turn, 0)
    ptx.raw("$again:")
    ptx.instr("ld.global.b32", value, f"[{pointer}]")
    ptx.instr("add.s64", pointer, pointer, 128)
    ptx.instr("add.s32", turn, turn, 1)
    ptx.instr("setp.lt.s32", again, turn, 4)
    ptx.raw(f"@{again} bra $again;")


def emit_a_loop_that_counts_down(ptx: Any) -> None:
    load_and_store(ptx)
    value, turn, again = ptx.reg("b32"), ptx.reg("b32"), ptx.reg("pred")
    ptx.instr("mov.b32", turn, 4)
    ptx.raw("$again:")
    ptx.instr("ld.global.b32", value, ptx.address(A, ptx.tid * 2))
    ptx.instr("sub.s32", turn, turn, 1)
    ptx.instr("setp.gt.s32", again, turn, 0)
    ptx.raw(f"@{again} bra $again;")


def emit_an_endless_loop(ptx: Any) -> None:
    load_and_store(ptx)
    value, again = ptx.reg("b32"), ptx.reg("pred")
    ptx.raw("$again:")
    ptx.instr("ld.global.b32", value, ptx.address(A, ptx.tid * 2))
    ptx.instr("setp.ne.s32", again, value, 0)
    ptx.raw(f"@{again} bra $again;")


@pytest.mark.parametrize(
    ("emit", "opcode", "wavefronts"),
    [
        (emit_loaded_addresses, "ld.global.v4.b32", 128),
        (emit_an_unlisted_instruction, "acme.fetch.global", None),
        (emit_a_pointer_that_moves, "ld.global.b32", 128),
        (emit_a_loop_that_counts_down, "ld.global.b32", 128),
        (emit_an_endless_loop, "ld.global.b32", 128),
    ],
)
def test_unknown_traffic_is_said_and_comes_last(emit: Any, opcode: str, wavefronts: int | None) -> None:
    """Whatever else it needs: the copy in the best of ways is behind one by single elements."""
    registry = registry_of(emit, "gmem_smem", "ragged")
    compared = tc.compare(TILE[:, :], A[0:128, :], scope=tc.cta(128), registry=registry)
    assert [row.plan.variant for row in compared.rows][-1] == "odd" and len(compared.rows) == 3
    cost = compared.rows[-1].cost
    assert cost.not_counted == (opcode,) and all(row.cost < cost for row in compared.rows[:-1])
    assert (cost.sectors, cost.wavefronts, cost.cycles) == (None, wavefronts, None)
    for text in (str(cost), str(compared)):
        assert "unknown" in text and opcode in text
    assert opcode in compared._repr_html_() and opcode in cost._repr_html_()


@pytest.fixture
def unknown_loads() -> Iterator[str]:
    """An installed variant that loads from addresses which come from memory."""
    tc.default_registry().register(odd_plugin(emit_loaded_addresses), name="odd")
    yield "ld.global.v4.b32"
    tc.default_registry().unregister("odd")


def test_what_is_not_counted_is_explained_and_in_json(unknown_loads: str) -> None:
    plan = tc.plan(TILE[:, :], A[0:128, :], scope=tc.cta(128), target="sm_90a", variant="odd")
    (line,) = (line for line in plan.explain().splitlines() if line.startswith("cost:"))
    assert unknown_loads in line and "sectors" in line
    words = ["compare", "gmem f16 [4096, 64] [0:128, :]", "smem f16 [128, 64]", "--op", "copy"]
    *known, last = json.loads(CliRunner().invoke(command, [*words, "--json"]).output)["rows"]
    assert last["variant"] == "odd" and last["cost"]["not_counted"] == [unknown_loads]
    assert last["cost"]["sectors"] is None and last["cost"]["cycles"] is None
    assert known and all(row["cost"]["cycles"] > 0 and row["cost"]["not_counted"] == [] for row in known)
    assert unknown_loads in CliRunner().invoke(command, words).output


@pytest.mark.parametrize(("first", "end", "step"), [(0, 8, 1), (0, 8, 2), (1, 8, 3), (2, 3, 5), (5, 5, 1)])
def test_loops_are_counted_turn_by_turn(first: int, end: int, step: int) -> None:
    """Whatever the step of the counter; the body is executed once at least."""

    def emit(ptx: Any) -> None:
        value, turn, again, offset, pointer = (ptx.reg(type) for type in ("b32", "b32", "pred", "b64", "b64"))
        base = ptx.address(A, ptx.tid * 2).base
        ptx.instr("mov.b32", turn, first)
        ptx.raw("$again:")
        ptx.instr("mul.wide.s32", offset, turn, 72)
        ptx.instr("add.s64", pointer, base, offset)
        ptx.instr("ld.global.b32", value, f"[{pointer}]")
        ptx.instr("add.s32", turn, turn, step)
        ptx.instr("setp.lt.s32", again, turn, end)
        ptx.raw(f"@{again} bra $again;")

    registry = registry_of(emit)
    plan = tc.plan(TILE[:, :], A[0:128, :], scope=tc.warp(), target="sm_90a", registry=registry)
    cost, source = tc.cost(plan, registry), tc.ptx_text(plan, registry=registry)
    report = run_ptx(source, [np.zeros((4096, 64), np.float16)], grid=1, block=32, profile=True)
    assert cost.not_counted == () and cost.sectors == report.counters["global_sectors"]
    assert cost.instructions == sum(report.instructions.values()) - 32


def test_reductions_of_global_memory_are_counted() -> None:
    array = tc.Buffer((128, 64), "float32", space="global", name="B")
    tile = tc.Buffer((128, 64), "float32", space="shared", name="tile")

    def emit(ptx: Any) -> None:
        value = ptx.reg("f32")
        for turn in range(64):
            at = ptx.tid + turn * 128
            ptx.instr("ld.shared.f32", value, ptx.address(tile, at))
            ptx.instr("red.global.add.f32", ptx.address(array, at), value)

    registry = registry_of(emit, spaces=("shared", "global"))
    plan = tc.plan(array[:, :], tile[:, :], scope=tc.cta(128), target="sm_90a", registry=registry)
    cost = tc.cost(plan, registry)
    assert (cost.sectors, cost.ideal_sectors, cost.wavefronts, cost.not_counted) == (1024, 1024, 256, ())


MEMORY = [
    "ld.global.b32 %w0, {a};",
    "ld.global.v2.b32 {{%w0, %w1}}, {a};",
    "ld.volatile.global.u16 %h, {a};",
    "ld.global.nc.L1::no_allocate.b8 %h, {a};",
    "ld.v4.b32 {{%w0, %w1, %w2, %w3}}, {a};",
    "ld.relaxed.gpu.global.b64 %d, {a};",
    "ldu.global.f32 %f, {a};",
    "st.global.cs.b32 {a}, %w0;",
    "st.b64 {a}, %d;",
    "atom.global.add.u32 %w0, {a}, 1;",
    "atom.add.u64 %d, {a}, 1;",
    "atom.global.v2.f32.add {{%f, %e}}, {a}, {{%f, %e}};",
    "red.global.add.noftz.f16x2 {a}, %w0;",
    "red.global.v4.f32.add {a}, {{%f, %e, %f, %e}};",
    "red.async.release.gpu.global.add.u32 {a}, %w0;",
    "st.async.release.gpu.global.b32 {a}, %w0;",
    "multimem.red.global.add.u32 {a}, %w0;",
    "discard.global.L2 {a}, 128;",
    "st.shared.b32 {s}, %w0; atom.shared.exch.b32 %w0, {s}, %w1;",
    "st.shared.b32 {s}, %w0; red.shared::cta.add.u32 {s}, 1;",
    "st.volatile.shared.v2.b32 {s}, {{%w0, %w1}};",
    "cp.async.ca.shared.global {s}, {a}, 4; cp.async.wait_all;",
    "cp.async.cg.shared.global {s}, {a}, 16, 0; cp.async.wait_all;",
    "cp.async.ca.shared.global {s}, {a}, 16, 7; cp.async.wait_all;",
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {{%w0, %w1, %w2, %w3, %v0, %v1, %v2, %v3}}, {a}, 64;",
    "st.bulk.shared::cta {s}, 16, 0;",
]


@pytest.mark.parametrize("text", MEMORY)
def test_an_instruction_counts_as_the_emulator_counts_it(text: str) -> None:
    """Or its traffic is unknown. Addresses of 128 bytes, so that each instruction takes them."""

    def emit(ptx: Any) -> None:
        ptx.raw(".reg .b32 %w<4>; .reg .b32 %v<4>; .reg .b16 %h; .reg .b64 %d; .reg .f32 %f; .reg .f32 %e;")
        ptx.raw("mov.b32 %w0, 1; mov.b32 %w1, 1; mov.b64 %d, 1; mov.f32 %f, 1.0; mov.f32 %e, 1.0;")
        ptx.raw(text.format(a=ptx.address(A, ptx.tid * 64), s=ptx.address(TILE, ptx.tid * 64)))

    registry = registry_of(emit)
    plan = tc.plan(TILE[:, :], A[0:128, :], scope=tc.warp(), target="sm_100a", registry=registry)
    cost, source = tc.cost(plan, registry), tc.ptx_text(plan, registry=registry)
    report = run_ptx(source, [np.zeros((4096, 64), np.float16)], grid=1, block=32, profile=True)
    opcode = text.split(maxsplit=1)[0]
    assert cost.not_counted == ((opcode,) if opcode[:6] in ("discar", "wmma.l", "st.bul") else ())
    assert cost.instructions == sum(report.instructions.values()) - 32
    for counter, count in (("global_sectors", cost.sectors), ("shared_wavefronts", cost.wavefronts)):
        assert count is None or count == report.counters.get(counter, 0), (counter, count, report.counters)
    assert (cost.sectors is None or cost.wavefronts is None) == bool(cost.not_counted)


@pytest.mark.parametrize(
    ("variant", "outside", "wavefronts"), [("ragged", "zero", 128), ("ragged", "keep", 100), ("tma", "zero", 0)]
)
def test_what_is_ideal_leaves_out_rows_outside(variant: str, outside: str, wavefronts: int) -> None:
    """100 rows of 128 bytes lie inside of an array that ends there; zeros are written for the others."""
    array = tc.Buffer((100, 64), "float16", space="global", name="A")
    how: dict[str, Any] = {"scope": tc.cta(128)}
    if variant == "tma":
        how = {
            "op": "copy_async",
            "scope": tc.thread(),
            "mbar": tc.Buffer((1,), "uint64", space="shared", name="full")[0],
        }
    plan = tc.plan(TILE[:, :], array[0:128, :], target="sm_90a", variant=variant, outside=outside, **how)
    cost = tc.cost(plan)
    assert (cost.sectors, cost.ideal_sectors) == (400, 400)
    assert (cost.wavefronts, cost.ideal_wavefronts) == (wavefronts, wavefronts)


def test_sizes_and_scalars_are_no_rounder_than_declared() -> None:
    """Rows of an array whose width is no multiple of a sector begin anywhere in one."""
    found = []
    for multiple in (1, 16):
        k = tc.KernelBuilder("sizes", threads=32)
        n = k.size("n", multiple_of=multiple, lower=64)
        a = k.param("A", (64, n), "float16", align_bytes=16)
        tile = k.shared((16, 32), "float16", name="tile")
        k.warp.copy(tile[:, :], a[0:16, 0:32])
        found.append(tc.cost(k.build(target="sm_90", grid=1).plans[0]))
    assert found[0].sectors > found[1].sectors == found[1].ideal_sectors
    assert found[0].touched_sector_bytes > found[1].touched_sector_bytes == 16 * 64


def test_compare_says_what_it_compares() -> None:
    found = tc.compare(TILE[:, :], A[0:128, :], scope=tc.cta(128), targets=["sm_80", "sm_90a"])
    assert {str(row.plan.request.target) for row in found.rows} == {"sm_80", "sm_90a"}
    own = [row.cost for row in found.rows if str(row.plan.request.target) == "sm_90a"]
    assert own == sorted(own) and {"tma", "bulk", "ldgsts", "gmem_smem"} <= {cost.variant for cost in own}
    assert "needs sm_90" in found.declined["sm_80", "tma"]
    lines = str(found).splitlines()
    assert lines[1] == "sm_80 (ideal: 512 sectors, 128 wavefronts)" and max(map(len, lines)) <= 80
    assert lines[-1].split()[:3] == ["tma", "async", "one"] and lines[-1].split()[-3:-1] == ["512", "-"]
    with pytest.raises(tc.RequestError, match=mentions("mbarr")):
        tc.compare(TILE[:, :], A[0:128, :], scope=tc.cta(128), mbarr=3)
    odd = tc.Buffer((5, 7), "float16", space="shared", name="odd")
    registry = tc.Registry([each for each in installed_sources(VARIANTS_GROUP) if each.name == "gmem_smem"])
    with pytest.raises(tc.NoVariantError, match="^gmem_smem: "):
        tc.compare(odd[:, :], A[0:5, 0:7], scope=tc.warp(), registry=registry)


def test_a_wide_comparison_fits_80_columns() -> None:
    """Conditions that a launch decides, one thread and thousands of instructions at once: its columns are one space apart."""
    array = tc.Buffer((1 << 16, 64), "float16", space="global", name="A")
    tile = tc.Buffer((2048, 64), "float16", space="shared", name="tile")

    def emit(ptx: Any) -> None:
        value, found = ptx.reg("b32"), ptx.reg("pred")
        ptx.instr("ld.global.b32", value, ptx.address(array, ptx.tid * 2))
        ptx.instr("setp.ne.s32", found, value, 0)
        for row in range(2048):
            ptx.instr("st.shared.b32", ptx.address(tile, ptx.tid * 2 + row * 64), value, guard=found)

    registry = registry_of(emit, "gmem_smem", "ragged_async", "tma")
    lines = str(tc.compare(tile[:, :], array[0:2048, :], scope=tc.cta(32), registry=registry)).splitlines()
    assert any("async one thread" in line for line in lines) and max(map(len, lines)) <= 80, lines
    assert [line.startswith("odd") for line in lines if "<= 2,0" in line] == [True]


def test_a_block_whose_box_lies_inside_skips_the_loop_of_the_edge() -> None:
    """The whole tile, and no line of the other path."""
    block = tc.KernelBuilder("x", threads=32).block_id("x")
    array = tc.Buffer((1 << 16, 64), "float16", space="global", name="A")
    tile = tc.Buffer((2048, 64), "float16", space="shared", name="tile")
    how: dict[str, Any] = {"scope": tc.cta(32), "target": "sm_90a", "outside": "zero", "variant": "gmem_smem"}
    inside = tc.cost(tc.plan(tile[:, :], array[block * 2048 - 1 : block * 2048 + 2047, :], **how))
    assert not inside.upper_bound and not inside.not_counted
    assert inside.sectors == inside.ideal_sectors == 8192 and inside.wavefronts == inside.ideal_wavefronts == 2048


def test_what_is_better_is_named_when_asked() -> None:
    plan = tc.plan(TILE[:, :], A[0:128, :], op="copy_async", scope=tc.thread(), target="sm_90a", variant="ldgsts")
    said = plan.explain()
    assert "better: bulk needs 5 instructions in all instead of 1,123; to use it, pass variant='bulk'" in said
    assert len(said.splitlines()) <= 10
