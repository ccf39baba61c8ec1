"""``mma.sync.m16n8k16``: against NumPy, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx

TEXT = """.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
    .reg .b32 %a<4>; .reg .b32 %b<2>; .reg .f32 %c<4>; .reg .b32 %r<4>; .reg .b64 %p<5>; .reg .pred %q;
    ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c]; ld.param.u64 %p3, [d];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.wide.u32 %p0, %r0, 16, %p0;
    mad.wide.u32 %p0, %r1, 512, %p0;
    mad.wide.u32 %p1, %r0, 8, %p1;
    mad.wide.u32 %p2, %r0, 16, %p2;
    mad.lo.u32 %r2, %r1, 32, %r0;
    mad.wide.u32 %p3, %r2, 16, %p3;
    ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%p0];
    ld.global.v2.b32 {{%b0, %b1}}, [%p1];
    ld.global.v4.f32 {{%c0, %c1, %c2, %c3}}, [%p2];
    {more}
    mma.sync.aligned.{form} {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c1, %c2, %c3}};
    L: st.global.v4.f32 [%p3], {{%c0, %c1, %c2, %c3}};
    ret;
}}
"""
FORM = "m16n8k16.row.col.f32.f16.f16.f32"


def fragments(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    """A, B and C as the lanes hold them, element by element as PTX ISA 9.7.15.5.8 says it."""
    held = np.zeros((32, 8), a.dtype), np.zeros((32, 4), b.dtype), np.zeros((32, 4), c.dtype)
    for lane in range(32):
        g, q = lane >> 2, lane % 4
        for i in range(8):
            row = g if i < 2 or 4 <= i < 6 else g + 8
            held[0][lane, i] = a[row, q * 2 + (i & 1) + (8 if i >= 4 else 0)]
        for i in range(4):
            held[1][lane, i] = b[q * 2 + (i & 1) + (8 if i >= 2 else 0), g]
            held[2][lane, i] = c[g if i < 2 else g + 8, q * 2 + (i & 1)]
    return held


def accumulators(d: np.ndarray) -> np.ndarray:
    """What the lanes hold of D as a matrix."""
    found = np.zeros((16, 8), d.dtype)
    for lane in range(32):
        for i in range(4):
            found[(lane >> 2) + 8 * (i >= 2), (lane % 4) * 2 + (i & 1)] = d[lane, i]
    return found


@pytest.mark.parametrize("whole", [True, False])
def test_the_product_of_two_warps_equals_numpy(whole: bool) -> None:
    random = np.random.default_rng(1)
    draw = (lambda *shape: random.integers(-8, 9, shape)) if whole else (lambda *shape: random.standard_normal(shape))
    a, b, c = draw(2, 16, 16).astype(np.float16), draw(16, 8).astype(np.float16), draw(16, 8).astype(np.float32)
    lanes = [fragments(each, b, c) for each in a]
    out = np.zeros((2, 32, 4), np.float32)
    text = TEXT.format(form=FORM, more="")
    report = run_ptx(text, [np.stack([x[0] for x in lanes]), lanes[0][1], lanes[0][2], out], grid=2, block=32)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    found = np.stack([accumulators(each) for each in out])
    assert np.array_equal(found, wanted) if whole else np.allclose(found, wanted, rtol=1e-6)
    assert report.approximate == (f"mma.sync.aligned.{FORM}",)


def test_bfloat16_is_read_as_such() -> None:
    a = np.full((16, 16), 0x3F80, np.uint16)  # 1.0
    b = np.full((16, 8), 0x4000, np.uint16)  # 2.0
    held = fragments(a, b, np.ones((16, 8), np.float32))
    out = np.zeros((32, 4), np.float32)
    run_ptx(TEXT.format(form="m16n8k16.row.col.f32.bf16.bf16.f32", more=""), [*held, out], grid=1, block=32)
    assert (out == 33).all()


@pytest.mark.parametrize(
    "form", ["m16n8k8.row.col.f32.f16.f16.f32", "m16n8k16.row.row.f32.f16.f16.f32", "m16n8k16.row.col.f16.f16.f16.f16"]
)
def test_other_forms_are_refused(form: str) -> None:
    arguments = [np.zeros(512, np.uint8)] * 4
    with pytest.raises(UnsupportedPtxError, match="this form of mma is not known"):
        run_ptx(TEXT.format(form=form, more=""), arguments, grid=1, block=32)


def test_a_part_of_a_warp_is_a_hazard() -> None:
    arguments = [np.zeros(512, np.uint8) for _ in range(4)]
    with pytest.raises(HazardError):
        run_ptx(TEXT.format(form=FORM, more="setp.lt.u32 %q, %r0, 16;\n @%q bra L;"), arguments, grid=1, block=32)
