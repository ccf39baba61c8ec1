"""``tcgen05.mma``: kinds, shapes, majors and A from tensor memory against NumPy; what is out of order or out of place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions

TEXT = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)
{{
    .shared .align 1024 .b8 left[{left}]; .shared .align 1024 .b8 right[{right}]; .shared .align 8 .b8 bar[8]; .shared .b32 at;
    .reg .b32 %t, %w, %i, %s, %x, %d, %in, %v<4>, %r<{n}>; .reg .b64 %p, %da, %db; .reg .pred %q, %one, %more;
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; setp.eq.u32 %one, %t, 0; mul.lo.u32 %i, %t, 16;
    setp.ne.u32 %q, %w, 0; @%q bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [at], 64;
    @!%one bra ALLOCATED; mbarrier.init.shared.b64 [bar], 1;
ALLOCATED:
    mov.u32 %x, %i; ld.param.u64 %p, [a]; mov.u32 %s, left;
L1: setp.ge.u32 %q, %x, {left}; @%q bra E1; cvt.u64.u32 %da, %x; add.u64 %da, %da, %p; ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%da];
    add.u32 %d, %s, %x; st.shared.v4.b32 [%d], {{%v0, %v1, %v2, %v3}}; add.u32 %x, %x, 2048; bra L1;
E1: mov.u32 %x, %i; ld.param.u64 %p, [b]; mov.u32 %s, right;
L2: setp.ge.u32 %q, %x, {right}; @%q bra E2; cvt.u64.u32 %da, %x; add.u64 %da, %da, %p; ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%da];
    add.u32 %d, %s, %x; st.shared.v4.b32 [%d], {{%v0, %v1, %v2, %v3}}; add.u32 %x, %x, 2048; bra L2;
E2: fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.b32 %d, [at]; shl.b32 %x, %w, 21; add.u32 %in, %d, %x; add.u32 %in, %in, 32;
    {fill}
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    @!%one bra ISSUED;
    mov.u32 %s, left; shr.u32 %s, %s, 4; cvt.u64.u32 %da, %s; add.u64 %da, %da, {left_descriptor};
    mov.u32 %s, right; shr.u32 %s, %s, 4; cvt.u64.u32 %db, %s; add.u64 %db, %db, {right_descriptor};
    setp.ne.u32 %more, 0, 0; add.u32 %in, %d, 32; mov.b32 %x, 0;
    {products}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
ISSUED:
WAIT: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra WAIT;
    tcgen05.fence::after_thread_sync;
    shl.b32 %x, %w, 21; add.u32 %d, %d, %x;
    tcgen05.ld.sync.aligned.{load}b32 {{{registers}}}, [%d];
    tcgen05.wait::ld.sync.aligned;
    mov.u32 %x, %ctaid.x; mad.lo.u32 %x, %x, 128, %t; ld.param.u64 %p, [d]; mad.wide.u32 %p, %x, {row}, %p;
    {stores}
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    setp.ne.u32 %q, %w, 0; @%q bra DONE;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 64;
DONE:
    ret;
}}
"""
COMMIT = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
FILL = "tcgen05.st.sync.aligned.32x32b.x8.b32 [%in], {{{}}}; tcgen05.wait::st.sync.aligned;"
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
RESULTS = {"f16": 0, "f32": 1, "s32": 2}
KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "u8": "i8", "s8": "i8"}
NUMBERS = {  # bits of 0, 1 and 2
    "f16": (0, 0x3C00, 0x4000), "bf16": (0, 0x3F80, 0x4000), "tf32": (0, 0x3F800000, 0x40000000), "e4m3": (0, 0x38, 0x40),
    "e5m2": (0, 0x3C, 0x40), "e2m1": (0, 2, 4), "e2m3": (0, 8, 16), "e3m2": (0, 12, 16), "u8": (0, 1, 2), "s8": (0, 1, 2),
}  # fmt: skip
SIZES = {"f16": 2, "bf16": 2, "tf32": 4}


def units(raw: np.ndarray, type: str) -> np.ndarray:
    """A matrix as bytes, 16 of each row or narrow elements side by side at their beginning: (rows, units, 16)."""
    if type in ("e2m1", "e2m3", "e3m2"):
        bits = 4 if type == "e2m1" else 6
        rows = raw.reshape(len(raw), -1, 16)
        numbers = [[sum(int(x) << bits * i for i, x in enumerate(unit)) for unit in row] for row in rows]
        return np.array([[np.frombuffer(x.to_bytes(16, "little"), np.uint8) for x in row] for row in numbers])
    return np.ascontiguousarray(raw.astype(f"u{SIZES.get(type, 1)}")).view(np.uint8).reshape(len(raw), -1, 16)


def run(
    a_type: str = "f16", b_type: str = "", d_type: str = "f32", m: int = 128, n: int = 32, *, majors: tuple[int, int] = (0, 0),
    tensor: bool = False, steps: int = 1, signs: tuple[int, int] = (0, 0), word: int = 0, masks: str = "", change: Any = ("", ""),
    grid: int = 1,
) -> Any:  # fmt: skip
    """D as the kernel gives it, and as NumPy has it."""
    b_type, random = b_type or a_type, np.random.default_rng(1)
    k = 32 // SIZES.get(a_type, 1)
    numbers = [random.integers(0, 3, shape) for shape in ((m, k), (n, k))]
    raw = [np.array(NUMBERS[type])[each] for type, each in zip((a_type, b_type), numbers, strict=True)]
    images, descriptors = [], []
    for bits, type, mn in zip(raw, (a_type, b_type), majors, strict=True):
        lines = units(bits.T if mn else bits, type)  # unit after unit, in each all lines of 16 bytes
        images.append(np.ascontiguousarray(lines.swapaxes(0, 1)))
        far = len(lines) * 16 >> 4
        leading, stride = (8, far) if mn else (far, 8)
        descriptors.append(leading << 16 | stride << 32 | 1 << 46)
    code = RESULTS[d_type] << 4 | CODES[a_type] << 7 | CODES[b_type] << 10 | signs[0] << 13 | signs[1] << 14
    code |= majors[0] << 15 | majors[1] << 16 | n // 8 << 17 | m // 16 << 24
    words = np.ascontiguousarray(raw[0].astype(f"u{SIZES.get(a_type, 1)}")).view(np.uint32)
    fill = ""
    if tensor:
        fill = "ld.param.u64 %p, [a]; mad.wide.u32 %p, %t, 32, %p; "
        fill += " ".join(f"ld.global.b32 %r{i}, [%p+{4 * i}];" for i in range(8))
        fill += FILL.format(", ".join(f"%r{i}" for i in range(8)))
        images[0] = words
    product = (
        f"tcgen05.mma.cta_group::1.kind::{KINDS.get(a_type, 'f8f6f4')} [%d], {'[%in]' if tensor else '%da'}, %db, "
    )
    product += f"{code | word}, {masks}%more;\n    setp.eq.u32 %more, 0, 0;\n"
    half, packs = m == 64, "pack::16b." if d_type == "f16" else ""
    width = n // 2 if packs else n  # registers of a row
    text = TEXT.format(
        left=images[0].size * images[0].itemsize, right=images[1].size, n=n, fill=fill, products=product * steps,
        left_descriptor=descriptors[0], right_descriptor=descriptors[1], row=width * 4,
        load=(f"16x64b.x{width // 2}." if half else f"32x32b.x{width}.") + packs,
        registers=", ".join(f"%r{i}" for i in range(width // 2 if half else width)),
        stores=" ".join(f"st.global.b32 [%p+{4 * i}], %r{i};" for i in range(width // 2 if half else width)),
    )  # fmt: skip
    for old, new in [change] if isinstance(change, tuple) else change:
        assert old in text
        text = text.replace(old, new)
    every = np.zeros((grid, 128, width), np.uint32)
    run_ptx(text, [*images, every], grid=grid, block=128)
    found = every[0]
    assert (every == found).all()
    if half:  # register i of lane t: lane t / 4 + 8 (t & 1), column (t >> 1 & 1) + 2 i
        rows = np.zeros((64, width), np.uint32)
        for t in range(128):
            rows[t // 32 * 16 + t % 32 // 4 + 8 * (t & 1), (t >> 1 & 1) :: 2] = found[t, : width // 2]
        found = rows
    kinds = {"f16": np.float16, "f32": np.float32, "s32": np.int32}
    values = np.ascontiguousarray(found).view(kinds[d_type])
    wanted = steps * (numbers[0] @ numbers[1].T) * (1 - 2 * signs[0]) * (1 - 2 * signs[1])
    return values, wanted


@pytest.mark.parametrize(
    "how",
    [
        {}, {"d_type": "f16"}, {"a_type": "bf16"}, {"a_type": "tf32"}, {"a_type": "e4m3", "b_type": "e5m2"},
        {"a_type": "e2m1", "b_type": "e3m2"}, {"a_type": "e2m3", "b_type": "e4m3", "d_type": "f16"},
        {"a_type": "u8", "b_type": "s8", "d_type": "s32"}, {"m": 64}, {"m": 64, "n": 8, "d_type": "f16"}, {"n": 16, "steps": 3},
        {"majors": (1, 1)}, {"majors": (1, 0), "a_type": "bf16"}, {"majors": (0, 1), "a_type": "e5m2"}, {"signs": (1, 0)},
        {"tensor": True}, {"tensor": True, "a_type": "tf32"}, {"tensor": True, "a_type": "e4m3"}, {"signs": (1, 1), "m": 64},
        {"masks": "{%x, %x, %x, %x}, "},
    ],
    ids=str,
)  # fmt: skip
def test_products_equal_numpy(how: dict[str, Any]) -> None:
    found, wanted = run(**how)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ({"change": ("fence.proxy.async.shared::cta;", "")}, "proxy", ("fence.proxy.async",)),
        ({"change": (COMMIT, "")}, "deadlock", ("bar",)),
        ({"change": ("WAIT: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra WAIT;", "bar.sync 0;")}, "async", ("tcgen05.mma",)),
        ({"change": (COMMIT, f"{COMMIT}st.shared.b32 [left], %t;\n")}, "async", ()),
        ({"change": ("setp.ne.u32 %more, 0, 0;", "setp.eq.u32 %more, 0, 0;")}, "poison", (0, 448)),
        ({"change": ("add.u32 %in, %d, 32; mov", "add.u32 %d, %d, 40; mov")}, "bounds", ()),
        ({"change": ("add.u32 %in, %d, 32; mov", "add.u32 %d, %d, 1048576; mov")}, "window", (128, 16)),
        ({"tensor": True, "change": ("    tcgen05.fence::before_thread_sync; bar.sync 0;", "    bar.sync 0;")}, "proxy", ("tcgen05.fence",)),
        ({"tensor": True, "change": ("tcgen05.wait::st.sync.aligned;", "")}, "async", ("tcgen05.wait::st",)),
        ({"word": 1 << 2}, "descriptor", ()),
        ({"word": 1 << 3}, "descriptor", ()),
        ({"a_type": "bf16", "d_type": "f16"}, "descriptor", ("D", "f16", "A", "B", "bf16")),
        ({"m": 32, "n": 16}, "descriptor", ("M", 32)),
        ({"word": 1 << 17}, "descriptor", ("N", 40)),
        ({"d_type": "f16", "change": (".pack::16b", "")}, "poison", (16,)),
        ({"tensor": True, "change": (".32x32b.x8.b32 [%in]", ".32x32b.x8.unpack::16b.b32 [%in]")}, "poison", (16,)),
        ({"steps": 2, "change": ("setp.eq.u32 %more, 0, 0;", "add.u32 %d, %d, 16; setp.ne.u32 %more, 0, 0;")}, "async", ("tcgen05.mma",)),
    ],
    ids=str,
)  # fmt: skip
def test_faults(how: dict[str, Any], kind: str, message: tuple[object, ...]) -> None:
    with pytest.raises(HazardError, check=is_hazard(kind, *message)) as error:
        run(**how)
    assert error.value.kind == kind


CLUSTER = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
PAIR = [  # of two CTAs the first issues; each has its rows of A and D, and its half of B
    ("cta_group::1", "cta_group::2"),
    ("ld.param.u64 %p, [a];", ".reg .b16 %both; mov.u16 %both, 3; mov.u32 %d, %cluster_ctarank; ld.param.u64 %p, [a]; mad.wide.u32 %p, %d, 4096, %p;"),
    ("ld.param.u64 %p, [b];", "ld.param.u64 %p, [b]; mov.u32 %d, %cluster_ctarank; mad.wide.u32 %p, %d, 512, %p;"),
    ("    bar.sync 0;\n    ld.shared", f"    fence.mbarrier_init.release.cluster; {CLUSTER}\n    ld.shared"),
    ("    @!%one bra ISSUED;", "    mov.u32 %x, %cluster_ctarank; setp.eq.u32 %q, %x, 0; and.pred %q, %q, %one; @!%q bra ISSUED;"),
    ("shared::cluster.b64 [bar];", "shared::cluster.multicast::cluster.b64 [bar], %both;"),
    ("bar.sync 0; tcgen05.fence::after_thread_sync;\n    setp.ne", f"{CLUSTER} tcgen05.fence::after_thread_sync;\n    setp.ne"),
]  # fmt: skip


@pytest.mark.parametrize("unordered", [False, True])
def test_a_pair_of_ctas_shares_b(unordered: bool) -> None:
    random = np.random.default_rng(1)
    a, b = random.integers(0, 3, (2, 128, 16)), random.integers(0, 3, (2, 16, 16))
    images = [np.ascontiguousarray(x.astype(np.float16).reshape(2, -1, 2, 8).swapaxes(1, 2)) for x in (a, b)]
    text = TEXT.format(
        left=4096, right=512, n=32, fill="", left_descriptor=128 << 16 | 8 << 32 | 1 << 46, row=128, load="32x32b.x32.",
        right_descriptor=16 << 16 | 8 << 32 | 1 << 46, registers=", ".join(f"%r{i}" for i in range(32)),
        products=f"tcgen05.mma.cta_group::1.kind::f16 [%d], %da, %db, {1 << 4 | 4 << 17 | 16 << 24}, %more;",
        stores=" ".join(f"st.global.b32 [%p+{4 * i}], %r{i};" for i in range(32)),
    )  # fmt: skip
    for change in PAIR:
        assert change[0] in text, change
        text = text.replace(*change)
    found = np.zeros((256, 32), np.float32)
    if unordered:
        with pytest.raises(HazardError, check=is_hazard("race")):
            run_ptx(text.replace(CLUSTER, "bar.sync 0;", 1), [*images, found], grid=2, block=128, cluster=2)
        return
    run_ptx(text, [*images, found], grid=2, block=128, cluster=2)
    assert np.array_equal(found, a.reshape(256, 16) @ b.reshape(32, 16).T)


def test_ctas_may_part_while_a_product_is_in_flight() -> None:
    parting = "mov.u32 %x, %ctaid.x; setp.eq.u32 %q, %x, 1; @%q bra P; add.u32 %x, %x, 1; P: mov.b32 %x, 0;\n"
    found, wanted = run(steps=2, change=(COMMIT, parting + COMMIT), grid=3)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("grid", [1, 3])
def test_a_product_comes_after_one_of_its_thread_that_has_landed(grid: int) -> None:
    """With no fence: products of one thread with the same D are in order, however their commits came to be known."""
    parting = "mov.u32 %x, %ctaid.x; setp.eq.u32 %q, %x, 1; @%q bra P; add.u32 %x, %x, 1; P: mov.b32 %x, 0;\n"
    wait = "LANDED: mbarrier.try_wait.parity.shared.b64 %q, [bar+8], 0; @!%q bra LANDED;\n" + parting
    many = [
        ("bar[8]", "bar[16]"),
        (
            "mbarrier.init.shared.b64 [bar], 1;",
            "mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar+8], 1;",
        ),
        (COMMIT, COMMIT.replace("[bar]", "[bar+8]") + wait + "PRODUCT" + COMMIT),
    ]
    product = "tcgen05.mma.cta_group::1.kind::f16 [%d], %da, %db, %v0, %more;\n"
    many += [("mov.b32 %x, 0;\n", f"mov.b32 %x, 0; mov.b32 %v0, {1 << 4 | 4 << 17 | 8 << 24};\n"), ("PRODUCT", product)]
    found, wanted = run(change=many, grid=grid)
    assert np.array_equal(found, 2 * wanted)
    narrow = product.replace("%v0", str(1 << 4 | 2 << 17 | 8 << 24))
    with pytest.raises(HazardError, check=is_hazard("proxy", "tcgen05.fence")):  # of another shape: it needs one
        run(change=[*many[:-1], ("PRODUCT", narrow)], grid=grid)


def test_lanes_that_are_masked_keep_what_they_hold() -> None:
    change = "setp.eq.u32 %more, 0, 0;", "setp.eq.u32 %more, 0, 0; mov.b32 %x, -1;"
    found, wanted = run(steps=2, masks="{%w, %x, %w, %w}, ", change=change)  # for thread 0, %w is 0
    wanted[32:64] //= 2
    assert np.array_equal(found, wanted)


def test_lanes_that_are_masked_are_not_written() -> None:
    with pytest.raises(HazardError, check=is_hazard("poison", 32, 448)):
        run(masks="{%x, %t1, %x, %x}, ", change=("mov.b32 %x, 0;", ".reg .b32 %t1; mov.b32 %t1, -1; mov.b32 %x, 0;"))


def test_other_forms_are_refused() -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions("tcgen05.mma")):
        run(change=("tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.ws.cta_group::1.kind::f16"))
