"""Records compare by the keys of their fields, so that symbolic integers in them are compared by structure."""

from __future__ import annotations

import attrs
import tilecopy as tc

from tilecopy_core.errors import frozen
from tilecopy_core.integers import Int, key_of


@frozen
class Extent:
    """A record with an integer that may be a symbol."""

    value: Int = attrs.field(eq=key_of)


def test_records_with_symbols_are_compared_and_hashed_by_structure() -> None:
    k = tc.KernelBuilder("sizes", threads=32)
    m, n = k.size("M"), k.size("N")
    assert Extent(m) == Extent(m) != Extent(n) and Extent(m + 1) == Extent(1 + m)
    assert len({Extent(m), Extent(n), Extent(18), Extent(m)}) == 3
