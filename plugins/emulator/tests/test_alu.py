"""Every form of the arithmetic tables against an independent reference (:mod:`tilecopy_test_helpers.instruction_reference`), on edge values and random ones."""

from __future__ import annotations

import itertools
import math
import re
import subprocess

import numpy as np
import pytest
from tilecopy.assemblers import ptxas_path
from tilecopy_emulator import alu
from tilecopy_emulator.alu.atomic import FAMILIES, atomic_operation
from tilecopy_test_helpers import instruction_reference as reference
from tilecopy_test_helpers import single_instructions
from tilecopy_test_helpers.instruction_reference import decode

LANES = 8


def operands_of(case, form, mode, constants, pick):
    """Columns of operand bits, as the machine hands them to the computation."""
    inputs = iter(case.inputs)
    columns = []
    for number, role in enumerate(single_instructions.roles_of(form)):
        if number in constants:
            columns.append(np.full((1, 1), int(constants[number], 0), np.uint32))
            continue
        values = next(inputs)[pick][:, None]
        if role == "cc":
            columns.append(values & 1 != 0)
        else:
            columns.append(values.astype(bool) if form.type_of(role, mode) == "pred" else values)
    return columns


@pytest.mark.parametrize("name", sorted(alu.FORMS))
def test_every_form_gives_the_bits_of_the_reference(name):
    for number, (case, form, mode, constants) in enumerate(single_instructions.arithmetic_cases(name)):
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
    for case, form, mode, _ in single_instructions.arithmetic_cases(name):
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
            argument = float(x.value) if x.size else math.copysign(0.0, -1 if x.sign else 1)
            if name in ("sin", "cos") and abs(argument) > math.pi:  # beyond that the ISA has no bound
                argument = reference.reduced(operand)
            true = reference.approximation(name, [argument])
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


def test_approximations_whose_bits_an_h200_shows():
    """Driver 580.159: 16-bit results are cut off, 1 / sqrt of f64 is rounded to nearest, angles are reduced by one product."""
    assert bits_of("ex2.approx.f16", 0x8400) == 0x3BFF
    assert bits_of("ex2.approx.f16", 0x8001) == 0x3C00
    assert bits_of("ex2.approx.f16", 0x7BFF) == 0x7C00
    assert bits_of("ex2.approx.ftz.bf16x2", 0xB546A083) == 0x3F7F3F80
    assert bits_of("tanh.approx.f16", 0x3C00) == 0x3A17
    assert bits_of("rsqrt.approx.f64", 0x3FEFFFFFFFFFFFFF) == 0x3FF0000000000000
    assert bits_of("rsqrt.approx.f64", 0x000FFFFFFFFFFFFF) == 0x5FE0000000000001
    assert bits_of("rsqrt.approx.f64", QUIET_NAN) == QUIET_NAN
    assert bits_of("rsqrt.approx.f64", 1 << 63) == 0xFFF0000000000000
    assert bits_of("rsqrt.approx.f64", 0xBFF0000000000000) == 0xFFF8000000000000
    assert bits_of("sin.approx.f32", 0x807FFFFF) == 0x80000000
    assert bits_of("cos.approx.f32", 0x7F7FFFFF) == 0x3F800000


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
     "cvt.rm.tf32.f32", "add.rn.rz.f32", "mad.wide.u64", "mul24.u32", "dp4a.u32", "popc.u32", "abs.u32", "copysign.f16", "add.q.s32"],
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


@pytest.mark.parametrize("addend", [0x3F800001, 0x00400001, 0x007FFFFF])
def test_a_fused_sum_is_rounded_once(addend):
    """Just below the middle of two values, which float64 cannot tell from the middle itself."""
    factors = (0x33800001, 0x3F7FFFFE) if addend >> 23 else (0x1A000001, 0x19FFFFFE)
    assert bits_of("fma.rn.f32", *factors, addend) == addend
    assert bits_of("fma.rn.f32", *factors, addend | 1 << 31) == (addend | 1 << 31)


@pytest.mark.parametrize("direction", ["rn", "rz", "rm", "rp"])
def test_an_integer_that_a_double_holds_is_rounded_nowhere(direction):
    for value in (2**53, 2**63, 5):
        assert bits_of(f"cvt.{direction}.f64.u64", value) == int(np.float64(value).view(np.uint64))


def test_the_nth_bit_that_is_set():
    for base, offset, wanted in ((3, 0, 3), (4, 0, -1), (0, 1, 3), (3, 2, 5), (31, -1, 5), (5, -2, 3), (0, 3, -1)):
        assert bits_of("fns.b32", 0b101000, base, offset & 0xFFFFFFFF) == wanted & 0xFFFFFFFF


def test_nans_as_the_code_of_ptxas_makes_them():
    """What the SASS of these shows without running it (ptxas 13.0, sm_90)."""
    assert bits_of("cvt.f32.bf16", 0x7F81) == 0x7F810000  # a shift
    assert bits_of("cvt.rna.tf32.f32", 0x7FC01234) == 0x7FC00000  # an and
    assert bits_of("cvt.rna.satfinite.tf32.f32", 0x7F800000) == 0x7F7FE000
    assert bits_of("max.f64", 0x7FF8000000001234, 0xFFF4000000000001) == 0xFFFC000000000001  # a selection, then an or
    assert bits_of("cvt.f16.f16", 0x7E01) == 0x7FFF  # an addition
    assert bits_of("cvt.f32.f32", 0x7FA00001) == 0x7FA00001  # nothing
    assert bits_of("copysign.f32", 0xBF800000, 0x7FA00001) == 0xFFA00001


QUIET_NAN, SIGNALLING_NAN = 0x7FF8000000001234, 0xFFF4000000000001
MADE_QUIET = 0xFFFC000000000001


@pytest.mark.parametrize("direction", ["rn", "rz", "rm", "rp"])
def test_sums_and_products_of_f64_give_their_last_nan_made_quiet(direction):
    """As an H200 does (driver 580.159); of a fused operation the second factor's goes before the addend's."""
    one, zero, infinity = 0x3FF0000000000000, 0, 0x7FF0000000000000
    for name in ("add", "sub", "mul"):
        opcode = f"{name}.{direction}.f64"
        assert bits_of(opcode, QUIET_NAN, SIGNALLING_NAN) == MADE_QUIET
        assert bits_of(opcode, SIGNALLING_NAN, QUIET_NAN) == QUIET_NAN
        assert bits_of(opcode, SIGNALLING_NAN, one) == MADE_QUIET
        assert bits_of(opcode, one, SIGNALLING_NAN) == MADE_QUIET  # sub: the sign stays
    for name in ("fma", "mad"):
        opcode = f"{name}.{direction}.f64"
        assert bits_of(opcode, zero, zero, SIGNALLING_NAN) == MADE_QUIET
        assert bits_of(opcode, zero, infinity, QUIET_NAN) == QUIET_NAN
        assert bits_of(opcode, QUIET_NAN, SIGNALLING_NAN, infinity) == MADE_QUIET
        assert bits_of(opcode, SIGNALLING_NAN, one, zero) == MADE_QUIET
        assert bits_of(opcode, one, SIGNALLING_NAN, QUIET_NAN) == MADE_QUIET
        assert bits_of(opcode, one, QUIET_NAN, SIGNALLING_NAN) == QUIET_NAN
        assert bits_of(opcode, zero, infinity, one) == 0xFFF8000000000000
    assert bits_of(f"div.{direction}.f64", QUIET_NAN, SIGNALLING_NAN) == QUIET_NAN


def test_signs_of_f64_nans_do_not_change():
    for name in ("abs", "neg"):
        assert bits_of(f"{name}.f64", SIGNALLING_NAN) == MADE_QUIET
        assert bits_of(f"{name}.f64", QUIET_NAN) == QUIET_NAN
    assert bits_of("neg.f64", 0) == 1 << 63


def test_conversions_from_f64_cut_the_payload_of_a_nan():
    for narrow, quiet, signalling in (
        ("f32", 0x7FC00000, 0xFFE00000),
        ("f16", 0x7E00, 0xFF00),
        ("bf16", 0x7FC0, 0xFFE0),
    ):
        assert bits_of(f"cvt.rn.{narrow}.f64", QUIET_NAN) == quiet
        assert bits_of(f"cvt.rn.{narrow}.f64", SIGNALLING_NAN) == signalling
    assert bits_of("cvt.rz.ftz.f32.f64", 0x7FF0000000000001) == 0x7FC00000
    assert bits_of("cvt.rn.sat.f32.f64", QUIET_NAN) == 0


def test_ftz_in_conversions():
    assert bits_of("cvt.ftz.f64.f32", 0xFFABCDEF) == 0x7FFFFFFFE0000000
    assert bits_of("cvt.f64.f32", 0xFFABCDEF) == 0xFFFD79BDE0000000
    assert bits_of("cvt.ftz.f64.f32", 0x80000001) == 1 << 63
    assert bits_of("cvt.rp.ftz.f16.f32", 0x00000001) == 1  # nothing is flushed
    assert bits_of("cvt.rm.ftz.f16.f32", 0x80000001) == 0x8001
    for direction, sign in (("rm", 1), ("rp", 0)):  # the bound in the SASS
        opcode = f"cvt.{direction}.ftz.f32.f64"
        assert bits_of(opcode, sign << 63 | 0x380FFFFFE0000000) == sign << 31 | 0x00800000
        assert bits_of(opcode, sign << 63 | 0x380FFFFFDFFFFFFF) == sign << 31
        assert bits_of(opcode, (1 - sign) << 63 | 0x380FFFFFFFFFFFFF) == (1 - sign) << 31


def test_the_nan_of_tf32_has_no_low_bits():
    for modifiers in ("rn", "rz", "rn.relu"):
        assert bits_of(f"cvt.{modifiers}.tf32.f32", 0xFFABCDEF) == 0x7FFFE000


def test_a_zero_is_normal():
    assert bits_of("testp.normal.f32", 0x80000000) == bits_of("testp.normal.f64", 0) == 1
    assert bits_of("testp.subnormal.f32", 0) == bits_of("testp.normal.f32", 1) == 0


def test_fields_of_64_bits_take_the_whole_counts():
    assert bits_of("bfe.u64", 3, 0x80000000, 7) == 0
    assert bits_of("bfe.u64", 0x20, 1, 0x80000000) == 0x10
    assert bits_of("bfe.s64", 1 << 63, 0x80000001, 3) == (1 << 64) - 1
    assert bits_of("bfi.b64", 7, (1 << 64) - 2, 2, 0x80000000) == 0x1E
    assert bits_of("bfi.b64", 7, 5, 0x100, 8) == 5
    assert bits_of("bfe.u32", 0xABCD, 0x100, 0x108) == 0xCD  # of 32 bits their low bytes


def summed(family, type, old, b):
    compute = atomic_operation("add", type, family=family)
    with np.errstate(all="ignore"):
        return int(compute(*(np.array([x], f"u{int(type[1:]) // 8}") for x in (old, b)))[0])


def test_atomic_sums_in_global_memory_are_not_those_of_registers():
    for family in ("atom", "cp.reduce.async.bulk"):
        assert summed(family, "f32", 1, 0x80800000) == 0x80800000
        assert summed(family, "f32", 0x80800000, 0x00FFFFFF) == 0
        assert summed(family, "f64", QUIET_NAN, SIGNALLING_NAN) == SIGNALLING_NAN
        assert summed(family, "f64", SIGNALLING_NAN, 0) == SIGNALLING_NAN
        assert summed(family, "f64", 0x7FF0000000000000, 0xFFF0000000000000) == 0xFFF8000000000000
    assert summed("atom.shared", "f32", 1, 0x80800000) == 0x807FFFFF
    assert summed("atom.shared", "f64", SIGNALLING_NAN, 0) == MADE_QUIET


OPERATIONS = ("exch", "cas", "add", "inc", "dec", "min", "max", "and", "or", "xor")
OPERAND_TYPES = (
    "b16",
    "b32",
    "b64",
    "b128",
    "u32",
    "s32",
    "u64",
    "s64",
    "f16",
    "bf16",
    "f16x2",
    "bf16x2",
    "f32",
    "f64",
)
REGISTERS = {1: "%h1", 2: "%r1", 4: "%d1", 8: "%q1"}
SPELLINGS = {
    "atom.vector": "atom.global.{opcode}.v2 {{{r}, {r}}}, [%d2], {{{r}, {r}}}{more};",
    "atom": "atom.global.{opcode} {r}, [%d2], {r}{more};",
    "atom.shared": "atom.shared.{opcode} {r}, [%r2], {r}{more};",
    "cp.reduce.async.bulk": "cp.reduce.async.bulk.global.shared::cta.bulk_group.{opcode} [%d2], [%r2], %r3;",
    "red.async": "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{opcode} [%r2], {r}, [%r3];",
}


def assembled(lines, target, folder):
    """The lines that ptxas complains of, none where it takes them all."""
    path = folder / "lines.ptx"
    path.write_text("\n".join(lines))
    command = [ptxas_path(), "-O0", f"-arch={target}", path, "-o", folder / "lines.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = {int(number) for number in re.findall(r"line (\d+); error", done.stderr)}
    assert wrong or done.returncode == 0, done.stderr
    return wrong


@pytest.mark.nvidia
@pytest.mark.parametrize("family", FAMILIES)
def test_the_atomics_of_a_family_are_those_that_ptxas_takes(family, tmp_path):
    head = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b128 %q<9>;"
    lines = head.split("\n")
    known = set()
    for name, noftz, type in itertools.product(OPERATIONS, (False, True), OPERAND_TYPES):
        register = REGISTERS[single_instructions.width_of(type) // 16]
        opcode = f"{name}{'.noftz' if noftz else ''}.{type}"
        lines.append(SPELLINGS[family].format(opcode=opcode, r=register, more=f", {register}" if name == "cas" else ""))
        if atomic_operation(name, type, noftz=noftz, family=family) is not None:
            known.add(lines[-1])
    wrong = assembled([*lines, "ret;", "}"], "sm_90", tmp_path)
    assert known == {line for number, line in enumerate(lines, 1) if number > 6 and number not in wrong}


@pytest.mark.nvidia
def test_ptxas_takes_the_forms_of_the_tables(tmp_path):
    """The first and the last spelling of each, at the target that its case names."""
    modules = {}
    for number, (case, *_) in enumerate(single_instructions.first_and_last_cases()):
        *head, body = case.ptx.split("\n", 3)
        modules.setdefault(tuple(head), []).extend(
            body.replace(".entry single(", f".entry single_{number}(").split("\n")
        )
    for head, lines in modules.items():
        assert assembled([*head, *lines], head[1].split()[1], tmp_path) == set()


def test_saturation_makes_positive_zeros():
    assert bits_of("add.sat.f32", 0x80000000, 0x80000000) == 0
    assert bits_of("cvt.sat.f32.f32", 0x80000000) == 0
    assert bits_of("add.sat.f32", 0x7FC00000, 0) == 0
