"""What the table of instructions says of targets and versions, and what the emulator takes for a target: held against ptxas."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
from tilecopy import AssemblerError, Target, target_of
from tilecopy.assemblers import assemble
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_emulator.opcodes.table import compile_program
from tilecopy_emulator.parser.module import parse
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.ptx_verdicts import LINES, TARGETS, VERSIONS, Version, module, refusal

from tilecopy_core.ptx.instructions import instruction_of


def least_of(body: str, target: Target) -> Version | None:
    """The least version in which the table has an instruction for a target."""
    found = instruction_of(body.split(";", maxsplit=1)[0])
    ways = [
        max(needs.version, target.ptx_version) for needs in found.ways if found.needs.known and needs.met_by(target)
    ]
    return min(ways, default=None)


def test_the_table_has_every_instruction_from_the_version_on_that_ptxas_has_it() -> None:
    for body, least in LINES:
        if least:
            assert {target: least_of(body, target) for target in TARGETS} == {t: least.get(t) for t in TARGETS}, body


def test_ptxas_takes_each_with_the_header_of_the_table_and_refuses_the_version_before() -> None:
    """All are taken, in one module a header; of the refused ones, which end a module, some are drawn."""
    batches = defaultdict(list)
    for body, least in LINES:
        if least:
            target = next(iter(least))
            batches[least_of(body, target), target].append(body)
    for (version, target), bodies in batches.items():
        assert version is not None
        assemble(module(version, target, *bodies), target, "ptxas")
    older = [
        (b, t, VERSIONS[VERSIONS.index(v) - 1]) for b, least in LINES for t, v in least.items() if v > t.ptx_version
    ]
    missing = [(b, t, (9, 0)) for b, least in LINES for t in TARGETS if t not in least]
    draw = random.Random(20261122)
    for body, target, version in draw.sample(older, 30) + draw.sample(missing, 60):
        with pytest.raises(AssemblerError):
            assemble(module(version, target, body), target, "ptxas")


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_emulator_refuses_what_ptxas_refuses_for_a_target(target: Target) -> None:
    for body, least in LINES:
        if target not in least:
            assert refusal(body, target, (9, 0)), body
            continue
        assert "it needs" not in refusal(body, target, least[target]), body
        if least[target] > target.ptx_version:
            assert refusal(body, target, VERSIONS[VERSIONS.index(least[target]) - 1]), body


@pytest.mark.parametrize(
    ("body", "target", "version", "said"),
    [
        (
            "add.f32x2 d0, d1, d2;",
            "sm_90",
            (9, 0),
            ("add.f32x2 d0, d1, d2", "sm_100", "sm_90"),
        ),
        (
            "tcgen05.wait::ld.sync.aligned;",
            "sm_120a",
            (9, 0),
            ("f", "sm_100", "sm_110"),
        ),
        ("movmatrix.sync.aligned.m8n8.trans.b16 r0, r1;", "sm_80", (7, 0), ("movmatrix",)),
        ("elect.sync r0|p0, -1;", "sm_90", (7, 8), ("8.0", "7.8")),
        ("mov.u32 r0, %cluster_ctarank;", "sm_80", (9, 0), ("sm_90", "sm_80")),
        ("ld.param.relaxed.u64 d0, [pg];", "sm_90", (9, 0), ()),
        ("exit.uni;", "sm_90", (9, 0), ("exit.uni",)),
        ("ret;", "sm_90", (7, 7), ("sm_90", "7.8", "7.7")),
    ],
)
def test_what_is_said(body: str, target: str, version: Version, said: tuple[object, ...]) -> None:
    assert mentions(*said).search(refusal(body, target_of(target), version))


@pytest.mark.parametrize("directive", [".reqnctapercluster 2, 1, 1", ".explicitcluster", ".maxclusterrank 8"])
@pytest.mark.parametrize(("target", "version"), [("sm_80", "9.0"), ("sm_75", "7.8")])
def test_clusters_need_sm_90(directive: str, target: str, version: str) -> None:
    text = f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {directive} {{ ret; }}"
    with pytest.raises(UnsupportedPtxError, match=mentions(4, directive.split(maxsplit=1)[0], "sm_90")):
        parse(text)


def test_targets_older_than_the_table_run() -> None:
    parse(".version 4.1\n.target sm_52\n.address_size 64\n.visible .entry k() { ret; }")


def test_matrices_in_either_order_and_constant_predicates() -> None:
    """As CUTLASS writes the count of matrices, as NVRTC writes a true predicate; the environment registers that nobody uses are zero."""
    out = np.full((32, 2), 7, np.uint32)
    text = """.version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {
        .shared .align 16 .b8 s[512]; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<2>;
        mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 16, %r1; mov.u32 %r3, 3;
        stmatrix.sync.aligned.x4.m8n8.shared.b16 [%r1], {%r0, %r0, %r0, %r0}; bar.warp.sync -1;
        ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%r4, %r5, %r6, %r7}, [%r1];
        mov.pred %p0, -1; mov.b32 %r2, %envreg3; @%p0 add.u32 %r2, %r2, 1;
        ld.param.u64 %d0, [out]; mad.wide.u32 %d0, %r0, 8, %d0; st.global.v2.b32 [%d0], {%r7, %r2}; ret; }"""
    run_ptx(text, [out], grid=1, block=32)
    assert out[:, 0].tolist() == list(range(32)) and (out[:, 1] == 1).all()


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (".reg .b32 %r<2>; ld.b32 %r0, [%r1];", (32,)),
        (".reg .b32 %r<2>; st.b32 [%r1], %r0;", (32,)),
        (".reg .b32 %r<2>; red.add.u32 [%r1], %r0;", (32,)),
        (".reg .b32 %r<2>; mbarrier.init.b64 [%r1], 1;", (32,)),
        (".reg .b32 %r<2>; ld.shared.b32 %r0, [there];", ("there", ".global")),
        ("fence.proxy.tensormap::generic.acquire.gpu;", (2, 0)),
        ("fence.proxy.tensormap::generic.release.gpu [there], 128;", (0, 2)),
    ],
)
def test_what_ptxas_refuses_of_operands_is_refused(body: str, part: tuple[object, ...]) -> None:
    head = ".version 8.6\n.target sm_90\n.address_size 64\n.global .b32 there;\n"
    with pytest.raises(UnsupportedPtxError, match=mentions(*part)):
        compile_program(parse(f"{head}.entry k() {{ {body} ret; }}"))
