"""What ptxas refuses of mutated texts, the emulator refuses: a few of them here, 2,000 in ``nox -s assembled``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilecopy.assemblers import available_assemblers
from tilecopy_test_helpers.mutated_texts import differences, mutants, refused_by_emulator

HERE = Path(__file__).parent
FOLDERS = [HERE / "cuda", HERE / "triton", HERE.parents[2] / "tests" / "golden"]


@pytest.mark.skipif("ptxas" not in available_assemblers(), reason="no ptxas")
def test_what_ptxas_refuses_of_mutated_texts_is_refused() -> None:
    assert differences(seed=48, count=120, folders=FOLDERS) == []


def test_mutated_texts_are_read_or_refused_with_an_error_of_ours() -> None:
    refused = [refused_by_emulator(text) for _, text in mutants(seed=49, count=200, folders=FOLDERS)]
    assert any(refused) and not all(refused)
