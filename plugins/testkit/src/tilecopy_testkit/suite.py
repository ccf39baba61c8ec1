"""The class of pytest tests that the author of a variant subclasses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest
import tilecopy as tc
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from tilecopy.assemblers import how_to_install
from tilecopy.executors import unavailable_reason
from tilecopy.harness import Step
from tilecopy.validators import FUNCTION

from tilecopy_core.errors import FLAG, checked, instance_of, integer_in, tuple_of

from . import checks, properties, variant_under_test
from .copy_case import CopyCase
from .counterexample import Counterexample
from .declines import equivalent_layouts_agree
from .random_cases import case_of_seed
from .strategies import cases
from .validators import ANY
from .variant_under_test import SUBJECT, VariantUnderTest, restricted

__tracebackhide__ = True  # a failure shows the counterexample and the lines of the variant, not those of the kit
Property = Callable[[VariantUnderTest, CopyCase], bool]
TARGETS_VARIABLE = "TILECOPY_TESTKIT_TARGETS"
"""The environment variable that names the targets to test."""
_OF_THE_TESTS = {"plugin", "strategies", "examples", "seed"}
"""The attributes of a suite that describe its tests; the others describe its variant."""
MOST_TRIES = 10
"""The most draws per example while the variant accepts too few copies."""
SHRINK_EXAMPLES = 200
"""The number of copies that are drawn to find a smaller one that breaks the same rule."""


def of_targets(targets: Sequence[str], asked: str) -> tuple[str, ...]:
    """Return the targets that a list such as ``sm_90,sm_100a`` names. ``sm_90`` also selects targets such as ``sm_90a``.

    Raises:
        RequestError: a name is not a target.
    """
    named = {name.strip() for name in asked.split(",")} - {""}
    for name in sorted(named - set(tc.TARGETS)):
        raise tc.RequestError(
            f"{TARGETS_VARIABLE} must list targets, got {name!r}: choose from {', '.join(tc.TARGETS)}"
        )
    return tuple(target for target in targets if target in named or f"sm_{tc.target_of(target).arch}" in named)


@checked(
    subject=SUBJECT,
    rule=FUNCTION,
    examples=integer_in(0, 10**7),
    seeded_by=ANY,
    strategies=tuple_of(instance_of("a strategy of hypothesis", st.SearchStrategy)),
    least=integer_in(0, 2**31),
    shrink=FLAG,
)
def for_all(
    subject: VariantUnderTest,
    rule: Property,
    examples: int,
    *,
    seeded_by: int = 0,
    strategies: Sequence[st.SearchStrategy[CopyCase]] = (),
    least: int = 1,
    shrink: bool = True,
) -> int:
    """Check a rule on drawn copies. Raise a counterexample for the smallest copy found that breaks the rule.

    Args:
        subject: the variant.
        rule: one of :mod:`.properties`.
        examples: number of copies to draw, and again from the strategies; more are drawn while the variant accepts too few.
        seeded_by: the seed; the same seed draws the same copies.
        strategies: more strategies of hypothesis to draw copies from.
        least: the least number of copies that the variant must accept.
        shrink: raise the smallest copy that is found instead of the first.

    Returns:
        The number of copies that the variant accepted.

    Raises:
        Counterexample: a copy breaks the rule, or the variant gives different results for the same copy.
    """
    taken = 0
    for number in range(examples * MOST_TRIES):
        if number >= examples and taken >= least:
            break
        case = case_of_seed(subject.case_space, f"{seeded_by}:{number}")
        try:
            taken += bool(rule(subject, case))
        except Counterexample as counterexample:
            if shrink:
                _raise_smaller(subject, rule, case, counterexample)
            raise
    if strategies:
        taken += _hold_by_hypothesis(subject, rule, examples, seeded_by, strategies, shrink=shrink)
    if taken < least:
        raise Counterexample(
            checks.ACCEPTS, f"at least {least} of {examples * MOST_TRIES} drawn copies must be lowered, got {taken}"
        )
    return taken


def _raise_smaller(subject: VariantUnderTest, rule: Property, case: CopyCase, counterexample: Counterexample) -> None:
    """Raise the counterexample of the smallest copy that breaks the same rule, among those that hypothesis tries."""
    try:
        rule(subject, case)
    except Counterexample:
        pass
    else:
        raise Counterexample(
            properties.PURE,
            f"the copy must fail again on replay, but it passed ({counterexample.rule}: {counterexample.found})",
            case,
        ) from counterexample

    def same_rule(subject: VariantUnderTest, case: CopyCase) -> bool:
        try:
            return rule(subject, case)
        except Counterexample as other:
            if other.rule == counterexample.rule:
                raise
            return False

    _hold_by_hypothesis(subject, same_rule, SHRINK_EXAMPLES, 0, (cases(subject.case_space),), shrink=True)


def _hold_by_hypothesis(
    subject: VariantUnderTest,
    rule: Property,
    examples: int,
    seeded_by: int,
    strategies: Sequence[st.SearchStrategy[CopyCase]],
    *,
    shrink: bool,
) -> int:
    """Check a rule on copies that hypothesis draws, and raise the smallest copy that breaks it."""
    taken = 0

    @seed(seeded_by)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(*strategies))
    def hold(case: CopyCase) -> None:
        nonlocal taken
        taken += bool(rule(subject, case))

    try:
        hold()
    except Flaky as error:
        raise Counterexample(properties.PURE, f"the copy must fail again on replay: {error}") from error
    return taken


@pytest.mark.filterwarnings("ignore::tilecopy_core.registry.SlowPluginWarning")
@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # a drawn copy may be a slow choice
class VariantSuite:
    """The tests of a variant. Write ``class TestMine(VariantSuite): plugin = "mine"`` and run pytest.

    Attributes:
        plugin: the variant: a module or object with the hooks, or the name of an installed variant.
        spaces: ``(source, destination)`` pairs to draw; by default those of the record.
        dtypes: element types to draw.
        targets: targets to test; by default all that the record names. The environment variable
            ``TILECOPY_TESTKIT_TARGETS=sm_90,sm_100a`` restricts them to those that it lists (architectures or targets). If none
            is left, the tests are skipped.
        draws: a function of a :class:`~tilecopy_testkit.Draw` and a :class:`~tilecopy_testkit.CaseSpace` that returns a case
            which the variant accepts, or None. Use it for layouts that the kit rarely draws. It makes three of four draws.
        strategies: more strategies of hypothesis to draw cases from.
        widths_bits: vector widths of the variant's instructions, widest first; () to skip the comparison of widths.
        expected_narrow: reason -> a predicate of the copies that may use narrower vectors than brute force finds.
        steps: the steps that complete a copy, for a completion that only this variant has.
        options: name -> a function that returns an option which exists only in a kernel, from the
            :class:`~tilecopy_testkit.case_harness.CaseHarness`.
        arguments: parameter -> a function that returns an additional argument of the launch, a NumPy array or an integer, from
            the :class:`~tilecopy_testkit.CopyCase`. ``CaseHarness.arguments`` has the parameters.
        moves: a function that returns the moves of a partition that has no method ``moves``.
        examples: number of copies on which each rule is checked.
        seed: the seed of the draws, by default ``TILECOPY_TESTKIT_SEED`` or 0. The same seed draws the same copies.
    """

    plugin: ClassVar[Any] = None
    spaces: ClassVar[Sequence[tuple[str, str]] | None] = None
    dtypes: ClassVar[Sequence[str] | None] = None
    targets: ClassVar[Sequence[str] | None] = None
    draws: ClassVar[variant_under_test.OwnDraws | None] = None
    strategies: ClassVar[Sequence[st.SearchStrategy[CopyCase]]] = ()
    widths_bits: ClassVar[tuple[int, ...]] = variant_under_test.WIDTHS_BITS
    expected_narrow: ClassVar[Mapping[str, Callable[[CopyCase], bool]]] = {}
    steps: ClassVar[Sequence[Step] | None] = None
    options: ClassVar[Mapping[str, variant_under_test.OptionMaker]] = {}
    arguments: ClassVar[Mapping[str, variant_under_test.ArgumentMaker]] = {}
    moves: ClassVar[variant_under_test.Moves | None] = None
    examples: ClassVar[int] = 60
    seed: ClassVar[int] = int(os.environ.get("TILECOPY_TESTKIT_SEED", "0"))

    @classmethod
    def subject(cls) -> VariantUnderTest:
        """Return the variant that the class attributes describe. TILECOPY_TESTKIT_TARGETS can restrict its targets."""
        about = {name: getattr(cls, name) for name in VariantSuite.__annotations__.keys() - _OF_THE_TESTS}
        subject = VariantUnderTest.of(cls.plugin, **about)
        asked = os.environ.get(TARGETS_VARIABLE, "").strip()
        targets = of_targets(subject.case_space.targets, asked) if asked else subject.case_space.targets
        if not targets:
            supported = ", ".join(subject.case_space.targets)
            pytest.skip(f"{TARGETS_VARIABLE} is {asked}, but {subject.name} supports only {supported}")
        return restricted(subject, targets=targets)

    def _hold(self, rule: Property, share: float, *, least: int = 1) -> int:
        """Check a rule on ``share`` times the number of examples."""
        integer_in(1, 10**6).check(self.examples, "VariantSuite", "examples")
        ANY.check(self.seed, "VariantSuite", "seed")
        examples = int(self.examples * share)
        return for_all(self.subject(), rule, examples, seeded_by=self.seed, strategies=self.strategies, least=least)

    def test_the_record_says_what_completes_a_copy(self) -> None:
        """Check that the variant's record declares a completion that the kit knows."""
        checks.completion_is_declared(self.subject())

    def test_every_declared_pair_of_memories_is_taken(self) -> None:
        """Check that the variant lowers copies between each pair of memories in its record."""
        checks.accepts_every_pair(self.subject())

    def test_hooks_are_pure_and_quick_and_answer(self) -> None:
        """Check that predicate and partition are pure and quick, raise nothing, and give a reason when they decline."""
        self._hold(properties.hooks_are_pure, 2)

    def test_partitions_agree_with_the_layouts_in_the_widest_vectors(self) -> None:
        """Check that partitions move each element once, to the right location, in the widest vectors that fit."""
        if not self._hold(properties.partition_agrees, 2, least=0):
            pytest.skip("only vector widths were checked, because the partitions have no method moves(request, values)")

    def test_the_text_is_the_same_at_every_build(self) -> None:
        """Check that each build emits the same PTX, and that the PTX uses only the operands of the copy."""
        self._hold(properties.text_is_own, 1)

    def test_no_copy_is_declined_for_its_notation(self) -> None:
        """Check that the variant gives equal answers for other notations of a layout, such as fused or split iters."""
        self._hold(equivalent_layouts_agree, 0.5, least=0)

    def test_results_are_those_of_the_oracle(self) -> None:
        """Compare results with the oracle, on an emulator that completes asynchronous operations as late as possible."""
        self._hold(properties.results_are_right, 2)

    def test_only_elements_of_the_box_are_read(self) -> None:
        """Check that elements outside the box are not read. Another CTA writes these elements during the copy."""
        if all(source != "global" for source, _ in self.subject().case_space.spaces):
            pytest.skip("the variant does not copy from global memory, and other tests check the other memories")
        self._hold(properties.only_the_box_is_read, 0.5)

    def test_arrays_past_2_to_the_31_are_copied(self) -> None:
        """Check copies of arrays with more than 2**31 elements. Only the elements of the box take memory."""
        if not checks.far_places_are_right(self.subject()):
            pytest.skip("no drawn copy can have a stride of 2**31 elements in global memory")

    def test_each_step_of_the_completion_is_needed(self) -> None:
        """Check that each completion step is needed: without it, a copy must cause a hazard or have a wrong result."""
        checks.steps_are_needed(self.subject())

    def test_the_text_assembles_for_every_claimed_target(self) -> None:
        """Assemble the PTX for every target in the variant's record, with nvJitLink or ptxas."""
        if not checks.assembles(self.subject()):
            pytest.skip(f"no assembler: {how_to_install('nvjitlink')}")

    def test_other_processes_give_the_same_answers(self) -> None:
        """Compare the variant's answers in processes with different hash seeds and orders of requests."""
        if not checks.same_elsewhere(self.subject()):
            pytest.skip(
                "plugin must be a variant name, a module or a module attribute, so that another process can import it"
            )

    def test_a_copy_without_options_falls_back(self) -> None:
        """Check that the variant lowers or declines copies without an option, in a kernel and in a plan."""
        checks.falls_back(self.subject())

    def test_the_gpu_gives_the_same(self) -> None:
        """Compare results on the GPU with the oracle, if the GPU supports a target of the variant."""
        if why := unavailable_reason("cuda"):
            pytest.skip(f"no GPU: {why}")
        if not checks.right_on_gpu(self.subject()):
            pytest.skip(f"this GPU supports none of the targets {', '.join(self.subject().case_space.targets)}")
