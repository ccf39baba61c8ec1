"""What an H200 did with ldmatrix, stmatrix and mma.sync, recorded by tests/tools/record_vectors.py, is what the emulator does."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tilecopy_test_helpers.mentions import mentions
from tilecopy_testkit import Counterexample
from tilecopy_testkit.vectors import recorded_vectors

VECTORS = recorded_vectors(Path(__file__).parent / "vectors_sm_90.json")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_the_gpu_did_the_same(vector):
    vector.replay()


def test_another_result_is_a_finding():
    vector = VECTORS[0]
    *others, last = vector.after
    other = bytes([last[0] ^ 1]) + last[1:]
    with pytest.raises(Counterexample, match=mentions(1)):
        attrs.evolve(vector, after=(*others, other)).replay()
