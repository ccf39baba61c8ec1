"""tcgen05.ld and st in every shape, against the layouts that the ISA draws; what a warp may not do."""

from __future__ import annotations

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout, laneid
from tilecopy.assemblers import assemble
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import mentions

SHAPES = {"32x32b": (1, 128), "16x64b": (1, 128), "16x128b": (2, 64), "16x256b": (4, 32), "16x32bx2": (1, 128)}
"""Shape -> registers of x1, and the largest repeat."""
SPLIT = 5
FORMS = [
    (shape, repeats, halves)
    for shape, (_, most) in SHAPES.items()
    for repeats in (1, 4, most)
    for halves in (False, True)
    if not halves or repeats < most  # tensor memory has 512 columns for two rectangles
]


def fragment(shape: str, repeats: int) -> TileLayout:
    """Who holds which (lane, column) of the rectangle that a shape covers, as the ISA's figures have it."""
    n = repeats
    return {
        "32x32b": TileLayout(S[(32, n) : (1 @ laneid, 1)]),
        "16x64b": TileLayout(S[(2, 8, n, 2) : (1 @ laneid, 4 @ laneid, 1, 2 @ laneid)]),
        "16x128b": TileLayout(S[(2, 8, n, 4) : (1, 4 @ laneid, 2, 1 @ laneid)]),
        "16x256b": TileLayout(S[(2, 8, n, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]),
        "16x32bx2": TileLayout(S[(16, 2, n) : (1 @ laneid, 16 @ laneid, 1)]),
    }[shape]


def places(shape: str, repeats: int, halves: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column of each (thread, register); of a pair of columns the first."""
    layout, per = fragment(shape, repeats), SHAPES[shape][0]
    rows = 32 if shape == "32x32b" else 16
    width = layout.size // rows
    lane, column = (np.zeros((32, per * repeats), int) for _ in range(2))
    for element in range(layout.size):
        place = layout.apply(element)
        row, at = divmod(element, width)
        step = 2 if halves else 1
        if shape == "16x32bx2":
            half, at = divmod(at, repeats)
            found = step * at + SPLIT * half
        else:
            found = step * at
        spot = place.get("laneid", 0), place.get("m", 0)
        lane[spot], column[spot] = row, found
    return lane, column


def program(shape: str, repeats: int, halves: bool, *, half: int = 0, body: str = "", warp: int = 1) -> str:
    """Warp 1 stores what all lanes and columns hold, loads in one shape, and stores that half the width on again."""
    count = SHAPES[shape][0] * repeats
    registers = ", ".join(f"%v{i}" for i in range(count))
    split = f", {SPLIT}" if shape == "16x32bx2" else ""
    width = 2 * count * (4 if shape == "16x256b" else 2) + 8
    width = min(256, max(32, 1 << (width - 1).bit_length()))
    form = f"sync.aligned.{shape}.x{repeats}"
    ld, st = (f".{word}::16b" if halves else "" for word in ("pack", "unpack"))
    fill = "\n".join(
        f"ld.global.b32 %x, [%a+{512 * c}]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%base+{c}], {{%x}};"
        for c in range(width)
    )
    show = "\n".join(f"st.global.b32 [%b+{128 * i}], %v{i};" for i in range(count))
    return f"""
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 B) .reqntid 128, 1, 1 {{
.reg .b32 %t, %l, %w, %x, %base, %lane, %v<{count}>; .reg .b64 %a, %b, %o; .reg .pred %p, %q; .shared .align 4 .b8 h[4];
ld.param.u64 %a, [A]; ld.param.u64 %b, [B]; cvta.to.global.u64 %a, %a; cvta.to.global.u64 %b, %b;
mov.u32 %t, %tid.x; and.b32 %l, %t, 31; shr.u32 %w, %t, 5;
setp.ne.s32 %p, %w, {warp}; @%p bra DONE;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [h], {2 * width};
bar.warp.sync -1; ld.shared.b32 %base, [h]; mad.lo.s32 %base, %w, {32 << 16}, %base;
mul.wide.u32 %o, %l, 4; add.s64 %a, %a, %o; add.s64 %b, %b, %o;
{fill}
tcgen05.wait::st.sync.aligned;
{body}
tcgen05.ld.{form}{ld}.b32 {{{registers}}}, [%base+{half << 20}]{split};
tcgen05.wait::ld.sync.aligned;
{show}
tcgen05.st.{form}{st}.b32 [%base+{(half << 20) + width}]{split}, {{{registers}}};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.{form}{ld}.b32 {{{registers}}}, [%base+{(half << 20) + width}]{split};
tcgen05.wait::ld.sync.aligned;
add.s64 %b, %b, {128 * count};
{show}
add.s32 %base, %base, {-(warp << 21)}; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, {2 * width};
DONE: ret;
}}"""


@pytest.mark.parametrize(("shape", "repeats", "halves"), FORMS)
def test_every_form_moves_what_the_isa_draws(shape: str, repeats: int, halves: bool) -> None:
    lane, column = places(shape, repeats, halves)
    half = int(shape != "32x32b")
    text = program(shape, repeats, halves, half=half)
    a = np.random.default_rng(0).integers(0, 1 << 32, (256, 128), np.uint32)
    b = np.zeros((2, lane.shape[1], 32), np.uint32)
    run_ptx(text, [a, b], grid=1, block=128)
    memory = a[:, :32].T
    wanted = memory[lane + 16 * half, column]
    if halves:
        wanted = wanted & 0xFFFF | memory[lane + 16 * half, column + 1] << 16
    assert (b[0] == wanted.T).all()
    assert (b[1] == wanted.T).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("halves", [False, True])
def test_the_forms_assemble(shape: str, halves: bool) -> None:
    assert assemble(program(shape, 2, halves), "sm_100a", "ptxas")[:4] == b"\x7fELF"


def hazard(body: str, shape: str = "32x32b", half: int = 0) -> str:
    a, b = np.zeros((256, 128), np.uint32), np.zeros((2, 1, 32), np.uint32)
    with pytest.raises(tc.HazardError) as caught:
        run_ptx(program(shape, 1, False, half=half, body=body), [a, b], grid=1, block=128)
    return str(caught.value)


def test_what_is_undefined_is_told() -> None:
    unpacked = "tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%base], {%v0}; tcgen05.wait::st.sync.aligned;"
    assert mentions(16).search(hazard(f"mov.b32 %v0, 1; {unpacked}"))
    early = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%base]; add.s32 %x, %v0, 1;"
    assert "tcgen05.wait::ld" in hazard(early)
    unwaited = "mov.b32 %v0, 1; tcgen05.st.sync.aligned.32x32b.x1.b32 [%base], {%v0};"
    assert mentions("tcgen05.wait::st").search(hazard(unwaited))
    assert mentions(1, 48).search(hazard("", half=1))
    assert mentions(1, 64).search(hazard("", shape="16x64b", half=2))
    beyond = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%base+300];"
    assert hazard(beyond)


def test_unknown_forms_are_refused() -> None:
    for wrong in (
        "tcgen05.ld.sync.aligned.16x256b.x64.b32",
        "tcgen05.ld.sync.aligned.32x32b.x3.b32",
        "tcgen05.ld.sync.aligned.32x32b.x1.unpack::16b.b32",
        "tcgen05.ld.sync.aligned.64x32b.x1.b32",
    ):
        text = program("32x32b", 1, False, body=f"{wrong} {{%v0}}, [%base];")
        with pytest.raises(UnsupportedPtxError, match=mentions("tcgen05.ld")):
            run_ptx(text, [np.zeros((256, 128), np.uint32), np.zeros((2, 1, 32), np.uint32)], grid=1, block=128)


@pytest.mark.parametrize(("format", "bits"), [("", 8), (".b8x16.b6x16_p32", 6), (".b8x16.b4x16_p64", 4)])
def test_a_copy_makes_bytes_of_narrow_elements(format: str, bits: int) -> None:
    """16 of them stand at the beginning of 16 bytes; those of 4 bits come to stand in the middle of theirs."""
    text = f"""
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 B)
{{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 1024 .b8 s[512]; .shared .align 8 .b64 mb; .shared .b32 at;
    ld.param.u64 %d1, [A]; ld.param.u64 %d2, [B]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, mb; setp.eq.u32 %p1, %r1, 0;
    mad.wide.u32 %d3, %r1, 16, %d1; mad.wide.u32 %d4, %r1, 16, %d2; mad.lo.u32 %r4, %r1, 16, %r2;
    ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%d3]; st.shared.v4.b32 [%r4], {{%r5, %r6, %r7, %r8}};
    @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
    mov.u32 %r9, at; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 32; bar.sync 0;
    tcgen05.fence::after_thread_sync; ld.shared.b32 %r10, [%r9];
    shr.u32 %r11, %r2, 4; cvt.u64.u32 %d5, %r11; or.b64 %d5, %d5, {1 << 46 | 8 << 32 | 8 << 16};
    @%p1 tcgen05.cp.cta_group::1.32x128b.warpx4{format} [%r10], %d5;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
W:  mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;
    tcgen05.fence::after_thread_sync; tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r5, %r6, %r7, %r8}}, [%r10]; tcgen05.wait::ld.sync.aligned;
    st.global.v4.b32 [%d4], {{%r5, %r6, %r7, %r8}}; tcgen05.fence::before_thread_sync; bar.sync 0;
    tcgen05.fence::after_thread_sync; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 32; ret;
}}
"""
    a, b = np.random.default_rng(bits).integers(0, 256, (32, 16), np.uint8), np.zeros((32, 16), np.uint8)
    run_ptx(text, [a, b], grid=1, block=32)
    whole = [int.from_bytes(row.tobytes(), "little") for row in a]
    elements = [[row >> bits * n & (1 << bits) - 1 for n in range(16)] for row in whole]
    assert b.tolist() == [[each << (2 if bits == 4 else 0) for each in row] for row in elements]
