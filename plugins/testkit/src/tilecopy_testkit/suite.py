"""The suite: a class of pytest tests that the author of a variant subclasses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pytest
import tilecopy as tc
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from tilecopy.assemblers import how_to_install
from tilecopy.harness import Step
from tilecopy.validators import FUNCTION

from tilecopy_core.errors import FLAG, checked, instance_of, integer_in, tuple_of

from . import checks, properties
from .copy_case import CopyCase
from .counterexample import Counterexample
from .declines import equivalent_layouts_agree
from .drawing import case_of_seed
from .strategies import cases
from .validators import ANY
from .variant_under_test import WIDTHS_BITS, ArgumentMaker, Moves, OptionMaker, OwnDraws, VariantUnderTest

Property = Callable[[VariantUnderTest, CopyCase], bool]
TARGETS_VARIABLE = "TILECOPY_TESTKIT_TARGETS"
"""The environment variable that names the targets to test."""
MOST_TRIES = 10
"""How many times the examples are drawn while the variant takes too few of them."""
SHRINK_EXAMPLES = 200
"""Copies that are drawn to find a smaller one that breaks the same rule."""


def of_targets(targets: Sequence[str], asked: str) -> tuple[str, ...]:
    """Return those targets that a list such as ``sm_90,sm_100a`` names: a name without suffix stands for all of its architecture.

    Raises:
        RequestError: a name is not a target.
    """
    named = {name.strip() for name in asked.split(",")} - {""}
    for name in sorted(named - set(tc.TARGETS)):
        raise tc.RequestError(
            f"{TARGETS_VARIABLE} must name targets such as sm_90, got {name!r}: they are {', '.join(tc.TARGETS)}"
        )
    return tuple(target for target in targets if target in named or f"sm_{tc.target_of(target).arch}" in named)


@checked(
    subject=instance_of("a VariantUnderTest", VariantUnderTest),
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
    """Hold a rule against drawn copies; the smallest that breaks it is what is raised.

    Args:
        subject: the variant.
        rule: one of :mod:`.properties`.
        examples: copies to draw, and as many of further strategies; more are drawn while the variant takes too few.
        seeded_by: the same seed draws the same copies.
        strategies: further ones, of hypothesis.
        least: how many of the copies the variant must take.
        shrink: look for the smallest; else the first that is found is raised.

    Returns:
        How many it took.

    Raises:
        Counterexample: a copy breaks the rule, or the variant does not do the same every time.
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
            checks.ACCEPTS, f"{taken} of {examples * MOST_TRIES} drawn copies are lowered; {least} are wanted"
        )
    return taken


def _raise_smaller(subject: VariantUnderTest, rule: Property, case: CopyCase, counterexample: Counterexample) -> None:
    """Raise what the smallest copy shows that breaks the same rule, of those that hypothesis tries."""
    try:
        rule(subject, case)
    except Counterexample:
        pass
    else:
        raise Counterexample(
            properties.PURE,
            f"tried again this copy keeps the rule that it broke ({counterexample.rule}: {counterexample.found})",
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
    """Hold a rule against copies that hypothesis draws; the smallest that breaks it is what is raised."""
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
        raise Counterexample(
            properties.PURE, f"a copy that breaks a rule keeps it when it is tried again: {error}"
        ) from error
    return taken


@pytest.mark.filterwarnings("ignore::tilecopy_core.registry.SlowPluginWarning")
@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # a drawn copy may be a slow choice
class VariantSuite:
    """Subclass it as ``class TestMine(VariantSuite): plugin = "mine"`` and run pytest.

    Attributes:
        plugin: the variant: a module or object with the hooks, or the name of an installed one.
        spaces: ``(source, destination)`` pairs to draw; by default those of the record.
        dtypes: element types to draw.
        targets: architectures; by default every one that the record claims. The environment variable
            ``TILECOPY_TESTKIT_TARGETS=sm_90,sm_100a`` leaves those alone that it names: an architecture, or a target. Where that
            leaves none, the tests are skipped.
        draws: a function of a :class:`~tilecopy_testkit.Draw` and :class:`~tilecopy_testkit.CaseSpace` that gives a case
            which the variant takes, or None: for layouts that the kit would hardly draw. Three of four draws are its.
        strategies: further strategies of cases, of hypothesis.
        widths_bits: vector widths of its instructions, widest first; () where vectors are not to be compared.
        expected_narrow: reason -> for which copies a narrower vector than brute force finds is right.
        steps: what completes a copy, for a completion of the variant's own.
        options: makes the options that only a kernel has, by name, from the :class:`~tilecopy_testkit.case_harness.CaseHarness`.
        arguments: makes what a launch gives besides the kit's own arguments, by the parameter's name, from the
            :class:`~tilecopy_testkit.CopyCase`: a NumPy array or an integer. ``CaseHarness.arguments`` has the parameters.
        moves: what is moved, for a partition of the variant's own that has no method ``moves``.
        examples: copies that each rule is held against.
        seed: what is drawn; the same seed draws the same. By default what ``TILECOPY_TESTKIT_SEED`` says, or 0.
    """

    plugin: ClassVar[Any] = None
    spaces: ClassVar[Sequence[tuple[str, str]] | None] = None
    dtypes: ClassVar[Sequence[str] | None] = None
    targets: ClassVar[Sequence[str] | None] = None
    draws: ClassVar[OwnDraws | None] = None
    strategies: ClassVar[Sequence[st.SearchStrategy[CopyCase]]] = ()
    widths_bits: ClassVar[tuple[int, ...]] = WIDTHS_BITS
    expected_narrow: ClassVar[Mapping[str, Callable[[CopyCase], bool]]] = {}
    steps: ClassVar[Sequence[Step] | None] = None
    options: ClassVar[Mapping[str, OptionMaker]] = {}
    arguments: ClassVar[Mapping[str, ArgumentMaker]] = {}
    moves: ClassVar[Moves | None] = None
    examples: ClassVar[int] = 60
    seed: ClassVar[int] = int(os.environ.get("TILECOPY_TESTKIT_SEED", "0"))

    @classmethod
    def subject(cls) -> VariantUnderTest:
        """The variant with what this class says of it, for the targets that the environment leaves."""
        subject = VariantUnderTest.of(
            cls.plugin,
            spaces=cls.spaces,
            dtypes=cls.dtypes,
            targets=cls.targets,
            steps=cls.steps,
            options=cls.options,
            arguments=cls.arguments,
            widths_bits=cls.widths_bits,
            expected_narrow=cls.expected_narrow,
            draws=cls.draws,
            moves=cls.moves,
        )
        asked = os.environ.get(TARGETS_VARIABLE, "").strip()
        targets = of_targets(subject.case_space.targets, asked) if asked else subject.case_space.targets
        if not targets:
            pytest.skip(f"{subject.name} is for {', '.join(subject.case_space.targets)}; {TARGETS_VARIABLE} is {asked}")
        return attrs.evolve(subject, case_space=attrs.evolve(subject.case_space, targets=targets))

    def _hold(self, rule: Property, share: float, *, least: int = 1) -> int:
        """Hold a rule against so many times the examples."""
        integer_in(1, 10**6).check(self.examples, "VariantSuite", "examples")
        ANY.check(self.seed, "VariantSuite", "seed")
        examples = int(self.examples * share)
        return for_all(self.subject(), rule, examples, seeded_by=self.seed, strategies=self.strategies, least=least)

    def test_the_record_says_what_completes_a_copy(self) -> None:
        """The completion is declared and known."""
        checks.completion_is_declared(self.subject())

    def test_every_declared_pair_of_memories_is_taken(self) -> None:
        """No pair is declared in vain."""
        checks.accepts_every_pair(self.subject())

    def test_hooks_are_pure_and_quick_and_answer(self) -> None:
        """Predicate and partition: the same at every call, never raising, a reason with every decline."""
        self._hold(properties.hooks_are_pure, 2)

    def test_partitions_agree_with_the_layouts_in_the_widest_vectors(self) -> None:
        """Every element once, at its place, in vectors as wide as brute force finds."""
        if not self._hold(properties.partition_agrees, 2, least=0):
            pytest.skip(
                "widths alone: its partitions have no method moves(request, values), which says what goes where"
            )

    def test_the_text_is_the_same_at_every_build(self) -> None:
        """And has the copy's own operands alone."""
        self._hold(properties.text_is_own, 1)

    def test_no_copy_is_declined_for_its_notation(self) -> None:
        """Iters in one or split, of extent 1, a dimension more, a box as a buffer of its own: the same answer."""
        self._hold(equivalent_layouts_agree, 0.5, least=0)

    def test_results_are_those_of_the_oracle(self) -> None:
        """On the strict emulator, where everything lands as late as it may; no other byte is touched."""
        self._hold(properties.results_are_right, 2)

    def test_only_elements_of_the_box_are_read(self) -> None:
        """Another CTA writes the others meanwhile."""
        if all(source != "global" for source, _ in self.subject().case_space.spaces):
            pytest.skip("its sources are not global: what is not read has no value there, in every test")
        self._hold(properties.only_the_box_is_read, 0.5)

    def test_arrays_past_2_to_the_31_are_copied(self) -> None:
        """Copy arrays that reach past 2**31 elements like small ones; they take no memory."""
        if not checks.far_places_are_right(self.subject()):
            pytest.skip("none of its copies reaches that far in global memory")

    def test_each_step_of_the_completion_is_needed(self) -> None:
        """Left out, it is a hazard."""
        checks.steps_are_needed(self.subject())

    def test_the_text_assembles_for_every_claimed_target(self) -> None:
        """By nvJitLink or ptxas."""
        if not checks.assembles(self.subject()):
            pytest.skip(f"no assembler: {how_to_install('nvjitlink')}")

    def test_other_processes_give_the_same_answers(self) -> None:
        """With other hash seeds, asked in another order."""
        if not checks.same_elsewhere(self.subject()):
            pytest.skip("another process cannot import this plugin: give a module, a module's attribute or a name")

    def test_a_copy_without_options_falls_back(self) -> None:
        """In a kernel and in a plan alone."""
        checks.falls_back(self.subject())

    def test_the_gpu_gives_the_same(self) -> None:
        """Where there is one that a claimed target runs on."""
        if why := checks.gpu_unavailable_reason():
            pytest.skip(f"no GPU: {why}")
        if not checks.right_on_gpu(self.subject()):
            pytest.skip("no claimed target runs on this GPU")
