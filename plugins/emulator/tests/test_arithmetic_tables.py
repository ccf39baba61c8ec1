"""Every form of the arithmetic tables against an independent reference (:mod:`reference`), on edge values and random ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
import single_instructions
from reference import decode
from tilecopy_emulator import alu

LANES = 8
CASES: dict[str, list] = {}
for _case in single_instructions.arithmetic_cases():
    CASES.setdefault(_case[1].name, []).append(_case)


def operands_of(case, form, mode, constants, pick):
    """Columns of operand bits, as the machine hands them to the computation."""
    inputs = iter(case.inputs)
    columns = []
    for number, role in enumerate(form.sources):
        if number in constants:
            columns.append(np.full((1, 1), int(constants[number], 0), np.uint32))
            continue
        values = next(inputs)[pick][:, None]
        if role == "cc":
            columns.append(values & 1 != 0)
        else:
            columns.append(values.astype(bool) if form.type_of(role, mode) == "pred" else values)
    return columns


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_form_gives_the_bits_of_the_reference(name):
    for number, (case, form, mode, constants) in enumerate(CASES[name]):
        if form.approximate:
            continue
        pick = np.random.default_rng(number).permutation(single_instructions.THREADS)[:LANES]
        columns = operands_of(case, form, mode, constants, pick)
        with np.errstate(all="ignore"):
            found = form.build(mode)(*columns)
        found = [np.broadcast_to(x, (LANES, 1)) for x in (found if isinstance(found, tuple) else (found,))]
        for lane in range(LANES):
            operands = [int(np.broadcast_to(x, (LANES, 1))[lane, 0]) for x in columns]
            subtracts = form.name.startswith("sub")  # the reference counts borrows, the flag holds their absence
            if subtracts and "cc" in form.sources:
                operands[-1] = 1 - operands[-1]
            wanted = reference.evaluate(form.name, mode.types, mode.modifiers, operands)
            for result, value in zip(found, wanted, strict=False):
                bits = (value & 1) ^ subtracts if result.dtype == bool else value
                assert int(result[lane, 0]) == bits, (case.name, [hex(x) for x in operands])


@pytest.mark.parametrize("name", ["ex2", "lg2", "sin", "cos", "tanh", "rcp", "sqrt", "rsqrt"])
def test_approximations_are_inside_the_documented_error(name):
    for case, form, mode, _ in CASES[name]:
        if not form.approximate or mode.type != "f32" or mode.has("ftz"):
            continue
        bits = case.inputs[0]
        with np.errstate(all="ignore"):
            found = form.build(mode)(bits[:, None])[:, 0]
        for operand, result in zip(bits.tolist(), found.tolist(), strict=True):
            x = decode(operand, "f32")
            if x.nan or (x.inf and name in ("sin", "cos")):
                assert result == 0x7FFFFFFF
                continue
            true = reference.approximation(
                name, [float(x.value) if x.size else math.copysign(0.0, -1 if x.sign else 1)]
            )
            value = decode(result, "f32")
            if math.isnan(true):
                assert value.nan, (case.name, hex(operand))
            elif math.isinf(true) or abs(true) > 3.4028235e38:
                assert value.inf and bool(value.sign) == (true < 0), (case.name, hex(operand))
            else:
                assert math.isclose(
                    float(value.value), true, rel_tol=2**-22, abs_tol=2**-20.5 if name in ("sin", "cos") else 2**-149
                ), (case.name, hex(operand))


def test_packed_approximations_follow_the_single_ones():
    low, high = np.array([[0x3C00]], np.uint16), np.array([[0xC000]], np.uint16)
    both = np.array([[0xC0003C00]], np.uint32)
    ((single, one),) = alu.find_forms(("ex2", "approx", "f16"))
    ((packed, two),) = alu.find_forms(("ex2", "approx", "f16x2"))
    assert packed.build(two)(both)[0, 0] == int(single.build(one)(high)[0, 0]) << 16 | int(single.build(one)(low)[0, 0])
    assert single.build(one)(low)[0, 0] == 0x4000  # 2 ** 1 = 2


def test_division_by_zero_of_integers_is_undefined():
    ((form, mode),) = alu.find_forms(("div", "s32"))
    with pytest.raises(alu.UndefinedResultError) as error:
        form.build(mode)(np.array([[1], [2]], np.uint32), np.array([[1], [0]], np.uint32))
    assert error.value.lanes.tolist() == [[False], [True]]


@pytest.mark.parametrize(
    "opcode",
    ["add.rna.f32", "add.sat.u32", "add.rz.f16", "mul.f32.f32", "mul.lo.f32", "mul.u32", "fma.f32", "div.f32", "sqrt.f32", "shl.s32", "and.u32", "cvt.f16.f32",
     "cvt.s32.f32", "cvt.rn.s32.f32", "cvt.rni.f32.s32", "cvt.sat.s32.s8", "setp.lt.b32", "setp.lo.s32", "setp.equ.s32", "setp.lt.eq.f32", "min.relu.u32",
     "bfe.b32", "prmt.f4e.rc8.b32", "shf.l.b32", "selp.f16", "slct.b32.u32", "ex2.f32", "tanh.f32", "sin.approx.f64", "add.ftz.f64", "add.ftz.ftz.f32",
     "add.rn.rz.f32", "mad.wide.u64", "mul24.u32", "dp4a.u32", "popc.u32", "abs.u32", "copysign.f16", "add.q.s32"],
)  # fmt: skip
def test_forms_that_do_not_exist_are_in_no_table(opcode):
    assert alu.find_forms(tuple(opcode.split("."))) == []


def test_modifiers_may_stand_in_any_order_as_for_ptxas():
    ((form, mode),) = alu.find_forms(("mul", "ftz", "rz", "f32"))
    assert form.name == "mul"
    assert mode.direction == "rz"


def bits_of(opcode, *operands):
    """The one result of an opcode on constants."""
    parts = tuple(opcode.split("."))
    (form, mode), *_ = alu.find_forms(parts)
    types = [form.type_of(role, mode) for role in form.sources]
    columns = [
        np.array([[x]], f"u{max(8, single_instructions.width_of(t)) // 8}")
        for x, t in zip(operands, types, strict=True)
    ]
    with np.errstate(all="ignore"):
        return int(form.build(mode)(*columns)[0, 0])


def test_ftz_judges_what_is_tiny_after_rounding_to_the_full_precision():
    """As ptxas 13.0 folds these constants for sm_90."""
    assert bits_of("mul.f32", 0x3F7FFFFF, 0x00800000) == 0x00800000
    assert bits_of("mul.ftz.f32", 0x3F7FFFFF, 0x00800000) == 0
    assert bits_of("mul.ftz.f32", 0x21800001, 0x1E7FFFFE) == 0x00800000
    assert bits_of("cvt.rn.ftz.f32.f64", 0x380FFFFFE0000000) == 0
    assert bits_of("cvt.rn.ftz.f32.f64", 0x380FFFFFF0000000) == 0x00800000
    assert bits_of("mul.ftz.f32", 0xBF000000, 0x00FFFFFF) == 0x80000000


def test_nans_as_the_code_of_ptxas_makes_them():
    """What the SASS of these shows without running it (ptxas 13.0, sm_90)."""
    assert bits_of("cvt.f32.bf16", 0x7F81) == 0x7F810000  # a shift
    assert bits_of("cvt.rna.tf32.f32", 0x7FC01234) == 0x7FC00000  # an and
    assert bits_of("cvt.rna.satfinite.tf32.f32", 0x7F800000) == 0x7F7FE000
    assert bits_of("max.f64", 0x7FF8000000001234, 0xFFF4000000000001) == 0xFFFC000000000001  # a selection, then an or
    assert bits_of("cvt.f16.f16", 0x7E01) == 0x7FFF  # an addition
    assert bits_of("cvt.f32.f32", 0x7FA00001) == 0x7FA00001  # nothing
    assert bits_of("copysign.f32", 0xBF800000, 0x7FA00001) == 0xFFA00001


def test_saturation_makes_positive_zeros():
    assert bits_of("add.sat.f32", 0x80000000, 0x80000000) == 0
    assert bits_of("cvt.sat.f32.f32", 0x80000000) == 0
    assert bits_of("add.sat.f32", 0x7FC00000, 0) == 0
