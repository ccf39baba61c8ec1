"""Starts from memory: gather, scatter and paged copies by the examples of docs/, and what an index may be."""

from __future__ import annotations

import runpy
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import S, TileLayout, laneid
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy_emulator import EmulatorExecutor
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import is_hazard, mentions

from tilecopy_core.integers import bounds_of
from tilecopy_core.integers.expr import structural_equal

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
rows_by_index = lru_cache(runpy.run_path(str(EXAMPLES / "gather_scatter.py"))["rows_by_index"])
paged_copy = lru_cache(runpy.run_path(str(EXAMPLES / "paged_copy.py"))["paged_copy"])


@pytest.mark.parametrize("name", ["gather_scatter.py", "paged_copy.py"])
def test_the_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    said = capsys.readouterr().out.splitlines()
    assert len(said) >= 3 and all(line.endswith(": equal") for line in said)


@pytest.mark.parametrize(
    "kernel",
    [
        *(lambda way=way, clamp=clamp: rows_by_index(way, 64, "float16", "int64", clamp=clamp)
          for way in ("gather", "scatter") for clamp in (False, True)),
        *(lambda scope=scope: paged_copy(scope, 32, "float32") for scope in ("cta", "warp")),
    ],
)  # fmt: skip
def test_both_assemblers_take_it_and_the_bounds_prove_every_region(kernel: Any) -> None:
    built = kernel()
    assert not built.bounds
    for assembler in ASSEMBLERS:
        assert assemble(built.ptx, built.target, assembler)[:4] == b"\x7fELF"


@given(st.data(), st.sampled_from(["int32", "int64"]), st.integers(1, 40), st.integers(1, 20))
def test_gather_and_scatter_are_numpys(data: Any, index_dtype: str, total: int, count: int) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, total - 1), min_size=count, max_size=count)), index_dtype)
    a = byte_arrays.random_array((total, 64), "float16")
    packed = np.zeros((count, 64), np.float16)
    rows_by_index("gather", 64, "float16", index_dtype)(a, rows, packed, executor="emulator")
    assert byte_arrays.same_bytes(packed, a[rows])
    rows = np.random.default_rng(count).permutation(max(total, count))[:count].astype(index_dtype)
    back, expected = np.zeros((max(total, count), 64), np.float16), np.zeros((max(total, count), 64), np.float16)
    expected[rows] = packed
    rows_by_index("scatter", 64, "float16", index_dtype)(back, rows, packed, executor="emulator")
    assert byte_arrays.same_bytes(back, expected)


@given(st.data(), st.sampled_from(["cta", "warp"]), st.integers(1, 12), st.integers(1, 3), st.integers(1, 9))
def test_pages_come_by_their_table(data: Any, scope: str, pages: int, sequences: int, blocks: int) -> None:
    drawn = data.draw(st.lists(st.integers(0, pages - 1), min_size=sequences * blocks, max_size=sequences * blocks))
    table = np.array(drawn, np.int32).reshape(sequences, blocks)
    pool = byte_arrays.random_array((pages, 16, 32), "uint32").view(np.float32)
    out = np.zeros((sequences, blocks * 16, 32), np.float32)
    paged_copy(scope, 32, "float32")(pool, table, out, executor="emulator")
    assert byte_arrays.same_bytes(out, pool[table].reshape(out.shape))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("bad", [-1, 20, 2**31 - 1, -(2**31)])
def test_an_index_outside_is_a_hazard_and_nothing_is_written(index_dtype: str, bad: int) -> None:
    kernel = rows_by_index("gather", 64, "float16", index_dtype)
    a, rows = byte_arrays.random_array((20, 64), "float16"), np.arange(12).astype(index_dtype)
    rows[9] = bad
    packed = np.ones((12, 64), np.float16)
    with pytest.raises(tc.HazardError, check=is_hazard("bounds", bad, 19)) as caught:
        kernel(a, rows, packed, executor="emulator")
    assert caught.value.kind == "bounds" and mentions(32).search(str(caught.value))
    assert kernel.ptx.split("\n")[caught.value.line - 1].strip().startswith("mov.b")
    assert (packed == 1).all()


def test_only_what_is_written_is_kept_for_an_index_outside() -> None:
    """Two arrays of 256 MiB, a page or two of each written by a kernel whose last CTA has a bad index."""
    k, n = tc.KernelBuilder("sparse", threads=32), 1 << 26
    a, b, at = k.param("A", (n,), "float32"), k.param("B", (n,), "float32"), k.param("at", (4,), "int32")
    start = k.index(k.load(at[k.block_id()]), lower=0, upper=n - 32)
    k.store(a[k.block_id() * 32 + k.thread_id()], 1.0)
    k.store(b[start + k.thread_id()], 2.0)
    kernel = k.build(target="sm_90", grid=4)
    arrays = [np.zeros(n, np.float32), np.zeros(n, np.float32)]
    pages = Path("/proc/self/statm")
    before, peak = int(pages.read_text().split()[1]), []
    executor = EmulatorExecutor(progress=lambda done, total: peak.append(int(pages.read_text().split()[1])))
    starts = np.array([1000, 1032, n - 32, 9000], np.int32)
    executor.launch(kernel, (*arrays, starts))
    assert max(peak) - before < 16384
    assert arrays[1][1000:1064].min() == arrays[1][n - 32 :].min() == 2
    saved = [array[:1100].copy() for array in arrays]
    arrays[0][:128] = saved[0][:128] = 5
    with pytest.raises(tc.HazardError, check=is_hazard("bounds", -1)):
        executor.launch(kernel, (*arrays, np.array([40, 1040, 200, -1], np.int32)))
    assert all(np.array_equal(array[:1100], old) for array, old in zip(arrays, saved, strict=True))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_clamped_the_emulator_does_as_the_gpu(index_dtype: str) -> None:
    kernel = rows_by_index("gather", 64, "float16", index_dtype, clamp=True)
    a = byte_arrays.random_array((20, 64), "float16")
    rows = np.array([3, -1, 20, 19, np.iinfo(index_dtype).min, np.iinfo(index_dtype).max, 0], index_dtype)
    packed = np.zeros((7, 64), np.float16)
    kernel(a, rows, packed, executor="emulator")
    assert byte_arrays.same_bytes(packed, a[np.clip(rows, 0, 19)])


def reader(dtype: str, compute: Any = lambda k, v: v, **bounds: Any) -> tc.BuiltKernel:
    """``B[t] = index(compute(A[t]))`` as int64, by 32 threads."""
    k = tc.KernelBuilder("reader", threads=32)
    a, b = k.param("A", (32,), dtype), k.param("B", (32,), "int64")
    tid = k.thread_id()
    k.store(b[tid], k.cast(k.index(compute(k, k.load(a[tid])), **bounds) * 2 + 1, "int64"))
    return k.build(target="sm_80", grid=1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize(
    "bounds", [(-100, 100), (0, 200), (5, 2**33), (-(2**40), 7), (0, 0), (-8, -5), (-(2**31), -1), (-(2**40), -(2**33))]
)
def test_clamping_is_numpys_for_every_type(dtype: str, bounds: tuple[int, int]) -> None:
    info = np.iinfo(dtype)
    source = np.resize(np.array([info.min, info.max, 0, 1, 7, 100, info.max // 2], dtype), 32)
    result = np.zeros(32, np.int64)
    kernel = reader(dtype, lower=bounds[0], upper=bounds[1], clamp=True)
    assemble(kernel.ptx, kernel.target, "ptxas")
    kernel(source, result, executor="emulator")
    assert result.tolist() == [min(max(int(value), bounds[0]), bounds[1]) * 2 + 1 for value in source]


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_what_is_unsigned_is_not_negative(dtype: str) -> None:
    kernel = reader(dtype, lower=-5, upper=10)
    source, result = np.full(32, 3, dtype), np.zeros(32, np.int64)
    kernel(source, result, executor="emulator")
    assert (result == 7).all()
    source[3] = np.iinfo(dtype).max
    with pytest.raises(tc.HazardError, check=is_hazard("bounds", 3, -1, 10)):
        kernel(source, result, executor="emulator")
    with pytest.raises(tc.RequestError, match=mentions(0, -1)):
        reader(dtype, lower=-5, upper=-1)


@pytest.mark.parametrize(
    ("bounds", "taken"), [((-(2**62), 2**62), True), ((-(2**62) - 1, 0), False), ((0, 2**62 + 1), False)]
)
def test_an_index_is_within_2_to_the_62(bounds: tuple[int, int], taken: bool) -> None:
    k = tc.KernelBuilder("k", threads=32)
    loaded = k.load(k.param("at", (4,), "int64")[0])
    if taken:
        assert bounds_of(k.index(loaded, lower=bounds[0], upper=bounds[1])) == bounds
    else:
        with pytest.raises(tc.RequestError, match=mentions(*bounds)):
            k.index(loaded, lower=bounds[0], upper=bounds[1])


def test_an_index_is_computed_of_values_and_costs_one_move() -> None:
    kernel = reader("int32", lambda k, v: (v * 3 + 1).min(40), lower=0, upper=40)
    source, result = np.arange(32, dtype=np.int32), np.zeros(32, np.int64)
    kernel(source, result, executor="emulator")
    assert (result == np.minimum(source * 3 + 1, 40) * 2 + 1).all()
    plain = reader("int32", lower=0, upper=40).ptx
    body = plain[plain.index("ld.global") :]
    assert body.count("mov.b32") == 1 and "setp" not in plain and "min." not in plain


def gather(scope: str, place: Any, *, dtype: str = "int32") -> tc.BuiltKernel:
    """A copy at a scope that starts at ``rows[place]``."""
    k = tc.KernelBuilder("k", threads=64)
    a, rows = k.param("A", (32, 64), "float32"), k.param("rows", (64,), dtype)
    s = k.shared((64, 64), "float32")
    row = k.index(k.load(rows[place(k)]), upper=31)
    getattr(k, scope).copy(s[k.warp_id() if scope == "warp" else 0, :], a[row, :])
    return k.build(target="sm_80", grid=1)


@pytest.mark.parametrize(
    ("scope", "place", "taken"),
    [
        ("cta", lambda k: 5, True),
        ("cta", lambda k: k.block_id(), True),
        ("cta", lambda k: k.warp_id(), False),
        ("cta", lambda k: k.thread_id(), False),
        ("warp", lambda k: k.warp_id(), True),
        ("warp", lambda k: k.lane_id(), False),
        ("thread", lambda k: k.thread_id(), True),
    ],
)
def test_a_scope_starts_where_its_threads_agree(scope: str, place: Any, taken: bool) -> None:
    if not taken:
        with pytest.raises(tc.NoVariantError, match=mentions("index0", "A", scope)):
            gather(scope, place)
    else:
        assert gather(scope, place).plans[0].variant == "gmem_smem"


def test_registers_of_its_own_are_a_threads_alone() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s, own = k.param("A", (32, 32), "float32"), k.shared((32,), "float32"), k.local(1, "int32")
    k.store(own[0], 3)
    row = k.index(k.load(own[0]), upper=31)
    k.warp.copy(s[:], a[row, :])
    with pytest.raises(tc.NoVariantError, match=mentions("warp")):
        k.build(target="sm_80")


def test_two_loads_are_two_values_and_one_index_is_one() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (8,), "int32"), k.param("B", (2,), "int32", align_bytes=4)
    place = k.shared((1,), "int32")
    with k.if_(k.thread_id() == 0):
        k.store(place[0], 2)
        first = k.index(k.load(place[0]), upper=7)
        k.store(place[0], 5)
        second = k.index(k.load(place[0]), upper=7)
        assert not structural_equal(first, second) and structural_equal(first - first, 0)
        k.store(b[0], k.load(a[first]))
        k.store(b[1], k.load(a[second]))
    result = np.zeros(2, np.int32)
    k.build(target="sm_80", grid=1)(np.arange(8, dtype=np.int32) * 10, result, executor="emulator")
    assert result.tolist() == [20, 50]


def test_an_index_is_an_integer_like_any_other() -> None:
    """A count from memory in a loop, a guard and a shifted start; every CTA has its own."""
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M", lower=4)
    a, counts, b = (
        k.param("A", (m, 32), "int32"),
        k.param("counts", (3,), "int32", align_bytes=4),
        k.param("B", (3, 32), "int32"),
    )
    s = k.shared((4, 32), "int32")
    cta = k.block_id()
    count = k.index(k.load(counts[cta]), lower=0, upper=m - 4)
    total = k.local(1, "int32")
    k.store(total[0], 0)
    for i in k.range(count):
        k.cta.copy(s[0:1, :], a[i + 4 : i + 5, :])
        k.cta_sync()
        k.store(total[0], k.load(total[0]) + k.load(s[0, k.thread_id()]))
        k.cta_sync()
    with k.if_(count > 1):
        k.cta.copy(s[:, :], a[count - 1 : count + 3, :])
        k.cta_sync()
        k.store(total[0], k.load(total[0]) + k.load(s[3, k.thread_id()]))
    k.store(b[cta, k.thread_id()], k.load(total[0]))
    kernel = k.build(target="sm_80", grid=3)
    assert not kernel.bounds
    source, result = np.arange(320, dtype=np.int32).reshape(10, 32), np.zeros((3, 32), np.int32)
    counts = np.array([0, 1, 6], np.int32)
    kernel(source, counts, result, executor="emulator")
    expected = [source[4 : 4 + n].sum(axis=0) + (source[n + 2] if n > 1 else 0) for n in counts]
    assert (result == np.array(expected)).all()


def test_nothing_to_clamp_to() -> None:
    k = tc.KernelBuilder("k", threads=32)
    n = k.size("n", lower=0)
    a, rows = k.param("A", (n, 4), "int32"), k.param("rows", (1,), "int32")
    k.store(a[k.index(k.load(rows[0]), upper=n - 1, clamp=True), 0], 1)
    kernel = k.build(target="sm_80", grid=1)
    one = np.zeros((1, 4), np.int32)
    kernel(one, np.array([9], np.int32), executor="emulator")
    assert one[0, 0] == 1
    with pytest.raises(tc.LaunchError, match=mentions("n")):
        kernel(np.zeros((0, 4), np.int32), np.array([9], np.int32), executor="emulator")


def test_with_no_cta_there_is_nothing_to_clamp() -> None:
    k = tc.KernelBuilder("k", threads=32)
    n = k.size("n", lower=0)
    a, rows = k.param("A", (n, 4), "int32"), k.param("rows", (1,), "int32")
    k.store(a[k.index(k.load(rows[0]), upper=n - 1, clamp=True), 0], 1)
    kernel = k.build(target="sm_80", grid=n)
    kernel(np.zeros((0, 4), np.int32), np.array([9], np.int32), executor="emulator")
    one = np.zeros((1, 4), np.int32)
    kernel(one, np.array([9], np.int32), executor="emulator")
    assert one.tolist() == [[1, 0, 0, 0]]


def in_a_block(k: Any) -> Any:
    with k.if_(k.thread_id() == 0):
        row = k.index(k.load(k.param("rows", (4,), "int32")[0]), upper=3)
    with k.if_(k.thread_id() == 1):
        k.store(k.param("A", (4,), "int32")[row], 1)
    return k.build(target="sm_80")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda k: k.index(3, upper=4), tc.RequestError, (3,)),
        (lambda k: k.index(k.thread_id(), upper=4), tc.RequestError, ("tid.x",)),
        (lambda k: k.index(k.load(k.param("A", (4,), "float32")[0]), upper=4), tc.RequestError, ("float32",)),
        (lambda k: k.index(k.load(k.param("A", (4,), "int32")[0]), lower=5, upper=4), tc.RequestError, (5, 4)),
        (
            lambda k: k.index(k.load(k.param("A", (4,), "int32")[0]), upper=4.5),
            tc.RequestError,
            ("upper", "4.5"),
        ),
        (
            lambda k: k.index(k.load(k.param("A", (4,), "int32")[0]), upper=k.block_id()),
            tc.RequestError,
            ("ctaid.x",),
        ),
        (
            lambda k: k.load(
                k.param("B", (4, 4), "int32")[k.index(k.load(k.param("A", (4,), "int32")[0]), lower=4, upper=9), 0]
            ),
            tc.LayoutError,
            (4,),
        ),
        (in_a_block, tc.TilecopyError, ("A",)),
    ],
)
def test_what_is_no_index_says_why(make: Any, error: type[Exception], message: tuple[object, ...]) -> None:
    with pytest.raises(error, match=mentions(*message)):
        make(tc.KernelBuilder("k", threads=32))


def test_an_index_that_may_leave_its_array_is_refused() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, rows = k.param("A", (8, 32), "float32"), k.param("rows", (4,), "int32")
    s = k.shared((2, 32), "float32", layout=TileLayout(S[2, 32]))
    row = k.index(k.load(rows[0]), upper=7)
    k.warp.copy(s[:, :], a[row : row + 2, :])
    with pytest.raises(tc.LayoutError, match=mentions("index0", 7, 6)):
        k.build(target="sm_80", grid=1)


def test_half_a_register_written_after_an_index_leaves_the_other_half() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, rows, b = k.param("A", (8, 32, 2), "uint16"), k.param("rows", (1,), "int32"), k.param("B", (32, 2), "uint16")
    own = k.local((32, 2), "uint16", layout=TileLayout(S[(32, 2) : (1 @ laneid, 1)]))
    k.warp.copy(own[:, :], a[0, :, :])
    row = k.index(k.load(rows[0]), upper=7)
    k.store(k.registers(own)[1], k.load(a[row, k.lane_id(), 1]))
    k.warp.copy(b[:, :], own[:, :])
    source, result = byte_arrays.random_array((8, 32, 2), "uint16"), np.zeros((32, 2), np.uint16)
    k.build(target="sm_80", grid=1)(source, np.array([5], np.int32), result, executor="emulator")
    assert (result[:, 0] == source[0, :, 0]).all() and (result[:, 1] == source[5, :, 1]).all()


def test_a_table_of_tables() -> None:
    """Rows through two tables, in a loop, by warps: an index found by an index is shared by those who share that."""
    k = tc.KernelBuilder("two_levels", threads=64)
    m, n, turns = k.size("M"), k.size("N"), k.size("turns", lower=0)
    a, b = k.param("A", (m, 32), "float32"), k.param("B", (turns, 2, 32), "float32")
    outer, inner = k.param("outer", (turns, 2), "int64", align_bytes=8), k.param("inner", (n,), "int32", align_bytes=4)
    s = k.shared((2, 32), "float32")
    warp = k.warp_id()
    for i in k.range(turns):
        at = k.index(k.load(outer[i, warp]), upper=n - 1)
        row = k.index(k.load(inner[at]) - 1, upper=m - 1)
        k.warp.copy(s[warp, :], a[row, :])
        k.warp_sync()
        k.warp.copy(b[i, warp, :], s[warp, :])
        k.warp_sync()
    kernel = k.build(target="sm_80", grid=1)
    assert not kernel.bounds and len(kernel.index_assertions) == 2
    for assembler in ASSEMBLERS:
        assemble(kernel.ptx, kernel.target, assembler)
    rng = np.random.default_rng(0)
    for rows, entries, count in ((5, 3, 4), (40, 9, 0), (1, 1, 7)):
        source = byte_arrays.random_array((rows, 32), "uint32").view(np.float32)
        first, second = rng.integers(0, entries, (count, 2)), rng.integers(1, rows + 1, entries).astype(np.int32)
        result = np.zeros((count, 2, 32), np.float32)
        kernel(source, result, first, second, executor="emulator")
        assert byte_arrays.same_bytes(result, source[second[first] - 1])
    second[0] = 0
    with pytest.raises(tc.HazardError, check=is_hazard("bounds", -1)):
        kernel(source, result, first, second, executor="emulator")


def test_on_the_gpu(gpu: str) -> None:
    a, rows = byte_arrays.random_array((1000, 64), "float16"), np.random.default_rng(0).integers(-50, 1050, 3000)
    for dtype in ("int32", "int64"):
        packed, back = np.zeros((3000, 64), np.float16), np.zeros((1000, 64), np.float16)
        kernel = rows_by_index("gather", 64, "float16", dtype, clamp=True)
        kernel(a, rows.astype(dtype), packed, executor="cuda")
        assert byte_arrays.same_bytes(packed, a[np.clip(rows, 0, 999)])
        order = np.random.default_rng(1).permutation(1000)
        rows_by_index("scatter", 64, "float16", dtype)(back, order.astype(dtype), packed[:1000], executor="cuda")
        assert byte_arrays.same_bytes(back[order], packed[:1000])
    table = np.random.default_rng(2).integers(0, 100, (7, 33), np.int32)
    pool = byte_arrays.random_array((100, 16, 32), "uint32").view(np.float32)
    for scope in ("cta", "warp"):
        out = np.zeros((7, 33 * 16, 32), np.float32)
        paged_copy(scope, 32, "float32")(pool, table, out, executor="cuda")
        assert byte_arrays.same_bytes(out, pool[table].reshape(out.shape))
