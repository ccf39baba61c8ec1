"""Copies as functions of CUDA C++: their form, their cost, and what they move, compiled by NVRTC and run on the emulator."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.assemblers import assemble
from tilecopy.kernel.instructions import SYNC
from tilecopy_emulator import run_ptx
from tilecopy_emulator.memory.tensor_maps import tensor_map
from tilecopy_test_helpers import byte_arrays, drawn_exports, exported, host_bytes, machine_code
from tilecopy_test_helpers.cuda_cpp import compiled, run_on_gpu
from tilecopy_test_helpers.mentions import mentions

# ------------------------------------------------------------------------------------------------------- cost


@pytest.fixture
def ptxas_of_pypi(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ptxas of the wheel, which knows the PTX of the wheel's NVRTC."""
    spec = find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec is not None else []
    found = [path.parent for root in roots for path in Path(root).glob("*/bin/ptxas")]
    if not found:
        pytest.skip("no ptxas: pip install nvidia-cuda-nvcc")
    monkeypatch.setenv("PATH", f"{found[0]}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("ptxas_of_pypi")
@pytest.mark.parametrize("name", exported.PAIRS)
def test_an_exported_copy_costs_what_our_own_kernel_costs(name: str) -> None:
    tool = machine_code.cuobjdump()
    if tool is None:
        pytest.skip("no cuobjdump: pip install nvidia-cuda-cuobjdump")
    pair = exported.PAIRS[name]()
    text = compiled(pair.source, "compute_90a")
    assert ".maxntid 128, 1, 1" in text and ".reqntid 128, 1, 1" in pair.ours.ptx
    # C++ cannot say .reqntid as our kernels do, which saves ptxas an election around a bulk copy: once as each is, and
    # once as the other is.
    for ours, theirs in (
        (pair.ours.ptx.replace(".reqntid", ".maxntid"), text),
        (pair.ours.ptx, text.replace(".maxntid", ".reqntid")),
    ):
        cubins = [assemble(ptx, "sm_90a", "ptxas") for ptx in (ours, theirs)]
        instructions = [machine_code.count(cubin, tool) for cubin in cubins]
        registers = [exported.registers(cubin, tool) for cubin in cubins]
        print(f"{name}: instructions {instructions}, registers {registers} (ours, exported)")
        assert instructions[1] <= instructions[0] + 2 and registers[1] <= registers[0] + 2


@pytest.mark.parametrize("name", exported.PAIRS)
def test_kernels_with_exported_copies_run_as_ours_do(name: str) -> None:
    pair = exported.PAIRS[name]()
    a = byte_arrays.random_array(pair.shape, "uint16")
    mine, other = np.zeros_like(a), np.zeros_like(a)
    pair.ours(a.view("float16"), mine.view("float16"), *pair.numbers, executor="emulator")
    run_ptx(compiled(pair.source), [a, other, *pair.numbers], grid=pair.grid, block=pair.threads, cluster=pair.cluster)
    assert np.array_equal(mine, a) and np.array_equal(other, a)


# ------------------------------------------------------------------------------------------------- what they move

DRAWN, BATCH = 200, 20


@cache
def drawn() -> list[drawn_exports.Case]:
    return drawn_exports.drawn(DRAWN)


def test_the_drawn_copies_are_of_every_variant_and_write_something() -> None:
    variants = {variant for case in drawn() for variant in case.variants}
    assert variants == {"gmem_smem", "reg", "ldgsts", "dsmem", "ragged", "ragged_async", "stmatrix"}
    written = [not np.array_equal(case.b, case.expected) for case in drawn()]
    assert sum(written) > 0.9 * DRAWN


@pytest.mark.parametrize("first", range(0, DRAWN, BATCH))
def test_drawn_copies_equal_numpy_on_the_emulator(first: int) -> None:
    cases = drawn()[first : first + BATCH]
    source = drawn_exports.source_of(cases)
    asserting = ("TILECOPY_ASSERT", "TILECOPY_FAIL(text)=__trap()") if first % (2 * BATCH) else ()
    ptx = compiled(source, "compute_90", *asserting)
    for case in cases:
        b = case.b.copy()
        run_ptx(
            ptx, [case.a, b, *case.numbers], entry=case.name, grid=case.grid, block=case.block, cluster=case.cluster
        )
        assert byte_arrays.same_bytes(b, case.expected), f"{case.name} by {case.variants}"


PLACES = {
    "i": lambda i, j: i,
    "-i": lambda i, j: -i,
    "i // 4 of either sign": lambda i, j: i // 4,
    "i % 8 - 5": lambda i, j: i % 8 - 5,
    "(i + 90) // 7 - 9": lambda i, j: (i + 90) // 7 - 9,
    "i * j": lambda i, j: i * j,
    "i * j // 16": lambda i, j: i * j // 16,
    "70000 * i - 69999 * i": lambda i, j: (i * 70000) // 1 - i * 69999,
    "i * (2**33 + 1) // 2**33": lambda i, j: i * (2**33 + 1) // 2**33,
    "j ^ 5": lambda i, j: j ^ 5,
    "3 i - 2 j": lambda i, j: 3 * i - 2 * j,
    "the lesser of i and j": lambda i, j: tc.minimum(i, j) if isinstance(i, tc.Expr) else min(i, j),
}
"""Where a tile begins: integers of every operation, of either sign."""


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("place", PLACES)
def test_places_in_an_array_of_run_time_size_are_computed_before_the_block(place: str, bits: int) -> None:
    m, n = (tc.symbol(name, lower=1, upper=2**20 if bits == 32 else 2**30) for name in ("m", "n"))
    i, j = tc.symbol("i", lower=-90, upper=90), tc.symbol("j", lower=0, upper=12)
    a = tc.Buffer((m, n), "float32", space="global", name="A")
    tile = tc.Buffer((16, 32), "float32", space="shared", name="tile")
    b = tc.Buffer((16, 32), "float32", space="global", name="B")
    row = PLACES[place](i, j)
    box = a[row : row + 16, j * 2 : j * 2 + 32]
    asked: dict[str, Any] = {"scope": tc.cta(64), "target": "sm_80"}
    load = tc.plan(tile[:, :], box, outside="zero", **asked).cuda("load")
    store = tc.plan(b[:, :], tile[:, :], **asked).cuda("store")
    block = load[load.index("asm volatile") :]
    assert "const uint64_t" in load and "mul.wide.u32 tc_rd0" not in block, load
    numbers = [each.split()[-1] for each in signature(load).split("(")[1].split(")")[0].split(", ")[2:-1]]
    source = (
        tc.cuda_header([load, store])
        + f"""
extern "C" __global__ void moved(const void* A, void* B, int m, int n, int i, int j) {{
    __shared__ __align__(128) char tile[16 * 32 * 4];
    const uint32_t t = tilecopy::shared_address(tile);
    load(t, A, {", ".join(numbers)});
    __syncthreads();
    store(B, t);
}}"""
    )
    ptx = compiled(source, "compute_80")
    array = byte_arrays.random_array((43, 37), "uint32")
    for at, across in ((0, 0), (-90, 1), (-7, 12), (-1, 7), (3, 5), (29, 2), (90, 12)):
        first = PLACES[place](at, across)
        wanted = np.zeros((16, 32), "uint32")
        for r in range(16):
            for c in range(32):
                if 0 <= first + r < 43 and across * 2 + c < 37:
                    wanted[r, c] = array[first + r, across * 2 + c]
        found = np.full((16, 32), 0xFFFFFFFF, "uint32")
        run_ptx(ptx, [array, found, 43, 37, at, across], grid=1, block=64)
        assert np.array_equal(found, wanted), (at, across)


def test_no_symbol_is_called_as_what_the_arithmetic_is_called() -> None:
    m, n = tc.symbol("tc_r0", lower=1, upper=1000), tc.symbol("tc_rd1", lower=1, upper=1000)
    a = tc.Buffer((m, n), "float32", space="global", name="A")
    tile = tc.Buffer((16, 32), "float32", space="shared", name="tile")
    load = tc.plan(tile[:, :], a[0:16, 0:32], scope=tc.cta(64), target="sm_80", outside="zero").cuda("load")
    assert "const uint64_t" in load
    compiled(tc.cuda_header([load]) + "__global__ void k(const void* A) { load(0, A, 1, 2); }", "compute_80")


@pytest.mark.parametrize("first", range(0, DRAWN, BATCH))
def test_drawn_copies_equal_numpy_on_the_gpu(gpu: str, first: int) -> None:
    if int(gpu[3:]) < 90:
        pytest.skip(f"the copies are for sm_90, the GPU is {gpu}")
    cases = drawn()[first : first + BATCH]
    cubin = compiled(drawn_exports.source_of(cases), gpu, kind="CUBIN")
    for case in cases:
        b = case.b.copy()
        run_on_gpu(cubin, case.name, [case.a, b, *case.numbers], grid=case.grid, block=case.block)
        assert byte_arrays.same_bytes(b, case.expected), f"{case.name} by {case.variants}"


# ------------------------------------------------------------------------------------------------------- the form


def tile_of(**more: object) -> tuple[tc.Buffer, tc.Buffer]:
    a = tc.Buffer((4096, 64), "float16", space="global", name="A")
    return a, tc.Buffer((128, 64), "float16", space="shared", name="tile", **more)


def signature(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("__device__"))


def test_arguments_stand_in_the_order_that_is_documented() -> None:
    k = tc.KernelBuilder("k", threads=64)
    m = k.size("M", multiple_of=8)
    a = k.param("A", (m, 64), "float32")
    tile = k.shared((64, 64), "float32", name="tile")
    i = k.scalar("i", "int64", upper=2**40)
    k.cta.copy(tile[:, :], a[k.block_id("y") * 64 + i : k.block_id("y") * 64 + i + 64, :], outside="zero")
    text = k.build(target="sm_80").plans[0].cuda("load")
    assert signature(text) == (
        "__device__ __forceinline__ void load(uint32_t tile, const void* A, int32_t ctaid_y, int64_t i, int32_t M, "
        "int32_t tid = threadIdx.x)"
    )


def test_fragments_are_arrays_of_words_by_reference() -> None:
    a, _ = tile_of()
    for dtype, words in (("float16", 4), ("float64", 16)):
        layout = TileLayout(S[(32, 8) : (1 @ tc.laneid, 1)])
        fragment = tc.Buffer((32, 8), dtype, space="local", layout=layout, name="f")
        a = tc.Buffer((32, 8), dtype, space="global", name="A")
        load = tc.plan(fragment[:, :], a[:, :], scope=tc.warp(), target="sm_80").cuda("load")
        store = tc.plan(a[:, :], fragment[:, :], scope=tc.warp(), target="sm_80").cuda("store")
        assert signature(load).startswith(
            f"__device__ __forceinline__ void load(uint32_t (&f)[{words}], const void* A, "
        )
        assert signature(store).startswith(
            f"__device__ __forceinline__ void store(void* A, const uint32_t (&f)[{words}], "
        )
        assert '"=r"(f[0])' in load and '"r"(f[0])' in store  # what is overwritten is not read


def test_a_fragment_that_may_be_left_as_it_is_goes_in_too() -> None:
    fragment = tc.Buffer(
        (32, 8), "float16", space="local", layout=TileLayout(S[(32, 8) : (1 @ tc.laneid, 1)]), name="f"
    )
    a = tc.Buffer((30, 8), "float16", space="global", name="A")
    text = tc.plan(fragment[:, :], a[0:32, :], scope=tc.warp(), target="sm_80", outside="keep").cuda("load")
    assert '"+r"(f[0])' in text


def test_the_same_plan_gives_the_same_text() -> None:
    a, tile = tile_of()
    one, other = (tc.plan(tile[:, :], a[0:128, :], scope=tc.cta(128), target="sm_90a").cuda("f") for _ in range(2))
    assert one == other


def test_names_that_cpp_does_not_take_are_changed_for_buffers_and_refused_for_functions() -> None:
    a = tc.Buffer((128, 64), "float16", space="global", name="int")
    tile = tc.Buffer((128, 64), "float16", space="shared", name="int")
    plan = tc.plan(tile[:, :], a[:, :], scope=tc.cta(128), target="sm_80")
    assert "(uint32_t int_, const void* int_2, " in signature(plan.cuda("f"))
    for name in ("class", "1st", "a b", "", None, "__load", "a__b", "_Load"):
        with pytest.raises(tc.RequestError, match=mentions("C")):
            plan.cuda(name)


def test_names_of_symbols_end_no_comment_and_no_string() -> None:
    a, tile = tile_of()
    start = tc.symbol('x"); #error\n#error \\', upper=31)
    text = tc.plan(tile[:, :], a[start * 8 : start * 8 + 128, :], scope=tc.cta(128), target="sm_80").cuda("load")
    kernel = tc.cuda_header([text]) + 'extern "C" __global__ void k(const void* A) { load(0, A, 0); }'
    assert ".entry k" in compiled(kernel, "compute_80", "TILECOPY_ASSERT")


def test_sizes_that_are_known_at_launch_only_are_told_without_a_number() -> None:
    m = tc.symbol("M", lower=1, upper=2**20)
    a = tc.Buffer((m, 64), "float16", space="global", name="A")
    _, tile = tile_of()
    text = tc.plan(tile[:, :], a[0:128, :], scope=tc.cta(128), target="sm_80", outside="zero").cuda("load")
    assert "//   A: source, global float16[M, 64], its first byte, a multiple of 16\n" in text
    assert "int32_t M" in signature(text)


def test_an_architecture_without_the_instructions_leaves_a_name_to_be_resolved() -> None:
    a, tile = tile_of()
    text = tc.cuda_header(
        [tc.plan(tile[:, :], a[0:128, :], op="copy_async", scope=tc.cta(128), target="sm_80").cuda("load")]
    )
    kernel = text + 'extern "C" __global__ void k(const void* A) { load(0, A); }'
    assert "call.uni" not in compiled(kernel, "compute_80")
    assert "tilecopy_load_needs_sm_80" in compiled(kernel, "compute_75").partition("call.uni")[2]


def test_a_step_without_its_instructions_leaves_a_name_to_be_resolved() -> None:
    source = tc.cuda_header([]) + 'extern "C" __global__ void k() { tilecopy::bulk_commit(); }'
    for architecture, missing in (("compute_80", True), ("compute_90", False)):
        ptx = compiled(source, architecture)
        assert ("tilecopy_bulk_commit_needs_sm_90" in ptx, "cp.async.bulk" in ptx) == (missing, not missing)


FUNCTION = re.compile(r"__forceinline__ \w+ (\w+)\([^)]*\)\n\{(.*?)\n\}", re.S)


def test_the_header_has_the_instructions_of_kernels() -> None:
    bodies = dict(FUNCTION.findall(tc.cuda_header([])))
    for name, opcode in SYNC.items():
        body = bodies.get(name) or bodies["cluster_sync"]
        assert re.search(rf"\b{re.escape(opcode)}[ ;]", body), name


def test_division_of_the_header_rounds_down() -> None:
    lines = "out[0] = tilecopy::quotient(a, by); out[1] = tilecopy::remainder(a, by);"
    source = (
        f'{tc.cuda_header([])}extern "C" __global__ void k(long long* out, long long a, long long by) {{ {lines} }}'
    )
    ptx = compiled(source, "compute_80")
    for a in (-9, -8, -1, 0, 7, 8):
        out = np.zeros(2, np.int64)
        run_ptx(ptx, [out, a, 4], grid=1, block=1)
        assert tuple(out) == divmod(a, 4)


def test_a_header_may_be_included_twice_beside_another() -> None:
    a, tile = tile_of()
    plan = tc.plan(tile[:, :], a[0:128, :], scope=tc.cta(128), target="sm_80")
    both = tc.cuda_header([plan.cuda("one")]) + tc.cuda_header([plan.cuda("two")])
    assert ".entry k" in compiled(
        both + 'extern "C" __global__ void k(const void* A) { one(0, A); two(0, A); }', "compute_80"
    )
    assert ".entry k" in compiled(
        tc.cuda_header([]) + 'extern "C" __global__ void k() { tilecopy::cp_async_wait<3>(); }', "compute_80"
    )


@pytest.mark.parametrize(
    ("numbers", "holds"),
    [((0, 0), True), ((2, 8), True), ((3, 8), False), ((0, 4), False), ((2, 24), False), ((-1, 0), False)],
)
def test_what_was_declared_is_asserted_under_the_macro(numbers: tuple[int, int], holds: bool) -> None:
    a = tc.Buffer((160, 64), "float16", space="global", name="A")
    _, tile = tile_of()
    bx, n = tc.symbol("bx", upper=2), tc.symbol("n", upper=64, multiple_of=8)
    load = tc.plan(tile[:, :], a[bx * 8 + n : bx * 8 + n + 128, :], scope=tc.cta(128), target="sm_80")
    source = tc.cuda_header([load.cuda("load")])
    source += """extern "C" __global__ void k(const void* A, int bx, int n) {
        __shared__ __align__(128) char tile[16384]; load(tilecopy::shared_address(tile), A, bx, n); }"""
    ptx = compiled(source, "compute_80", "TILECOPY_ASSERT", "TILECOPY_FAIL(text)=__trap()")
    arguments = [np.zeros((160, 64), "float16"), *numbers]
    if holds:
        run_ptx(ptx, arguments, grid=1, block=128)
        return
    with pytest.raises(tc.HazardError) as caught:
        run_ptx(ptx, arguments, grid=1, block=128)
    assert caught.value.kind == "trap"
    assert "vprintf" in compiled(source, "compute_80", "TILECOPY_ASSERT")  # by default the rule is printed


# ------------------------------------------------------------------------------------------------------- refusals


def test_a_copy_to_tensor_memory_cannot_leave_its_kernel() -> None:
    k = tc.KernelBuilder("k", threads=128)
    tile = k.shared((32, 16), "uint8", name="tile")
    t = k.tmem(
        (32, 16),
        "uint8",
        layout=TileLayout(S[(32, 16) : (1 @ tc.TLane, 1 @ tc.TCol)] + tc.R[4 : 32 @ tc.TLane]),
        name="T",
    )
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(t)
    k.cta_sync()
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(t[:, :], tile[:, :])
    plan = k.build(target="sm_100a").plans[0]
    with pytest.raises(tc.RequestError, match=mentions("T")):
        plan.cuda("send")


def test_options_that_a_kernel_needs_are_needed_here_too() -> None:
    here, there = (tc.Buffer((32, 64), "float16", space="shared", name=name) for name in ("here", "there"))
    plan = tc.plan(there[:, :], here[:, :], op="copy_async", scope=tc.thread(), target="sm_90")
    with pytest.raises(tc.RequestError, match=mentions("mbar")):
        plan.cuda("send")


def test_a_header_takes_texts_of_functions_alone() -> None:
    a, tile = tile_of()
    text = tc.plan(tile[:, :], a[0:128, :], scope=tc.cta(128), target="sm_80").cuda("load")
    for wrong, match in (
        (text, ()),
        (3, (3,)),
        (["int x;"], ("int x;",)),
        ([text, text], ("load",)),
        ([1], (1,)),
    ):
        with pytest.raises(tc.RequestError, match=mentions(*match)):
            tc.cuda_header(wrong)


def test_an_argument_hides_no_function_that_the_text_calls() -> None:
    """An integer called min, in a header that computes a minimum before its block."""
    rows, columns = tc.symbol("M", lower=128, upper=2**20), tc.symbol("N", lower=64, upper=2**20, multiple_of=8)
    a = tc.Buffer((rows, columns), "float16", space="global", name="A")
    s = tc.Buffer((128, 64), "float16", space="shared", name="s")
    first = tc.minimum(tc.symbol("min", upper=2**33), rows - 128)
    text = tc.plan(s[:, :], a[first : first + 128, 0:64], scope=tc.cta(128), target="sm_90").cuda("tile")
    assert ", int64_t min_," in text and "min((long long)" in text


@pytest.mark.parametrize("outside", ["zero", 5])
@pytest.mark.parametrize("columns", ["N", "-8", "3 * N + 24"])
def test_a_fragment_that_lies_outside_is_filled(columns: str, outside: Any) -> None:
    """What fills it is written by a move alone, beside a product of sizes that is lifted out of the block."""
    size = tc.symbol("N", lower=8, upper=2**20, multiple_of=8)
    a = tc.Buffer((47, size), "float16", space="global", name="A")
    b = tc.Buffer((32, 8), "float16", space="global", name="B")
    f = tc.Buffer((32, 8), "float16", space="local", name="f", layout=tc.TileLayout(tc.S[(32, 8) : (1 @ tc.laneid, 1)]))
    first = eval(columns, {"N": size})
    load = tc.plan(f[:, :], a[0:32, first : first + 8], scope=tc.warp(), target="sm_90", outside=outside)
    store = tc.plan(b[:, :], f[:, :], scope=tc.warp(), target="sm_90")
    source = (
        tc.cuda_header([load.cuda("load"), store.cuda("store")])
        + """
        extern "C" __global__ void k(const void* A, void* B, int N) {
            uint32_t f[4];
            for (int i = 0; i < 4; ++i) f[i] = 0x3c003c00;
            load(f, A, N);
            store(B, f);
        }"""
    )
    found = np.full((32, 8), 7, np.float16)
    numbers = np.random.default_rng(0).random((47, 24)).astype(np.float16)
    run_ptx(compiled(source, "compute_90"), [numbers, found, 24], entry="k", grid=1, block=32)
    assert (found == (0 if outside == "zero" else outside)).all()


@pytest.mark.parametrize("name", ["main", "dim3", "std", "float4", "size_t"])
def test_names_of_cuda_are_no_names_of_functions(name: str) -> None:
    a, tile = tile_of()
    with pytest.raises(tc.RequestError, match=mentions("C")):
        tc.plan(tile[:, :], a[0:128, :], scope=tc.cta(128), target="sm_80").cuda(name)


# ------------------------------------------------------------------------------------------------- tensor maps


def box_of_rows() -> tc.Plan:
    """Rows 8i to 8i + 8 of A, from its column 16 on, into swizzled shared memory."""
    i, rows = tc.symbol("i", lower=0, upper=4096), tc.symbol("M", lower=1, upper=2**20)
    a = tc.Buffer((rows, 128), "float32", space="global", name="A", storage_offset=64)
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float32"), TileLayout(S[8, 32]))
    tile = tc.Buffer((8, 32), "float32", space="shared", name="tile", layout=layout, align_bytes=1024)
    bar, region = tc.Buffer((1,), "uint64", space="shared", name="bar"), a[i * 8 : i * 8 + 8, 16:48]
    options: dict[str, Any] = {"op": "copy_async", "scope": tc.thread(), "target": "sm_90", "variant": "tma"}
    return tc.plan(tile[:, :], region, mbar=bar[0], outside="zero", **options)


def test_a_tensor_map_is_an_argument_that_the_host_makes() -> None:
    source = tc.cuda_header([box_of_rows().cuda("load")])
    assert (
        "void load(uint32_t tile, const void* A, int32_t i, int32_t M, uint32_t bar, const void* A_map, int32_t"
        in source
    )
    ptx = compiled(
        source
        + """
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void k(const __grid_constant__ Map map, const void* A, int rows, char* out)
{
    __shared__ __align__(1024) char tile[1024];
    __shared__ uint64_t bar;
    uint32_t m = tilecopy::shared_address(&bar);
    if (threadIdx.x == 0) {
        tilecopy::mbarrier_init(m, 1);
        tilecopy::fence_mbarrier_init();
        tilecopy::mbarrier_arrive_expect_tx(m, 1024);
        load(tilecopy::shared_address(tile), A, blockIdx.x, rows, m, &map);
        tilecopy::mbarrier_wait(m, 0);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 32) {
        out[blockIdx.x * 1024 + i] = tile[i / 128 * 128 + ((i % 128 / 16) ^ (i / 128 % 8)) * 16 + i % 16];
    }
}
""",
        "compute_90",
        "TILECOPY_ASSERT",
        "TILECOPY_FAIL(text)=__trap()",
    )
    memory = np.ones(64 + 20 * 128 + 24 * 32, np.float32)  # all in one array, whose address is known
    a, out = memory[64 : 64 + 20 * 128].reshape(20, 128), memory[64 + 20 * 128 :].reshape(24, 32)
    a[...] = np.arange(20 * 128).reshape(20, 128)
    spans = {"sizes": (128, 20), "strides_bytes": (512,), "box": (32, 8), "element_strides": (1, 1)}
    made = tensor_map(address=(1 << 44) + 256 + 256, dtype="float32", **spans, swizzle="128B", fill="zero")
    run_ptx(ptx, [made, memory, 20, out], grid=3, block=32)
    assert np.array_equal(out[:20], a[:, 16:48]) and not out[20:].any()


ENCODED = """
#include <cuda.h>
#include <cstdint>
#include <cstring>
extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType dtype, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    cuuint64_t told[] = {(cuuint64_t)dtype, rank, (cuuint64_t)address, sizes[0], sizes[1], strides[0], box[0], box[1],
        steps[0], steps[1], (cuuint64_t)interleave, (cuuint64_t)swizzle, (cuuint64_t)l2, (cuuint64_t)fill};
    memcpy(map, told, sizeof(told));
    return CUDA_SUCCESS;
}
"""


def test_the_host_encodes_the_map_of_an_exported_copy(tmp_path: Path) -> None:
    spec, gpp = find_spec("nvidia"), shutil.which("g++")
    roots = (spec.submodule_search_locations or []) if spec is not None else []
    headers = [path.parent for root in roots for path in Path(root).glob("*/include/cuda.h")]
    if gpp is None or not headers:
        pytest.skip("no g++, or no cuda.h: pip install nvidia-cuda-runtime")
    text = box_of_rows().cuda("load")
    source = ENCODED + text[text.index("#if defined(CUDA_VERSION)") :]
    source += 'extern "C" int made(CUtensorMap* map, const void* A, int M) { return load_A_map(map, A, M); }'
    (tmp_path / "made.cpp").write_text(source)
    library = tmp_path / "made.so"
    warnings = ["-Wall", "-Werror", "-Wno-cast-qual"]
    subprocess.run(
        [gpp, "-shared", "-fPIC", *warnings, f"-I{headers[0]}", tmp_path / "made.cpp", "-o", library], check=True
    )
    memory = (ctypes.c_uint64 * 32)()
    at = -(-ctypes.addressof(memory) // 64) * 64
    function = ctypes.CDLL(str(library)).made
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    assert function(at, 0x7F0000001000, 77) == 0
    told = tuple((ctypes.c_uint64 * 14).from_address(at))
    assert told == (2, 2, 0x7F0000001100, 128, 77, 512, 32, 8, 1, 1, 0, 3, 3, 0)


def test_bytes_of_a_function_cannot_leave_their_kernel() -> None:
    (plan,) = host_bytes.last_row().plans
    with pytest.raises(tc.RequestError, match=mentions(16)):
        plan.cuda("row", registry=host_bytes.registry())
