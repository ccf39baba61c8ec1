"""The kit's own parts: descriptions, the oracle, findings, widths."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given, settings
from tilecopy.assemblers import assemble
from tilecopy_test_helpers import broken_variants, third_party_variants
from tilecopy_test_helpers.mentions import mentions
from tilecopy_testkit import (
    AffineStart,
    AffineTerm,
    CaseSpace,
    CopyCase,
    Counterexample,
    Draw,
    Operand,
    VariantSuite,
    VariantUnderTest,
    expected,
    oracle,
    properties,
    requests,
)
from tilecopy_testkit.checks import far_places_are_right
from tilecopy_testkit.counterexample import difference
from tilecopy_testkit.declines import declined_alone
from tilecopy_testkit.element_moves import why_wrong
from tilecopy_testkit.random_cases import case_of_seed
from tilecopy_testkit.suite import for_all
from tilecopy_testkit.widths import fits, widest

from tilecopy_core.plugin import PtxBuilder

TILE = Operand(
    "shared", (4, 8), (2, 8), (AffineStart(1), AffineStart(0)), ((4, 8, "m"), (8, 1, "m")), swizzle=(1, 1, 1)
)
ARRAY = Operand(
    "global",
    (2, 4, 8),
    (1, 2, 8),
    (AffineStart(0, (AffineTerm("block", 1),)), AffineStart(2), AffineStart(0)),
    ((2, 40, "m"), (4, 8, "m"), (8, 1, "m")),
)
COPY = CopyCase(op="copy", dtype="float32", scope="warp", threads=32, target="sm_80", dst=TILE, src=ARRAY, blocks=2)


@settings(max_examples=60, deadline=None)
@given(requests(third_party_variants.elementwise))
def test_a_description_is_what_its_line_says(description: CopyCase) -> None:
    assert CopyCase.from_json(description.to_json()) == description
    assert description.op in str(description)


def test_the_oracle_moves_what_is_written_by_hand() -> None:
    source = np.arange(72 * 4, dtype=np.uint8).reshape(72, 4)
    before = np.full((2, 32, 4), 0xEE, np.uint8)
    after = expected(COPY, (source, before))
    for block in range(2):
        for row in range(4):
            for column in range(8):
                at = row * 8 + column
                place = at ^ (at >> 2 & 1) << 1  # the swizzle, bit by bit
                wanted = source[block * 40 + (row + 1) * 8 + column] if 1 <= row < 3 else before[block, place]
                assert np.array_equal(after[block, place], wanted), (block, row, column)


@pytest.mark.parametrize(("columns", "allocated"), [(1, 32), (32, 32), (33, 64), (64, 64), (100, 128), (512, 512)])
def test_tensor_memory_has_the_allocated_columns_around_a_box(columns: int, allocated: int) -> None:
    """An allocation has a power of two of columns, 32 at least (PTX ISA, tcgen05.alloc)."""
    box = Operand(
        "tmem",
        (128, columns),
        (128, columns),
        (AffineStart(0), AffineStart(0)),
        ((128, 1, "TLane"), (columns, 1, "TCol")),
    )
    assert oracle.memory_shape(attrs.evolve(COPY, dst=box), box) == (COPY.blocks, 128, allocated, 4)


def test_brute_force_finds_what_is_known() -> None:
    """The yardstick itself: rows of 8, a start of 2, a gap."""
    rows = np.arange(64)
    assert fits([rows, rows + 8], 8) and not fits([rows, rows + 4], 8)
    assert not fits([rows, rows * 2], 2)
    assert fits([rows, np.repeat(rows[::8] * 2, 8) + rows % 8], 8)
    assert widest([[rows, rows + 2]], 32, 128, 32, (128, 64, 32)) == 64
    assert not fits([rows, rows[::-1]], 2)


def test_a_finding_reads_like_a_review() -> None:
    number = next(
        n for n, fault in enumerate(broken_variants.FAULTS) if fault.name == "swizzle of the destination is forgotten"
    )
    with pytest.raises(Counterexample) as caught:
        for_all(VariantUnderTest.of(getattr(broken_variants, f"broken_{number}")), properties.results_are_right, 40)
    shown = {Path(entry.path).name for entry in caught.traceback.filter(caught)}
    assert not shown & {"properties.py", "checks.py", "case_harness.py"}, "the author sees the kit's own frames"
    assert caught.value.__context__ is None or caught.value.__suppress_context__, "a larger copy is shown, too"
    finding = caught.value
    lines = str(finding).split("\n")
    assert lines[0] == f"rule: {properties.RESULT}" and lines[1].startswith("found: ")
    assert any(mentions(finding.line).search(line) and "st." in line for line in lines)
    assert any(mentions("float16", "cta(32)", "sm_75").search(line) for line in lines), "the smallest request"
    assert finding.case is not None and finding.case.count == 32
    text = next(part for line in lines for part in line.split("'") if part.startswith("{"))
    assert CopyCase.from_json(text) == finding.case
    assert str(pickle.loads(pickle.dumps(finding))) == str(finding)
    assert isinstance(finding, tc.TilecopyError) and isinstance(finding, AssertionError)


def test_the_same_seed_draws_the_same() -> None:
    ranges = VariantUnderTest.of(third_party_variants.bulk_store).case_space
    assert case_of_seed(ranges, "one") == case_of_seed(ranges, "one") != case_of_seed(ranges, "two")


def test_swizzles_are_their_own_inverse() -> None:
    at = np.arange(1 << 10)
    assert np.array_equal(oracle.swizzle_address(oracle.swizzle_address(at, 3, 3, 3), 3, 3, 3), at)


@pytest.mark.parametrize("wrong", ["nobody", object()])
def test_what_is_no_variant_is_refused(wrong: object) -> None:
    with pytest.raises(tc.PluginError, match="nobody|variant"):
        VariantUnderTest.of(wrong)


class Wgmma:
    """No copy: a record whose copies would complete by groups of wgmma."""

    variant = tc.Variant(
        name="by_wgmma", op="copy_async", priority=1, summary="for what surrounds it", spaces=(("shared", "local"),),
        features=("sm_90",), completion="wgmma_group", threads="all",
    )  # fmt: skip

    @tc.hookimpl
    def tilecopy_predicate(self, request: tc.CopyRequest) -> tc.Verdict:
        return tc.Accept() if str(request.target) == "sm_90a" else tc.Decline(f"{request.target} has no wgmma")

    @tc.hookimpl
    def tilecopy_partition(self, request: tc.CopyRequest) -> str:
        return "none"

    @tc.hookimpl
    def tilecopy_emit(self, request: tc.CopyRequest, partition: object, ptx: PtxBuilder) -> None:
        ptx.instr("wgmma.fence.sync.aligned")


def test_what_completes_by_wgmma_is_a_warpgroups_and_is_committed_and_waited_for() -> None:
    subject = VariantUnderTest.of(Wgmma(), targets=("sm_90a",))
    assert subject.completion_is_known
    descriptions = [case_of_seed(subject.case_space, f"wgmma {number}") for number in range(12)]
    assert {d.scope for d in descriptions} == {"warpgroup"} and {d.threads for d in descriptions} == {128, 256}
    kernel = next(filter(None, (properties.build_kernel(subject, description) for description in descriptions)))
    order = [kernel.ptx.index(f"wgmma.{word}.sync.aligned") for word in ("fence", "commit_group", "wait_group")]
    assert order == sorted(order)
    assert assemble(kernel.ptx, kernel.target)


def test_a_pair_of_ctas_and_repeated_fragments_are_drawn() -> None:
    options = tc.Option("cta_group", (int,), "1 or 2", default=1)
    record = tc.Variant(
        name="pairs", op="copy_async", priority=1, summary="draws alone", spaces=(("shared", "tmem"),), features=("sm_100",),
        options=(options,), completion="tcgen05_commit", threads="one",
    )  # fmt: skip
    drawn = [case_of_seed(CaseSpace.of(record), str(number)) for number in range(40)]
    assert {(d.cta_group, d.cluster) for d in drawn} == {(1, 1), (2, 2)}
    loads = CaseSpace.of(tc.Variant("loads", "copy", 1, "draws alone", (("shared", "local"),), edges=True))
    fragments = [case_of_seed(loads, str(number)) for number in range(200)]
    assert {bool(d.dst.replica) for d in fragments} == {True, False}
    assert any(d.dst.starts[0].base < 0 or d.dst.starts[-1].base < 0 for d in fragments), "fragments overhang too"


def test_moves_are_held_against_the_layouts() -> None:
    """The tile's swizzle by hand, as above; then each way of being wrong."""
    values = {"block": 1, "turn": 0, "unit": 0, "n": 0}
    places = [(row * 8 + column) ^ ((row * 8 + column) >> 2 & 1) << 1 for row in (1, 2) for column in range(8)]
    moves = [(place, 40 + (2 + n // 8) * 8 + n % 8) for n, place in enumerate(places)]
    assert why_wrong(COPY, values, moves) is None
    assert "does not move global element" in (why_wrong(COPY, values, moves[1:]) or "")
    assert "a location that it writes twice" in (why_wrong(COPY, values, [*moves, moves[0]]) or "")
    assert "global element 56 to shared element 0" in (why_wrong(COPY, values, [*moves, (0, 56)]) or "")
    assert "receive global element 56" in (why_wrong(COPY, values, [(moves[0][0], 57), *moves[1:]]) or "")


def test_the_smallest_copy_is_told() -> None:
    """Of copies with more than one CTA those with the fewest choices, whatever was drawn first."""
    subject = VariantUnderTest.of(third_party_variants.elementwise)

    def no_two_ctas(subject: VariantUnderTest, description: CopyCase) -> bool:
        if description.blocks > 1 and description.dtype != "float16":
            raise Counterexample("one CTA or float16", "it has more", description)
        return True

    with pytest.raises(Counterexample) as caught:
        for_all(subject, no_two_ctas, 100)
    found = caught.value.case
    assert found is not None
    assert (found.dtype, found.blocks, found.iterations, found.scope, found.outside) == ("float32", 2, 1, "cta", None)


def test_an_author_draws_layouts_of_his_own() -> None:
    def mine(draw: Draw, ranges: CaseSpace) -> CopyCase:
        return attrs.evolve(COPY, op="copy", threads=draw.choose([32, 64]), target=ranges.targets[0])

    subject = VariantUnderTest.of(third_party_variants.elementwise, draws=mine)
    drawn = [case_of_seed(subject.case_space, str(number)) for number in range(40)]
    assert {d.threads for d in drawn if d.src == ARRAY} == {32, 64}
    assert 20 < sum(d.src == ARRAY for d in drawn) < 40
    other = VariantUnderTest.of(third_party_variants.bulk_store, draws=mine)
    assert case_of_seed(other.case_space, "0").op == "copy_async", "what the record does not claim is not drawn"


def test_arrays_past_2_to_the_31_take_no_memory() -> None:
    resource = pytest.importorskip("resource", reason="Windows does not tell how much memory a process has used")
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert far_places_are_right(VariantUnderTest.of(third_party_variants.elementwise)) >= 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (1 << 29) // unit  # less than 512 MiB of 2 GiB


def test_draws_are_closed_under_what_a_third_party_forgets() -> None:
    """Slices of larger tiles, tiles beside each other, odd pitches, storage offsets, edges, sizes at launch, multicast: no two elements at one place."""
    record = tc.Variant(
        name="engine", op="copy_async", priority=1, summary="draws alone", spaces=(("global", "shared"),), threads="one",
        options=(tc.Option("multicast", (int,), "a mask"),), completion="mbarrier", edges=True,
    )  # fmt: skip
    drawn = [case_of_seed(CaseSpace.of(record), str(number)) for number in range(300)]
    assert {True, False} == {d.dynamic_shape for d in drawn} == {bool(d.receivers) for d in drawn}
    assert {len(d.src.shape) for d in drawn} >= {2, 3, 4}
    assert any(len(d.dst.iters) > len(d.dst.shape) for d in drawn) and any(d.outside == "zero" for d in drawn)
    assert {d.dst.swizzle is None for d in drawn} == {True, False} and any(d.src.storage_offset % 8 for d in drawn)
    for d in drawn:
        whole = {"block": 0, "turn": 0, "unit": 0, "n": 0}
        for operand in (d.src, d.dst):
            buffer = attrs.evolve(operand, extents=operand.shape, starts=(AffineStart(0),) * len(operand.shape))
            at = oracle.places(buffer, whole)[0]["m"].ravel()
            assert len(np.unique(at)) == len(at), d


def test_multicast_arrives_at_every_cta_of_the_mask() -> None:
    tile = Operand("shared", (4, 8), (4, 8), (AffineStart(0), AffineStart(0)), ((4, 8, "m"), (8, 1, "m")))
    copy = attrs.evolve(
        COPY, op="copy_async", dst=tile, src=attrs.evolve(tile, space="global"), scope="thread", issued_by="one"
    )
    copy = attrs.evolve(copy, blocks=4, cluster=4, options=(("multicast", 0b1010),))
    source, before = np.arange(128, dtype=np.uint8).reshape(32, 4), np.full((4, 32, 4), 0xEE, np.uint8)
    after = expected(copy, (source, before))
    assert [bool((after[cta] == source).all()) for cta in range(4)] == [False, True, False, True]
    assert (after[[0, 2]] == 0xEE).all() and oracle.count_written(copy) == 64


def test_declines_that_another_variant_shows_not_to_be_needed() -> None:
    class Picky:
        variant = attrs.evolve(third_party_variants.elementwise.variant, name="picky")

        @tc.hookimpl
        def tilecopy_predicate(self, request: tc.CopyRequest) -> tc.Verdict:
            return tc.Decline(f"{request.dst} is not for me")

        tilecopy_partition = third_party_variants.elementwise.tilecopy_partition
        tilecopy_emit = third_party_variants.elementwise.tilecopy_emit

    found = declined_alone(VariantUnderTest.of(Picky()), 40, [VariantUnderTest.of(third_party_variants.elementwise)])
    assert [each.takers for each in found] == [("elementwise",)] * 2 and sum(each.count for each in found) > 20
    assert "is not for me" in str(found[0]) and found[0].example.to_json() in str(found[0])


def test_texts_that_differ_are_told_as_a_short_diff() -> None:
    assert difference("a\nb\nc 1\nd", "a\nb\nc 2\nd") == "@@ -2,3 +2,3 @@\n b\n-c 1\n+c 2\n d"
    assert difference(None, "x") == "-none\n+x"
    assert difference("x" * 500 + "1", "x" * 500 + "2").endswith(f"-{'x' * 20}1\n+{'x' * 20}2")
    long = difference("\n".join(map(str, range(40))), "\n".join(map(str, range(40, 80))))
    assert len(long.split("\n")) == 12 and long.endswith("... and 70 more lines")


def test_a_launch_has_arguments_of_the_variants_own() -> None:
    """A table of which an option is a word, and a number: the copy is made where both reach the kernel."""

    class Marked:
        variant = attrs.evolve(
            third_party_variants.elementwise.variant,
            name="marked",
            options=(tc.Option("word", (tc.Region,), "holds 2"), tc.Option("number", (int, tc.Expr), "5")),
        )
        tilecopy_predicate = third_party_variants.elementwise.tilecopy_predicate
        tilecopy_partition = third_party_variants.elementwise.tilecopy_partition

        @tc.hookimpl
        def tilecopy_emit(self, request: tc.CopyRequest, partition: Any, ptx: PtxBuilder) -> None:
            (word,) = ptx.load(ptx.element(request.options["word"]), 32)
            two = ptx.reg("pred")
            ptx.instr("setp.eq.b32", two, word, 2)
            with ptx.if_(two), ptx.if_(ptx.predicate(request.options["number"] == 5)):
                third_party_variants.elementwise.tilecopy_emit(request, partition, ptx)

    def subject(table: Any) -> VariantUnderTest:
        options = {
            "word": lambda around: around.arguments["table"][2],
            "number": lambda around: around.arguments["five"],
        }
        arguments = {"table": lambda description: table, "five": lambda description: 5}
        return VariantUnderTest.of(Marked(), options=options, arguments=arguments)

    def right(table: Any) -> int:
        drawn = [case_of_seed(subject(table).case_space, f"marked {number}") for number in range(3)]
        return sum(properties.results_are_right(subject(table), description) for description in drawn)

    assert right(np.arange(4, dtype=np.uint32)) > 1
    with pytest.raises(Counterexample):
        right(np.zeros(4, np.uint32))
    with pytest.raises(Counterexample, match=mentions("table")):
        right("no")


class SuiteOfLdgsts(VariantSuite):
    """Not collected: its name does not begin with Test."""

    plugin = "ldgsts"


def test_the_environment_leaves_some_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = SuiteOfLdgsts.subject().case_space.targets
    assert "sm_80" in everything and "sm_121f" in everything
    monkeypatch.setenv("TILECOPY_TESTKIT_TARGETS", " sm_90 , sm_100a,")
    assert SuiteOfLdgsts.subject().case_space.targets == ("sm_90", "sm_90a", "sm_100a")
    monkeypatch.setenv("TILECOPY_TESTKIT_TARGETS", "sm_75")
    with pytest.raises(pytest.skip.Exception, match="sm_75"):
        SuiteOfLdgsts.subject()
    monkeypatch.setenv("TILECOPY_TESTKIT_TARGETS", "sm_91")
    with pytest.raises(tc.RequestError, match="sm_91"):
        SuiteOfLdgsts.subject()
    monkeypatch.setenv("TILECOPY_TESTKIT_TARGETS", "")
    assert SuiteOfLdgsts.subject().case_space.targets == everything
