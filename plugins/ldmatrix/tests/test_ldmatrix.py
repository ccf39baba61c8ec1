"""ldmatrix and stmatrix: worked counts, what TVM lowers, results on the emulator and on the GPU, and what is declined."""

from __future__ import annotations

import re
import runpy
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout, laneid, tid_in_wg, tx, wid_in_wg
from tilecopy.assemblers import assemble, available_assemblers
from tilecopy.executors import unavailable_reason

EXECUTORS = ["emulator", "cuda"]
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def usable(executor: str) -> str:
    """The executor, where it runs here."""
    why = unavailable_reason(executor)
    if why:
        pytest.skip(why)
    return executor


def swizzled(
    shape: tuple[int, ...], dtype: str = "float16", mode: str | None = "128B", pitch: int | None = None
) -> TileLayout:
    """Rows of shared memory, swizzled, or with a pitch in elements."""
    plain = TileLayout(S[shape]) if pitch is None else TileLayout(S[shape : (pitch, 1)])
    return plain if mode is None else tc.SwizzledLayout(tc.swizzle(mode, dtype), plain)


def sides(fragment: TileLayout, shape: tuple[int, ...], shared: TileLayout, dtype: str) -> tuple[tc.Buffer, tc.Buffer]:
    """A local and a shared buffer."""
    local = tc.Buffer(shape, dtype, space="local", layout=fragment, name="fragment")
    return local, tc.Buffer(shape, dtype, space="shared", layout=shared, name="tile", align_bytes=1024)


def moved(
    fragment: TileLayout,
    shape: tuple[int, ...],
    shared: TileLayout,
    dtype: str = "float16",
    *,
    scope: tc.Scope | None = None,
    store: bool = False,
    target: str = "sm_90",
) -> tc.Plan:
    """The plan of a whole tile from shared memory to a fragment, or back."""
    local, tile = sides(fragment, shape, shared, dtype)
    dst, src = (tile, local) if store else (local, tile)
    box = (slice(None),) * len(shape)
    variant = "stmatrix" if store else "ldmatrix"
    return tc.plan(dst[box], src[box], scope=scope or tc.warp(), target=target, variant=variant)


def matrices(text: str) -> list[str]:
    """The forms of the text's ldmatrix and stmatrix."""
    return re.findall(r"^\s*((?:ld|st)matrix\S+)", text, re.M)


def instructions(text: str) -> int:
    """Instructions of a text, but for its return."""
    return len(re.findall(r"^\t[a-z][\w.:]* .*;$", text, re.M)) - len(re.findall(r"^\t\.", text, re.M))


# ------------------------------------------------------------------------------------------------ worked counts

MMA_A = tc.tile_fragment(tc.mma_fragment("m16n8k16", "A", "float16"), (16, 64))
MMA_B = tc.tile_fragment(tc.mma_fragment("m16n8k16", "B", "float16"), (16, 64))
WGMMA_C = tc.mma_fragment("m64n64k16", "C", "float16")
B_BY_ROWS_OF_K = tc.SwizzledLayout(tc.swizzle("32B", "float16"), TileLayout(S[(16, 64) : (1, 16)]))
B_IN_128B = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[(64, 16) : (1, 64)]))
WORKED = {
    "operand A 16x64, 128B swizzle": (
        lambda: moved(MMA_A, (16, 64), swizzled((16, 64))),
        ["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] * 4,
        23,
    ),
    "operand B 16x64, stored [k][n], 128B swizzle": (
        lambda: moved(tc.tile_fragment(tc.mma_fragment("m16n8k16", "B", "float16"), (64, 16)), (64, 16), B_IN_128B),
        ["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"] * 4,
        23,
    ),
    "accumulator 64x64 of a warpgroup, 128B swizzle, stored": (
        lambda: moved(WGMMA_C, (64, 64), swizzled((64, 64)), scope=tc.warpgroup(), store=True),
        ["stmatrix.sync.aligned.m8n8.x4.shared.b16"] * 4,
        29,
    ),
}


@pytest.mark.parametrize("name", WORKED)
def test_instructions_of_worked_copies(name: str) -> None:
    plan, forms, most = WORKED[name]
    text = tc.ptx_text(plan())
    assert matrices(text) == forms
    assert instructions(text) <= most
    assert plan().partition.instructions_per_thread == len(forms)


@pytest.mark.parametrize(
    ("shape", "fragment", "scope"),
    [
        ((64, 64), tc.tile_fragment(tc.mma_fragment("m16n8k16", "A", "bfloat16"), (64, 64), (4, 1)), tc.cta(128)),
        ((64, 64), tc.tile_fragment(tc.mma_fragment("m16n8k16", "C", "float16"), (64, 64), (2, 2)), tc.cta(128)),
        ((64, 16), tc.mma_fragment("m64n128k16", "A", "bfloat16"), tc.warpgroup()),
        ((128, 64), tc.tile_fragment(tc.mma_fragment("m64n64k16", "C", "float16"), (128, 64), (2, 1)), tc.cta(256)),
        ((16, 48), tc.tile_fragment(tc.mma_fragment("m16n8k16", "C", "float16"), (16, 48)), tc.warp()),
    ],
)
@pytest.mark.parametrize("mode", [None, "32B", "64B", "128B"])
def test_every_register_is_one_matrix_of_an_instruction_of_four(
    shape: tuple[int, int], fragment: TileLayout, scope: tc.Scope, mode: str | None
) -> None:
    span = shape[1] if mode is None else int(mode[:-1]) // 2
    pitch = -(-shape[1] // span) * span
    plan = moved(fragment, shape, swizzled(shape, "bfloat16", mode, pitch), "bfloat16", scope=scope)
    registers = prod(shape) // scope.threads // 2
    assert (len(plan.partition.batches), plan.partition.count) == (registers // 4, 4)


# ------------------------------------------------------------------------------------------------ what TVM lowers


def tvm_layouts(scope: str, num: int, *, trans: bool) -> tuple[tuple[int, ...], TileLayout, TileLayout]:
    """Shape, registers and shared memory of TVM's tests of its dispatch ``ldstmatrix``, written in our notation."""
    axis = {"warp": laneid, "warpgroup": tid_in_wg, "cta": tx}[scope]
    if scope == "warp":
        registers = TileLayout(S[(8, 4, num, 2) : (4 @ axis, 1 @ axis, 2, 1)])
        strides = (1, 16 * num, 8, 8 * num) if trans else (8 * num, 2, 8, 1)
        return (8, 4, num, 2), registers, TileLayout(S[(8, 4, num, 2) : strides])
    shape = (4, 8, 4, num, 2)
    registers = TileLayout(S[shape : (32 @ axis, 4 @ axis, 1 @ axis, 2, 1)])
    strides = (64 * num, 1, 16 * num, 8, 8 * num) if trans else (64 * num, 8 * num, 2, 8, 1)
    return shape, registers, TileLayout(S[shape:strides])


@pytest.mark.parametrize(
    ("scope", "num", "trans", "store", "mode"),
    list(product(["warp", "warpgroup", "cta"], [1, 2, 4], [False, True], [False, True], [None, "128B"])),
)
def test_tvms_cases_take_one_instruction(scope: str, num: int, trans: bool, store: bool, mode: str | None) -> None:
    shape, registers, shared = tvm_layouts(scope, num, trans=trans)
    if mode is not None:
        shared = tc.SwizzledLayout(tc.swizzle(mode, "float16"), shared)
    threads = {"warp": tc.warp(), "warpgroup": tc.warpgroup(), "cta": tc.cta(128)}[scope]
    plan = moved(registers, shape, shared, scope=threads, store=store)
    form = f"{'st' if store else 'ld'}matrix.sync.aligned.m8n8.x{num}{'.trans' if trans else ''}.shared.b16"
    assert matrices(tc.ptx_text(plan)) == [form]


@pytest.mark.parametrize("outer", [4, 5])
def test_tvms_swizzled_tile_of_several_instructions(outer: int) -> None:
    shape = (outer, 8, 2, 4, 4, 2)
    registers = TileLayout(S[shape : (16, 4 @ laneid, 8, 2, 1 @ laneid, 1)])
    plan = moved(registers, shape, swizzled(shape))
    assert matrices(tc.ptx_text(plan)) == ["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] * (2 * outer)


def test_tvms_fragment_of_tensor_memory_from_shared_memory() -> None:
    lanes = tc.mma_fragment("16x256b.x8", "C", "float32")
    fragment = tc.tile_fragment(lanes, (64, 64), (4, 1), warp_axis=wid_in_wg)
    plan = moved(fragment, (64, 64), swizzled((64, 64), "bfloat16"), "bfloat16", scope=tc.warpgroup(), target="sm_100a")
    assert matrices(tc.ptx_text(plan)) == ["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] * 4


# ------------------------------------------------------------------------------------------------ results

ROUND_TRIPS: dict[str, tuple[TileLayout, tuple[int, int], str, int, TileLayout]] = {
    "A, padded rows": (
        tc.tile_fragment(tc.mma_fragment("m16n8k16", "A", "float16"), (32, 32)),
        (32, 32),
        "float16",
        32,
        swizzled((32, 32), mode=None, pitch=40),
    ),
    "B by rows of K, 32B": (MMA_B, (16, 64), "float16", 32, B_BY_ROWS_OF_K),
    "C of four warps, 128B": (
        tc.tile_fragment(tc.mma_fragment("m16n8k16", "C", "float16"), (64, 64), (2, 2)),
        (64, 64),
        "float16",
        128,
        swizzled((64, 64)),
    ),
    "A of bytes, 64B": (
        tc.tile_fragment(tc.mma_fragment("m16n8k32", "A", "int8"), (32, 64)),
        (32, 64),
        "int8",
        32,
        swizzled((32, 64), "int8", "64B"),
    ),
    "A of float32, 128B": (
        tc.tile_fragment(tc.mma_fragment("m16n8k8", "A", "float32"), (16, 32)),
        (16, 32),
        "float32",
        32,
        swizzled((16, 32), "float32"),
    ),
    "three columns of B": (
        tc.tile_fragment(tc.mma_fragment("m16n8k16", "B", "float16"), (24, 16)),
        (24, 16),
        "float16",
        32,
        swizzled((24, 16), mode=None),
    ),
    "one matrix": (tc.mma_fragment("m16n8k8", "B", "float16"), (8, 8), "float16", 32, swizzled((8, 8), mode=None)),
    "warps that share the tile": (
        tc.mma_fragment("m16n8k16", "A", "float16"),
        (16, 16),
        "float16",
        64,
        swizzled((16, 16), mode="32B"),
    ),
    "two of four warps": (
        tc.tile_fragment(tc.mma_fragment("m16n8k16", "A", "float16"), (32, 16), (2, 1)),
        (32, 16),
        "float16",
        128,
        swizzled((32, 16), mode="32B"),
    ),
}


def round_trip(name: str, target: str) -> tuple[tc.BuiltKernel, tuple[int, int], str]:
    """A to shared memory, to registers by ldmatrix, back into another tile by stmatrix where no warps share it, and to B."""
    fragment, shape, dtype, threads, shared = ROUND_TRIPS[name]
    k = tc.KernelBuilder("round_trip", threads=threads)
    a, b = k.param("A", shape, dtype), k.param("B", shape, dtype)
    tile = k.shared(shape, dtype, layout=shared, name="tile", align_bytes=1024)
    back = k.shared(shape, dtype, layout=shared, name="back", align_bytes=1024)
    held = k.local(shape, dtype, layout=fragment, name="held")
    k.cta.copy(tile[:, :], a[:, :])
    k.cta_sync()
    k.cta.copy(held[:, :], tile[:, :], variant="ldmatrix")
    if name == "warps that share the tile":
        with k.if_(k.warp_id() == 0):
            k.warp.copy(back[:, :], held[:, :], variant="stmatrix")
    else:
        k.cta.copy(back[:, :], held[:, :], variant="stmatrix")
    k.cta_sync()
    k.cta.copy(b[:, :], back[:, :])
    return k.build(target=target, grid=1), shape, dtype


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_round_trips(executor: str, name: str) -> None:
    kernel, shape, dtype = round_trip(name, "sm_90")
    size = tc.dtype_of(dtype).bytes
    a = np.random.default_rng(1).integers(0, 256, (*shape, size), np.uint8).reshape(-1).view(f"u{size}").reshape(shape)
    b = np.zeros_like(a)
    kernel(a.view(dtype), b.view(dtype), executor=usable(executor))
    assert (a == b).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_lanes_hold_is_what_reg_loads(executor: str) -> None:
    """Each thread's registers, written out one by one, are the same by ldmatrix and by ordinary loads."""
    shape, variants = (32, 32), ("ldmatrix", "reg")
    k = tc.KernelBuilder("held", threads=32)
    a = k.param("A", shape, "float16")
    tile = k.shared(shape, "float16", layout=swizzled(shape, mode="64B"), name="tile", align_bytes=1024)
    k.cta.copy(tile[:, :], a[:, :])
    k.cta_sync()
    for number, variant in enumerate(variants):
        out = k.param(f"out{number}", (4, 32, 32), "float16")
        for turn, (operand, box) in enumerate(product("AB", (tile, tile.T))):
            layout = tc.tile_fragment(tc.mma_fragment("m16n8k16", operand, "float16"), shape)
            held = k.local(shape, "float16", layout=layout, name=f"held{number}_{turn}")
            k.warp.copy(held[:, :], box[:, :], variant=variant)
            for i in range(32):
                k.store(out[turn, k.thread_id(), i], k.load(k.registers(held)[i]))
    x = np.arange(1024, dtype=np.float16).reshape(shape)
    found = [np.zeros((4, 32, 32), np.float16) for _ in variants]
    k.build(target="sm_90", grid=1)(x, *found, executor=usable(executor))
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_slices_at_starts_known_when_the_kernel_runs(executor: str) -> None:
    """A ring of tiles: each turn loads a slice of a larger fragment from the stage of the turn."""
    k = tc.KernelBuilder("ring", threads=64)
    a, b = k.param("A", (3, 32, 32), "float16"), k.param("B", (3, 32, 32), "float16")
    ring = k.shared((3, 32, 32), "float16", layout=swizzled((3, 32, 32), mode="64B"), name="ring", align_bytes=1024)
    fragment = tc.tile_fragment(tc.mma_fragment("m16n8k16", "A", "float16"), (16, 64))
    held = k.local((16, 64), "float16", layout=fragment, name="held")
    k.cta.copy(ring[:, :, :], a[:, :, :])
    k.cta_sync()
    rows = slice(k.warp_id() * 16, k.warp_id() * 16 + 16)
    for turn in k.range(3):
        k.warp.copy(held[:, 32:64], ring[turn, rows, :], variant="ldmatrix")
        k.warp.copy(b[turn, rows, :], held[:, 32:64])
    kernel = k.build(target="sm_90", grid=1)
    x = np.arange(3072, dtype=np.float16).reshape(3, 32, 32)
    found = np.zeros_like(x)
    kernel(x, found, executor=usable(executor))
    assert (x == found).all()


@pytest.mark.parametrize("shape", ["m16n16.x2.trans", "m16n8.x4.trans"])
def test_bytes_are_transposed_where_the_target_does_it(shape: str) -> None:
    """Operand B of bytes stored by rows of K; of the emulator-free kind: where the partition says that each element goes."""
    store = "m16n8" in shape
    if store:
        iters = ((8, 4, 2, 2, 8), (4, 1 @ laneid, 1, 2, 4 @ laneid))
        fragment, box = TileLayout(S[iters[0] : iters[1]]), (64, 16)
        shared = TileLayout(S[(64, 16) : (16, 1)])
    else:
        fragment = tc.tile_fragment(tc.mma_fragment("m16n8k32", "B", "int8"), (32, 64))
        box, shared = (32, 64), TileLayout(S[(32, 4, 16) : (1, 1008, 48)])
    local, tile = sides(fragment, box, shared, "int8")
    dst, src = (tile, local) if store else (local, tile)
    plans = [tc.plan(dst[:, :], src[:, :], scope=tc.warp(), target=target) for target in ("sm_100a", "sm_90a")]
    assert plans[0].partition.form.name == shape.replace(".x2", "").replace(".x4", "")
    assert plans[1].variant == "reg"
    text = tc.ptx_text(plans[0])
    assert {form.split("aligned.")[1] for form in matrices(text)} == {f"{shape}.shared.b8"}
    assert "shared.b8" not in tc.ptx_text(plans[1])
    found = plans[0].partition.moves(plans[0].request, {})
    assert len(found) == len(set(found)) == prod(box)
    each = 16 if not store else 8
    given = [plans[0].partition.offset(lane) for lane in range(32)]
    for batch in plans[0].partition.batches:  # what the ISA says of one instruction
        for matrix, row, column in product(range(plans[0].partition.count), range(each), range(16)):
            lane = 4 * (column % 8) + (row // 4 if not store else row // 2)
            which, byte = (2 * matrix + column // 8, row % 4) if not store else (matrix, 2 * (column // 8) + row % 2)
            register, place = (lane, batch.registers[which] + byte), given[each * matrix + row] + batch.place + column
            found.remove((place, register) if store else (register, place))
    assert not found
    found = plans[0].partition.moves(plans[0].request, {})
    expected = set()
    for coordinate in np.ndindex(*box):
        own, place = fragment.apply(*coordinate, shape=box), shared.apply(*coordinate, shape=box)["m"]
        register = (own["laneid"], own["m"])
        expected.add((place, register) if store else (register, place))
    assert set(found) == expected


@pytest.mark.skipif(not available_assemblers(), reason="no assembler: pip install cuda-python nvidia-nvjitlink")
@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, "sm_75") for name in WORKED if name.startswith("operand")), *((name, "sm_90") for name in WORKED)],
)
def test_the_text_assembles(name: str, target: str) -> None:
    plan = WORKED[name][0]()
    moved_again = tc.plan(plan.request.dst, plan.request.src, scope=plan.request.scope, target=target)
    assert moved_again.variant in ("ldmatrix", "stmatrix")
    assemble(tc.ptx_text(moved_again), tc.target_of(target))


@pytest.mark.skipif(not available_assemblers(), reason="no assembler: pip install cuda-python nvidia-nvjitlink")
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_110a", "sm_120a"])
@pytest.mark.parametrize("columns", [16, 32, 64])
def test_transposed_bytes_assemble(target: str, columns: int) -> None:
    fragment = tc.tile_fragment(tc.mma_fragment("m16n8k32", "B", "int8"), (columns, 32))
    plan = moved(fragment, (columns, 32), TileLayout(S[(columns, 32) : (1, 64)]), "int8", target=target)
    assemble(tc.ptx_text(plan), tc.target_of(target))
    pairs = TileLayout(S[(columns // 8, 4, 2, 2, 8) : (4, 1 @ laneid, 1, 2, 4 @ laneid)])
    plan = moved(pairs, (columns, 16), TileLayout(S[columns, 16]), "int8", target=target, store=True)
    assemble(tc.ptx_text(plan), tc.target_of(target))


# ------------------------------------------------------------------------------------------------ what is declined

HALF_A = tc.mma_fragment("m16n8k16", "A", "float16")
DECLINED: dict[str, tuple[Any, str]] = {
    "a row that is 18 bytes further": (
        lambda: moved(HALF_A, (16, 16), swizzled((16, 16), mode=None, pitch=17)),
        "the distance in tile from the row of lane 0 to the row of lane 1 must be a multiple of 16 bytes, got 34",
    ),
    "columns that are not transposed in 32 bits": (
        lambda: moved(tc.mma_fragment("m16n8k8", "B", "float32"), (8, 8), TileLayout(S[(8, 8) : (1, 8)]), "float32"),
        "m8n8: the element of lane 1 must be at offset 1 from the element of lane 0 in tile, as in a matrix row, got offset 8.: for example, use a row-major "
        'tile with rows of 16 bytes and mma_fragment."m16n8k8", "A", "float32".\n',
    ),
    "pairs of float32": (
        lambda: moved(tc.mma_fragment("m16n8k8", "C", "float32"), (16, 8), swizzled((16, 8), mode=None), "float32"),
        "the element of lane 1 must be at offset 1 from the element of lane 0 in tile.* got offset 2",
    ),
    "lanes that hold rows": (
        lambda: moved(TileLayout(S[(32, 8) : (1 @ laneid, 1)]), (32, 8), swizzled((32, 8), mode=None)),
        "the element of lane 1 must be at offset 2 from the element of lane 0 in tile, .* got offset 8; m8n8.trans: the element of lane 4 must be at .* got offset 32",
    ),
    "half of the lanes": (
        lambda: moved(TileLayout(S[(4, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]), (4, 8), swizzled((4, 8), mode=None)),
        "lane 16 must hold an element of the box",
    ),
    "a slice of half a matrix": (
        lambda: sliced_rows(),
        "lane 16 must hold an element of the box",
    ),
    "a swizzle of less than 16 bytes": (
        lambda: moved(HALF_A, (16, 16), tc.SwizzledLayout(tc.Swizzle(2, 2, 3), TileLayout(S[16, 16]))),
        "at most the 4 elements of a swizzle chunk, got 8 elements",
    ),
    "elements of 64 bits": (
        lambda: moved(tc.mma_fragment("m8n8k4", "A", "float64"), (8, 4), swizzled((8, 4), mode=None), "float64"),
        "must have 32 bits, got 64",
    ),
    "fragments that begin at another lane": (
        lambda: moved(
            TileLayout(S[(8, 2, 2) : (2 @ laneid, 1 @ laneid, 1)] + 16 @ laneid), (8, 4), swizzled((8, 4), mode=None)
        ),
        "must begin at lane 0 of a warp, got lane 16",
    ),
    "replicas over lanes": (
        lambda: moved(
            TileLayout(S[(4, 4, 2) : (4 @ laneid, 1 @ laneid, 1)] + tc.R[2 : 16 @ laneid]),
            (4, 8),
            swizzled((4, 8), mode=None),
        ),
        "must not have replicas over lanes",
    ),
    "a store by warps that hold their own": (
        lambda: moved(HALF_A, (16, 16), swizzled((16, 16), mode=None), scope=tc.cta(64), store=True),
        "distinguish only 32 of the 64 threads of the cta",
    ),
    "a scope without whole warps": (
        lambda: moved(HALF_A, (16, 16), swizzled((16, 16), mode=None), scope=tc.cta(48)),
        "whole warps of 32 threads, got a last warp of 16",
    ),
    "an address that is not proved to be aligned": (
        lambda: at_start(4),
        "the start must be a multiple of 8 elements, got .* a multiple of 4",
    ),
    "one register for two rows": (
        lambda: moved(
            TileLayout(S[(2, 8, 4, 2) : (0, 4 @ laneid, 1 @ laneid, 1)]),
            (16, 8),
            swizzled((16, 8), mode=None),
            store=True,
        ),
        "must be greater than 0, got a stride of 0 in 2:0",
    ),
    "stmatrix before sm_90": (
        lambda: moved(HALF_A, (16, 16), swizzled((16, 16), mode=None), store=True, target="sm_89"),
        "sm_90",
    ),
    "registers that begin inside one": (
        lambda: moved(TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)] + 1), (8, 8), swizzled((8, 8), mode=None)),
        "each matrix must begin at the first of a register's 2 elements, got element 1",
    ),
}


def sliced_rows() -> tc.Plan:
    local, tile = sides(HALF_A, (16, 16), swizzled((16, 16), mode=None), "float16")
    return tc.plan(local[0:4, :], tile[0:4, :], scope=tc.warp(), target="sm_90", variant="ldmatrix")


def at_start(multiple_of: int) -> tc.Plan:
    local = tc.Buffer((16, 16), "float16", space="local", layout=HALF_A, name="fragment")
    tile = tc.Buffer((16, 64), "float16", space="shared", name="tile", align_bytes=1024)
    start = tc.symbol("n", upper=48, multiple_of=multiple_of)
    return tc.plan(local[:, :], tile[:, start : start + 16], scope=tc.warp(), target="sm_90", variant="ldmatrix")


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_no_matrix_is_declined_with_what_breaks_it(name: str) -> None:
    make, why = DECLINED[name]
    with pytest.raises(tc.NoVariantError, match=why):
        make()


def test_a_start_that_is_proved_aligned_is_taken_and_others_fall_to_reg() -> None:
    assert at_start(8).variant == "ldmatrix"
    local = tc.Buffer((16, 16), "float16", space="local", layout=HALF_A, name="fragment")
    tile = tc.Buffer((16, 64), "float16", space="shared", name="tile")
    start = tc.symbol("n", upper=48)
    assert tc.plan(local[:, :], tile[:, start : start + 16], scope=tc.warp(), target="sm_90").variant == "reg"
    beyond = tc.plan(local[:, :], tile[:, start + 40 : start + 56], scope=tc.warp(), target="sm_90", outside="zero")
    assert beyond.variant == "reg"


def test_an_instruction_fills_neighbouring_registers() -> None:
    """Those that one mma reads, which the hardware wants side by side: others would be moved first."""
    partition = moved(MMA_A, (16, 64), swizzled((16, 64))).partition
    assert [batch.registers for batch in partition.batches] == [(n, n + 2, n + 4, n + 6) for n in range(0, 32, 8)]
    assert [batch.place for batch in partition.batches] == [0, 16, 32, 48]
    assert partition.summary() == "4 x m8n8.x4 in each of 1 warps, 32 elements per thread"
    assert [(digit.stride, digit.extent, digit.step) for digit in partition.rows] == [(1, 16, 64), (16, 2, 8)]
    stored = moved(MMA_B, (16, 64), B_BY_ROWS_OF_K, store=True).partition
    assert all(
        batch.registers == tuple(range(first, first + 8, 2))
        for batch in stored.batches
        for first in batch.registers[:1]
    )


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the repository's examples are not here")
def test_the_example_moves_accumulators_to_an_operand_across_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "accumulator_to_operand.py"), run_name="__main__")
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["operand", "ldmatrix", "ldmatrix", "regperm_shfl"]
    assert said[0] == "operand: equal"


@pytest.mark.parametrize(
    ("dtype", "elems", "best"), [("float32", 1, "reg"), ("uint8", 4, "reg"), ("float16", 2, "ldmatrix")]
)
def test_a_register_a_lane_is_an_ordinary_copy(dtype: str, elems: int, best: str) -> None:
    layout = TileLayout(S[(32, elems) : (1 @ laneid, 1)])
    own = tc.Buffer((32, elems), dtype, space="local", layout=layout, name="own")
    tile = tc.Buffer((32, elems), dtype, space="shared", name="tile")
    for dst, src, variant in ((own, tile, best), (tile, own, best.replace("ld", "st"))):
        found = tc.plan(dst[:, :], src[:, :], scope=tc.warp(), target="sm_90a")
        assert found.variant == variant, found.explain()
        matrices = "ldmatrix" if dst is own else "stmatrix"
        demanded = tc.plan(dst[:, :], src[:, :], scope=tc.warp(), target="sm_90a", variant=matrices)
        assert demanded.partition.instructions_per_thread == 1
    wide = tc.mma_fragment("m16n8k8", "A", "float32")
    own = tc.Buffer((16, 8), "float32", space="local", layout=wide, name="own")
    tile = tc.Buffer((16, 8), "float32", space="shared", name="tile")
    assert tc.plan(own[:, :], tile[:, :], scope=tc.warp(), target="sm_90a").variant == "ldmatrix", "four at once"
