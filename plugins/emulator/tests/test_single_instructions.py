"""Whole kernels of one instruction through ``run_ptx``: registers, carries, predicates, atomics, lanes of a warp.

The tables themselves are compared form by form in test_alu; here the first and the last spelling of each form
run as programs.
"""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_emulator.alu import FORMS
from tilecopy_test_helpers import instruction_reference as reference
from tilecopy_test_helpers import single_instructions
from tilecopy_test_helpers.mentions import is_hazard
from tilecopy_test_helpers.single_instructions import THREADS, Case, roles_of, width_of

LANES = 12


def results(case):
    """The two words of each thread."""
    output = case.output.copy()
    run_ptx(case.ptx, [*case.inputs, output], grid=case.grid, block=case.block)
    return output.reshape(THREADS, 2)


EXACT = sorted({form.name for forms in FORMS.values() for form in forms if not form.approximate})


@pytest.mark.parametrize("name", EXACT)
def test_instructions_as_programs(name):
    cases = [case for case in single_instructions.first_and_last_cases(name) if not case[1].approximate]
    for number, (case, form, mode, constants) in enumerate(cases):
        found = results(case)
        for lane in np.random.default_rng(number).permutation(THREADS)[:LANES].tolist():
            inputs = iter(int(x[lane]) for x in case.inputs)
            operands = [int(constants[i], 0) if i in constants else next(inputs) for i in range(len(roles_of(form)))]
            if "cc" in form.sources:
                operands[-1] &= 1
            wanted = reference.evaluate(form.name, mode.types, mode.modifiers, operands)
            roles = [role for role in form.results if role != "cc"]
            widths = [width_of(form.type_of(role, mode)) for role in roles] + [32] * (len(form.results) - len(roles))
            for slot, (value, width) in enumerate(zip(wanted, widths, strict=False)):
                bits = int(found[lane, slot])
                if name == "cvt" and mode.types[0][0] == "s" and width == 8:  # extended into its 16-bit register
                    bits &= 0xFF
                assert bits == value & ((1 << width) - 1), (case.name, [hex(x) for x in operands])


def atomic(name, type, operands):
    """The new value of an atomic operation in global memory."""
    old, b = operands[:2]
    mask = (1 << width_of(type)) - 1
    if name == "exch":
        return b
    if name == "cas":
        return operands[2] if old == b else old
    if name == "inc":
        return 0 if old >= b else old + 1
    if name == "dec":
        return b if old == 0 or old > b else old - 1
    if type == "f64":  # the L2 cache changes no NaN, and prefers the operand's
        for bits in (b, old):
            if reference.decode(bits, type).nan:
                return bits
    return reference.evaluate(name, (type,), frozenset({"ftz"} if type == "f32" else ()), [old, b])[0] & mask


def test_atomics_give_the_old_value_and_leave_the_new_one():
    for case, form, mode in single_instructions.atomic_cases():
        found = results(case)
        for lane in [*range(0, THREADS, 17), 13, 14, 35, 89]:  # those four: NaNs and subnormal sums
            operands = [int(x[lane]) for x in case.inputs]
            assert found[lane].tolist() == [operands[0], atomic(form.name, mode.type, operands)], (case.name, lane)


def warp_reference(name, value, lane, tid, block):
    """``%r10`` and ``%p10`` of one lane, from the values of its warp."""
    opcode, _, rest = name.partition(" ")
    if opcode.startswith("shfl"):
        b, c = (int(x, 0) for x in rest.split())
        kind = opcode.split(".")[2]
        segment, last = c >> 8 & 31, c & 31
        most, least = (lane & segment) | (last & ~segment), lane & segment
        source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | (b & ~segment)}[kind]
        inside = source >= most if kind == "up" else source <= most
        return value[source if inside else lane], inside
    negative = [v >> 31 for v in value]
    if opcode == "vote.all":
        return int(all(negative)), all(negative)
    if opcode == "vote.any":
        return int(not all(negative)), not all(negative)
    if opcode == "vote.uni":
        return int(len(set(negative)) == 1), len(set(negative)) == 1
    if opcode == "vote.ballot":
        return sum(bit << i for i, bit in enumerate(negative)), bool(negative[lane])
    if opcode == "match.any":
        return sum((v & 3 == value[lane] & 3) << i for i, v in enumerate(value)), False
    if opcode == "match.all":
        return 0xFFFFFFFF, True
    if opcode.startswith("redux"):
        _, kind, type = opcode.split(".")
        signed = [v - 2**32 if type == "s32" and v >> 31 else v for v in value]
        result = signed[0]
        for v in signed[1:]:
            result = {
                "add": result + v,
                "min": min(result, v),
                "max": max(result, v),
                "and": result & v,
                "or": result | v,
                "xor": result ^ v,
            }[kind]
        return result & 0xFFFFFFFF, result & 0xFFFFFFFF == 0
    if name == "mov pack":
        own = value[lane]
        return own >> 16 | (own & 0xFFFF) << 16, own & 0xFFFF == 0
    if name == "mov pack 64":
        return block, value[lane] == 0 and block == 0
    special = {
        "laneid": lane, "tid.x": tid, "ntid.x": single_instructions.BLOCK, "ctaid.x": block, "nctaid.x": THREADS // single_instructions.BLOCK,
        "lanemask_eq": 1 << lane, "lanemask_lt": (1 << lane) - 1, "lanemask_le": (2 << lane) - 1, "lanemask_gt": 0xFFFFFFFF & ~((2 << lane) - 1),
        "lanemask_ge": 0xFFFFFFFF & ~((1 << lane) - 1), "cluster_ctarank": 0, "cluster_nctarank": 1, "cluster_nctaid.x": 1, "clusterid.x": block,
        "nclusterid.x": THREADS // single_instructions.BLOCK,
    }[rest.removeprefix("%")]  # fmt: skip
    return special, special == 0


@pytest.mark.parametrize("case", list(single_instructions.warp_cases()), ids=lambda case: case.name)
def test_instructions_between_lanes(case: Case):
    found = results(case)
    values = [int(x) for x in case.inputs[0]]
    for thread in range(THREADS):
        first = thread // 32 * 32
        tid, block = thread % case.block, thread // case.block
        register, predicate = warp_reference(case.name, values[first : first + 32], thread % 32, tid, block)
        assert found[thread].tolist() == [register, int(predicate)], thread


# --------------------------------------------------------------------------------------------------- undefined, refused

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
DECLARATIONS = ".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>; ld.param.u64 %d8, [out]; mov.u32 %r8, %tid.x;\n"


def run(body, *, block=32, output=None):
    output = np.zeros(64, np.uint32) if output is None else output
    run_ptx(f"{HEADER}{DECLARATIONS}{body}\nret;\n}}\n", [output], grid=1, block=block)
    return output


@pytest.mark.parametrize("opcode", ["div.u32", "rem.u32", "div.s32", "rem.s32"])
def test_integer_division_by_zero_is_a_hazard_of_its_thread(opcode):
    with pytest.raises(HazardError, check=is_hazard("arithmetic", 7)) as error:
        run(f"sub.u32 %r1, %r8, 7;\n{opcode} %r2, %r8, %r1;")
    assert (error.value.kind, error.value.line) == ("arithmetic", 8)
    run(f"setp.ne.u32 %p1, %r8, 7; sub.u32 %r1, %r8, 7;\n@%p1 {opcode} %r2, %r8, %r1;")


def test_an_unwritten_half_of_a_packed_register_is_poison():
    with pytest.raises(HazardError) as error:
        run("mov.b16 %h1, 1;\nmov.b32 %r1, {%h1, %h2};")
    assert error.value.kind == "poison"
    assert "%h2" in str(error.value)


def test_a_carry_that_nothing_set_is_poison():
    with pytest.raises(HazardError, check=is_hazard("poison")) as error:
        run("addc.u32 %r1, %r8, 0;")
    assert error.value.kind == "poison"


def test_the_carry_flag_is_the_adders_whatever_set_it():
    """After a subtraction it is set where nothing was borrowed, also for addc: ptxas 13.0 makes IADD3 and IADD3.X of these."""
    out = run(
        "sub.cc.u32 %r1, 5, 3; addc.u32 %r2, 0, 0; sub.cc.u32 %r1, 3, 5; addc.u32 %r3, 0, 0; st.global.v2.b32 [%d8], {%r2, %r3};",
        block=1,
    )
    assert out[:2].tolist() == [1, 0]
    out = run(
        "add.cc.u32 %r1, 1, -1; subc.u32 %r2, 7, 0; add.cc.u32 %r1, 1, 1; subc.u32 %r3, 7, 0; st.global.v2.b32 [%d8], {%r2, %r3};",
        block=1,
    )
    assert out[:2].tolist() == [7, 6]


def test_a_shuffle_from_a_lane_that_has_exited_is_a_hazard():
    with pytest.raises(HazardError, check=is_hazard("aligned", 3)):
        run("setp.eq.u32 %p1, %r8, 3;\n@%p1 exit;\nshfl.sync.idx.b32 %r1, %r8, 3, 31, -1;")


def test_masks_of_half_a_warp():
    out = run(
        "setp.lt.u32 %p1, %r8, 16;\nselp.b32 %r2, 0xffff, 0xffff0000, %p1;\nredux.sync.add.u32 %r1, %r8, %r2;\n"
        "mad.wide.u32 %d1, %r8, 4, %d8;\nst.global.b32 [%d1], %r1;"
    )
    assert out[:32].tolist() == [sum(range(16))] * 16 + [sum(range(16, 32))] * 16


def test_divergent_lanes_and_their_active_mask():
    out = run(
        "mov.u32 %r1, 0; setp.lt.u32 %p1, %r8, 5;\n@!%p1 bra L;\nactivemask.b32 %r1;\nL: mad.wide.u32 %d1, %r8, 4, %d8;\nst.global.b32 [%d1], %r1;"
    )
    assert out[:32].tolist() == [0b11111] * 5 + [0] * 27


def test_a_branch_through_a_table():
    body = (
        "and.b32 %r1, %r8, 3;\nts: .branchtargets A, B, C;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 bra D;\nbrx.idx %r1, ts;\n"
        "A: mov.u32 %r2, 10; bra E;\nB: mov.u32 %r2, 20; bra E;\nC: mov.u32 %r2, 30; bra E;\nD: mov.u32 %r2, 40;\n"
        "E: mad.wide.u32 %d1, %r8, 4, %d8;\nst.global.b32 [%d1], %r2;"
    )
    assert run(body)[:32].tolist() == [10, 20, 30, 40] * 8
    with pytest.raises(HazardError, check=is_hazard("bounds", 3)):
        run(body.replace("@%p1 bra D;", ""))


def test_trap_is_a_hazard_where_it_is_reached():
    run("setp.gt.u32 %p1, %r8, 99;\n@%p1 trap;")
    with pytest.raises(HazardError, check=is_hazard("trap", 9)) as error:
        run("setp.eq.u32 %p1, %r8, 9;\n@%p1 trap;")
    assert error.value.kind == "trap"


def test_hints_change_nothing():
    run(
        "nanosleep.u32 20; nanosleep.u32 %r8; prefetch.global.L2 [%d8]; prefetchu.L1 [%d8]; createpolicy.fractional.L2::evict_last.b64 %d1, 0f3F800000;\n"
        "ld.global.L2::cache_hint.b32 %r1, [%d8], %d1; griddepcontrol.wait;"
    )
    with pytest.raises(UnsupportedPtxError):
        run("applypriority.global.L2::evict_last [%d8], 128;")


def test_moved_bits_are_kept_and_computed_nans_are_canonical():
    out = run(
        "mov.b32 %r1, 0x7fa00001; mov.f32 %r2, %r1; add.f32 %r3, %r2, 0f3F800000; st.global.v2.b32 [%d8], {%r2, %r3};",
        block=1,
    )
    assert [hex(x) for x in out[:2].tolist()] == ["0x7fa00001", "0x7fffffff"]


def test_matrices_go_through_a_warp():
    body = (
        ".shared .align 16 .b8 s[512];\nmov.u32 %r1, s; mad.lo.u32 %r2, %r8, 4, %r1;\nmov.u32 %r3, %r8; st.shared.b32 [%r2], %r3; add.u32 %r3, %r8, 1000;\n"
        "st.shared.b32 [%r2+128], %r3; bar.sync 0;\nand.b32 %r4, %r8, 15; mad.lo.u32 %r4, %r4, 16, %r1;\n"
        "ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {%r5, %r6}, [%r4];\nmad.wide.u32 %d1, %r8, 8, %d8;\nst.global.v2.b32 [%d1], {%r5, %r6};"
    )
    source = np.concatenate([np.arange(32), np.arange(32) + 1000]).astype(np.uint32).view(np.uint16).reshape(2, 8, 8)
    for trans in ("", ".trans"):
        out = run(body.replace("{trans}", trans))
        tiles = source.swapaxes(1, 2) if trans else source
        wanted = np.ascontiguousarray(tiles).reshape(2, 32, 2).transpose(1, 0, 2)
        assert np.array_equal(out.view(np.uint16).reshape(32, 2, 2), wanted)
    stored = body.replace("ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {%r5, %r6}, [%r4];", "").replace(
        "mad.wide.u32 %d1, %r8, 8, %d8;\nst.global.v2.b32 [%d1], {%r5, %r6};",
        "ld.shared.b32 %r5, [%r2]; ld.shared.b32 %r6, [%r2+128]; bar.sync 0;\nstmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r4], {%r5, %r6}; bar.sync 0;\n"
        "ld.shared.b32 %r5, [%r2]; ld.shared.b32 %r6, [%r2+128];\nmad.wide.u32 %d1, %r8, 8, %d8;\nst.global.v2.b32 [%d1], {%r5, %r6};",
    )
    out = run(stored)
    wanted = np.ascontiguousarray(source.swapaxes(1, 2)).reshape(2, 32, 2).transpose(1, 0, 2)
    assert np.array_equal(out.view(np.uint16).reshape(32, 2, 2), wanted)
