"""The kit's own parts: descriptions, the oracle, findings, widths."""

from __future__ import annotations

import pickle

import faults
import numpy as np
import pytest
import thirdparty
from hypothesis import given, settings
from tilecopy_testkit import Description, Finding, Operand, Start, Subject, Term, expected, oracle, requests, rules
from tilecopy_testkit.drawing import seeded
from tilecopy_testkit.suite import for_all
from tilecopy_testkit.widths import fits, widest

import tilecopy_core as tc

TILE = Operand("shared", (4, 8), (2, 8), (Start(1), Start(0)), ((4, 8, "m"), (8, 1, "m")), swizzle=(1, 1, 1))
ARRAY = Operand(
    "global",
    (2, 4, 8),
    (1, 2, 8),
    (Start(0, (Term("block", 1),)), Start(2), Start(0)),
    ((2, 40, "m"), (4, 8, "m"), (8, 1, "m")),
)
COPY = Description(op="copy", dtype="float32", scope="warp", threads=32, target="sm_80", dst=TILE, src=ARRAY, blocks=2)


@settings(max_examples=60, deadline=None)
@given(requests(thirdparty.elementwise))
def test_a_description_is_what_its_line_says(description: Description) -> None:
    assert Description.from_json(description.to_json()) == description
    assert description.op in str(description)


def test_the_oracle_moves_what_is_written_by_hand() -> None:
    source = np.arange(72 * 4, dtype=np.uint8).reshape(72, 4)
    before = np.full((2, 32, 4), 0xEE, np.uint8)
    after = expected(COPY, (source, before))
    for block in range(2):
        for row in range(4):
            for column in range(8):
                at = row * 8 + column
                place = at ^ (at >> 2 & 1) << 1  # the swizzle, bit by bit
                wanted = source[block * 40 + (row + 1) * 8 + column] if 1 <= row < 3 else before[block, place]
                assert np.array_equal(after[block, place], wanted), (block, row, column)


def test_brute_force_finds_what_is_known() -> None:
    """The yardstick itself: rows of 8, a start of 2, a gap."""
    rows = np.arange(64)
    assert fits([rows, rows + 8], 8) and not fits([rows, rows + 4], 8)
    assert not fits([rows, rows * 2], 2)
    assert fits([rows, np.repeat(rows[::8] * 2, 8) + rows % 8], 8)
    assert widest([[rows, rows + 2]], 32, 128, 32, (128, 64, 32)) == 64
    assert not fits([rows, rows[::-1]], 2)


def test_a_finding_reads_like_a_review() -> None:
    number = next(n for n, fault in enumerate(faults.FAULTS) if fault.name == "swizzle of the destination is forgotten")
    with pytest.raises(Finding) as caught:
        for_all(Subject.of(getattr(faults, f"broken_{number}")), rules.results_are_right, 40)
    finding = caught.value
    lines = str(finding).split("\n")
    assert lines[0] == f"rule: {rules.RESULT}" and lines[1].startswith("found: ")
    assert any(line.startswith(f"PTX line {finding.line}: st.") for line in lines)
    assert any(line.startswith("request: copy float16, scope cta(32), sm_75") for line in lines), "the smallest request"
    assert finding.description is not None and finding.description.count == 32
    again = next(line for line in lines if line.startswith("again: "))
    text = again.split("'")[1]
    assert Description.from_json(text) == finding.description
    assert str(pickle.loads(pickle.dumps(finding))) == str(finding)
    assert isinstance(finding, tc.TilecopyError) and isinstance(finding, AssertionError)


def test_the_same_seed_draws_the_same() -> None:
    ranges = Subject.of(thirdparty.bulk_store).ranges
    assert seeded(ranges, "one") == seeded(ranges, "one") != seeded(ranges, "two")


def test_swizzles_are_their_own_inverse() -> None:
    at = np.arange(1 << 10)
    assert np.array_equal(oracle.swizzled(oracle.swizzled(at, 3, 3, 3), 3, 3, 3), at)


@pytest.mark.parametrize("wrong", ["nobody", object()])
def test_what_is_no_variant_is_refused(wrong: object) -> None:
    with pytest.raises(tc.PluginError, match="nobody|no attribute 'variant'"):
        Subject.of(wrong)
