"""Every broken variant of the corpus is caught."""

from __future__ import annotations

import faults
import pytest
from tilecopy_testkit import Subject
from tilecopy_testkit.suite import first_finding

BROKEN = {fault.name: getattr(faults, f"broken_{number}") for number, fault in enumerate(faults.FAULTS)}


def test_the_corpus_is_large_and_covers_every_design() -> None:
    assert len(BROKEN) == len(faults.FAULTS) >= 60
    designs = {"gmem_smem", "ldgsts", "reg", "dsmem", "tcgen05_cp", "ragged", "elementwise", "bulk_store"}
    assert {fault.base for fault in faults.FAULTS} == designs


@pytest.mark.parametrize("name", BROKEN)
def test_a_fault_is_found_and_told(name: str) -> None:
    finding = first_finding(Subject.of(BROKEN[name]), examples=60)
    assert finding is not None
    assert str(finding).startswith(f"rule: {finding.rule}\nfound: {finding.found}")
