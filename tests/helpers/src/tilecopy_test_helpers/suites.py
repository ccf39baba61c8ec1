"""What the suite of the conformance kit finds first, without pytest."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tilecopy_testkit import Counterexample, VariantUnderTest, checks, for_all, properties
from tilecopy_testkit.declines import equivalent_layouts_agree
from tilecopy_testkit.suite import Property


def _checks(subject: VariantUnderTest, examples: int, seeded_by: int) -> dict[str, Callable[[], object]]:
    """What the suite holds a subject against, without a GPU, the quick and telling first."""

    def held(rule: Property, count: int, least: int = 1) -> Callable[[], object]:
        return lambda: for_all(subject, rule, count, seeded_by=seeded_by, shrink=False, least=least)

    found: dict[str, Callable[[], object]] = {
        "completion": lambda: checks.completion_is_declared(subject),
        "pairs": lambda: checks.accepts_every_pair(subject),
        "hooks": held(properties.hooks_are_pure, examples * 2),
        "results": held(properties.results_are_right, examples * 2),
        "partitions": held(properties.partition_agrees, examples * 2, least=0),
        "text": held(properties.text_is_own, examples),
        "notations": held(equivalent_layouts_agree, examples // 2, least=0),
        "steps": lambda: checks.steps_are_needed(subject),
        "far": lambda: checks.far_places_are_right(subject),
        "options": lambda: checks.falls_back(subject),
        "processes": lambda: checks.same_elsewhere(subject),
        "targets": lambda: checks.assembles(subject),
    }
    if any(source == "global" for source, _ in subject.case_space.spaces):
        found["reads"] = held(properties.only_the_box_is_read, examples // 2, least=0)
    return found


def first_counterexample(
    subject: VariantUnderTest,
    examples: int = 60,
    *,
    seeded_by: int = 0,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> Counterexample | None:
    """What the suite finds first, not made smaller; None where it finds nothing. The GPU is not asked.

    Args:
        subject: the variant.
        examples: copies that each rule is held against.
        seeded_by: the same seed draws the same copies.
        only: names of proofs; by default all.
        without: names of proofs that are left out.
    """
    try:
        for name, proof in _checks(subject, examples, seeded_by).items():
            if name not in without and (not only or name in only):
                proof()
    except Counterexample as counterexample:
        return counterexample
    return None
