"""Forms that ptxas takes and that texts of other people have: vectors in registers, directives without spaces, constants past their type."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import mentions


def run(body: str, *, before: str = "", version: str = "7.0", target: str = "sm_80") -> list[int]:
    """Four words that a thread stores: at first 11, 12, 13, 14."""
    text = f"""
.version {version}
.target {target}
.address_size 64
{before}
.visible .entry k(.param .u64 A)
{{
    .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .b16 %h<9>; .reg .pred %p<4>; .reg .u64 at;
    ld.param.u64 at, [A]; mov.u32 %r1, 5; mov.u32 %r2, 7; mov.u64 %rd2, 7; mov.u16 %h2, 7; mov.f32 %f1, 0f40400000; setp.eq.u32 %p1, %r1, 5;
    {body}
    ret;
}}"""
    out = np.arange(11, 15, dtype=np.uint32)
    run_ptx(text, [out], grid=1, block=1)
    return out.tolist()


STORE = "st.global.u32 [at], {};"
VECTORS = {
    ".reg .v4 .u32 v; ld.global.v4.u32 v, [at]; st.global.u32 [at], v.y;": [12, 12, 13, 14],
    ".reg .v4 .u32 v; ld.global.v4.u32 v, [at]; add.u32 v.x, v.z, v.w; mov.u32 v.y, v.x; st.global.v4.u32 [at], v;": [27, 27, 13, 14],
    ".reg .v4 .b32 v<3>; ld.global.v4.b32 v2, [at]; mov.b32 v1.r, v2.a; st.global.v2.b32 [at], {v1.r, v2.b};": [14, 13, 13, 14],
    ".reg .v2 .f32 v, w; ld.global.v2.f32 v, [at+8]; mov.f32 w.x, v.y; mov.f32 w.y, v.x; st.global.v2.f32 [at], w;": [14, 13, 13, 14],
    ".reg .v2 .u32 v; mov.b64 v, %rd2; add.u32 v.y, v.y, 9; mov.b64 %rd1, v; st.global.u64 [at], %rd1;": [7, 9, 13, 14],
    ".reg .v2 .u32 v; @%p1 mov.u32 v.x, 3; @!%p1 mov.u32 v.x, 4; selp.b32 v.y, v.x, 0, %p1; st.global.v2.u32 [at], {v.y, v.x};": [3, 3, 13, 14],
    ".reg .v2 .b64 v; ld.global.v2.b64 v, [at]; st.global.b64 [at], v.y;": [13, 14, 13, 14],
    "{ .reg .v2 .u32 v; mov.u32 v.x, 1; { .reg .v2 .u32 v; mov.u32 v.x, 2; } st.global.u32 [at], v.x; }": [1, 12, 13, 14],
    ".reg.v4.u32 v; ld.global.v4.u32 v, [at]; st.global.u32 [at], v.w;": [14, 12, 13, 14],
    "mad.lo.u32 %r1, %r2, %r2, %r2; .reg.u32 q; mov.u32 q, 5; st.global.u32 [at], q;": [5, 12, 13, 14],
    ".shared.b32 s[4]; .local.b32 l[4]; st.shared.u32 [s], 8; ld.shared.u32 %r1, [s]; st.local.u32 [l], %r1; ld.local.u32 %r2, [l]; st.global.u32 [at], %r2;": [8, 12, 13, 14],
}  # fmt: skip


@pytest.mark.parametrize("body", VECTORS)
def test_vectors_in_registers_and_directives_without_spaces(body: str) -> None:
    assert run(body) == VECTORS[body]


REG = """.func (.reg .v4 .u32 o) f (.reg.v4.u32 i, .reg.u32 n)
{ add.u32 o.x, i.w, n; mov.u32 o.y, i.z; mov.u32 o.z, i.y; mov.u32 o.w, i.x; ret; }"""
PARAM = ".func (.param.u64 o) inc (.param.u64 i) { .reg.u64 v; ld.param.u64 v, [i]; add.u64 v, v, 1; st.param.u64 [o], v; ret; }"


@pytest.mark.parametrize("calls", [1, 12])
def test_vectors_and_close_directives_of_functions(calls: int) -> None:
    body = ".reg .v4 .u32 v; ld.global.v4.u32 v, [at];" + "call (v), f, (v, 1);" * calls + "st.global.v4.u32 [at], v;"
    expected = [11, 12, 13, 14]
    for _ in range(calls):
        expected = [expected[3] + 1, *expected[2::-1]]
    assert run(body, before=REG) == expected
    body = ".param.u64 a; .param.u64 b; st.param.u64 [a], %rd2; call (b), inc, (a); ld.param.u64 %rd1, [b]; st.global.u64 [at], %rd1;"
    assert run(body, before=PARAM) == [8, 0, 13, 14]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (".reg .v4 .b64 v;", 4), (".reg .v2 .pred v;", 2), (".reg .v8 .u32 v;", ".v8"), (".reg .v2 .u32 v; mov.u32 v.z, 1;", "v.z"),
        (".reg .v4 .u32 v; mov.u32 %r1, v;", 10), (".reg .v4 .u32 v; ld.global.v2.u32 v, [at];", 2), (".reg .v2 .u32 v, v;", "v"),
    ],
)  # fmt: skip
def test_vectors_that_ptxas_refuses(body: str, value: object) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(value)):
        run(body)


CONSTANTS = {
    "add.cc.u32 %r1, 0xffffffffffffffffU, 1; addc.u32 %r1, %r1, 2;": 3,
    "mov.u32 %r1, 4294967303;": 7,
    "mov.u32 %r1, -4294967295;": 1,
    "mov.u32 %r1, 18446744073709551619;": 3,
    "mov.u32 %r1, 0x1fffffffffffffff3; shr.u32 %r1, %r1, 28;": 15,
    "mov.u16 %h1, 65543; cvt.u32.u16 %r1, %h1;": 7,
    "mul.wide.u16 %r1, %h2, 65538;": 14,
    "shl.b32 %r1, %r2, 0x100000003;": 56,
    "setp.lt.s16 %p2, %h2, 65535; selp.u32 %r1, 1, 2, %p2;": 2,
    "mov.pred %p2, 2; selp.u32 %r1, 1, 2, %p2;": 1,
    "mov.pred %p2, 18446744073709551616; selp.u32 %r1, 1, 2, %p2;": 2,
    "st.global.u8 [at+4], 257; ld.global.u8 %r1, [at+4];": 1,
}
SUMS = {
    "mov.u32 %r1, %r2 + 1;": 8,
    "mov.u32 %r1, %r2+-8;": 0xFFFFFFFF,
    "add.u32 %r1, %r2 + 5, 3;": 15,
    "shl.b32 %r1, %r2+1, 2;": 32,
    "mul.lo.s32 %r1, %r2+1, %r2+2;": 72,
    "setp.eq.u32 %p2, %r2+1, 8; selp.u32 %r1, %r2 + 0xffffffff, 2, %p2;": 6,
    "cvt.u32.u64 %r1, %rd2+3;": 10,
    "cvt.u32.u16 %r1, %h2+65530;": 1,
    "mov.u64 %rd1, %rd2+0xffffffffffffffff; cvt.u32.u64 %r1, %rd1;": 6,
}


@pytest.mark.parametrize("body", [*CONSTANTS, *SUMS])
def test_constants_are_cut_off_and_added_to_registers(body: str) -> None:
    assert run(body + STORE.format("%r1"))[0] == (CONSTANTS | SUMS)[body]


def test_a_stored_sum() -> None:
    assert run("st.global.u32 [at], %r1 + 1;") == [6, 12, 13, 14]


@pytest.mark.parametrize(
    "body", ["mov.u32 %r1, %tid.x+1;", "mov.u32 %r1, %r2-1;", "mov.u32 %r1, 18446744073709551620;", "st.global.v2.u32 [at], {%r1+1, %r2};"]
)  # fmt: skip
def test_sums_and_constants_that_ptxas_refuses(body: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(10)):
        run(body)


@pytest.mark.parametrize(("version", "target"), [("3.0", "sm_20"), ("3.1", "sm_30"), ("2.3", "sm_20")])
def test_mad_of_old_texts_needs_no_rounding(version: str, target: str) -> None:
    for more in ("", ".ftz", ".sat"):
        body = f"mad{more}.f32 %f2, %f1, %f1, %f1; cvt.rzi.u32.f32 %r1, %f2;" + STORE.format("%r1")
        assert run(body, version=version, target=target)[0] == (1 if more == ".sat" else 12)
    with pytest.raises(UnsupportedPtxError, match=mentions("mad.f32")):
        run("mad.f32 %f2, %f1, %f1, %f1;", version="3.2", target="sm_30")
