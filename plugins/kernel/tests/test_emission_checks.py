"""The text of one copy, held against what a copy may write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy.emission_checks import why_malformed
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.plugin import Accept, Variant, hookimpl
from tilecopy_core.ptx.lines import Text

REGISTERS = {"r1", "%r2", "rd1", "p1"}


@pytest.mark.parametrize(
    "lines",
    [
        ["// a copy", "ld.global.v2.b32 {%r1, %r2}, [%rd1+16];", "st.shared.v2.b32 [%r1], {%r1, %r2};"],
        ["@%p1 bra $L_1;", "@!%p1 mov.u32 %r1, %tid.x;", "$L_1:"],
        ["mov.u64 %rd1, %globaltimer; add.s32 %r1, %laneid, %cluster_ctarank;", "mov.b32 %r1, %envreg3;"],
        ["{ .reg .pred %q; .reg .b32 %t<2>, %u;", "setp.ne.b32 %q, %t0, %t1;", "mov.b32 %u, %t1;", "}"],
        ["{", ".reg .b32 %r1;", "L: mov.b32 %r1, 0;", "{ mov.b32 %r1, 1; }", "}"],
        ["ld.shared.b32 %r1, [smem_ret]; // ret; }", "/* exit; %none", "} */ bar.sync 0;"],
        ["mov.b64 {%r1,", "%r2}, %rd1;"],
    ],
)
def test_what_a_copy_may_write(lines: list[str]) -> None:
    assert why_malformed(map(Text, lines), REGISTERS) is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "emits no instruction"),
        (["// only words", "$L:", "{", "}", ".reg .b32 %x;"], "emits no instruction"),
        (["mov.b32 %r1, 0;", "ret;"], "'ret;', but a copy must not end the kernel with ret"),
        (["@!%p1 exit;"], "end the kernel with exit"),
        (["mov.b32 %r1, 0; ret.uni;"], "end the kernel with ret"),
        (["mov.b32 %r1, 0;", "}"], "'}' without a '{'"),
        (["} mov.b32 %r1, 0; {"], "'}' without a '{'"),
        (["{", "mov.b32 %r1, 0;"], "'{' that it does not close"),
        (["mov.b32 %r1, %r3;"], "register %r3 is not declared"),
        (["@%p2 bra $L;", "$L:"], "register %p2 is"),
        (["{ .reg .b32 %t<2>; mov.b32 %t2, 0; }"], "register %t2 is"),
        (["{ .reg .b32 %t; mov.b32 %t, 0; }", "mov.b32 %r1, %t;"], "register %t is"),
        (["mov.b32 %r1, %tidy;"], "register %tidy is"),
        (["mov.b32 %r1, 0;", "mov.b32 %r2, 1"], "'mov.b32 %r2, 1' without its ';'"),
    ],
)
def test_what_it_may_not(lines: list[str], message: str) -> None:
    why = why_malformed(map(Text, lines), REGISTERS)
    assert why is not None and message in why


def test_a_partition_with_nothing_to_move_may_emit_nothing() -> None:
    assert why_malformed([Text("// no rounds")], REGISTERS, may_be_empty=True) is None
    assert why_malformed([Text("ret;")], REGISTERS, may_be_empty=True) is not None


@pytest.mark.parametrize("opcode", ["ret", "exit", "ret.uni"])
def test_an_instruction_may_not_end_the_kernel_either(opcode: str) -> None:
    """It has no operand that could be wrong, and is looked at all the same."""
    ends = SimpleNamespace(
        variant=Variant("ends", "copy", 1, "ends the kernel", (("global", "shared"),)),
        tilecopy_predicate=hookimpl(lambda request: Accept()),
        tilecopy_partition=hookimpl(lambda request: 1),
        tilecopy_emit=hookimpl(lambda request, partition, ptx: ptx.instr(opcode)),
    )
    registry = tc.Registry([], {})
    registry.register(ends, name="ends")
    tile, a = (tc.Buffer((64,), "float32", space=space, name=space) for space in ("shared", "global"))
    plan = tc.plan(tile[:], a[:], scope=tc.warp(), target="sm_80", registry=registry)
    with pytest.raises(tc.PluginError, match=mentions("kernel")):
        tc.ptx_text(plan, registry=registry)


def _emitting(write: Any) -> tc.Registry:
    """A registry of one variant that takes everything and emits by ``write``."""

    class Writes:
        variant = tc.Variant("writes", "copy", 99, "whatever it is told", (("global", "shared"),))

        @tc.hookimpl
        def tilecopy_predicate(self, request: tc.CopyRequest) -> tc.Verdict:
            return tc.Accept()

        @tc.hookimpl
        def tilecopy_partition(self, request: tc.CopyRequest) -> str:
            return "all"

        @tc.hookimpl
        def tilecopy_emit(self, request: tc.CopyRequest, partition: str, ptx: Any) -> None:
            write(ptx)

    registry = tc.Registry([], environ={})
    registry.register(Writes(), name="writes")
    return registry


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda ptx: None, ()),
        (lambda ptx: ptx.comment("nothing"), ()),
        (lambda ptx: ptx.raw("// nothing"), ()),
        (lambda ptx: ptx.if_(ptx.reg("pred")).__enter__(), ()),
        (lambda ptx: ptx.raw("bra nowhere;"), ("nowhere",)),
        (lambda ptx: ptx.raw("ret;"), ("ret",)),
        (lambda ptx: ptx.raw("}"), ("}",)),
        (lambda ptx: ptx.raw("{ bar.sync 0;"), ("{",)),
        (lambda ptx: ptx.instr("mov.u32", "%r77", 1), ("%r77",)),
    ],
)
def test_text_that_cannot_stand_in_a_kernel_is_the_variants_fault(write: Any, message: tuple[object, ...]) -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32,), "float32"), k.shared((32,), "float32")
    k.cta.copy(s[:], a[:])
    with pytest.raises(tc.PluginError, match=mentions("writes", *message, "TILECOPY_DISABLE=writes")):
        k.build(target="sm_80", registry=_emitting(write))


def test_an_instruction_that_the_emulator_does_not_know_names_its_statement() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32,), "float32"), k.shared((32,), "float32")
    k.cta.copy(s[:], a[:])
    built = k.build(target="sm_80", grid=1, registry=_emitting(lambda ptx: ptx.instr("bogus.u32", ptx.reg("b32"), 1)))
    with pytest.raises(tc.TilecopyError, match=mentions("bogus.u32", "smem0", "test_emission_checks")):
        built(np.zeros(32, np.float32), executor="emulator")
