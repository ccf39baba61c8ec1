"""Every fault of the corpus is reported as it must be, every correct program runs clean and right."""

from __future__ import annotations

import pytest
import tilecopy as tc
from tilecopy_emulator import UnsupportedPtxError
from tilecopy_test_helpers.bounded_work import at_most
from tilecopy_test_helpers.corpus import CASES, CLEAN, Case
from tilecopy_test_helpers.corpus.model import LATE
from tilecopy_test_helpers.corpus.runner import run, verdict

MAX_CALLS = 2_000_000
"""Calls of functions for any one program: an endless loop is reported by progress, within this."""


def named(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=case.name) for case in cases]


def test_the_corpus_is_large_enough_and_well_formed() -> None:
    names = [case.name for case in CASES + CLEAN]
    assert len(set(names)) == len(names)
    racy = [case for case in CASES if case.name.startswith("scope_")]
    assert len(CASES) - len(racy) >= 120 and len(racy) >= 40
    assert len([case for case in CLEAN if case.name.startswith("clean_")]) + len(racy) >= 60
    assert len([case for case in CLEAN if case.name.startswith("idiom_")]) >= 60
    for case in CASES:
        assert case.faulty().faults, f"{case.name}: no line is marked"
        assert case.faulty().ptx != case.correct().ptx
        assert "FAULT" not in case.correct().ptx
        assert "PTX ISA" in case.rule or case.name.startswith(("endless", "deadlock", "scope")), case.name


@pytest.mark.parametrize("case", named(CASES))
def test_the_fault_is_reported(case: Case) -> None:
    with at_most(MAX_CALLS):
        problem = verdict(case, case.faulty())
    assert not problem, problem


@pytest.mark.parametrize("case", named(CASES[::6]))
def test_the_first_of_all_hazards_is_the_one_that_is_raised_alone(case: Case) -> None:
    errors = []
    for all_hazards in (False, True):
        try:
            run(case, case.faulty(), all_hazards=all_hazards)
        except (tc.HazardError, UnsupportedPtxError) as error:
            errors.append(error)
    first, second = errors
    assert [access["ptx_line"] for access in getattr(first, "details", {}).get("accesses", ())] == [
        access["ptx_line"] for access in getattr(second, "details", {}).get("accesses", ())
    ]
    assert (getattr(first, "kind", ""), first.line) == (getattr(second, "kind", ""), second.line)


@pytest.mark.parametrize("case", named(CASES))
def test_the_twin_is_clean(case: Case) -> None:
    case.check(run(case, case.correct()))


@pytest.mark.parametrize("case", named(CLEAN))
def test_the_correct_program_is_clean(case: Case) -> None:
    case.check(run(case, case.correct()))


def scheduled(cases: list[Case]) -> list[object]:
    """Each case under schedules in which one CTA, or one warp of its only CTA, starts late."""
    return [
        pytest.param(case, late, id=f"{case.name}-{late}".replace(" ", "_"))
        for case in cases
        for late in LATE
        if late.startswith("CTA" if case.grid != 1 else "warp") and (case.grid != 1 or case.block != 32)
    ]


WAITING = [case for case in CASES if case.name.startswith(("scope_", "deadlock_"))]
PATIENT = [case for case in CLEAN if "SPIN" in case.body or "atom" in case.body or "WAIT" in case.body]


@pytest.mark.parametrize(("case", "late"), scheduled(WAITING))
def test_the_verdict_holds_under_every_schedule(case: Case, late: str) -> None:
    problem = verdict(case, case.faulty(late))
    assert not problem, problem
    case.check(run(case, case.correct(late)))


@pytest.mark.parametrize(("case", "late"), scheduled(PATIENT))
def test_correct_programs_are_clean_under_every_schedule(case: Case, late: str) -> None:
    case.check(run(case, case.correct(late)))
