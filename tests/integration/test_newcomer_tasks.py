"""A newcomer's first day: 24 tasks as programs that use what README, the docs and `--help` show, and nothing else."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner, Result
from tilecopy import S, TCol, TileLayout, TLane
from tilecopy_cli.builtin_commands import tilecopy as command
from tilecopy_test_helpers.mentions import is_hazard, mentions

ROOT = Path(__file__).parents[2]
SOURCE, DESTINATION = "gmem f16 [4096, 64] [bx*128 : bx*128+128, :]", "smem f16 [128, 64]"
RNG = np.random.default_rng(0)
CTRL_C = """
import os, signal, threading, time
from tilecopy_cli import main
signal.signal(signal.SIGINT, signal.SIG_DFL)
def press():
    while signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
main()
"""
"""The command, and Ctrl-C while it works."""


def tilecopy(*words: object, stdin: str | None = None) -> Result:
    """The command `tilecopy` in this process."""
    return CliRunner().invoke(command, [str(word) for word in words], input=stdin)


def test_01_the_example_of_the_readme() -> None:
    """With another shape; the install lines of the README name packages that are there (install_lines.py runs them)."""
    text = (ROOT / "README.md").read_text()
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "KernelBuilder" in block)
    names: dict[str, object] = {}
    exec(example.replace("tiles = 24", "tiles = 3"), names)
    a, b = names["a"], names["b"]
    assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b) and a.shape == (384, 64)
    assert "pip install . plugins/*/" in text


def test_02_run_on_files(tmp_path: Path) -> None:
    arrays = {
        "odd": RNG.random((333, 77)).astype(np.float16),
        "columns": np.asfortranarray(RNG.random((50, 70), np.float32)),
        "vector": np.arange(1001),
        "cube": RNG.random((3, 5, 7)) > 0.5,
    }
    for name, array in arrays.items():
        np.save(tmp_path / "in.npy", array)
        done = tilecopy("run", tmp_path / "in.npy", tmp_path / f"{name}.npy", "--tile", "64x32")
        assert done.exit_code == 0 and "verified" in done.stdout, done.output
        assert (tmp_path / f"{name}.npy").read_bytes() == (tmp_path / "in.npy").read_bytes()


def test_03_relayout(tmp_path: Path) -> None:
    from tilecopy_relayout import relayout

    x = RNG.random((2, 6, 8, 10), np.float32)
    assert np.array_equal(relayout(x, "b c h w -> b h w c"), x.transpose(0, 2, 3, 1))
    np.save(tmp_path / "in.npy", x)
    done = tilecopy("relayout", tmp_path / "in.npy", tmp_path / "out.npy", "--axes", "3,1,0,2")
    assert done.exit_code == 0 and np.array_equal(np.load(tmp_path / "out.npy"), x.transpose(3, 1, 0, 2)), done.output
    dask = pytest.importorskip("dask.array", reason="Dask is not installed")
    lazy = relayout(dask.from_array(x, chunks=(1, 3, 8, 5)), (0, 2, 3, 1))
    assert np.array_equal(lazy.compute(), x.transpose(0, 2, 3, 1))


def test_04_a_pipeline() -> None:
    tiles = 5
    k = tc.KernelBuilder("scale", threads=64)
    A, B = k.param("A", (tiles * 16, 64), "float32"), k.param("B", (tiles * 16, 64), "float32")
    ring = k.shared((2, 16, 64), "float32", name="ring")
    k.cta.copy_async(ring[0, :, :], A[0:16, :])
    k.cp_async_commit()
    with k.range(tiles, unroll=False) as n:
        with k.if_(n + 1 < tiles):
            k.cta.copy_async(ring[(n + 1) % 2, :, :], A[n * 16 + 16 : n * 16 + 32, :])
        k.cp_async_commit()
        k.cp_async_wait(1)
        k.cta_sync()
        k.cta.copy(B[n * 16 : n * 16 + 16, :], ring[n % 2, :, :])
        k.cta_sync()
    a, b = RNG.random((tiles * 16, 64), np.float32), np.zeros((tiles * 16, 64), np.float32)
    k.build(target="sm_80", grid=1)(A=a, B=b)
    assert np.array_equal(a, b)


def test_05_a_transpose_without_bank_conflicts() -> None:
    from tilecopy_emulator import EmulatorExecutor

    k = tc.KernelBuilder("transpose", threads=128)
    A, B = k.param("A", (64, 32), "float32"), k.param("B", (32, 64), "float32")
    tile = k.shared((32, 32), "float32", layout=TileLayout(S[(32, 32) : (33, 1)]), name="tile")
    y = k.block_id("x") * 32
    k.cta.copy(tile[:, :], A[y : y + 32, :])
    k.cta_sync()
    k.cta.copy(B.T[y : y + 32, :], tile[:, :])
    a, b = RNG.random((64, 32), np.float32), np.zeros((32, 64), np.float32)
    counts = EmulatorExecutor(profile=True).launch(k.build(target="sm_80", grid=2), (a, b)).counters
    assert np.array_equal(b, a.T) and counts["shared_wavefronts"] == counts["shared_requests"]


def test_06_a_halo() -> None:
    k = tc.KernelBuilder("halo", threads=64)
    A, B = k.param("A", (50, 40), "float32"), k.param("B", (4, 18, 42), "float32")
    tile, y = k.shared((18, 42), "float32", name="tile"), k.block_id("x")
    k.cta.copy(tile[:, :], A[y * 16 - 1 : y * 16 + 17, -1:41], outside="zero")
    k.cta_sync()
    k.cta.copy(B[y, :, :], tile[:, :])
    a, b = RNG.random((50, 40), np.float32), np.ones((4, 18, 42), np.float32)
    k.build(target="sm_80", grid=4)(a, b)
    padded = np.pad(a, ((1, 30), (1, 1)))
    assert all(np.array_equal(b[n], padded[n * 16 : n * 16 + 18]) for n in range(4))


def test_07_a_gather() -> None:
    k = tc.KernelBuilder("gather", threads=32)
    count, height = k.size("count"), k.size("height")
    table, rows = k.param("table", (height, 64), "float16"), k.param("rows", (count,), "int32")
    out, row = k.param("out", (count, 64), "float16"), k.shared((64,), "float16")
    here = k.block_id("x")
    k.cta.copy(row[:], table[k.index(k.load(rows[here]), upper=height - 1), :])
    k.cta_sync()
    k.cta.copy(out[here, :], row[:])
    kernel = k.build(target="sm_80", grid=(count,))
    numbers, chosen = RNG.random((30, 64)).astype(np.float16), np.array([7, 0, 29, 7], np.int32)
    found = np.zeros((4, 64), np.float16)
    kernel(numbers, chosen, found)
    assert np.array_equal(found, numbers[chosen])
    with pytest.raises(tc.HazardError, match="30"):
        kernel(numbers, chosen + 1, found, executor="emulator")


def test_08_a_paged_copy() -> None:
    k = tc.KernelBuilder("collect", threads=64)
    pages, used = k.size("pages"), k.size("used")
    cache, table = k.param("cache", (pages, 8, 32), "float16"), k.param("table", (used,), "int32")
    out, tile = k.param("out", (used, 8, 32), "float16"), k.shared((8, 32), "float16")
    n = k.block_id("x")
    k.cta.copy(tile[:, :], cache[k.index(k.load(table[n]), upper=pages - 1), :, :])
    k.cta_sync()
    k.cta.copy(out[n, :, :], tile[:, :])
    memory, order = RNG.random((9, 8, 32)).astype(np.float16), np.array([8, 2, 5], np.int32)
    found = np.zeros((3, 8, 32), np.float16)
    k.build(target="sm_80", grid=(used,))(memory, order, found)
    assert np.array_equal(found, memory[order])


def test_09_one_kernel_for_many_sizes() -> None:
    k = tc.KernelBuilder("any_size", threads=64)
    M, N = k.size("M"), k.size("N", multiple_of=8)
    A, B = k.param("A", (M, N), "float16"), k.param("B", (M, N), "float16")
    tile, y, x = k.shared((16, 64), "float16"), k.block_id("y") * 16, k.block_id("x") * 64
    k.cta.copy(tile[:, :], A[y : y + 16, x : x + 64], outside="zero")
    k.cta_sync()
    k.cta.copy(B[y : y + 16, x : x + 64], tile[:, :], outside="zero")
    kernel = k.build(target="sm_80", grid=((N + 63) // 64, (M + 15) // 16))
    for shape in ((1, 8), (33, 72), (16, 64)):
        a, b = RNG.random(shape).astype(np.float16), np.zeros(shape, np.float16)
        kernel(a, b)
        assert np.array_equal(a, b)
    with pytest.raises(tc.LaunchError, match=mentions("N")):
        kernel(np.zeros((4, 9), np.float16), np.zeros((4, 9), np.float16))


def test_10_two_ctas_of_a_cluster() -> None:
    k = tc.KernelBuilder("exchange", threads=32)
    A, B = k.param("A", (2, 64), "float32"), k.param("B", (2, 64), "float32")
    mine, theirs = k.shared((64,), "float32", name="mine"), k.shared((64,), "float32", name="theirs")
    mbar, first, rank = k.mbarrier("mbar"), k.thread_id() == 0, k.cluster_rank()
    with k.if_(first):
        mbar.init(1)
        k.fence_mbarrier_init()
        mbar.arrive_expect_tx(256)
    k.cta.copy(mine[:], A[rank, :])
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(first):
        k.thread.copy_async(theirs[:], mine[:], mbar=mbar[0], remote_cta_id=1 - rank)
    mbar.wait(0)
    k.cta.copy(B[rank, :], theirs[:])
    k.cluster_sync()
    a, b = RNG.random((2, 64), np.float32), np.zeros((2, 64), np.float32)
    k.build(target="sm_90", grid=2, cluster=2)(a, b)
    assert np.array_equal(b, a[::-1])


def test_11_tensor_memory_and_back() -> None:
    k = tc.KernelBuilder("tensor", threads=128)
    A, B = k.param("A", (128, 16), "uint8"), k.param("B", (128, 16), "uint8")
    tile, mbar, tid = k.shared((128, 16), "uint8", align_bytes=1024), k.mbarrier("mbar"), k.thread_id()
    tmem = k.tmem((128, 16), "uint8", layout=TileLayout(S[(128, 16) : (1 @ TLane, 1 @ TCol)]))
    row = k.local((128, 16), "uint8", layout=TileLayout(S[(128, 16) : (1 @ tc.tid_in_wg, 1)]))
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(tmem, columns=32)
    with k.if_(tid == 0):
        mbar.init(1)
    k.cta.copy(tile[:, :], A[:, :])
    k.fence_proxy_async()
    k.cta_sync()
    with k.if_(tid == 0):
        k.thread.copy_async(tmem[:, :], tile[:, :], cta_group=1)
        k.tcgen05_commit(mbar[0])
    mbar.wait(0)
    k.tcgen05_fence_after()
    k.warpgroup.copy(row[:, :], tmem[:, :])
    k.warpgroup.copy(B[:, :], row[:, :])
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(tmem, columns=32)
    kernel = k.build(target="sm_100a", grid=1)
    a, b = RNG.integers(0, 256, (128, 16), np.uint8), np.zeros((128, 16), np.uint8)
    kernel(a, b, executor="emulator")
    assert np.array_equal(a, b) and [plan.variant for plan in kernel.plans[1:3]] == ["tcgen05_cp", "tcgen05_ld"]


def test_12_operands_of_an_mma() -> None:
    k = tc.KernelBuilder("product", threads=32)
    A, B, C = (
        k.param(n, s, d)
        for n, s, d in (("A", (16, 16), "float16"), ("B", (16, 8), "float16"), ("C", (16, 8), "float32"))
    )
    a_tile, b_tile = k.shared((16, 16), "float16", name="a_tile"), k.shared((16, 8), "float16", name="b_tile")
    a = k.local((16, 16), "float16", layout=tc.mma_fragment("m16n8k16", "A", "float16"))
    b = k.local((8, 16), "float16", layout=tc.mma_fragment("m16n8k16", "B", "float16"))
    c = k.local((16, 8), "float32", layout=tc.mma_fragment("m16n8k16", "C", "float32"))
    k.warp.copy(a_tile[:, :], A[:, :])
    k.warp.copy(b_tile[:, :], B[:, :])
    k.cta_sync()
    k.warp.copy(a[:, :], a_tile[:, :])
    k.warp.copy(b[:, :], b_tile.T[:, :])
    k.warp.copy(c[:, :], C[:, :])
    text = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{2}}}, {{{0}}}, {{{1}}}, {{{2}}};"
    with pytest.raises(tc.RequestError, match=mentions("k.registers")):
        k.inline_ptx(text, k.registers(a)[:], k.registers(b)[:], out=[k.registers(c)])  # type: ignore[list-item]
    k.inline_ptx(text, k.registers(a)[:], k.registers(b)[:], out=[k.registers(c)[:]])
    k.warp.copy(C[:, :], c[:, :])
    kernel = k.build(target="sm_80", grid=1)
    x, y = (RNG.integers(-4, 5, shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    z = RNG.integers(-4, 5, (16, 8)).astype(np.float32)
    wanted = z + x.astype(np.float32) @ y.astype(np.float32)
    kernel(x, y, z)
    assert np.array_equal(z, wanted) and [plan.variant for plan in kernel.plans].count("ldmatrix") == 2


def test_13_a_tensor_copy() -> None:
    k = tc.KernelBuilder("load", threads=32)
    A, B = k.param("A", (40, 72), "float16"), k.param("B", (32, 64), "float16")
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[32, 64]))
    tile, full = k.shared((32, 64), "float16", layout=layout), k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(32 * 64 * 2)
        k.thread.copy_async(tile[:, :], A[16:48, 16:80], mbar=full[0], outside="zero")
    k.cta_sync()
    full.wait(0)
    k.cta.copy(B[:, :], tile[:, :])
    kernel = k.build(target="sm_90", grid=1)
    a, b = RNG.random((40, 72)).astype(np.float16), np.ones((32, 64), np.float16)
    kernel(a, b)
    assert np.array_equal(b, np.pad(a, ((0, 8), (0, 8)))[16:48, 16:80]) and kernel.plans[0].variant == "tma"


def test_13_a_tensor_copy_in_words() -> None:
    words = (SOURCE, DESTINATION, "--op", "copy_async", "--scope", "thread", "--variant", "tma")
    assert "a box of 128 x 64" in tilecopy("plan", *words).stdout
    assert "cp.async.bulk.tensor.2d" in tilecopy("ptx", *words).stdout
    assert "uint32_t mbar" in tilecopy("cuda", *words, "--name", "load").stdout
    assert "What the engine moves" in tilecopy("draw", *words).stdout


def test_14_pictures(tmp_path: Path) -> None:
    from tilecopy_draw import draw

    A, tile = (tc.Buffer((16, 64), "float16", space=space, name=space) for space in ("global", "shared"))
    plan = tc.plan(tile[:, :], A[:, :], scope=tc.warp(), target="sm_90a")
    swizzled = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[8, 64]))
    fragment = tc.mma_fragment("m16n8k16", "A", "float16")
    for picture, kind in (
        (draw(plan), "moves"),
        (draw(plan, "banks"), "banks"),
        (draw(swizzled), "banks"),
        (draw(fragment), "fragment"),
    ):
        assert picture.kind == kind and picture.svg.startswith("<svg")
    done = tilecopy("draw", SOURCE, DESTINATION, "-o", tmp_path / "copy.svg")
    assert done.exit_code == 0 and (tmp_path / "copy.svg").read_text().startswith("<svg"), done.output
    words = (
        "smem f16 [16, 16]",
        "reg f16 [16, 16]",
        "--scope",
        "warp",
        "--dst-layout",
        'mma_fragment("m16n8k16", "A", "f16")',
    )
    assert tilecopy("draw", *words, "--kind", "fragment").stdout.startswith("<svg")


def test_15_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    A, tile = (tc.Buffer((64, 64), "float32", space=space, name=space) for space in ("global", "shared"))
    plain, ragged = (
        tc.cost(tc.plan(tile[:, :], A[:, :], scope=tc.cta(128), target="sm_90a", variant=v))
        for v in ("gmem_smem", "ragged")
    )
    assert plain.sectors == plain.ideal_sectors == 512 and not ragged < plain
    found = tc.compare(tile[:, :], A[:, :], scope=tc.cta(128))
    assert {"gmem_smem", "ldgsts", "bulk", "tma"} <= {row.plan.variant for row in found.rows}
    monkeypatch.setenv("COLUMNS", "120")
    done = tilecopy("compare", SOURCE, DESTINATION, "--target", "sm_80", "--target", "sm_90a")
    assert done.exit_code == 0 and "wavefronts" in done.stdout and "sm_80" in done.stdout, done.output
    with pytest.raises(tc.RequestError, match=mentions("empty")):
        tc.cost(tc.KernelBuilder("empty", threads=32).build(target="sm_80", grid=1))  # type: ignore[arg-type]


def test_16_choose_forbid_and_prefer(monkeypatch: pytest.MonkeyPatch) -> None:
    A, tile = (tc.Buffer((64, 64), "float32", space=space, name=space) for space in ("global", "shared"))

    def chosen(variant: str | None = None) -> tc.Plan:
        return tc.plan(tile[:, :], A[:, :], scope=tc.cta(128), target="sm_90a", variant=variant)

    assert chosen().variant == "gmem_smem" and chosen("ragged").variant == "ragged"
    assert "Also possible: ragged (priority 5)" in chosen().explain()
    monkeypatch.setenv("TILECOPY_DISABLE", "gmem_smem")
    assert chosen().variant == "ragged"
    with pytest.raises(tc.NoVariantError, match=mentions("ragged")):
        chosen("raged")
    assert "highest priority" in " ".join(tilecopy("variants").stdout.split())


def test_17_a_copy_in_cuda_cpp() -> None:
    from tilecopy_emulator import run_cuda

    n = tc.symbol("n", upper=7)
    A, B = (tc.Buffer((128, 64), "float16", space="global", name=name) for name in "AB")
    tile = tc.Buffer((16, 64), "float16", space="shared", name="tile")
    load = tc.plan(tile[:, :], A[n * 16 : n * 16 + 16, :], scope=tc.cta(64), target="sm_80")
    store = tc.plan(B[n * 16 : n * 16 + 16, :], tile[:, :], scope=tc.cta(64), target="sm_80")
    source = (
        tc.cuda_header([load.cuda("load_tile"), store.cuda("store_tile")])
        + """
    __global__ void round_trip(const void* A, void* B) {
        __shared__ __align__(1024) char tile[16 * 64 * 2];
        uint32_t t = tilecopy::shared_address(tile);
        load_tile(t, A, blockIdx.x);
        __syncthreads();
        store_tile(B, t, blockIdx.x);
    }"""
    )
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    a, b = RNG.random((128, 64)).astype(np.float16), np.zeros((128, 64), np.float16)
    run_cuda(source, [a, b], entry="round_trip", grid=8, block=64)
    assert np.array_equal(a, b)
    done = tilecopy("cuda", SOURCE, DESTINATION, "--name", "load_tile")
    assert done.exit_code == 0 and "void load_tile(uint32_t dst, const void* src" in done.stdout, done.output


def test_18_the_same_in_numba() -> None:
    pytest.importorskip("numba", reason="Numba is not installed")
    import tilecopy_export.numba as tn
    from numba import cuda, float32
    from numba.cuda import types
    from tilecopy_emulator import run_ptx

    n = tc.symbol("n", upper=3)
    A, B = (tc.Buffer((64, 32), "float32", space="global", name=name) for name in "AB")
    part = tc.Buffer((16, 32), "float32", space="shared", name="part")
    load = tn.device_function(tc.plan(part[:, :], A[n * 16 : n * 16 + 16, :], scope=tc.cta(64), target="sm_80"))
    store = tn.device_function(tc.plan(B[n * 16 : n * 16 + 16, :], part[:, :], scope=tc.cta(64), target="sm_80"))

    def through(a, b):  # type: ignore[no-untyped-def]
        part = cuda.shared.array((16, 32), float32, alignment=128)
        load(part, a, cuda.blockIdx.x)
        cuda.syncthreads()
        store(b, part, cuda.blockIdx.x)

    matrix = types.Array(types.float32, 2, "C")
    text, _ = cuda.compile_ptx(through, (matrix, matrix), cc=(8, 0))
    a, b = RNG.random((64, 32), np.float32), np.zeros((64, 32), np.float32)

    def as_numba_passes(array: np.ndarray) -> list[object]:
        """Parent and memory information, size, bytes of an element, the address, then shape and strides."""
        return [0, 0, array.size, array.itemsize, array, *array.shape, *array.strides]

    run_ptx(text, [*as_numba_passes(a), *as_numba_passes(b)], grid=4, block=64)
    assert np.array_equal(a, b)


def test_19_save_and_load(tmp_path: Path) -> None:
    k = tc.KernelBuilder("scale", threads=32)
    M = k.size("M")
    A, B = k.param("A", (M, 32), "float32"), k.param("B", (M, 32), "float32")
    row, lane = k.block_id("x"), k.thread_id()
    k.store(B[row, lane], k.load(A[row, lane]) * 2.0)
    folder = k.build(target="sm_80", grid=(M,)).save(tmp_path / "scale")
    a, b = RNG.random((5, 32), np.float32), np.zeros((5, 32), np.float32)
    tc.load_kernel(folder)(B=b, A=a)
    assert np.array_equal(b, a * 2)


def test_20_the_race_in_a_cuda_kernel(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    source = """__global__ void reverse(const float* x, float* y) {
      __shared__ float s[128];
      s[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
      /* here */
      y[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];
    }"""
    path = tmp_path / "reverse.cu"
    words = ("emulate", path, "arange:f32:256", "zeros:f32:256", "--grid", 2, "--block", 128)
    path.write_text(source)
    done = tilecopy(*words)
    assert done.exit_code == 1 and "reverse.cu:5:" in done.stderr and "__syncthreads()" in done.stderr, done.output
    path.write_text(source.replace("/* here */", "__syncthreads();"))
    done = tilecopy(*words, "--save", f"1={tmp_path / 'y.npy'}")
    assert done.exit_code == 0 and "no hazard" in done.stdout, done.output
    assert np.array_equal(
        np.load(tmp_path / "y.npy"), np.arange(256, dtype=np.float32).reshape(2, 128)[:, ::-1].ravel()
    )
    misspelt = tilecopy(*words[:-2], "--blok", 128)
    assert misspelt.exit_code == 2 and "'--block'" in misspelt.stderr, misspelt.output


def test_21_three_errors_and_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    k = tc.KernelBuilder("wrong", threads=64)
    A, B = k.param("A", (40, 64), "float32"), k.param("B", (16, 64), "float32")
    tile = k.shared((16, 64), "float32", name="tile")
    with pytest.raises(tc.LayoutError, match=mentions("A", 40, 64, "outside")):
        k.cta.copy(tile[:, :], A[32:48, :])
    k.cta.copy(tile[:, :], A[32:48, :], outside="zero")
    k.cta.copy(B.T[:, :], tile.T[:, :])
    a, b = RNG.random((40, 64), np.float32), np.ones((16, 64), np.float32)
    k.build(target="sm_80", grid=1)(a, b)
    assert np.array_equal(b, np.pad(a[32:], ((0, 8), (0, 0))))

    for barrier in (False, True):
        k = tc.KernelBuilder("turn", threads=64)
        A, B = k.param("A", (64,), "float32"), k.param("B", (64,), "float32")
        tile, t = k.shared((64,), "float32", name="tile"), k.thread_id()
        k.store(tile[t], k.load(A[t]))
        if barrier:
            k.cta_sync()
        k.store(B[t], k.load(tile[63 - t]))
        kernel, b = k.build(target="sm_80", grid=1), np.zeros(64, np.float32)
        if barrier:
            kernel(a[0], b)
            assert np.array_equal(b, a[0, ::-1])
        else:
            with pytest.raises(tc.HazardError, check=is_hazard("race", "tile")):
                kernel(a[0], b, executor="emulator")

    monkeypatch.setenv("TILECOPY_ONLY", "reg")
    A, tile = (tc.Buffer((64, 64), "float32", space=space, name=space) for space in ("global", "shared"))
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem", "TILECOPY_ONLY=reg")):
        tc.plan(tile[:, :], A[:, :], scope=tc.cta(128), target="sm_90a")
    monkeypatch.delenv("TILECOPY_ONLY")
    with pytest.raises(tc.RequestError, match=mentions("cta")):
        tc.plan(tile[:, :], A[:, :], scope="cta", target="sm_90a")  # type: ignore[arg-type]


def test_22_the_reference() -> None:
    pages = [(ROOT / "docs" / "reference.md").read_text(), (ROOT / "README.md").read_text()]
    for name in (
        "plan",
        "cost",
        "compare",
        "mma_fragment",
        "tile_fragment",
        "symbol",
        "cuda_header",
    ):
        told = getattr(tc, name).__doc__
        assert told and "Args:" in told and "Raises:" in told, name
    for error in ("LayoutError", "RequestError", "NoVariantError", "LaunchError", "HazardError"):
        assert any(error in page for page in pages) and issubclass(getattr(tc, error), tc.TilecopyError)
    assert {"KernelBuilder", "cost", "load_kernel"} <= set(dir(tc)), "a notebook completes them"
    with pytest.raises(AttributeError) as misspelt:
        tc.KernelBulder  # type: ignore[attr-defined]
    assert misspelt.value.name == "KernelBulder" and misspelt.value.obj is tc, "Python names the nearest"


def test_23_in_a_notebook() -> None:
    from tilecopy_draw import draw

    k = tc.KernelBuilder("copier", threads=64)
    A, B = k.param("A", (16, 64), "float32"), k.param("B", (16, 64), "float32")
    part = k.local((16, 64), "float32", layout=TileLayout(S[(16, 4, 16) : (4 @ tc.tx, 1 @ tc.tx, 1)]))
    k.cta.copy(part[:, :], A[:, :])
    k.cta.copy(B[:, :], part[:, :])
    kernel = k.build(target="sm_80", grid=1)
    plan = kernel.plans[0]
    a = RNG.random((16, 64), np.float32)
    report = kernel(A=a, B=np.zeros_like(a), executor="emulator")
    shown = (plan, kernel, report, tc.cost(plan), plan.request.dst.buffer.layout)
    assert all(each._repr_html_().startswith("<table>") for each in shown)
    assert draw(plan)._repr_svg_().startswith("<svg") and "\n" not in repr(plan) and len(repr(plan)) < 100


def test_24_the_command_line(tmp_path: Path) -> None:
    assert "SOURCE DESTINATION" in tilecopy("plan", "--help").stdout
    assert tilecopy("plan", SOURCE, DESTINATION).exit_code == 0
    failed = tilecopy("run", tmp_path / "no.npy", tmp_path / "out.npy", "--json")
    assert failed.exit_code == 1 and json.loads(failed.stdout)["error"]["type"] == "FileError"
    wrong = tilecopy("plan", SOURCE, DESTINATION, "--varient", "reg")
    assert wrong.exit_code == 2 and "--variant" in wrong.stderr and wrong.stdout == ""
    plan = json.loads(tilecopy("plan", SOURCE, DESTINATION, "--json").stdout)
    assert (plan["variant"], plan["vec_bits"]) == ("gmem_smem", 128)
    text = tilecopy("ptx", SOURCE, DESTINATION).stdout
    piped = tilecopy("emulate", "-", "random:f16:4096x64", stdin=text)
    assert piped.exit_code == 0 and "no hazard" in piped.stdout, piped.output

    np.save(tmp_path / "in.npy", np.zeros((3000, 3000), np.float32))
    words = ("run", str(tmp_path / "in.npy"), str(tmp_path / "out.npy"), "--tile", "4x4", "--executor", "emulator")
    run = subprocess.run([sys.executable, "-c", CTRL_C, *words], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (-signal.SIGINT, "", "tilecopy: stopped by SIGINT\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]
