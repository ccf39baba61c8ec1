"""Where a matrix of ``wmma`` may begin, and how far apart its rows may lie: the base by its fragment, the stride by 16 bytes."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions

REGISTERS = {"m16n16k16": {"f16": (8, 8, 4), "bf16": (4, 4, 8), "u8": (2, 2, 8), "s8": (2, 2, 8)}}
REGISTERS |= {"m8n32k16": {"f16": (8, 8, 4), "bf16": (2, 8, 8), "u8": (1, 4, 8), "s8": (1, 4, 8)}}
REGISTERS |= {"m32n8k16": {"f16": (8, 8, 4), "bf16": (8, 2, 8), "u8": (4, 1, 8), "s8": (4, 1, 8)}}
REGISTERS |= {"m16n16k8": {"tf32": (4, 4, 8)}, "m8n8k4": {"f64": (1, 1, 2)}}
BYTES = {"f16": 2, "bf16": 2, "u8": 1, "s8": 1, "tf32": 4, "f64": 8, "f32": 4, "s32": 4}
TOTAL = {"f16": "f16", "bf16": "f32", "u8": "s32", "s8": "s32", "tf32": "f32", "f64": "f64"}
LOADS = [
    (shape, matrix, TOTAL[type] if matrix == "c" else type, count)
    for shape, types in REGISTERS.items()
    for type, counts in types.items()
    for matrix, count in zip("abc", counts, strict=True)
]


def run(shape, matrix, type, count, *, base=0, stride=None, space="global", store=False):
    """Load (or store) one matrix whose first element has an offset of ``base`` bytes; returns the report."""
    bits = 64 if type == "f64" else 32
    names = "{" + ", ".join(f"%x{number}" for number in range(count)) + "}"
    where = "[%d1]" if space == "global" else "[%r1]"
    more = "" if stride is None else f", {stride}"
    instruction = f"wmma.load.{matrix}.sync.aligned.row.{shape}.{space}.{type} {names}, {where}{more};"
    if store:
        instruction = f"wmma.store.d.sync.aligned.row.{shape}.{space}.{type} {where}, {names}{more};"
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 A)
{{
    .reg .b{bits} %x<9>; .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %p;
    .shared .align 256 .b8 s[8192];
    ld.param.u64 %d0, [A]; add.u64 %d1, %d0, {base}; mov.u32 %r1, s; add.u32 %r1, %r1, {base};
    mov.u32 %r2, %tid.x; mov.u32 %r0, s; mad.lo.u32 %r0, %r2, 16, %r0; mov.u32 %r3, 0;
FILL: st.shared.v4.u32 [%r0], {{%r3, %r3, %r3, %r3}}; add.u32 %r0, %r0, 512; add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 16; @%p bra FILL;
    {" ".join(f"mov.b{bits} %x{number}, 0;" for number in range(count))}
    bar.warp.sync -1;
    {instruction}
    ret;
}}"""
    return run_ptx(text, [np.zeros(8192, np.uint8)], grid=1, block=32)


@pytest.mark.parametrize(("shape", "matrix", "type", "count"), LOADS)
def test_a_matrix_begins_at_a_multiple_of_its_fragment(shape, matrix, type, count):
    fragment_bytes = count * (8 if type == "f64" else 4)
    needed = min(fragment_bytes, 16)
    for space in ("global", "shared"):
        report = run(shape, matrix, type, count, base=needed, stride=64, space=space)
        assert bool(report.notes) == (fragment_bytes > needed)
        assert all(mentions(fragment_bytes).search(note) for note in report.notes)
        assert not run(shape, matrix, type, count, base=fragment_bytes, stride=64, space=space).notes
        with pytest.raises(HazardError, check=is_hazard("alignment", needed)):
            run(shape, matrix, type, count, base=needed // 2, stride=64, space=space)


@pytest.mark.parametrize(("shape", "matrix", "type", "count"), LOADS)
def test_a_stride_is_a_multiple_of_16_bytes(shape, matrix, type, count):
    elements = 16 // BYTES[type]
    assert not run(shape, matrix, type, count, stride=3 * elements).notes
    assert not run(shape, matrix, type, count).notes
    with pytest.raises(HazardError, check=is_hazard("alignment", 16)):
        run(shape, matrix, type, count, stride=3 * elements + elements // 2)


@pytest.mark.parametrize(("type", "count"), [("f16", 4), ("f32", 8), ("s32", 8)])
def test_stores_follow_the_same_rule(type, count):
    run("m16n16k16", "d", type, count, base=4 * count, stride=32, store=True)
    for faulty in ({"base": 8, "stride": 32}, {"stride": 32 + 8 // BYTES[type]}):
        with pytest.raises(HazardError, check=is_hazard("alignment", 16)):
            run("m16n16k16", "d", type, count, store=True, **faulty)
