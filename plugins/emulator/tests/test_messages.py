"""What the emulator says of hazards and of PTX that it does not know, whole: the only place where its wording is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import UnsupportedPtxError, run_ptx

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 A)
{ .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<4>; .shared .align 4 .b8 s[256];
  ld.param.u64 %d0, [A]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.u32 %r2, %r2, %r1;
"""


def run(body: str, threads: int = 64) -> None:
    run_ptx(f"{HEAD}  {body}\n  ret; }}", [np.zeros(16, np.uint32)], grid=1, block=threads)


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (
            lambda: run("st.shared.u32 [s], %r0;"),
            tc.HazardError,
            "race: thread 0 of CTA (0,0,0): s byte 0 is written by two threads at once (thread 63 of CTA (0,0,0))",
        ),
        (
            lambda: run("st.shared.u32 [%r2], %r0; xor.b32 %r3, %r2, 128; ld.shared.u32 %r4, [%r3];"),
            tc.HazardError,
            "race: thread 0 of CTA (0,0,0): s byte 128 is read with no barrier since it was written by thread 32 of CTA (0,0,0)",
        ),
        (
            lambda: run("ld.shared.u32 %r4, [%r2]; st.global.u32 [%d0], %r4;"),
            tc.HazardError,
            "poison: thread 0 of CTA (0,0,0): s byte 0 is read and was never written",
        ),
        (
            lambda: run("add.u32 %r4, %r5, 1;"),
            tc.HazardError,
            "poison: thread 0 of CTA (0,0,0): register %r5 is read and was never written",
        ),
        (
            lambda: run("ld.global.u32 %r4, [%d0+64];"),
            tc.HazardError,
            "bounds: thread 0 of CTA (0,0,0): an access of 4 bytes at byte 64 is outside A of 64 bytes (A bytes 64 to 67)",
        ),
        (
            lambda: run("ld.global.u32 %r4, [%d0+2];"),
            tc.HazardError,
            "alignment: thread 0 of CTA (0,0,0): the global address 0x100000000102 is not a multiple of 4 bytes",
        ),
        (
            lambda: run("setp.lt.u32 %p0, %r0, 16; @%p0 bar.sync 0; bar.sync 1;"),
            tc.HazardError,
            "barrier: thread 0 of CTA (0,0,0): barrier 0 never completes: 16 of 64 threads of the CTA have arrived; thread 16 of CTA (0,0,0) has not",
        ),
        (
            lambda: run("div.u32 %r4, %r0, %r0;"),
            tc.HazardError,
            "arithmetic: thread 0 of CTA (0,0,0): integer division by zero",
        ),
        (
            lambda: run("L: bra L;"),
            tc.HazardError,
            "endless: thread 0 of CTA (0,0,0): the loop never ends: no instruction waits or writes memory",
        ),
        (lambda: run("trap;"), tc.HazardError, "trap: thread 0 of CTA (0,0,0): the program executes a trap"),
        (
            lambda: run("frobnicate.b32 %r1, %r2;"),
            UnsupportedPtxError,
            "PTX line 7: 'frobnicate.b32 %r1, %r2': 'frobnicate' is not supported",
        ),
        (
            lambda: run("add.s32 %r1, %r2;"),
            UnsupportedPtxError,
            "PTX line 7: 'add.s32 %r1, %r2': the instruction takes 3 operands, got 2",
        ),
        (lambda: run("mov.u32 %r9, 0;"), UnsupportedPtxError, "PTX line 7: the register '%r9' is not declared"),
        (lambda: run("bra NOWHERE;"), UnsupportedPtxError, "PTX line 7: 'bra NOWHERE': undefined label 'NOWHERE'"),
        (
            lambda: run("", threads=2048),
            tc.LaunchError,
            "kernel k: block must have at most 1024 threads (64 in z), got (2048, 1, 1)",
        ),
        (
            lambda: run_ptx(HEAD + "ret; }", [], grid=1, block=32),
            tc.LaunchError,
            "kernel k: the number of arguments must be 1 (.u64 A), got 0 ()",
        ),
        (
            lambda: run_ptx(HEAD + "ret; }", [np.zeros(1, object)], grid=1, block=32),
            tc.LaunchError,
            "kernel k, argument 0 (A): the array must hold numbers, got Python objects: array([0], dtype=object)",
        ),
        (
            lambda: run_ptx("garbage", [], grid=1, block=32),
            UnsupportedPtxError,
            "PTX line 1: expected .version, got 'garbage': PTX text must begin with .version and .target",
        ),
    ],
)
def test_what_is_said(refused: Callable[[], Any], error: type[tc.TilecopyError], message: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == message
