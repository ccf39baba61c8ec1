"""The aliasing test, against the bytes themselves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilecopy.overlap import StridedMemory, overlaps, overlaps_itself


def touched(array: StridedMemory) -> list[int]:
    """Every byte of every element."""
    return [
        array.start + sum(x * s for x, s in zip(place, array.strides_bytes, strict=True)) + byte
        for place in product(*map(range, array.shape))
        for byte in range(array.itemsize)
    ]


@st.composite
def footprints(draw: st.DrawFn) -> StridedMemory:
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=rank, max_size=rank)))
    strides = tuple(draw(st.lists(st.integers(-12, 12), min_size=rank, max_size=rank)))
    return StridedMemory(draw(st.integers(1000, 1060)), shape, strides, draw(st.sampled_from([1, 2, 4, 3])))


@given(footprints(), footprints())
def test_two_arrays_overlap_where_they_share_a_byte(one: StridedMemory, other: StridedMemory) -> None:
    assert overlaps(one, other) == bool(set(touched(one)) & set(touched(other)))


@given(footprints())
def test_an_array_overlaps_itself_where_two_elements_share_a_byte(array: StridedMemory) -> None:
    places = touched(array)
    assert overlaps_itself(array) == (len(set(places)) < len(places))


def of(array: np.ndarray) -> StridedMemory:
    return StridedMemory(array.ctypes.data, array.shape, array.strides, array.itemsize)


def test_views_of_one_array() -> None:
    a = np.zeros((1 << 12, 1 << 12), np.float32)
    assert not overlaps(of(a[::2]), of(a[1::2])) and not overlaps(of(a[:, 1::3]), of(a[:, ::3]))
    assert not overlaps(of(a[:, :100]), of(a.T[100:, ::-1])) and overlaps(of(a[:, :101]), of(a.T[100:, ::-1]))
    assert overlaps(of(a), of(a.T)) and not overlaps_itself(of(a.T[::-3, 5:]))
    assert overlaps_itself(of(np.lib.stride_tricks.sliding_window_view(a[0], 5)))
    assert overlaps_itself(of(np.broadcast_to(a[0], (2, 1 << 12))))


def test_interleaved_dimensions_are_told_from_overlapping_ones() -> None:
    assert not overlaps_itself(StridedMemory(0, (2, 3), (3 * 4, 2 * 4), 4))  # 0 2 4, 3 5 7
    assert overlaps_itself(StridedMemory(0, (3, 4), (3 * 4, 2 * 4), 4))  # 6 twice


@pytest.mark.parametrize("rank", [3, 8])
def test_a_hard_case_ends_in_a_refusal_or_an_answer(rank: int) -> None:
    strides = tuple(2 * (10**9 + 7 * 3**k) for k in range(rank))
    one = StridedMemory(0, (1000,) * rank, strides, 1)
    assert overlaps(one, attrs_moved(one, 2 * 10**9 * rank * 3 + 1)) is False  # an odd distance, even strides
    assert isinstance(overlaps(one, attrs_moved(one, 2 * 10**9 * rank * 3)), bool)


def attrs_moved(array: StridedMemory, by: int) -> StridedMemory:
    return StridedMemory(array.start + by, array.shape, array.strides_bytes, array.itemsize)


def test_every_small_array_with_itself() -> None:
    for shape in product((1, 2, 4), (1, 2, 3)):
        for strides in product((-5, 0, 1, 2, 3, 4, 6, 7), (-2, 1, 2, 3, 5)):
            for itemsize in (1, 2, 3, 4):
                array = StridedMemory(100, shape, strides, itemsize)
                places = touched(array)
                assert overlaps_itself(array) == (len(set(places)) < len(places)), array


@pytest.mark.parametrize("strides", [(5, 3), (7, 3), (9, 5), (10, 6), (12, 7), (6, 4, 15)])
def test_every_byte_of_an_array_with_gaps(strides: tuple[int, ...]) -> None:
    array = StridedMemory(0, (4,) * len(strides), strides, 1)
    places = set(touched(array))
    for start in range(-2, max(places) + 3):
        assert overlaps(array, StridedMemory(start, (), (), 1)) == (start in places), start
        assert overlaps(StridedMemory(start, (2,), (-8,), 2), array) == bool(
            places & {start, start + 1, start - 8, start - 7}
        )
        assert overlaps(array, StridedMemory(start, (), (), 2)) == bool(places & {start, start + 1})
