"""CTAs that do the same are run as one, and apart as soon as they differ: what is said of each is the same."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.corpus import CASES, CLEAN, Case
from tilecopy_test_helpers.corpus.model import Text
from tilecopy_test_helpers.mentions import is_hazard

GROUPS = 3
PART = "{ .reg .pred qq; .reg .b32 zz; mov.u32 zz, %ctaid.x; setp.eq.u32 qq, zz, 1; @qq bra QQ; QQ: }"
"""Parts CTA 1 from the others for a moment."""


def widened(case: Case, text: Text, seed: int | None) -> tuple[str, list[Any]] | None:
    """The program for several groups of CTAs, each on arrays of its own; with a seed, the CTAs part somewhere."""
    ptx, arguments = text.ptx, case.arguments()
    number = "%clusterid.x" if case.cluster else "%ctaid.x"
    if "ctaid" in ptx.replace("cluster_ctaid", "") or ".global" in case.module or case.grid != (case.cluster or 1):
        return None
    wide: list[Any] = []
    for part, array in zip(case.arrays.split(), arguments, strict=False):
        name = part.split(":")[0]
        move = f"{{ .reg .b32 qq; mov.u32 qq, {number}; mad.wide.u32 %{name}, qq, {array.nbytes}, %{name}; }}"
        ptx, count = re.subn(rf"(cvta\.to\.global\.u64 %{name}, %{name};)", rf"\1 {move}", ptx)
        if array.nbytes % 16 or (not count and f"[{name}]" in ptx):
            return None
        wide.append(np.concatenate([array] * GROUPS))
    if seed is not None:
        lines = ptx.split("\n")
        declares = (".reg", ".shared .", ".local .")
        places = [
            number
            for number, line in enumerate(lines)
            if line.startswith("    ") and line.rstrip().endswith(";") and not any(word in line for word in declares)
        ]
        place = random.Random(f"{case.name} {seed}").choice(places)
        lines[place] = f"    {PART} {lines[place].strip()}"
        ptx = "\n".join(lines)
    return ptx, wide + arguments[len(wide) :]


def run(case: Case, text: Text, seed: int | None) -> list[Any] | None:
    """Run it; its arguments, or None where it cannot be widened."""
    found = widened(case, text, seed)
    if found is None:
        return None
    ptx, arguments = found
    grid = GROUPS * (case.grid if isinstance(case.grid, int) else 1)
    run_ptx(ptx, arguments, grid=grid, block=case.block, cluster=case.cluster, dynamic_shared_bytes=case.dynamic)
    return arguments


def check(case: Case, arguments: list[Any] | None) -> None:
    """Every group must have what one has."""
    for group in range(GROUPS) if arguments is not None else ():
        case.check([x.reshape(GROUPS, -1)[group] if isinstance(x, np.ndarray) else x for x in arguments])


SAMPLE = [case for number, case in enumerate(CASES) if number % 5 == 0]


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CLEAN])
def test_correct_programs_are_clean_and_right_in_many_ctas(case: Case, seed: int | None) -> None:
    check(case, run(case, case.correct(), seed))


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in SAMPLE])
def test_faults_are_reported_in_many_ctas(case: Case, seed: int | None) -> None:
    text = case.faulty()
    kinds = "|".join(text.faults.values()).split("|")
    try:
        found = run(case, text, seed)
    except tc.HazardError as error:
        assert error.kind in kinds, str(error)
    except UnsupportedPtxError as error:
        assert "ptx" in kinds, str(error)
    else:
        assert found is None


def test_any_number_of_batches_may_diverge() -> None:
    """Each batch of CTAs that part is taken apart; what numbers their operations have grows with what they begin."""
    text = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
    .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %p<2>;
    mov.u32 %r0, %ctaid.x; mul.wide.u32 %d0, %r0, 4; ld.param.u64 %d1, [out]; add.s64 %d0, %d1, %d0;
    mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0; @%p0 bra $end;
    and.b32 %r1, %r0, 3; setp.ne.u32 %p0, %r1, 1; @%p0 bra $other;
    st.global.b32 [%d0], 7;
    bra $end;
$other:
    st.global.b32 [%d0], %r0;
$end:
    ret;
}
"""
    found = np.zeros(70000, np.uint32)
    run_ptx(text, [found], grid=70000, block=32)
    numbers = np.arange(70000)
    assert np.array_equal(found, np.where(numbers % 4 == 1, 7, numbers))


PIECES = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {{
    .reg .b32 %t, %c, %n, %x; .reg .b64 %a, %o; .reg .pred %p; .shared .align 4 .b8 h[4];
    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; shl.b32 %n, 32, %c; mov.b32 %x, 0;
    ld.param.u64 %a, [out]; mad.lo.u32 %x, %c, 32, %t; mad.wide.u32 %a, %x, 4, %a;
    setp.lt.u32 %p, %t, 16; bra APART;
TOGETHER:
    {body}
    st.global.b32 [%a], %x;
    ret;
APART:
    @%p bra TOGETHER;
    mov.b32 %x, 1;
    bra TOGETHER;
}}"""
"""A warp that comes in two pieces to where its CTAs part."""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("shfl.sync.idx.b32 %x, %t, %c, 31, -1;", [0, 1, 2]),
        (
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [h], %n; bar.warp.sync -1; ld.shared.b32 %x, [h];"
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %x, %n;",
            [480, 448, 384],
        ),
    ],
)  # fmt: skip
def test_a_warp_that_comes_in_pieces_may_part_from_other_ctas(body: str, wanted: list[int]) -> None:
    found = np.full((3, 32), 7, np.uint32)
    run_ptx(PIECES.format(body=body), [found], grid=3, block=32)
    assert found.tolist() == [[each] * 32 for each in wanted]


# ------------------------------------------------------------------------------------------------ sources of copies


COPIED = """
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .shared .align 16 .b8 s[64];
    ld.param.u64 %d1, [A]; ld.param.u64 %d2, [F]; mov.u32 %r2, s; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x;
    mad.wide.u32 %d5, %r3, 64, %d1; mad.wide.u32 %d5, %r4, 16, %d5; mad.lo.u32 %r2, %r4, 16, %r2;"""
COPIES = {
    "whole": "cp.async.ca.shared.global [%r2], [%d5], 16;",
    "part": "cp.async.ca.shared.global [%r2], [%d5], 16, 8;",
}


def copied(body: str, how: str, *, grid: int = 2, block: int = 1) -> None:
    text = ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 A, .param .u64 F) {"
    text += f"{COPIED} {COPIES[how]} {body} ret; }}"
    run_ptx(text, [np.zeros(64, np.uint32), np.zeros(4, np.uint32)], grid=grid, block=block)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("first", [0, 1])
def test_each_cta_has_a_copy_of_its_own_once_they_have_parted(first: int, how: str) -> None:
    """One waits for its copy; the other then writes what its own still reads, or does not, while the other's does."""
    parted = f"setp.eq.u32 %p1, %r3, {first}; @%p1 bra ONE; bra B;"
    early = "ONE: cp.async.wait_all; red.release.gpu.global.add.u32 [%d2], 1; ret;"
    early += "B: ld.acquire.gpu.global.u32 %r5, [%d2]; setp.eq.u32 %p2, %r5, 0; @%p2 bra B; st.global.u32 [%d5], %r5; cp.async.wait_all;"
    said = ("async", 1 - first, 0, 1 - first, 0)
    with pytest.raises(tc.HazardError, check=is_hazard(*said)):
        copied(parted + early, how)
    own = "ONE: ld.acquire.gpu.global.u32 %r5, [%d2]; setp.eq.u32 %p2, %r5, 0; @%p2 bra ONE; cp.async.wait_all; ret;"
    own += "B: cp.async.wait_all; st.global.u32 [%d5], %r3; red.release.gpu.global.add.u32 [%d2], 1;"
    copied(parted + own, how)


@pytest.mark.parametrize("how", COPIES)
def test_a_thread_that_has_waited_may_write_what_it_copied(how: str) -> None:
    """The others' copies, by the same instruction, are still in flight."""
    copied(
        "setp.eq.u32 %p1, %r4, 0; @!%p1 bra B; cp.async.wait_all; st.global.u32 [%d5], %r4; B: cp.async.wait_all;",
        how,
        block=4,
    )
