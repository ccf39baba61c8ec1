"""Scalar video instructions with parts of registers, negated sources and merged results; the forms without are in test_alu."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers import instruction_reference as reference
from tilecopy_test_helpers.mentions import mentions

PARTS = ["b0", "b1", "b2", "b3", "h0", "h1"]
EDGES = [0, 1, 2, 31, 32, 33, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0x80FF7F01, 0xFFFFFFFF]


def run(spelled: str, marks: dict[int, str], sources: int, values: np.ndarray) -> list[int]:
    """One word per thread, of three words of each."""
    places = ["%r0", "%r1", "%r2", "%r3"]
    operands = []
    for position, place in enumerate(places[: sources + 1]):
        mark = marks.get(position, "")
        part = mark.lstrip("-")
        operands.append(("-" if mark[:1] == "-" else "") + place + (f".{part}" if part else ""))
    text = f"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .b32 %r<5>; .reg .b64 %d<4>;
    mov.u32 %r4, %tid.x; ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
    mul.wide.u32 %d2, %r4, 12; add.u64 %d0, %d0, %d2; mul.wide.u32 %d2, %r4, 4; add.u64 %d1, %d1, %d2;
    ld.global.u32 %r1, [%d0]; ld.global.u32 %r2, [%d0+4]; ld.global.u32 %r3, [%d0+8];
    {spelled} {", ".join(operands)};
    st.global.u32 [%d1], %r0; ret;
}}"""
    out = np.zeros(len(values), np.uint32)
    run_ptx(text, [values, out], grid=1, block=len(values))
    return out.tolist()


def drawn() -> list[tuple[str, dict[int, str], int]]:
    """Spelled instructions, their marks, and how many sources they have."""
    rng = np.random.default_rng(7)
    cases = []

    def one(choices: list) -> str:
        return choices[rng.integers(len(choices))]

    for name in reference.VIDEO:
        for _ in range(14):
            types = [one(["u32", "s32"]) for _ in range(3)]
            if name in ("vshl", "vshr"):
                types[2] = "u32"
            marks = {position: one(["", *PARTS]) for position in (1, 2)}
            modifiers = [one(["", "sat"])] if name != "vset" else [one(["eq", "ne", "lt", "le", "gt", "ge"])]
            sources = int(rng.integers(2, 4))
            if name == "vmad":
                sources, po = 3, one(["", "po"])
                modifiers = [po, *modifiers, one(["", "shr7", "shr15"])]
                if not po:
                    marks |= {position: one(["", "-"]) + marks.get(position, "") for position in (1, 2, 3)}
            elif sources == 3:
                into = one(["", *PARTS])
                modifiers += [] if into else [one(["add", "min", "max"])]
                marks |= {0: into}
            if name in ("vshl", "vshr"):
                modifiers.insert(1, one(["clamp", "wrap"]))
            parts = [name, *types[name == "vset" :], *filter(None, modifiers)]
            cases.append((".".join(parts), {at: mark for at, mark in marks.items() if mark}, sources))
    return cases


@pytest.mark.parametrize(("spelled", "marks", "sources"), drawn())
def test_parts_of_words(spelled: str, marks: dict[int, str], sources: int) -> None:
    rng = np.random.default_rng(len(spelled) + sum(marks))
    values = np.concatenate([rng.choice(EDGES, (48, 3)), rng.integers(0, 1 << 32, (48, 3))]).astype(np.uint32)
    name, *parts = spelled.split(".")
    types, modifiers = (tuple(p for p in parts if p[1:] == "32"), frozenset(p for p in parts if p[1:] != "32"))
    expected = [reference.video(name, types, modifiers, row[:sources], marks) for row in values.tolist()]
    assert run(spelled, marks, sources, values) == expected


@pytest.mark.parametrize(
    "instruction",
    ["vadd.u32.u32.u32 %r4.b1, %r1, %r2;", "vadd.u32.u32.u32.add %r4.b1, %r1, %r2, %r3;", "vadd.u32.u32.u32 %r4, -%r1, %r2;",
     "vadd.u32.u32.u32.add %r4, %r1, %r2, %r3.b0;", "vmad.u32.u32.u32.po %r4, -%r1, %r2, %r3;", "vadd.u32.u32 %r4, %r1, %r2;",
     "vshl.u32.u32.u32 %r4, %r1, %r2;", "vadd.u32.u32.u32 %r4, %r1.b4, %r2;", "vset.u32.u32 %r4, %r1, %r2;"],
)  # fmt: skip
def test_forms_that_ptxas_refuses(instruction: str) -> None:
    head = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<9>; "
    with pytest.raises(UnsupportedPtxError, match=mentions(5)):
        run_ptx(f"{head} mov.u32 %r1, 1; mov.u32 %r2, 1; mov.u32 %r3, 1; {instruction} ret; }}", [], grid=1, block=1)
