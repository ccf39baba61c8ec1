"""``wgmma``: one small product that is right, and each way to get it wrong (tests/tools/drawn_mma.py has types, shapes and layouts)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)
{
    .shared .align 1024 .b8 left[2048]; .shared .align 1024 .b8 right[256]; .shared .align 8 .b8 bar[8];
    .reg .b32 %t, %w, %s, %x, %v<4>, %c<4>, %a<4>; .reg .b64 %p, %da, %db; .reg .pred %q, %one, %first;
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; setp.eq.u32 %one, %t, 0; setp.lt.u32 %first, %t, 128;
    @!%first bra OTHERS;
    mul.lo.u32 %x, %t, 16; mov.u32 %s, left; add.u32 %s, %s, %x;
    ld.param.u64 %p, [a]; mad.wide.u32 %p, %t, 16, %p; ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%p];
    st.shared.v4.b32 [%s], {%v0, %v1, %v2, %v3};
    setp.ge.u32 %q, %t, 16; @%q bra FILLED;
    mov.u32 %s, right; add.u32 %s, %s, %x;
    ld.param.u64 %p, [b]; mad.wide.u32 %p, %t, 16, %p; ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%p];
    st.shared.v4.b32 [%s], {%v0, %v1, %v2, %v3};
FILLED:
    fence.proxy.async.shared::cta;
    bar.sync 1, 128;
    mov.u32 %s, left; shr.u32 %s, %s, 4; cvt.u64.u32 %da, %s; add.u64 %da, %da, 0x1000080000;
    mov.u32 %s, right; shr.u32 %s, %s, 4; cvt.u64.u32 %db, %s; add.u64 %db, %db, 0x1000080000;
    mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0; setp.eq.u32 %q, 0, 0;
    mov.b32 %a0, 0; mov.b32 %a1, 0; mov.b32 %a2, 0; mov.b32 %a3, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c0, %c1, %c2, %c3}, %da, %db, %q, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mov.u32 %x, %ctaid.x; mad.lo.u32 %x, %x, 128, %t;
    ld.param.u64 %p, [d]; mad.wide.u32 %p, %x, 16, %p; st.global.v4.b32 [%p], {%c0, %c1, %c2, %c3};
OTHERS:
    ret;
}
"""
PRODUCT = TEXT[TEXT.index("    wgmma.mma_async") : TEXT.index("    wgmma.commit")]
WAIT = "    wgmma.wait_group.sync.aligned 0;\n"
FROM_REGISTERS = PRODUCT.replace("%da, %db, %q, 1, 1, 0, 0", "{%a0, %a1, %a2, %a3}, %db, %q, 1, 1, 0")


def run(text: str, grid: int = 1, block: int = 128) -> Any:
    """What the lanes have of D, and what NumPy has."""
    random = np.random.default_rng(1)
    a, b = (random.integers(-8, 9, shape).astype(np.float16) for shape in ((64, 16), (8, 16)))
    cores = [each.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3) for each in (a, b)]  # 8 rows of 16 bytes, K first
    out = np.zeros((grid, 128, 4), np.float32)
    run_ptx(text, [*map(np.ascontiguousarray, cores), out], grid=grid, block=block)
    found = np.zeros((grid, 64, 8), np.float32)
    for thread in range(128):
        for i in range(4):
            row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i // 2)
            found[:, row, 2 * (thread % 4) + i % 2] = out[:, thread, i]
    return found, (a.astype(float) @ b.T.astype(float))[None]


def test_the_product_equals_numpy() -> None:
    found, wanted = run(TEXT, grid=3)
    assert (found == wanted).all()


def test_products_of_one_accumulator_need_no_wait_between() -> None:
    found, wanted = run(TEXT.replace(PRODUCT, PRODUCT * 3))
    assert (found == 3 * wanted).all()


@pytest.mark.parametrize(
    "part",
    [
        "setp.lt.u32 %q, %w, 2; @%q bra L1; nanosleep.u32 20; bra L2; L1: add.u32 %x, %x, 0; L2: setp.eq.u32 %q, 0, 0;",
        "mov.u32 %x, 0; L1: add.u32 %x, %x, 1; setp.lt.u32 %q, %x, %w; @%q bra L1; setp.eq.u32 %q, 0, 0;",
    ],
)
def test_warps_that_come_one_after_another_wait_for_each_other(part: str) -> None:
    before = part.replace("L1", "L3").replace("L2", "L4")
    found, wanted = run(TEXT.replace(PRODUCT, part + PRODUCT * 2).replace(WAIT, before + WAIT))
    assert (found == 2 * wanted).all()


def test_ctas_may_part_while_a_product_is_in_flight() -> None:
    parting = "mov.u32 %x, %ctaid.x; setp.eq.u32 %q, %x, 1; @%q bra P; add.u32 %x, %x, 1; P: setp.eq.u32 %q, 0, 0;\n"
    found, wanted = run(TEXT.replace(PRODUCT, PRODUCT + parting + PRODUCT), grid=3)
    assert (found == 2 * wanted).all()


def drop(part: str) -> tuple[str, str]:
    return part, ""


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (drop("    fence.proxy.async.shared::cta;\n"), "proxy", ("fence.proxy.async",)),
        (drop("    bar.sync 1, 128;\n"), "race", ()),
        (drop("    wgmma.fence.sync.aligned;\n"), "proxy", ("wgmma.fence",)),
        ((PRODUCT, f"mov.b32 %c2, 0;\n{PRODUCT}"), "proxy", ("c2", "wgmma.fence")),
        ((PRODUCT, f"mov.b32 %a1, 0;\n{FROM_REGISTERS}"), "proxy", ("a1", "wgmma.fence")),
        (drop(WAIT), "async", ("c0", "wgmma.mma_async")),
        (drop("    wgmma.commit_group.sync.aligned;\n"), "async", ("c0", "wgmma.commit_group")),
        ((WAIT, WAIT.replace("0;", "1;")), "async", ("c0",)),
        ((WAIT, f"mov.b32 %c3, 0;\n{WAIT}"), "async", ("c3",)),
        ((PRODUCT, f"{FROM_REGISTERS}mov.b32 %a2, 0;\n"), "async", ("a2",)),
        ((PRODUCT, PRODUCT + FROM_REGISTERS.replace("%a0", "%c0")), "async", ("c0", "A")),
        ((PRODUCT, PRODUCT + PRODUCT.replace("{%c0", "{%v0")), "async", ("c1",)),
        ((WAIT, f"st.shared.b32 [left], %w;\n{WAIT}"), "async", ("left",)),
        (("add.u64 %db, %db, 0x1000080000", "add.u64 %db, %db, 0x2000001000080000"), "descriptor", ()),
        (("add.u64 %db, %db, 0x1000080000", "add.u64 %db, %db, 0x1000080001"), "bounds", ("shared",)),
        (("setp.ge.u32 %q, %t, 16; @%q bra FILLED;", "bra FILLED;"), "poison", ("right", 15)),
        ((PRODUCT, f"setp.eq.u32 %q, %w, 3; @%q bra OTHERS;\n{PRODUCT}"), "aligned", (96, 128)),
        ((PRODUCT, f"setp.eq.u32 %q, %w, 3; @%q bra Z; {PRODUCT} Z:\n"), "aligned", (96, 128)),
        ((PRODUCT, f"cvt.u64.u32 %p, %w; shl.b64 %p, %p, 32; add.u64 %da, %da, %p;\n{PRODUCT}"), "aligned", ()),
        ((PRODUCT, f"setp.lt.u32 %q, %t, 5;\n{PRODUCT}"), "aligned", ()),
        ((WAIT, "ret;\n"), "lifetime", ()),
    ],
)  # fmt: skip
def test_each_fault_is_named(change: tuple[str, str], kind: str, message: tuple[object, ...]) -> None:
    text = TEXT.replace(*change)
    assert text != TEXT
    with pytest.raises(HazardError, check=is_hazard(kind, *message)) as error:
        run(text)
    assert error.value.kind == kind


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("%q, 1, 1, 0, 0", "%q, 1, 1, 0"), (8, 7)),
        (("%q, 1, 1, 0, 0", "%q, 1, 2, 0, 0"), (1, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "c0")),
        (("sm_90a", "sm_90"), ("sm_90",)),
        (("m64n8k16", "m64n12k16"), ("c0", "c1")),
    ],
)
def test_what_ptxas_refuses_is_refused(change: tuple[str, str], message: tuple[object, ...]) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(*message)):
        run(TEXT.replace(*change))


RELEASE = """setp.ne.u32 %q, %t, 70; @%q bra KEPT;
    mbarrier.arrive.shared.b64 _, [bar];
KEPT:
"""
PRODUCER = """OTHERS:
    @%first bra DONE; setp.ne.u32 %q, %t, 128; @%q bra DONE;
TRY: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra TRY;
    st.shared.b32 [left], %t; st.shared.b32 [left+1024], %t;
DONE:
"""
INIT = "@!%one bra INITED; mbarrier.init.shared.b64 [bar], 1; INITED: bar.sync 0;\n    @!%first bra OTHERS;"


def test_a_thread_that_has_waited_may_write_what_it_alone_overwrites() -> None:
    found, wanted = run(TEXT.replace(WAIT, f"{WAIT}@!%one bra S; st.shared.b32 [left], %w; S:\n"))
    assert (found == wanted).all()


@pytest.mark.parametrize("early", [False, True])
def test_one_thread_that_has_waited_may_give_the_operands_back(early: bool) -> None:
    """As CUTLASS's consumers do: what one warp's wait covers is done for all of the warpgroup."""
    text = TEXT.replace("    @!%first bra OTHERS;", INIT).replace("OTHERS:\n", PRODUCER)
    text = text.replace(WAIT, f"{RELEASE}{WAIT}" if early else f"{WAIT}{RELEASE}")
    if early:
        with pytest.raises(HazardError, check=is_hazard("race", "wgmma.mma_async", "wgmma.wait_group")):
            run(text, block=256)
    else:
        found, wanted = run(text, block=256)
        assert (found == wanted).all()


def test_a_write_that_nothing_orders_after_the_wait_is_a_race() -> None:
    text = TEXT.replace(WAIT, f"{WAIT}setp.ne.u32 %q, %t, 32; @%q bra S; nanosleep.u32 1; S:\n")
    text = text.replace("OTHERS:\n", "OTHERS:\n @%first bra E; nanosleep.u32 1; st.shared.b32 [left], %t; E:\n")
    with pytest.raises(HazardError, check=is_hazard("race")):
        run(text, block=256)
