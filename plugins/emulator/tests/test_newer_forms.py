"""What instructions of newer and rarer forms do: 128 bits, vector atomics, ``wmma``, ``multimem``, ``st.bulk``, ``discard``, ``redux`` of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions
from tilecopy_test_helpers.ptx_verdicts import LINES, refusal

HEAD = """
.version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 B, .param .u64 C, .param .u64 D)
{{
    .reg .pred %p<8>; .reg .b8 %b<8>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .b64 %d<32>; .reg .f32 %f<40>; .reg .f64 %w<8>; .reg .b128 %q<8>;
    .shared .align 128 .b8 s[4096];
    ld.param.u64 %d1, [A]; cvta.to.global.u64 %d1, %d1; ld.param.u64 %d2, [B]; cvta.to.global.u64 %d2, %d2;
    ld.param.u64 %d3, [C]; cvta.to.global.u64 %d3, %d3; ld.param.u64 %d4, [D]; cvta.to.global.u64 %d4, %d4;
    mov.u32 %r1, %tid.x; mov.u32 %r2, s;
"""


def run(body: str, *arrays: Any, block: int = 32, grid: int = 1, target: str = "sm_90", version: str = "8.4") -> None:
    given = [*arrays, *(np.zeros(4, np.uint32) for _ in range(4 - len(arrays)))]
    run_ptx(HEAD.format(target=target, version=version) + body + "\n    ret;\n}\n", given, grid=grid, block=block)


def test_nearly_all_that_ptxas_takes_is_known() -> None:
    """Of the instructions of ptx_verdicts.txt, whichever target has them first."""
    taken = [each for each in LINES if each.least]
    unknown = [body for body, least in taken if any(refusal(body, *each) for each in least.items())]
    assert len(taken) >= 750
    assert len(unknown) <= 0.02 * len(taken), unknown


# ------------------------------------------------------------------------------------------------ 128 bits


def test_128_bits_are_moved() -> None:
    a, b = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    run(
        """
    mad.wide.u32 %d5, %r1, 16, %d1; mad.wide.u32 %d6, %r1, 16, %d2; mad.lo.u32 %r3, %r1, 16, %r2;
    ld.global.b128 %q0, [%d5]; st.shared.b128 [%r3], %q0; ld.shared.b128 %q1, [%r3]; mov.b128 %q2, %q1;
    mov.b128 {%d7, %d8}, %q2; mov.b128 %q3, {%d8, %d7}; st.global.b128 [%d6], %q3;""",
        a, b,
    )  # fmt: skip
    assert np.array_equal(b.reshape(-1, 4), a.reshape(-1, 4)[:, [2, 3, 0, 1]])


def test_atomics_of_128_bits() -> None:
    nan = 0x7FF8000000000000  # as a float it would not be equal to itself
    a, b = np.array([nan, 7, 1, 2], np.uint64), np.zeros(4, np.uint64)
    run(
        f"""
    mov.u64 %d5, {nan}; mov.u64 %d6, 7; mov.b128 %q1, {{%d5, %d6}}; mov.b128 %q2, {{%d6, %d5}};
    atom.global.cas.b128 %q3, [%d1], %q1, %q2; atom.global.cas.b128 %q4, [%d1], %q1, %q1; atom.global.exch.b128 %q5, [%d1+16], %q2;
    st.global.b128 [%d2], %q4; st.global.b128 [%d2+16], %q5;""",
        a, b, block=1,
    )  # fmt: skip
    assert a.tolist() == [7, nan, 7, nan]
    assert b.tolist() == [7, nan, 1, 2]


def test_a_part_of_128_bits_that_holds_nothing() -> None:
    with pytest.raises(tc.HazardError, check=is_hazard("poison", "q0.low")):
        run("mov.b128 {%d5, %d6}, %q0; st.global.b64 [%d1], %d5;", block=1)


# ------------------------------------------------------------------------------------------------ atomics of vectors


def test_vector_atomics() -> None:
    a, b = np.zeros(4, np.float32), np.zeros(128, np.float32)
    run(
        """
    cvt.rn.f32.u32 %f1, %r1; mov.f32 %f2, 0f3F800000; mov.f32 %f3, 0f40000000; mov.f32 %f4, 0fBF800000;
    mad.wide.u32 %d5, %r1, 16, %d2;
    atom.global.add.v4.f32 {%f5, %f6, %f7, %f8}, [%d1], {%f1, %f2, %f3, %f4}; st.global.v4.f32 [%d5], {%f5, %f6, %f7, %f8};""",
        a, b,
    )  # fmt: skip
    assert a.tolist() == [496, 32, 64, -32]
    assert sorted(b.reshape(-1, 4)[:, 1]) == list(range(32))
    halves = np.array([1, 2, 3, 4], np.float16)
    run(
        """
    mov.b32 %r3, 0x48003C00; mov.b32 %r4, 0x3C00C000;
    red.global.max.noftz.v2.f16x2 [%d1], {%r3, %r4};""",
        halves,
    )
    assert halves.tolist() == [1, 8, 3, 4]
    with pytest.raises(tc.HazardError, check=is_hazard("alignment", "d1")):
        run(
            "red.global.add.v2.f32 [%d1+4], {%f1, %f1};".replace("%f1", "%f2").replace(
                "red", "mov.f32 %f2, 0f00000000; red"
            ),
            a,
        )


# ------------------------------------------------------------------------------------------------ warps


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("more", ["", ".abs", ".NaN", ".abs.NaN"])
def test_redux_of_floats(kind: str, more: str) -> None:
    values = np.array([(-1) ** n * (n + 1) for n in range(32)], np.float32)
    for special in ((), (5,), tuple(range(32))):
        a, b = values.copy(), np.zeros(32, np.float32)
        a[list(special)] = np.nan
        run(
            f"""
    mad.wide.u32 %d5, %r1, 4, %d1; mad.wide.u32 %d6, %r1, 4, %d2; ld.global.f32 %f1, [%d5];
    redux.sync.{kind}{more}.f32 %f2, %f1, -1; st.global.f32 [%d6], %f2;""",
            a, b, target="sm_100a", version="8.6",
        )  # fmt: skip
        x = np.abs(a) if "abs" in more else a
        reduce = getattr(np, f"f{kind}" if "NaN" not in more else f"{kind}imum")
        wanted = reduce.reduce(x)
        assert np.array_equal(b, np.full(32, wanted), equal_nan=True)


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("more", ["", ".abs", ".NaN"])
def test_redux_of_floats_by_a_part_of_a_warp(kind: str, more: str) -> None:
    for value in (np.nan, np.inf, -np.inf, -2.0):
        a, b = np.full(32, value, np.float32), np.zeros(32, np.float32)
        run(
            f"""
    mad.wide.u32 %d5, %r1, 4, %d1; mad.wide.u32 %d6, %r1, 4, %d2; ld.global.f32 %f1, [%d5]; setp.gt.u32 %p1, %r1, 15;
    @%p1 exit; redux.sync.{kind}{more}.f32 %f2, %f1, 0xFFFF; st.global.f32 [%d6], %f2;""",
            a, b, target="sm_100a", version="8.6",
        )  # fmt: skip
        assert np.array_equal(b[:16], np.abs(a[:16]) if "abs" in more else a[:16], equal_nan=True)


# ------------------------------------------------------------------------------------------------ stores


def test_st_bulk_sets_zeros() -> None:
    a = np.zeros(64, np.uint32)
    run(
        """
    mad.lo.u32 %r3, %r1, 4, %r2; st.shared.b32 [%r3], 7; st.shared.b32 [%r3+128], 9; bar.sync 0;
    setp.eq.u32 %p1, %r1, 3; mov.u64 %d5, 64; @%p1 st.bulk.weak.shared::cta [%r2], %d5, 0; bar.sync 0;
    ld.shared.b32 %r4, [%r3]; ld.shared.b32 %r5, [%r3+128]; mad.wide.u32 %d6, %r1, 4, %d1;
    st.global.b32 [%d6], %r4; st.global.b32 [%d6+128], %r5;""",
        a, target="sm_100a", version="8.6",
    )  # fmt: skip
    assert a.tolist() == [0] * 16 + [7] * 16 + [9] * 32
    with pytest.raises(tc.HazardError, check=is_hazard("race")):
        run(
            """
    mad.lo.u32 %r3, %r1, 4, %r2; st.shared.b32 [%r3], 7; setp.eq.u32 %p1, %r1, 3; mov.u64 %d5, 64;
    @%p1 st.bulk.weak.shared::cta [%r2], %d5, 0;""",
            target="sm_100a", version="8.6",
        )  # fmt: skip
    with pytest.raises(tc.HazardError, check=is_hazard("alignment", 12)):
        run("mov.u64 %d5, 12; st.bulk.weak.shared::cta [%r2], %d5, 0;", block=1, target="sm_100a", version="8.6")
    with pytest.raises(tc.HazardError, check=is_hazard("bounds", "s")):
        run("mov.u64 %d5, 8192; st.bulk.weak.shared::cta [%r2], %d5, 0;", block=1, target="sm_100a", version="8.6")


def test_what_is_discarded_is_not_what_was_there() -> None:
    a, b = np.arange(64, dtype=np.uint32), np.zeros(1, np.uint32)
    run("discard.global.L2 [%d1], 128; ld.global.b32 %r3, [%d1+4]; st.global.b32 [%d2], %r3;", a, b, block=1)
    assert b[0] != 1
    assert a[32:].tolist() == list(range(32, 64))
    with pytest.raises(tc.HazardError, check=is_hazard("race")):
        run(
            "mad.wide.u32 %d5, %r1, 4, %d1; st.global.b32 [%d5], 1; setp.eq.u32 %p1, %r1, 0; @%p1 discard.global.L2 [%d1], 128;",
            a,
        )
    with pytest.raises(tc.HazardError, check=is_hazard("alignment", "d1")):
        run("discard.global.L2 [%d1+16], 128;", a, block=1)


def test_a_release_to_global_memory() -> None:
    """What was stored before is seen by who acquires it, by a store and by an operation."""
    for send in ("st.async.release.gpu.global.b32 [%d1], %r4;", "red.async.release.gpu.global.add.u32 [%d1], %r4;"):
        a, b, c = np.zeros(1, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        body = f"""
    mov.u32 %r3, %ctaid.x; setp.ne.u32 %p1, %r3, 0; mov.u32 %r4, 1; @%p1 bra WAIT;
    st.global.b32 [%d2], 5; {send} bra END;
WAIT: ld.acquire.gpu.global.b32 %r5, [%d1]; setp.eq.u32 %p2, %r5, 0; @%p2 bra WAIT;
    ld.global.b32 %r6, [%d2]; st.global.b32 [%d3], %r6;
END:"""
        run(body, a, b, c, grid=2, block=1, target="sm_100a", version="8.7")
        assert c[0] == 5
        with pytest.raises(tc.HazardError, check=is_hazard("race")):
            run(body.replace("ld.acquire", "ld.relaxed"), a * 0, b, c, grid=2, block=1, target="sm_100a", version="8.7")


def test_a_bulk_copy_of_chosen_bytes() -> None:
    """Bit i of the mask stands for byte i of each 16; the others are somebody else's, who may write them meanwhile."""
    body = """
    mad.lo.u32 %r3, %r1, 4, %r2; st.shared.b32 [%r3], 0x01010101; fence.proxy.async.shared::cta; bar.sync 0;
    setp.eq.u32 %p1, %r1, 0; mov.b16 %h1, 0x8005; mov.u32 %r4, 128;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d1], [%r2], %r4, %h1;
    setp.eq.u32 %p2, %r1, 5; mov.u16 %h2, 9; @%p2 st.global.b8 [%d1+OTHER], %h2;
    @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"""
    a = np.full(128, 7, np.uint8)
    run(body.replace("OTHER", "17"), a, target="sm_100a", version="8.6")
    wanted = np.where(np.isin(np.arange(128) % 16, (0, 2, 15)), 1, 7)
    wanted[17] = 9
    assert np.array_equal(a, wanted)
    with pytest.raises(tc.HazardError, check=is_hazard("async")):
        run(body.replace("OTHER", "18"), a, target="sm_100a", version="8.6")


def test_multicast_memory_of_one_gpu() -> None:
    a, b = np.zeros(4, np.float32), np.zeros(4, np.float32)
    run(
        """
    mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; setp.eq.u32 %p1, %r1, 0;
    @%p1 multimem.st.relaxed.sys.global.v4.f32 [%d1], {%f1, %f2, %f1, %f2}; bar.sync 0;
    multimem.red.relaxed.sys.global.add.v4.f32 [%d1], {%f1, %f1, %f2, %f2}; bar.sync 0;
    @%p1 multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f3, %f4, %f5, %f6}, [%d1]; @%p1 st.global.v4.f32 [%d2], {%f3, %f4, %f5, %f6};""",
        a, b, version="8.6",
    )  # fmt: skip
    assert a.tolist() == b.tolist() == [33, 34, 65, 66]
    with pytest.raises(tc.HazardError, check=is_hazard("race")):
        run("multimem.st.weak.global.b32 [%d1], %r1;", a, version="8.6")


def test_a_space_is_told_of_each_generic_address() -> None:
    a = np.zeros(4, np.uint32)
    text = HEAD.format(target="sm_90", version="8.4").replace(
        ".visible", ".const .b32 table[4] = {1, 2, 3, 4};\n.visible"
    )
    run_ptx(
        text + """
    mov.u64 %d5, table; cvta.const.u64 %d5, %d5; isspacep.const %p1, %d5; isspacep.global %p2, %d5; isspacep.const %p3, %d1;
    isspacep.global %p4, %d1; selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 1, 0, %p2; selp.u32 %r5, 1, 0, %p3; selp.u32 %r6, 1, 0, %p4;
    st.global.v4.b32 [%d1], {%r3, %r4, %r5, %r6}; ret; }""",
        [a, a, a, a], grid=1, block=1,
    )  # fmt: skip
    assert a.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("type", "registers"), [("b32", ("%r3", "%d5")), ("b16", ("%h3", "%r5")), ("b64", ("%r3", "%d5"))]
)
def test_the_registers_of_a_vector_have_one_width(type: str, registers: tuple[str, str]) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(*registers)):
        run(f"ld.global.v2.{type} {{{', '.join(registers)}}}, [%d1];", np.zeros(4, np.uint32))


def test_shared_memory_of_another_cta_is_shared_in_the_cluster_alone() -> None:
    a = np.zeros(4, np.uint32)
    body = """
    cvta.shared.u64 %d5, s; mapa.u64 %d6, %d5, 1; isspacep.shared %p1, %d5; isspacep.shared %p2, %d6;
    isspacep.shared::cluster %p3, %d5; isspacep.shared::cluster %p4, %d6; selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 1, 0, %p2;
    selp.u32 %r5, 1, 0, %p3; selp.u32 %r6, 1, 0, %p4; mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p5, %r7, 0;
    @%p5 st.global.v4.b32 [%d1], {%r3, %r4, %r5, %r6}; ret; }"""
    run_ptx(HEAD.format(target="sm_90", version="8.4") + body, [a, a, a, a], grid=2, block=1, cluster=2)
    assert a.tolist() == [1, 0, 1, 1]


# ------------------------------------------------------------------------------------------------ wmma

SHAPES = {"m16n16k16": (16, 16, 16), "m8n32k16": (8, 32, 16), "m32n8k16": (32, 8, 16)}
HALVES = [(shape, "f16", total, 8, 8) for shape in SHAPES for total in ("f32", "f16")]
BFLOATS = [("m16n16k16", "bf16", "f32", 4, 4), ("m8n32k16", "bf16", "f32", 2, 8), ("m32n8k16", "bf16", "f32", 8, 2)]
BYTES = [
    (shape, type, "s32", a, b)
    for type in ("s8", "u8")
    for shape, a, b in (("m16n16k16", 2, 2), ("m8n32k16", 1, 4), ("m32n8k16", 4, 1))
]
OTHERS = [("m16n16k8", "tf32", "f32", 4, 4), ("m8n8k4", "f64", "f64", 1, 1)]


def matrix(rows: int, columns: int, type: str, seed: int) -> Any:
    """Small whole numbers, so that every sum is exact."""
    found = np.random.default_rng(seed).integers(0 if type == "u8" else -8, 8, (rows, columns))
    dtype = {"f16": np.float16, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32}.get(type, np.float32)
    return found.astype(dtype)


def stored(values: Any, type: str, stride: int, *, by_columns: bool) -> Any:
    """A matrix in memory, its rows or columns so far apart."""
    laid = values.T if by_columns else values
    if type == "bf16":
        laid = (laid.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    found = np.zeros((laid.shape[0], stride), laid.dtype)
    found[:, : laid.shape[1]] = laid
    return found.ravel()


@pytest.mark.parametrize("layouts", ["row col row", "col row col", "row row col"])
@pytest.mark.parametrize(("shape", "type", "total", "of_a", "of_b"), HALVES + BFLOATS + BYTES + OTHERS)
def test_a_product_of_matrices(shape: str, type: str, total: str, of_a: int, of_b: int, layouts: str) -> None:
    m, n, k = {**SHAPES, "m16n16k8": (16, 16, 8), "m8n8k4": (8, 8, 4)}[shape]
    parts = layouts.split()
    values = matrix(m, k, type, 1), matrix(k, n, type, 2), matrix(m, n, total, 3)
    a, b, c = (
        stored(x, t, 64, by_columns=part == "col")
        for x, t, part in zip(values, (type, type, total), parts, strict=True)
    )
    d = np.zeros_like(c)
    of_c = 4 if total == "f16" else 2 if total == "f64" else 8
    letter = {"f32": "f", "f64": "w"}.get(total, "r")
    own = "w" if type == "f64" else "r"
    names = [
        "{" + ", ".join(f"%{kind}{first + i}" for i in range(count)) + "}"
        for kind, count, first in (
            (own, of_a, 4),
            (own, of_b, 20 if own == "r" else 5),
            (letter, of_c, 40 if letter == "r" else 0),
        )
    ]
    types = f"{total}.{total}" if type == "f16" else f"{total}.{type}.{type}.{total}"
    run(
        f"""
    mov.u32 %r3, 64;
    wmma.load.a.sync.aligned.{parts[0]}.{shape}.global.{type} {names[0]}, [%d1], %r3;
    wmma.load.b.sync.aligned.{parts[1]}.{shape}.global.{type} {names[1]}, [%d2], %r3;
    wmma.load.c.sync.aligned.{parts[2]}.{shape}.global.{total} {names[2]}, [%d3], %r3;
    wmma.mma.sync.aligned.{parts[0]}.{parts[1]}.{shape}.{types} {names[2]}, {names[0]}, {names[1]}, {names[2]};
    wmma.store.d.sync.aligned.{parts[2]}.{shape}.global.{total} [%d4], {names[2]}, %r3;""",
        a, b, c, d,
    )  # fmt: skip
    exact = values[0].astype(np.float64) @ values[1].astype(np.float64) + values[2].astype(np.float64)
    wanted = stored(exact.astype(values[2].dtype), total, 64, by_columns=parts[2] == "col")
    assert np.array_equal(d, wanted)


def test_a_matrix_goes_through_shared_memory_packed() -> None:
    a, b = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    group = "{" + ", ".join(f"%f{i}" for i in range(8)) + "}"
    body = f"""
    wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {group}, [%d1]; wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r2], {group};
    bar.warp.sync -1; wmma.load.c.sync.aligned.col.m16n16k16.shared.f32 {group}, [%r2]; wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d2], {group};"""
    run(body, a, b)
    assert np.array_equal(b.reshape(16, 16), a.reshape(16, 16).T)
    with pytest.raises(tc.HazardError, check=is_hazard("race")):
        run(body.replace("bar.warp.sync -1;", ""), a, b)
    with pytest.raises(tc.HazardError, match="^aligned"):
        run("setp.gt.u32 %p1, %r1, 3; @%p1 exit; " + body.replace("[%d1]", "[%d1]"), a, b, block=16)
    with pytest.raises(tc.HazardError, check=is_hazard("alignment", "d1")):
        run(body.replace("[%d1]", "[%d1+4]"), a, b)


def test_tf32_has_ten_bits_of_fraction() -> None:
    a, d = np.full(128, 1 + 2**-12, np.float32), np.zeros(256, np.float32)
    total = "{" + ", ".join(f"%f{i}" for i in range(8)) + "}"
    run(
        f"""
    wmma.load.a.sync.aligned.row.m16n16k8.global.tf32 {{%r3, %r4, %r5, %r6}}, [%d1];
    wmma.load.b.sync.aligned.col.m16n16k8.global.tf32 {{%r7, %r8, %r9, %r10}}, [%d1]; wmma.load.c.sync.aligned.row.m16n16k8.global.f32 {total}, [%d2];
    wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32 {total}, {{%r3, %r4, %r5, %r6}}, {{%r7, %r8, %r9, %r10}}, {total};
    wmma.store.d.sync.aligned.row.m16n16k8.global.f32 [%d2], {total};""",
        a, d,
    )  # fmt: skip
    assert (d == 8).all()


def test_an_integer_sum_is_cut_or_clamped() -> None:
    a, c = np.full(256, 127, np.int8), np.full(256, 2**31 - 5, np.int32)
    eight = "{" + ", ".join(f"%r{i}" for i in range(10, 18)) + "}"
    for more, wanted in ((".satfinite", 2**31 - 1), ("", 2**31 - 5 + 16 * 127 * 127 - 2**32)):
        d = np.zeros(256, np.int32)
        run(
            f"""
    wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {{%r3, %r4}}, [%d1]; wmma.load.b.sync.aligned.col.m16n16k16.global.s8 {{%r5, %r6}}, [%d1];
    wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {eight}, [%d2];
    wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32{more} {eight}, {{%r3, %r4}}, {{%r5, %r6}}, {eight};
    wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%d3], {eight};""",
            a, c, d,
        )  # fmt: skip
        assert (d == wanted).all()


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("atom.global.add.v4.f32.strange {%f1, %f2, %f3, %f4}, [%d1], {%f1, %f2, %f3, %f4};", ("strange",)),
        ("red.global.add.v2.f64 [%d1], {%w1, %w2};", ("red.global.add.v2.f64",)),
        ("ld.global.v2.b128 {%q0, %q1}, [%d1];", ("ld.global.v2.b128", ".v2")),
        ("ld.global.b128 %d5, [%d1];", (2, "ld.global.b128")),
        ("add.u64 %q0, %q1, %q2;", ("add.u64",)),
        ("mov.b128 %q0, %d1;", (128, 64)),
        ("discard.global.L2 [%d1], 64;", (128,)),
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2}, [%d1];", (8,)),
        (
            "wmma.mma.sync.aligned.row.col.m16n16k16.f64.f64 {%r1}, {%r2}, {%r3}, {%r4};",
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f64.f64",),
        ),
        ("cvt.pack.sat.u8.s32 %r3, %r4, %r5;", ("cvt.pack.sat.u8.s32",)),
        ("multimem.red.global.add.e4m3x4 [%d1], %r1;", ("multimem.red.global.add.e4m3x4",)),
        (
            "st.async.release.cta.global.b32 [%d1], %r1;",
            ("st.async.release.cta.global.b32",),
        ),
    ],
)
def test_what_is_refused(body: str, said: tuple[object, ...]) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(*said)):
        run(body, version="8.7", target="sm_100a")


# ------------------------------------------------------------------------------------------------ stacks, stops


ALLOCATED = """
    stacksave.u64 %d5; mov.u64 %d9, 24; alloca.u64 %d6, %d9, 16; mov.u32 %r5, 7; st.local.u32 [%d6+20], %r5;
    cvta.local.u64 %d7, %d6; ld.u32 %r6, [%d7+20];"""


def test_a_stack_is_taken_and_given_back() -> None:
    b = np.zeros(2, np.uint32)
    run(
        ALLOCATED
        + """stackrestore.u64 %d5; alloca.u64 %d8, 64, 4; sub.u64 %d8, %d8, %d6; cvt.u32.u64 %r7, %d8; st.global.v2.b32 [%d1], {%r6, %r7};""",
        b, block=1,
    )  # fmt: skip
    assert b.tolist() == [7, 0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (ALLOCATED + "ld.local.u32 %r7, [%d6+24];", ("bounds", 24, 4)),
        (ALLOCATED + "stackrestore.u64 %d5; ld.local.u32 %r7, [%d6+20];", ("bounds", 20)),
        (
            ALLOCATED
            + "stackrestore.u64 %d5; alloca.u64 %d8, 32; ld.local.u32 %r7, [%d8+20]; st.global.u32 [%d1], %r7;",
            ("poison", 20),
        ),
        (ALLOCATED + "add.u64 %d6, %d6, 64; stackrestore.u64 %d6;", ("bounds", "stackrestore")),
        ("alloca.u64 %d6, 16385;", ("bounds", "alloca", 16385, 16384)),
        (
            "mov.u64 %d9, 0x7ffffffffffffff8; alloca.u64 %d6, 16; alloca.u64 %d6, %d9;",
            ("bounds", "alloca", 9223372036854775800),
        ),
        ("mov.u64 %d9, -1; alloca.u64 %d6, %d9;", ("bounds", "alloca", 18446744073709551615)),
        ("brkpt;", ("trap", "brkpt")),
        ("fns.b32 %r5, 7, 32, 1;", ("arithmetic", "fns", 31)),
        ("fns.b32 %r5, 7, 0, -2147483648;", ("arithmetic", -2147483648)),
    ],
)
def test_what_stacks_and_rare_instructions_do_not_take(body: str, said: tuple[object, ...]) -> None:
    with pytest.raises(tc.HazardError, check=is_hazard(*said)):
        run(body, np.zeros(4, np.uint32), block=1)


# ------------------------------------------------------------------------------------------------ launch control

REQUEST = """
    .shared .align 8 .b64 mb; .shared .align 16 .b8 answer[16];
    mov.u32 %r3, mb; mov.u32 %r4, answer; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;
    @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r4], [%r3];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    ld.shared.b128 %q0, [%r4];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0; selp.u32 %r5, 1, 2, %p3;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r6, %q0;
    mov.u32 %r7, %ctaid.x; mad.wide.u32 %d5, %r7, 4, %d1;"""


def test_a_request_to_cancel_a_cluster_fails() -> None:
    b = np.zeros(5, np.uint32)
    run(REQUEST + "@%p1 st.global.u32 [%d5], %r5;", b, grid=5, target="sm_100a", version="8.6")
    assert b.tolist() == [2] * 5
    with pytest.raises(tc.HazardError, check=is_hazard("poison", "r6")):
        run(REQUEST + "@%p1 st.global.u32 [%d5], %r6;", b, grid=5, target="sm_100a", version="8.6")
    early = REQUEST.replace("@!%p2 bra WAIT;", "")
    early = early.replace("mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;", "")
    with pytest.raises(tc.HazardError, check=is_hazard("async", "clusterlaunchcontrol.try_cancel")):
        run(early, b, grid=5, target="sm_100a", version="8.6")


def test_a_request_to_cancel_tells_all_of_the_cluster() -> None:
    b = np.zeros(4, np.uint32)
    every = (
        REQUEST.replace("bar.sync 0;", "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16; CLUSTER")
        .replace("    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;\n", "    mov.u32 %r8, %cluster_ctarank; setp.eq.and.u32 %p4, %r8, 0, %p1;\n")
        .replace("@%p1 clusterlaunch", "@%p4 clusterlaunch")
        .replace(".async.shared::cta.mbarrier::complete_tx::bytes.b128", ".async.mbarrier::complete_tx::bytes.multicast::cluster::all.b128")
        .replace("CLUSTER", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    )  # fmt: skip
    text = HEAD.format(target="sm_100a", version="8.6") + every
    text += "@%p1 st.global.u32 [%d5], %r5; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }"
    run_ptx(text, [b, *[np.zeros(1)] * 3], grid=4, block=32, cluster=2)
    assert b.tolist() == [2] * 4


# ------------------------------------------------------------------------------------------------ odd factors, odd rounding


def test_a_factor_from_outside_makes_zero() -> None:
    a = np.array([0x7FF73C00, 0x3C003C00, 0x40007FF7, 0x7FFF3C00], np.uint32)
    b, o = np.array([0x40004000, 0xFFF74000, 0x3C003C00, 0x40004000], np.uint32), np.zeros(4, np.uint32)
    body = """mad.wide.u32 %d5, %r1, 4, %d1; mad.wide.u32 %d6, %r1, 4, %d2; mad.wide.u32 %d7, %r1, 4, %d3;
    ld.global.u32 %r3, [%d5]; ld.global.u32 %r4, [%d6]; mov.b32 %r5, 0x3C003C00; fma.rn.oob.f16x2 %r6, %r3, %r4, %r5; st.global.u32 [%d7], %r6;"""
    run(body, a, b, o, block=4)
    assert [hex(x) for x in o] == ["0x4200", "0x4200", "0x42000000", "0x7fff4200"]  # another NaN is one


def rounded_by_chance(opcode: str, values: list[float], random: int) -> int:
    o = np.zeros(1, np.uint32)
    given = "".join(f"mov.b32 %f{n}, 0f{np.float32(x).view(np.uint32):08x}; " for n, x in enumerate(values))
    sources = "%f0, %f1" if len(values) == 2 else "{%f0, %f1, %f2, %f3}"
    narrow = "e2m1" in opcode
    given += f"mov.b32 %r5, {random}; cvt.rs.{opcode}.f32 {'%h1' if narrow else '%r6'}, {sources}, %r5;"
    run(
        f"{given} {'cvt.u32.u16 %r6, %h1;' if narrow else ''} st.global.u32 [%d1], %r6;",
        o, block=1, target="sm_100a", version="8.7",
    )  # fmt: skip
    return int(o[0])


@pytest.mark.parametrize(
    ("opcode", "value", "down", "up", "places"),
    [
        ("f16x2", 1 + 2**-11, 0x3C00, 0x3C01, (28, 12)),
        ("bf16x2", 1 + 2**-8, 0x3F80, 0x3F81, (31, 15)),
        ("satfinite.e4m3x4", 1 + 2**-4, 0x38, 0x39, (16, 31, 0, 15)),
        ("satfinite.e5m2x4", 1 + 2**-3, 0x3C, 0x3D, (16, 31, 0, 15)),
        ("satfinite.e2m1x4", 1.25, 0x2, 0x3, (8, 31, 0, 23)),
    ],
)
def test_rounding_by_random_bits(opcode: str, value: float, down: int, up: int, places: tuple[int, ...]) -> None:
    """Half of a unit is cut off, so the heaviest bit of each operand decides, whatever the sign."""
    count, width = len(places), 32 // 2 if len(places) == 2 else 4 if "e2m1" in opcode else 8
    for number, place in enumerate(places):
        expected = [up if n == number else down for n in range(count)]
        whole = sum(each << width * (count - 1 - n) for n, each in enumerate(expected))
        assert rounded_by_chance(opcode, [value] * count, 1 << place) == whole
        signs = sum(1 << width * (n + 1) - 1 for n in range(count))
        assert rounded_by_chance(opcode, [-value] * count, 1 << place) == whole | signs
    largest = {
        "f16x2": 0x7C00,
        "bf16x2": 0x7F80,
        "satfinite.e4m3x4": 0x7E,
        "satfinite.e5m2x4": 0x7B,
        "satfinite.e2m1x4": 7,
    }[opcode]
    found = rounded_by_chance(opcode, [3.4028234663852886e38] * count, 0xFFFFFFFF)
    assert found == sum(largest << width * n for n in range(count))


AGAIN = """ bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;
    @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r4], [%r3];
    LAST: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 1; @!%p2 bra LAST;"""


@pytest.mark.parametrize("grid", [1, 5])
def test_nothing_is_asked_after_a_request_to_cancel_has_failed(grid: int) -> None:
    b = np.zeros(5, np.uint32)
    unseen, seen = (
        REQUEST.replace("clusterlaunchcontrol.query_cancel.is_canceled", f"{AGAIN if first else ''}\n    clusterlaunchcontrol.query_cancel.is_canceled")
        + ("" if first else AGAIN) + "@%p1 st.global.u32 [%d5], %r5;"
        for first in (True, False)
    )  # fmt: skip
    run(unseen, b, grid=grid, target="sm_100a", version="8.6")
    assert b.tolist() == [2] * grid + [0] * (5 - grid)
    with pytest.raises(
        tc.HazardError,
        check=is_hazard("lifetime"),
    ) as caught:
        run(seen, b, grid=grid, target="sm_100a", version="8.6")
    assert "clusterlaunchcontrol.try_cancel" in str(caught.value)


# ------------------------------------------------------------------------------------------------ addresses and warps


def test_an_address_of_another_space_converts_to_none() -> None:
    a = np.zeros(4, np.uint32)
    body = "cvta.shared.u64 %d5, s; cvta.to.shared.u64 %d6, {}; mov.u32 %r3, 7; st.shared.u32 [%d6], %r3;"
    run(body.format("%d5") + " ld.shared.u32 %r4, [s]; st.global.u32 [%d1], %r4;", a, block=1)
    assert a[0] == 7
    with pytest.raises(tc.HazardError, check=is_hazard("poison")):
        run(body.format("%d1"), a, block=1)


@pytest.mark.parametrize(
    "body",
    [
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r3, %r4}, {%r5}, {%f1, %f2, %f3, %f4};",
    ],
)
def test_a_matrix_instruction_needs_32_threads_in_its_warp(body: str) -> None:
    zeros = "mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;"
    fill = " mad.lo.u32 %r9, %r1, 8, %r2; mov.u64 %d9, 0; st.shared.b64 [%r9], %d9; bar.sync 0;"
    run(zeros + fill + body)
    with pytest.raises(tc.HazardError, check=is_hazard("aligned", 32)):
        run(zeros + fill + body, block=16)


@pytest.mark.parametrize("leaves", [False, True])
def test_shared_memory_of_a_cta_that_has_exited_is_gone(leaves: bool) -> None:
    """The CTA of rank 0 writes to that of rank 1, which waits for it or has left."""
    wait = "" if leaves else "barrier.cluster.arrive; barrier.cluster.wait;"
    body = f"""
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p5, %r7, 1; @%p5 bra END; mov.u32 %r3, 0;
    LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 200; @%p1 bra LOOP;
    mapa.shared::cluster.u32 %r8, %r2, 1; st.shared::cluster.u32 [%r8], %r3;
    END: {wait} ret; }}"""
    text, a = HEAD.format(target="sm_90", version="8.4") + body, np.zeros(4, np.uint32)
    if not leaves:
        run_ptx(text, [a, a, a, a], grid=2, block=1, cluster=2)
        return
    with pytest.raises(tc.HazardError, check=is_hazard("lifetime", 1)):
        run_ptx(text, [a, a, a, a], grid=2, block=1, cluster=2)


def test_a_grid_counts_in_the_memory_that_its_launch_provides() -> None:
    """Where cooperative groups keep the barrier of a whole grid."""
    a = np.zeros(4, np.uint32)
    body = """
    mov.u32 %r3, %envreg1; mov.u32 %r4, %envreg2; mov.b64 %d5, {%r4, %r3};
    atom.global.add.u32 %r5, [%d5], 1; mov.u32 %r6, %ctaid.x; mad.wide.u32 %d6, %r6, 4, %d1; st.global.u32 [%d6], %r5;"""
    run(body, a, block=1, grid=4)
    assert sorted(a.tolist()) == [0, 1, 2, 3]
