"""What a run does before its first instruction: which functions are parsed, and how often headers are."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy_emulator import run_cuda
from tilecopy_emulator.cuda_cpp.precompiled import precompiled_headers

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
