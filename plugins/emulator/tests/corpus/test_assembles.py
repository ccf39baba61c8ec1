"""Every program of the corpus is PTX: ptxas takes it, unless refusing it is the point."""

from __future__ import annotations

import pytest
from tilecopy import target_of
from tilecopy.assemblers import assemble, available_assemblers
from tilecopy_test_helpers.corpus import CASES, CLEAN
from tilecopy_test_helpers.corpus.model import Case, Text

pytestmark = pytest.mark.skipif("ptxas" not in available_assemblers(), reason="no ptxas")

TARGETS = sorted({case.target for case in CASES + CLEAN})


def legal(case: Case) -> list[Text]:
    """The texts of a case that an assembler must take."""
    texts = [case.correct()]
    if case.has_fault():
        faulty = case.faulty()
        if not any("ptx" in kinds.split("|") for kinds in faulty.faults.values()):
            renamed = faulty.ptx.replace(f".entry {case.name}(", f".entry {case.name}_faulty(")
            texts.append(Text(faulty.name, renamed, faulty.faults))
    return texts


@pytest.mark.parametrize("target", TARGETS)
def test_all_programs_assemble(target: str) -> None:
    cases = [case for case in CASES + CLEAN if case.target == target and not case.module]
    texts = [text.ptx for case in cases for text in legal(case)]
    head = texts[0].partition(".visible")[0]
    module = head + "".join(text[text.index(".visible") :] for text in texts)
    assert assemble(module, target_of(target), "ptxas")[:4] == b"\x7fELF"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES + CLEAN if case.module])
def test_programs_with_module_variables_assemble(case: Case) -> None:
    for text in legal(case):
        assert assemble(text.ptx, target_of(case.target), "ptxas")[:4] == b"\x7fELF"
