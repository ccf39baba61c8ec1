"""What the suite of the conformance kit finds first, without pytest."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tilecopy_testkit import Finding, Subject, for_all, proofs, rules
from tilecopy_testkit.declines import taken_in_every_notation
from tilecopy_testkit.suite import Rule


def _proofs(subject: Subject, examples: int, seeded_by: int) -> dict[str, Callable[[], object]]:
    """What the suite holds a subject against, without a GPU, the quick and telling first."""

    def held(rule: Rule, count: int, least: int = 1) -> Callable[[], object]:
        return lambda: for_all(subject, rule, count, seeded_by=seeded_by, shrink=False, least=least)

    found: dict[str, Callable[[], object]] = {
        "completion": lambda: proofs.completion_is_declared(subject),
        "pairs": lambda: proofs.accepts_every_pair(subject),
        "hooks": held(rules.hooks_are_pure, examples * 2),
        "results": held(rules.results_are_right, examples * 2),
        "partitions": held(rules.partition_agrees, examples * 2, least=0),
        "text": held(rules.text_is_own, examples),
        "notations": held(taken_in_every_notation, examples // 2, least=0),
        "steps": lambda: proofs.steps_are_needed(subject),
        "far": lambda: proofs.far_places_are_right(subject),
        "options": lambda: proofs.falls_back(subject),
        "processes": lambda: proofs.same_elsewhere(subject),
        "targets": lambda: proofs.assembles(subject),
    }
    if any(source == "global" for source, _ in subject.ranges.spaces):
        found["reads"] = held(rules.only_the_box_is_read, examples // 2, least=0)
    return found


def first_finding(
    subject: Subject, examples: int = 60, *, seeded_by: int = 0, only: Collection[str] = ()
) -> Finding | None:
    """What the suite finds first, not made smaller; None where it finds nothing. The GPU is not asked.

    Args:
        subject: the variant.
        examples: copies that each rule is held against.
        seeded_by: the same seed draws the same copies.
        only: names of proofs; by default all.
    """
    try:
        for name, proof in _proofs(subject, examples, seeded_by).items():
            if not only or name in only:
                proof()
    except Finding as finding:
        return finding
    return None
