"""Products of matrices: ``mma.sync`` and ``wgmma`` against NumPy, what they are refused for, and their hazards."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32}
BITS |= {"e4m3": 8, "e5m2": 8, "e2m1": 8, "e2m3": 8, "e3m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
NUMBERS = {  # bits of 0, 1 and 2
    "f16": (0, 0x3C00, 0x4000), "bf16": (0, 0x3F80, 0x4000), "tf32": (0, 0x3F800000, 0x40000000), "e4m3": (0, 0x38, 0x40),
    "e5m2": (0, 0x3C, 0x40), "e2m1": (0, 2 << 2, 4 << 2), "e2m3": (0, 8, 16), "e3m2": (0, 12, 16),
}  # fmt: skip
NUMBERS["f32"] = NUMBERS["tf32"]
FORMS = """
    m16n8k8.row.col.f32.f16.f16.f32 m16n8k16.row.col.f32.f16.f16.f32 m16n8k8.row.col.f16.f16.f16.f16
    m16n8k16.row.col.f16.f16.f16.f16 m16n8k8.row.col.f32.bf16.bf16.f32 m16n8k16.row.col.f32.bf16.bf16.f32
    m16n8k4.row.col.f32.tf32.tf32.f32 m16n8k8.row.col.f32.tf32.tf32.f32 m8n8k4.row.col.f64.f64.f64.f64
    m16n8k4.row.col.f64.f64.f64.f64 m16n8k8.row.col.rz.f64.f64.f64.f64 m16n8k16.row.col.f64.f64.f64.f64
    m8n8k16.row.col.s32.u8.s8.s32 m16n8k16.row.col.s32.s8.s8.s32 m16n8k32.row.col.s32.s8.u8.s32
    m8n8k32.row.col.s32.s4.u4.s32 m16n8k32.row.col.s32.s4.s4.s32 m16n8k64.row.col.s32.u4.s4.s32
    m8n8k128.row.col.s32.b1.b1.s32.xor.popc m16n8k128.row.col.s32.b1.b1.s32.and.popc m16n8k256.row.col.s32.b1.b1.s32.xor.popc
    m16n8k16.row.col.f32.e4m3.e5m2.f32 m16n8k32.row.col.f16.e5m2.e5m2.f16 m16n8k32.row.col.f32.e4m3.e4m3.f32
    m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32 m16n8k32.row.col.kind::f8f6f4.f16.e2m3.e4m3.f16
""".split()


def value_of(raw: np.ndarray, type: str) -> np.ndarray:
    if type in NUMBERS:
        return sum(number * (raw == bits) for number, bits in enumerate(NUMBERS[type]))
    if type == "f64":
        return raw.view(np.float64)
    return np.where((raw >> BITS[type] - 1 == 1) & (type[0] == "s"), raw.astype(float) - 2.0 ** BITS[type], raw)


def drawn(random: Any, type: str, shape: tuple[int, ...]) -> np.ndarray:
    if type in NUMBERS:
        return random.choice(np.array(NUMBERS[type]), shape)
    if type == "f64":
        return random.standard_normal(shape).view(np.int64)
    return random.integers(0, 1 << BITS[type], shape)


def held(matrix: np.ndarray, each: int) -> np.ndarray:
    """A matrix as the lanes hold it, element by element, as the formulas of PTX ISA 9.7.15.5 say it."""
    rows, columns = matrix.shape
    found = np.zeros((32, rows * columns // 32), matrix.dtype)
    for lane in range(32):
        group, inside = lane >> 2, lane % 4
        for i in range(found.shape[1]):
            row = group if rows == 8 or i // each % 2 == 0 else group + 8
            run = i // each if rows == 8 else i // (2 * each)
            found[lane, i] = matrix[row, run * 4 * each + inside * each + i % each]
    return found


def words_of(elements: np.ndarray, type: str) -> np.ndarray:
    bits = BITS[type]
    if bits >= 8:
        return elements.astype(f"u{bits // 8}").view(np.uint64 if bits == 64 else np.uint32)
    parts = elements.reshape(len(elements), -1, 32 // bits).astype(np.uint64)
    return (parts << np.arange(0, 32, bits, dtype=np.uint64)).sum(axis=-1).astype(np.uint32)


def product_of(form: str, matrices: list[np.ndarray], *, before: str = "", more: int = 1) -> Any:
    """D's words by lane, and the report; ``before``: what stands ahead of the product in the text."""
    types = [part for part in form.split(".") if part in BITS]
    types = [types[1], types[2], types[3]]
    words = [words_of(held(m, max(1, 32 // BITS[t])), t) for m, t in zip(matrices[:2], types[:2], strict=True)]
    words.append(words_of(held(matrices[2], 2), types[2]))
    lines, braces, wide = [], [], "b64" if "f64" in types else "b32"
    for name, each in zip("abc", words, strict=True):
        names = [f"%{name}{i}" for i in range(each.shape[1])]
        lines += [
            f".reg .{wide} {', '.join(names)}; ld.param.u64 %x, [{name}]; mad.wide.u32 %x, %t, {each.strides[0]}, %x;"
        ]
        lines += [f"ld.global.{wide} {n}, [%x+{i * each.itemsize}];" for i, n in enumerate(names)]
        braces.append("{" + ", ".join(names) + "}")
    size, count = words[2].itemsize, words[2].shape[1]
    stores = " ".join(f"st.global.{wide} [%x+{i * size}], %c{i};" for i in range(count))
    text = f""".version 8.8
.target {"sm_120a" if "kind" in form else "sm_90"}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
    .reg .b32 %t, %u; .reg .b64 %x; .reg .pred %q;
    mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; mad.lo.u32 %u, %u, 32, %t;
    {" ".join(lines)}
    {before}
    mma.sync.aligned.{form} {braces[2]}, {braces[0]}, {braces[1]}, {braces[2]};
 L: ld.param.u64 %x, [d]; mad.wide.u32 %x, %u, {words[2].strides[0]}, %x;
    {stores}
    ret;
}}
"""
    out = np.zeros((more, *words[2].shape), words[2].dtype)
    report = run_ptx(text, [*words, out], grid=more, block=32)
    return out, report


def matrices_of(form: str, seed: int = 1) -> list[np.ndarray]:
    m, n, k = map(int, re.match(r"m(\d+)n(\d+)k(\d+)", form).groups())
    types = [part for part in form.split(".") if part in BITS]
    random = np.random.default_rng(seed)
    shapes = (m, k), (n, k), (m, n)
    return [drawn(random, type, shape) for type, shape in zip(types[1:], shapes, strict=True)]


@pytest.mark.parametrize("form", FORMS)
def test_every_dense_shape_equals_numpy(form: str) -> None:
    types = [part for part in form.split(".") if part in BITS]
    a, b, c = matrices_of(form)
    out, report = product_of(form, [a, b, c], more=2)
    left, right, before = (value_of(m, t) for m, t in zip((a, b, c), types[1:], strict=True))
    both = (left[:, None] != right[None]).sum(axis=2) if "xor" in form else left @ right.T
    wanted = both + before
    assert np.array_equal(out[0], out[1])
    if types[0] == "f64":
        found = out[0].view(np.float64)
        assert np.allclose(found, held(wanted, 2), rtol=1e-14) and report.approximate == ()
    elif types[0] == "s32":
        assert np.array_equal(out[0], held(wanted, 2).astype(np.int64).astype(np.uint32)) and report.approximate == ()
    else:
        assert np.array_equal(out[0].view(f"f{BITS[types[0]] // 8}"), held(wanted, 2))
        assert report.approximate == (f"mma.sync.aligned.{form}",)


def test_float64_is_summed_by_fma_in_the_order_of_k() -> None:
    form = "m8n8k4.row.col.f64.f64.f64.f64"
    a, b, c = matrices_of(form)
    a[0], b[0], c[0, 0] = (np.array(x).view(np.int64) for x in ([2.0**53, 1.0, 1.0, 1.0], [1.0] * 4, 0.0))
    assert product_of(form, [a, b, c])[0].view(np.float64)[0, 0, 0] == 2.0**53  # each 1 alone is lost
    a[0, :] = np.array([1.0, 1.0, 1.0, 2.0**53]).view(np.int64)
    assert product_of(form, [a, b, c])[0].view(np.float64)[0, 0, 0] == 2.0**53 + 4


def test_sums_of_halves_are_exact_and_rounded_once() -> None:
    form = "m16n8k16.row.col.f32.f16.f16.f32"
    one, tiny = 0x3C00, 0x0001
    a, b, c = np.full((16, 16), tiny), np.full((8, 16), one), np.full((16, 8), 0x3F800000)
    assert (product_of(form, [a, b, c])[0].view(np.float32) == np.float32(1 + 16 * 2.0**-24)).all()


@pytest.mark.parametrize(("modifier", "wanted"), [(".satfinite", 0x7FFFFFFF), ("", 0x80000001)])
def test_integers_saturate_or_wrap(modifier: str, wanted: int) -> None:
    ones, top = np.ones((16, 16), int), np.full((16, 8), 0x7FFFFFF1)
    found, _ = product_of(f"m16n8k16.row.col{modifier}.s32.u8.u8.s32", [ones, ones[:8], top])
    assert (found == wanted).all()


def test_the_lowest_bits_of_tf32_do_not_count() -> None:
    form = "m16n8k8.row.col.f32.tf32.tf32.f32"
    a, b, c = matrices_of(form)
    plain, _ = product_of(form, [a, b, c])
    found, _ = product_of(form, [a | 0x1FFF * (a != 0), b, c])
    assert np.array_equal(plain, found)


@pytest.mark.parametrize(
    "form",
    [
        "m16n8k16.row.row.f32.f16.f16.f32",
        "m16n8k64.row.col.f32.f16.f16.f32",
        "m16n8k32.row.col.f32.f16.f16.f32",
    ],
)
def test_other_forms_are_refused(form: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions("mma")):
        product_of(form, matrices_of(form))


def test_what_holds_nothing_makes_nothing_of_its_row_and_column_alone() -> None:
    form = "m16n8k16.row.col.f32.f16.f16.f32"
    text = ".shared .b8 empty[4]; setp.eq.u32 %q, %t, 5; @%q ld.shared.b32 %a0, [empty];"  # row 1 of A
    with pytest.raises(HazardError, check=is_hazard("poison", "empty")):
        product_of(form, matrices_of(form), before=text)
    out, _ = product_of(form, matrices_of(form), before=f"{text} mov.b32 %a0, 0;")
    assert out.any()


def test_a_part_of_a_warp_is_a_hazard() -> None:
    with pytest.raises(HazardError, match="aligned"):
        product_of(FORMS[1], matrices_of(FORMS[1]), before="setp.lt.u32 %q, %t, 16;\n @%q bra L;")
