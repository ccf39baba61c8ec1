"""Parameters of a launch that a function computes: sizes and alignments that a record accepts."""

from __future__ import annotations

import operator

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions

from tilecopy_partitions import HostBytes


@pytest.mark.parametrize("align_bytes", [1, 2, 4, 8, 16, 32, 64, 128])
def test_an_alignment_is_a_power_of_two_up_to_128(align_bytes: int) -> None:
    assert HostBytes(operator.add, align_bytes=align_bytes).align_bytes == align_bytes


@pytest.mark.parametrize("align_bytes", [0, 3, 127, 256])
def test_another_alignment_is_refused(align_bytes: int) -> None:
    with pytest.raises(tc.PtxError, match=mentions("align_bytes", align_bytes)):
        HostBytes(operator.add, align_bytes=align_bytes)


@pytest.mark.parametrize(("size_bytes", "valid"), [(0, False), (1, True), (4096, True), (4097, False)])
def test_a_parameter_has_up_to_4096_bytes(size_bytes: int, *, valid: bool) -> None:
    if valid:
        assert HostBytes(operator.add, size_bytes=size_bytes).size_bytes == size_bytes
    else:
        with pytest.raises(tc.PtxError, match=mentions("size_bytes", size_bytes)):
            HostBytes(operator.add, size_bytes=size_bytes)
