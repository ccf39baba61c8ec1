"""``ldmatrix``, ``stmatrix`` and ``movmatrix``: every form against its figure in the ISA, written out lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions

TEXT = """.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 given, .param .u64 found)
{{
    .shared .align 16 .b8 s[512]; .shared .align 16 .b8 out[512];
    .reg .b32 %t, %at, %to, %v<4>, %r<4>; .reg .b64 %p; .reg .pred %q;
    mov.u32 %t, %tid.x; mov.u32 %at, s; mad.lo.u32 %at, %t, 16, %at; mov.u32 %to, out; mad.lo.u32 %to, %t, 16, %to;
    ld.param.u64 %p, [given]; mad.wide.u32 %p, %t, 16, %p; ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%p];
    {body}
    ret;
}}
"""
STORE_ROW = "st.shared.v4.b32 [%at], {%v0, %v1, %v2, %v3}; bar.sync 0;"
OUT = "ld.param.u64 %p, [found]; mad.wide.u32 %p, %t, 16, %p; "
GIVE_REGISTERS = OUT + "st.global.v4.b32 [%p], {%r0, %r1, %r2, %r3};"
NONE = "mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;\n"

# lane, and which of its elements, of element c of row r of matrix j
HALVES = lambda j, r, c: (4 * r + c // 2, 2 * j + c % 2)  # noqa: E731
HALVES_TURNED = lambda j, r, c: (4 * c + r // 2, 2 * j + r % 2)  # noqa: E731
BYTES = lambda j, r, c: (4 * r + c // 4, 4 * j + c % 4)  # noqa: E731
BYTES_TURNED = lambda j, r, c: (4 * (c % 8) + r // 4, 8 * j + 4 * (c // 8) + r % 4)  # noqa: E731
BYTES_STORED = lambda j, r, c: (4 * (c % 8) + r // 2, 4 * j + 2 * (c // 8) + r % 2)  # noqa: E731


def run(body: str, given: np.ndarray, target: str = "sm_100a") -> np.ndarray:
    found = np.zeros(512, np.uint8)
    run_ptx(TEXT.format(body=body, target=target), [given, found], grid=1, block=32)
    return found


def bytes_of(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, 512, np.uint8)


def narrow(rows: np.ndarray, bits: int) -> np.ndarray:
    """Sixteen elements of so many bits at the beginning of each row, one to a byte."""
    found = np.zeros_like(rows)
    for row in range(len(rows)):
        number = int.from_bytes(rows[row].tobytes(), "little")
        found[row] = [number >> bits * i & (1 << bits) - 1 for i in range(16)]
    return found


LOADS = [
    *[(f"m8n8.x{n}.shared.b16", n, 8, 2, HALVES) for n in (1, 2, 4)],
    *[(f"m8n8.x{n}.trans.shared::cta.b16", n, 8, 2, HALVES_TURNED) for n in (1, 2, 4)],
    *[(f"m16n16.x{n}.trans.shared.b8", n, 16, 1, BYTES_TURNED) for n in (1, 2)],
    *[(f"m16n16.x{n}.trans.shared.b8x16.b6x16_p32", n, 16, 1, BYTES_TURNED) for n in (1, 2)],
    *[(f"m8n16.x{n}.shared.b8x16.b4x16_p64", n, 8, 1, BYTES) for n in (1, 2, 4)],
    *[(f"m8n16.x{n}.shared.b8x16.b6x16_p32", n, 8, 1, BYTES) for n in (1, 2, 4)],
]


def test_a_generic_address_of_a_row() -> None:
    given = bytes_of()
    body = f"{STORE_ROW} .reg .b64 %g; cvt.u64.u32 %g, %at; cvta.shared.u64 %g, %g;"
    body += "ldmatrix.sync.aligned.m8n8.x4FORM {%r0, %r1, %r2, %r3}, ADDRESS;" + GIVE_REGISTERS
    generic = body.replace("FORM", ".b16").replace("ADDRESS", "[%g]")
    assert np.array_equal(
        run(generic, given), run(body.replace("FORM", ".shared.b16").replace("ADDRESS", "[%at]"), given)
    )
    with pytest.raises(HazardError, check=is_hazard("window")):
        run(generic.replace("[%g]", "[%p]"), given)


@pytest.mark.parametrize(("form", "tiles", "rows", "size", "place"), LOADS)
def test_loads(form: str, tiles: int, rows: int, size: int, place: Callable[..., Any]) -> None:
    given, count = bytes_of(), tiles * rows * 16 // 128
    registers = ", ".join(f"%r{i}" for i in range(count))
    body = f"{STORE_ROW} {NONE} ldmatrix.sync.aligned.{form} {{{registers}}}, [%at]; {GIVE_REGISTERS}"
    found = run(body, given)[:512].reshape(32, 16)[:, : 4 * count].copy().view(f"u{size}")
    memory = given.reshape(32, 16)[: tiles * rows]
    if "_p" in form:
        memory = narrow(memory, 6 if "b6" in form else 4)
    memory = np.ascontiguousarray(memory).view(f"u{size}").reshape(tiles, rows, -1)
    for j, r, c in np.ndindex(memory.shape):
        assert found[place(j, r, c)] == memory[j, r, c], (j, r, c)


@pytest.mark.parametrize(
    ("form", "size", "place"),
    [("m8n8.x4.shared.b16", 2, HALVES), ("m8n8.x4.trans.shared.b16", 2, HALVES_TURNED), ("m16n8.x4.trans.shared.b8", 1, BYTES_STORED)],
)  # fmt: skip
def test_stores(form: str, size: int, place: Callable[..., Any]) -> None:
    given = bytes_of()
    body = f"stmatrix.sync.aligned.{form} [%to], {{%v0, %v1, %v2, %v3}}; bar.sync 0; ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%to];"
    found = run(body + GIVE_REGISTERS, given).view(f"u{size}").reshape(4, 8, -1)
    held = given.view(f"u{size}").reshape(32, -1)
    for j, r, c in np.ndindex(found.shape):
        assert found[j, r, c] == held[place(j, r, c)], (j, r, c)


def test_movmatrix() -> None:
    given = bytes_of()
    body = f"{NONE} movmatrix.sync.aligned.m8n8.trans.b16 %r0, %v0; {GIVE_REGISTERS}"
    found = run(body, given).view(np.uint16).reshape(32, 8)[:, :2].reshape(8, 8)
    assert np.array_equal(found, given.view(np.uint16).reshape(32, 8)[:, :2].reshape(8, 8).T)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("add.u32 %at, %at, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%at];", "alignment", (16,)),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%at]; xor.b32 %r0, %r0, 1;", "poison", ("s",)),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;", "poison", ("r1",)),
        ("setp.lt.u32 %q, %t, 8; @%q movmatrix.sync.aligned.m8n8.trans.b16 %r0, %v0;", "aligned", (8, 32)),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%to+512], {%v0, %v1};", "bounds", ("shared",)),
    ],
)  # fmt: skip
def test_faults(body: str, kind: str, message: tuple[object, ...]) -> None:
    with pytest.raises(HazardError, check=is_hazard(kind, *message)) as error:
        run(f"{body} {NONE} {GIVE_REGISTERS}", bytes_of())
    assert error.value.kind == kind


def test_the_padding_of_narrow_elements_may_hold_nothing() -> None:
    body = "st.shared.v2.b32 [%at], {%v0, %v1}; bar.sync 0; ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r0}, [%at];"
    run(f"{body} {NONE} {GIVE_REGISTERS}", bytes_of())
    with pytest.raises(HazardError, check=is_hazard("poison", "s", 8)):
        run(f"{body.replace('b4x16_p64', 'b6x16_p32')} {NONE} {GIVE_REGISTERS}", bytes_of())


def test_an_element_in_two_bytes_needs_both() -> None:
    stores = "st.shared.v2.b32 [%at], {%v0, %v1}; " + " ".join(f"st.shared.u8 [%at+{i}], %v2;" for i in (9, 10, 11))
    body = f"{stores} bar.sync 0; {NONE} ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {{%r0}}, [%at];"
    run(f"{body} and.b32 %r0, %r0, 0xFFFF; {GIVE_REGISTERS}", bytes_of())
    with pytest.raises(HazardError, check=is_hazard("poison", "s", 8)):
        run(f"{body} and.b32 %r0, %r0, 0xFF0000; {GIVE_REGISTERS}", bytes_of())  # element 10 has bits 60 to 65


def test_all_lanes_of_sm_75_give_an_address() -> None:
    body = f"{STORE_ROW} setp.ge.u32 %q, %t, 8; @%q mov.u32 %at, 4; {NONE} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r0}}, [%at];"
    run(f"{body} {GIVE_REGISTERS}", bytes_of(), "sm_80")
    with pytest.raises(HazardError, check=is_hazard("alignment", 16)):
        run(f"{body} {GIVE_REGISTERS}", bytes_of(), "sm_75")


def test_forms_that_ptx_does_not_have_are_refused() -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions("ldmatrix")):
        run("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r0, %r1}, [%at];", bytes_of())
    with pytest.raises(UnsupportedPtxError, match=mentions("sm_90")):
        run("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%at];", bytes_of(), "sm_90")
