"""What variants choose from: orders of iters, tensor-memory addresses, the room of a region."""

from __future__ import annotations

import pytest
import tilecopy as tc
from tilecopy_test_helpers.fuzz_objects import TARGET
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.plugin import Iter, PtxBuilder
from tilecopy_partitions import orders_of, tcgen05


def strides(orders: list[list[tuple[Iter, ...]]]) -> list[list[int]]:
    """The first side's strides of each order."""
    return [[int(pair[0].stride) for pair in order] for order in orders]


def test_broadcasts_of_the_first_side_are_also_tried_first() -> None:
    """A broadcast between contiguous iters may hide that they are one run."""
    rows, copies = (Iter(8, 2), Iter(8, 64)), (Iter(4, 0), Iter(4, 8))
    assert strides(orders_of([rows, copies])) == [[2, 0], [0, 2]]
    assert strides(orders_of([rows, (Iter(4, 1), Iter(4, 0))])) == [[2, 1]]
    assert len(orders_of([rows, (Iter(1, 0), Iter(1, 0))])) == 1


def test_a_column_of_tensor_memory_is_one_of_512() -> None:
    ptx = PtxBuilder(tc.target_of(TARGET), 64)
    base = ptx.reg("b32")
    assert tcgen05.plus_columns(ptx, base, 0) is base
    assert tcgen05.plus_columns(ptx, base, 511) is not base
    for column in (-1, 512):
        with pytest.raises(tc.PtxError, match=mentions(column)):
            tcgen05.plus_columns(ptx, base, column)


def test_what_a_kernel_has_once_is_written_for_the_first_copy() -> None:
    ptx = PtxBuilder(tc.target_of(TARGET), 64)
    written: list[PtxBuilder] = []
    for key in ("map", "map", "other"):
        ptx.once(key, written.append)
    assert written == [ptx, ptx]


def test_a_region_has_room_along_its_own_dimensions() -> None:
    region = tc.Buffer((8, 16), "float16", space="global", name="A")[2:4, 8:16]
    assert [int(region.room(dim)) for dim in (0, 1)] == [4, 0]
