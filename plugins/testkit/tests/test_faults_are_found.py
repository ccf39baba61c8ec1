"""Every broken variant of the corpus is caught."""

from __future__ import annotations

import pytest
from tilecopy_test_helpers import broken_variants
from tilecopy_test_helpers.suites import first_counterexample
from tilecopy_testkit import VariantUnderTest

pytestmark = pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # as the suite: drawn copies may be slow
BROKEN = {
    fault.name: getattr(broken_variants, f"broken_{number}") for number, fault in enumerate(broken_variants.FAULTS)
}


DESIGNS = sorted({fault.base for fault in broken_variants.FAULTS})


def test_the_corpus_is_large_and_covers_every_design() -> None:
    assert len(BROKEN) == len(broken_variants.FAULTS) >= 130
    own = {"gmem_smem", "ldgsts", "reg", "dsmem", "tcgen05_cp", "ragged", "regperm", "regperm_shfl"}
    assert set(DESIGNS) == {*own, "elementwise", "bulk_store"}


ASSEMBLED = {"predicate declines one claimed target"}
"""Found by assembling for every target."""


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=name, marks=[pytest.mark.nvidia] if name in ASSEMBLED else [])
        for number, name in enumerate(BROKEN)
    ],
)
def test_a_fault_is_found_and_told(number: int) -> None:
    fault = broken_variants.FAULTS[number]
    subject = VariantUnderTest.of(BROKEN[fault.name], **broken_variants.ABOUT.get(fault.base, {}))
    finding = first_counterexample(subject, examples=fault.examples, only=[fault.by] if fault.by else ())
    assert finding is not None
    assert str(finding).startswith(f"rule: {finding.rule}\nfound: {finding.found}")


@pytest.mark.parametrize("name", ["elementwise", "ldgsts"])
def test_a_correct_design_is_not_flagged(name: str) -> None:
    """As the broken ones are judged. Every design holds the same by the suite of its package, or of test_third_party.py."""
    subject = VariantUnderTest.of(broken_variants.design(name), **broken_variants.ABOUT.get(name, {}))
    assert first_counterexample(subject, examples=8) is None
