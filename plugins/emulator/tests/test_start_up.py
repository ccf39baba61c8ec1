"""What a run does before its first instruction: which functions are parsed, and how often headers are."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy_emulator import UnsupportedPtxError, parse, run_cuda, run_ptx
from tilecopy_emulator.cuda_cpp.precompiled_headers import precompiled_headers
from tilecopy_test_helpers.bounded_work import at_most

KERNEL = """
__global__ void k(int* x) {{ auto block = cooperative_groups::this_thread_block(); x[block.thread_rank()] = {}; block.sync(); }}
"""


@pytest.fixture(scope="module")
def nvrtc():
    return pytest.importorskip("cuda.bindings.nvrtc")


def test_a_process_parses_headers_once(nvrtc):
    x, made = np.zeros(32, np.int32), {}
    for value in (3, 4, 5):
        source = "#include <cooperative_groups.h>\n" + KERNEL.format(value)
        run_cuda(source, [x], grid=1, block=32, name=f"k{value}.cu")
        assert (x == value).all()
        made[value] = {path: path.stat().st_mtime_ns for path in precompiled_headers()}
    assert len(made[3]) >= 1 and made[3] == made[4] == made[5]


def test_sources_with_other_definitions_before_the_headers_get_headers_of_their_own(nvrtc):
    x = np.zeros(1, np.int32)
    for value in (6, 7):
        source = f"#define VALUE {value}\n#include <cuda/std/cstdint>\n__global__ void k(cuda::std::int32_t* x) {{ *x = VALUE; }}"
        run_cuda(source, [x], grid=1, block=1)
        assert x[0] == value


def test_a_source_without_headers_precompiles_none(nvrtc):
    before = precompiled_headers()
    run_cuda("__global__ void k(int* x) { *x = 1; }", [np.zeros(1, np.int32)], grid=1, block=1)
    assert precompiled_headers() == before


HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
LINES = "add.u32 %r1, %r1, 1; mov.b64 {%r1, %r2}, %d1;\n" * 100
ENTRY = ".visible .entry k{}(.param .u64 x) .maxntid 64 {{ .reg .b32 %r<4>; .reg .b64 %d<4>;\n{} ret; }}\n"
CALLS = """
.func inner(.reg .b64 %d1) {{ {inner} ret; }}
.func outer(.reg .b64 %d1) {{ call.uni inner, (%d1); ret; }}
.func never() {{ {never} }}
.visible .entry other(.param .u64 x) {{ {other} }}
.visible .entry k(.param .u64 x) {{ .reg .b64 %d1; ld.param.u64 %d1, [x]; call.uni outer, (%d1); ret; }}
"""


def test_only_the_wanted_entry_is_parsed():
    text = HEAD + "".join(ENTRY.format(number, LINES) for number in range(200))
    with at_most(400_000):  # one entry takes about 100,000
        assert parse(text, "k150").name == "k150"


def test_bodies_of_functions_that_are_not_called_are_not_read():
    text = HEAD + CALLS.format(inner="st.global.u32 [%d1], 7;", never="{ nonsense 0x; }", other='"')
    x = np.zeros(1, np.int32)
    run_ptx(text, [x], entry="k", grid=1, block=1)
    assert x[0] == 7


@pytest.mark.parametrize(("inner", "line"), [("nonsense 0x;", 5), ("\n mov.b64 {%d1, %d1;", 6), ("\n\n/* }", 7)])
def test_faults_in_functions_that_are_called_are_told_at_their_lines(inner, line):
    text = HEAD + CALLS.format(inner=inner, never="", other="ret;")
    with pytest.raises(UnsupportedPtxError) as raised:
        parse(text, "k")
    assert raised.value.line == line


def test_initial_values_in_braces_are_read_between_functions():
    variables = ".global .b32 a[2] = { 5, 6 }; .global .b32 b[1] = /* { */ // {\n {8};"
    body = "ld.global.u32 %r1, [a+4]; ld.global.u32 %r2, [b]; add.u32 %r1, %r1, %r2; st.global.u32 [%d1], %r1;"
    text = HEAD + ENTRY.format(0, LINES) + variables + ENTRY.format(1, "ld.param.u64 %d1, [x];" + body)
    x = np.zeros(1, np.int32)
    run_ptx(text, [x], entry="k1", grid=1, block=1)
    assert x[0] == 14
