"""``printf`` of CUDA C++ on the emulator, and assertions that print what they assert before they abort the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_cuda, run_ptx

pytest.importorskip("cuda.bindings.nvrtc")


def printed(body: str, block: Any = 1, grid: Any = 1, arguments: Any = (), parameters: str = "") -> Any:
    source = f'extern "C" __global__ void kernel({parameters}) {{ {body} }}'
    return run_cuda(source, list(arguments), grid=grid, block=block).printed


@pytest.mark.parametrize(
    ("format", "arguments", "text"),
    [
        ("plain", "", "plain"),
        ("%d %i %u", ", -5, 7, 3000000000u", "-5 7 3000000000"),
        ("%lld|%llx|%lu|%hd", ", -(1ll << 40), 1ull << 40, 1ul << 33, (short)-3", "-1099511627776|10000000000|8589934592|-3"),
        ("%x %X %o %#x", ", 255, 255, 8, 16", "ff FF 10 0x10"),
        ("%f %.2f %e %g", ", 1.5f, 2.0 / 3, 12345.0, 0.25", "1.500000 0.67 1.234500e+04 0.25"),
        ("%5d|%-5d|%05d|%+d|% d", ", 42, 42, 42, 42, 42", "   42|42   |00042|+42| 42"),
        ("%*d|%-*d|%.*f", ", 4, 7, 4, 7, 1, 0.25", "   7|7   |0.2"),
        ("%s and %s%c%%", ', "one", "", 65', "one and A%"),
        ("%.2s|%4s", ', "long", "ab"', "lo|  ab"),
        ("%d %f %c %lld", ", 1, 2.0, 'x', 4ll", "1 2.000000 x 4"),
        ("%p", ", (void*)4096", "0x1000"),
    ],
)  # fmt: skip
def test_a_format_is_what_c_makes_of_it(format: str, arguments: str, text: str) -> None:
    assert printed(f'printf("{format}"{arguments});') == (("thread 0 of CTA (0,0,0)", text),)


def test_each_thread_prints_its_own() -> None:
    values = np.array([10, 20, 30, 40], np.int32)
    body = 'if (threadIdx.x % 2) printf("%d of block %d\\n", A[threadIdx.x], blockIdx.x);'
    found = printed(body, 4, 2, [values], "const int* A")
    threads = [(cta, thread) for cta in range(2) for thread in (1, 3)]
    texts = {f"thread {thread} of CTA ({cta},0,0)": f"{values[thread]} of block {cta}\n" for cta, thread in threads}
    assert len(found) == 4 and dict(found) == texts


def test_the_number_of_arguments_comes_back() -> None:
    out = np.zeros(1, np.int32)
    assert printed('A[0] = printf("%d%d", 1, 2);', arguments=[out], parameters="int* A") and out[0] == 2


def test_a_trap_tells_what_its_thread_has_printed() -> None:
    with pytest.raises(HazardError, match="row 3 is missing") as error:
        printed('if (threadIdx.x == 3) { printf("row %d is missing\\n", threadIdx.x); __trap(); }', 32)
    assert error.value.kind == "trap" and error.value.threads == ("thread 3 of CTA (0,0,0)",)


def test_a_call_that_no_compiler_writes_is_refused() -> None:
    text = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.visible .entry k() { .reg .b64 %a; .param .b32 r; .param .b64 f; .param .b64 g; @p CALL }
"""
    for call in ("call (r), vprintf, (f);", "call (r), vprintf, (f, %a);"):
        with pytest.raises(UnsupportedPtxError):
            run_ptx(text.replace("@p CALL", call), [], grid=1, block=1)
