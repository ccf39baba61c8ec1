"""Copies in Numba-CUDA kernels: compiled to PTX with no GPU, run on the emulator, and on the GPU where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_test_helpers import nvidia_module

nvidia_module("numba_cuda")

import tilecopy_export.numba as tn
from numba import cuda, float32, int64, uint32, uint64
from numba.core.errors import TypingError
from numba.cuda import types
from tilecopy import S, TileLayout
from tilecopy_emulator import run_ptx
from tilecopy_emulator.memory.tensor_maps import tensor_map
from tilecopy_test_helpers.mentions import mentions

pytest.importorskip("tilecopy_ldgsts")

MATRIX = types.Array(types.float32, 2, "C")
ROWS, COLUMNS = 32, 64
ELEMENTS = ROWS * COLUMNS
ALL = tc.cta(128)


def buffers(rows: tc.Int = 512, columns: tc.Int = COLUMNS) -> tuple[tc.Buffer, tc.Buffer, tc.Buffer, tc.Buffer]:
    a, b = (tc.Buffer((rows, columns), "float32", space="global", name=name) for name in "AB")
    tile = tc.Buffer((ROWS, COLUMNS), "float32", space="shared", name="tile")
    layout = TileLayout(S[(4, 8, 16, 4) : (4, 16 @ tc.tx, 1 @ tc.tx, 1)])
    return a, b, tile, tc.Buffer((ROWS, COLUMNS), "float32", space="local", name="part", layout=layout)


def box(start: tc.Int) -> slice:
    return slice(start * ROWS, start * ROWS + ROWS)


def through_shared_and_registers() -> Any:
    a, b, tile, part = buffers()
    bx = tc.symbol("bx", upper=15)
    plan = tc.plan(tile[:, :], a[box(bx), :], op="copy_async", scope=ALL, target="sm_80")
    load = tn.device_function(plan, "load")
    read = tn.device_function(tc.plan(part[:, :], tile[:, :], scope=ALL, target="sm_80"), "read")
    write = tn.device_function(tc.plan(b[box(bx), :], part[:, :], scope=ALL, target="sm_80"), "write")

    @cuda.jit
    def kernel(a, b):
        tile = cuda.shared.array((ROWS, COLUMNS), float32, alignment=128)
        part = cuda.local.array(16, uint32)
        load(tile, a, cuda.blockIdx.x)
        tn.cp_async_commit()
        tn.cp_async_wait(0)
        cuda.syncthreads()
        read(part, tile)
        write(b, part, cuda.blockIdx.x, cuda.threadIdx.x)

    return kernel


def ptx_of(kernel: Any, *kinds: Any, cc: tuple[int, int] = (9, 0)) -> str:
    text, _ = cuda.compile_ptx(kernel.py_func, kinds, cc=cc)
    return str(text)


def flat(array: np.ndarray) -> list[Any]:
    """An array as Numba's kernels take it."""
    return [0, 0, array.size, array.itemsize, array, *array.shape, *array.strides]


def test_a_copy_is_inlined_and_its_fragment_stays_in_registers() -> None:
    text = ptx_of(through_shared_and_registers(), MATRIX, MATRIX)
    assert "call" not in text and "__local_depot" not in text and ".local" not in text
    assert text.count("cp.async.cg.shared.global") == 4 and text.count("st.global.v4.b32") == 4


def test_a_kernel_of_numba_moves_what_the_plans_say() -> None:
    a = np.random.default_rng(0).random((512, COLUMNS), np.float32)
    b = np.zeros_like(a)
    run_ptx(ptx_of(through_shared_and_registers(), MATRIX, MATRIX), [*flat(a), *flat(b)], grid=16, block=128)
    assert np.array_equal(a, b)


@pytest.mark.filterwarnings("ignore:.*Grid size 16 will")  # Numba's advice on a grid that is small on purpose
def test_a_kernel_of_numba_runs_on_the_gpu() -> None:
    if not cuda.is_available():
        pytest.skip("no GPU: numba.cuda.is_available() is False")
    a = np.random.default_rng(0).random((512, COLUMNS), np.float32)
    b = cuda.device_array_like(a)
    through_shared_and_registers()[16, 128](cuda.to_device(a), b)
    assert np.array_equal(b.copy_to_host(), a)


def test_a_tensor_map_is_an_array_that_the_host_fills() -> None:
    pytest.importorskip("tilecopy_tma")
    bx = tc.symbol("bx", upper=15)
    a, _, tile, _ = buffers()
    bar = tc.Buffer((1,), "uint64", space="shared", name="bar")
    options: dict[str, Any] = {"op": "copy_async", "scope": tc.thread(), "target": "sm_90", "variant": "tma"}
    load = tn.device_function(tc.plan(tile[:, :], a[box(bx), :], mbar=bar[0], **options), "load")

    @cuda.jit
    def kernel(a, made, out):
        tile = cuda.shared.array((ROWS, COLUMNS), float32, alignment=128)
        bar = cuda.shared.array(1, uint64, alignment=128)
        if cuda.threadIdx.x == 0:
            tn.mbarrier_init(bar, 1)
            tn.fence_mbarrier_init()
            tn.mbarrier_arrive_expect_tx(bar, ROWS * COLUMNS * 4)
            load(tile, a, 3, bar, made)
            tn.mbarrier_wait(bar, 0)
        cuda.syncthreads()
        for row in range(ROWS):
            out[row, cuda.threadIdx.x] = tile[row, cuda.threadIdx.x]

    memory = np.zeros((512 + ROWS + 1, COLUMNS), np.float32)  # all in one array, whose address is known
    memory[:512] = np.random.default_rng(0).random((512, COLUMNS))
    matrix, out, made = memory[:512], memory[512:-1], memory[-1].view(np.uint8)
    facts = {"dtype": "float32", "sizes": (COLUMNS, 512), "strides_bytes": (256,), "box": (COLUMNS, ROWS)}
    encoded = tensor_map((1 << 44) + 256, **facts, element_strides=(1, 1), swizzle="none", fill="zero")
    made[:128] = np.frombuffer(encoded, np.uint8)
    text = ptx_of(kernel, MATRIX, types.Array(types.uint8, 1, "C"), MATRIX)
    run_ptx(text, [*flat(matrix), *flat(made), *flat(out)], grid=1, block=COLUMNS)
    assert np.array_equal(out, matrix[3 * ROWS : 4 * ROWS])


def test_edges_and_sizes_are_arguments() -> None:
    m, n = tc.symbol("M", lower=1, upper=10**6), tc.symbol("N", lower=1, upper=10**6)
    a, b, tile, _ = buffers(m, n)
    x, y = tc.symbol("x", upper=1), tc.symbol("y", upper=2)
    c = tc.Buffer((3, 2, ROWS, COLUMNS), "float32", space="global", name="C")
    part = box(y), slice(x * COLUMNS, x * COLUMNS + COLUMNS)
    load = tn.device_function(tc.plan(tile[:, :], a[part], scope=ALL, target="sm_80", outside=1.5), "load")
    whole = tn.device_function(tc.plan(c[y, x, :, :], tile[:, :], scope=ALL, target="sm_80"), "whole")
    inside = tn.device_function(tc.plan(b[part], tile[:, :], scope=ALL, target="sm_80", outside="keep"), "inside")

    @cuda.jit
    def kernel(a, b, c):
        tile = cuda.shared.array((ROWS, COLUMNS), float32, alignment=128)
        x, y = cuda.blockIdx.x, cuda.blockIdx.y
        load(tile, a, y, x, a.shape[0], a.shape[1])
        cuda.syncthreads()
        whole(c, tile, y, x)
        inside(b, tile, y, x, b.shape[0], b.shape[1])

    a_ = np.random.default_rng(0).random((70, 100), np.float32)
    b_, c_ = np.zeros_like(a_), np.zeros((3, 2, ROWS, COLUMNS), np.float32)
    text = ptx_of(kernel, MATRIX, MATRIX, types.Array(types.float32, 4, "C"))
    run_ptx(text, [*flat(a_), *flat(b_), *flat(c_)], grid=(2, 3), block=128)
    padded = np.full((3 * ROWS, 2 * COLUMNS), 1.5, np.float32)
    padded[:70, :100] = a_
    assert np.array_equal(a_, b_)
    assert np.array_equal(c_.swapaxes(1, 2).reshape(padded.shape), padded)


def test_another_ctas_shared_memory_is_reached() -> None:
    a, b, _, _ = buffers(2 * ROWS)
    here, there = (tc.Buffer((ROWS, COLUMNS), "float32", space="shared", name=name) for name in ("here", "there"))
    bar = tc.Buffer((1,), "uint64", space="shared", name="bar", align_bytes=8)
    rank, peer = tc.symbol("rank", upper=15), tc.symbol("peer", upper=15)
    load = tn.device_function(tc.plan(here[:, :], a[box(rank), :], scope=ALL, target="sm_90"), "load")
    plan = tc.plan(
        there[:, :], here[:, :], op="copy_async", scope=tc.thread(), target="sm_90", mbar=bar[0], remote_cta_id=peer
    )
    send = tn.device_function(plan, "send")
    store = tn.device_function(tc.plan(b[box(rank), :], there[:, :], scope=ALL, target="sm_90"), "store")

    @cuda.jit
    def kernel(a, b):
        here = cuda.shared.array((ROWS, COLUMNS), float32, alignment=128)
        there = cuda.shared.array((ROWS, COLUMNS), float32, alignment=128)
        bar = cuda.shared.array(1, int64)
        rank = cuda.blockIdx.x
        if cuda.threadIdx.x == 0:
            tn.mbarrier_init(bar, 1)
            tn.fence_mbarrier_init()
        load(here, a, rank)
        tn.fence_proxy_async()
        tn.cluster_sync()
        if cuda.threadIdx.x == 0:
            tn.mbarrier_arrive_expect_tx(bar, ROWS * COLUMNS * 4)
            send(there, here, 1 - rank, bar)
        tn.mbarrier_wait(bar, 0)
        store(b, there, rank)
        tn.cluster_sync()

    a_ = np.random.default_rng(0).random((2 * ROWS, COLUMNS), np.float32)
    b_ = np.zeros_like(a_)
    run_ptx(ptx_of(kernel, MATRIX, MATRIX), [*flat(a_), *flat(b_)], grid=2, block=128, cluster=2)
    assert np.array_equal(b_, np.roll(a_, ROWS, axis=0))


def refused(body: Any, *kinds: Any) -> str:
    with pytest.raises(TypingError) as caught:
        ptx_of(cuda.jit(body), *kinds)
    return str(caught.value)


def test_arguments_of_another_kind_are_refused_by_name() -> None:
    a, _, tile, part = buffers()
    load = tn.device_function(tc.plan(tile[:, :], a[0:32, :], scope=ALL, target="sm_80"), "load")
    read = tn.device_function(tc.plan(part[:, :], a[0:32, :], scope=ALL, target="sm_80"), "read")

    def no_array(a):
        load(a, 3)

    def another_dtype(a, wide):
        load(a, wide)

    def too_few(a):
        load(a)

    def no_fragment(a):
        read(a, a)

    def no_constant(a):
        tn.cp_async_wait(a.shape[0])

    def below_zero():
        tn.cp_async_wait(-1)

    def narrow_barrier():
        tn.mbarrier_init(cuda.shared.array(1, float32), 1)

    wide = types.Array(types.float64, 2, "C")
    assert mentions(31, "int").search(refused(below_zero))
    assert mentions("int64", "uint64", "float32").search(refused(narrow_barrier))
    assert mentions("A").search(refused(no_array, MATRIX))
    assert mentions("A", "float32").search(refused(another_dtype, MATRIX, wide))
    assert mentions("tile", "A").search(refused(too_few, MATRIX))
    assert mentions("cuda.local.array", 16, "uint32").search(refused(no_fragment, MATRIX))
    assert refused(no_constant, MATRIX)


@pytest.mark.parametrize("plan", [None, 3, "plan", b"", [], tc.Plan, tc.KernelBuilder("other", threads=32)])
def test_what_is_no_plan_is_refused(plan: Any) -> None:
    with pytest.raises(tc.RequestError, match=mentions("device_function", "plan")):
        tn.device_function(plan)


def test_a_copy_that_cannot_leave_its_kernel_is_refused() -> None:
    pytest.importorskip("tilecopy_tcgen05_cp")
    source = tc.Buffer((32, 16), "uint8", space="shared", name="source")
    layout = TileLayout(S[(32, 16) : (1 @ tc.TLane, 1 @ tc.TCol)] + tc.R[4 : 32 @ tc.TLane])
    tmem = tc.Buffer((32, 16), "uint8", space="tmem", name="T", layout=layout)
    plan = tc.plan(tmem[:, :], source[:, :], op="copy_async", scope=tc.thread(), target="sm_100a")
    with pytest.raises(tc.RequestError, match=mentions("copy_async", "uint8")):
        tn.device_function(plan)


def array(dtype: Any, ndim: int, layout: str = "C", **more: Any) -> Any:
    return types.Array(dtype, ndim, layout, **more)


def buffer(name: str, dtype: str = "float32", **how: Any) -> tc.Buffer:
    return tc.Buffer(how.pop("shape", (ROWS, COLUMNS)), dtype, space=how.pop("space", "global"), name=name, **how)


COLUMN_MAJOR = TileLayout(S[(ROWS, COLUMNS) : (1, ROWS)])
SYMBOLIC = tc.symbol("M", lower=ROWS, upper=2**20), tc.symbol("N", lower=COLUMNS, upper=2**20)
PADDED = TileLayout(S[(ROWS, COLUMNS) : (COLUMNS + 4, 1)])
F32 = types.float32


@pytest.mark.parametrize(
    ("source", "fits", "fits_not"),
    [
        (buffer("A"), [array(F32, 2), array(F32, 2, readonly=True)], [array(F32, 2, "F"), array(F32, 2, "A"), array(F32, 1), array(F32, 3)]),
        (buffer("A"), [], [array(types.int32, 2), array(types.uint32, 2), array(types.float64, 2), array(types.Record.make_c_struct([("x", F32)]), 2)]),
        (buffer("A", layout=COLUMN_MAJOR), [array(F32, 2, "F")], [array(F32, 2), array(F32, 2, "A"), array(F32, 1)]),
        (buffer("A", shape=SYMBOLIC), [array(F32, 2)], [array(F32, 2, "F"), array(F32, 2, "A"), array(F32, 1)]),
        (buffer("A", layout=PADDED), [array(F32, 2), array(F32, 2, "A")], [array(F32, 1), array(types.int32, 2)]),
        (buffer("A", shape=(ROWS * COLUMNS,)).view(shape=(ROWS, COLUMNS)), [array(F32, 1), array(F32, 2)], [array(F32, 1, "A"), array(F32, 2, "F")]),
        (buffer("A", shape=(COLUMNS, ROWS)).T, [array(F32, 2), array(F32, 2, "F")], [array(F32, 2, "A"), array(F32, 1)]),
        (buffer("A", shape=(2, 16, COLUMNS)).view(shape=(ROWS, COLUMNS)), [array(F32, 3), array(F32, 2)], [array(F32, 3, "F"), array(F32, 1)]),
        (buffer("A", "bfloat16"), [array(types.uint16, 2)], [array(types.int16, 2), array(types.float16, 2), array(types.uint8, 2)]),
        (buffer("A", "float8_e4m3fn"), [array(types.uint8, 2)], [array(types.int8, 2), array(types.boolean, 2)]),
        (buffer("A", "bool"), [array(types.boolean, 2)], [array(types.uint8, 2)]),
        (buffer("A", "int16"), [array(types.int16, 2)], [array(types.uint16, 2), array(types.float16, 2)]),
        (buffer("A", "complex64"), [array(types.complex64, 2)], [array(types.float64, 2), array(types.int64, 2)]),
    ],
)  # fmt: skip
def test_arrays_that_the_plan_does_not_cover_are_refused(
    source: tc.Buffer, fits: list[Any], fits_not: list[Any]
) -> None:
    tile = buffer("tile", str(source.dtype), space="shared")
    region = source[:ROWS, :COLUMNS]
    load = tn.device_function(tc.plan(tile[:, :], region, scope=ALL, target="sm_80"), "load")

    def with_sizes(a):
        load(64, a, 512, 64)

    def without(a):
        load(64, a)

    kernel = without if isinstance(source.shape[0], int) else with_sizes
    for kind in fits:
        assert ptx_of(cuda.jit(kernel), kind)
    for kind in fits_not:
        assert mentions("load", "A").search(refused(kernel, kind))


def test_arrays_that_are_read_only_or_of_another_shape_in_shared_memory_are_refused() -> None:
    a, tile = buffer("A"), buffer("tile", space="shared")
    store = tn.device_function(tc.plan(a[:, :], tile[:, :], scope=ALL, target="sm_80"), "store")

    def flat_tile(a):
        store(a, cuda.shared.array(ELEMENTS, float32, alignment=128))

    def whole_tile(a):
        store(a, cuda.shared.array((ROWS, COLUMNS), float32, alignment=128))

    def other_tile(a):
        store(a, cuda.shared.array((ROWS, COLUMNS), int64, alignment=128))

    assert ptx_of(cuda.jit(whole_tile), MATRIX)
    assert mentions("store", "tile", 2).search(refused(flat_tile, MATRIX))
    assert mentions("store", "tile", "float32").search(refused(other_tile, MATRIX))
    assert mentions("store", "A").search(refused(whole_tile, array(F32, 2, readonly=True)))


def test_half_a_block_is_told_on_the_emulator() -> None:
    a = np.random.default_rng(0).random((512, COLUMNS), np.float32)
    with pytest.raises(tc.HazardError) as error:
        run_ptx(
            ptx_of(through_shared_and_registers(), MATRIX, MATRIX),
            [*flat(a), *flat(np.zeros_like(a))],
            grid=16,
            block=64,
        )
    assert error.value.kind in ("incomplete", "poison")
