"""Hypothesis strategies that draw test cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import tilecopy as tc
from hypothesis import assume
from hypothesis import strategies as st

from tilecopy_core.errors import short_repr

from .case_space import CaseSpace
from .copy_case import CopyCase
from .random_cases import describe
from .variant_under_test import VariantUnderTest

T = TypeVar("T")


class _Drawn:
    """A source of random choices from hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def choose(self, options: Sequence[T]) -> T:
        """Return one of the options. Shrinking prefers the first option."""
        return options[self._draw(st.integers(0, len(options) - 1))] if len(options) > 1 else options[0]


@st.composite
def cases(draw: st.DrawFn, case_space: CaseSpace) -> CopyCase:
    """Draw a test case."""
    case = describe(_Drawn(draw), case_space)
    assume(case is not None)
    assert case is not None
    return case


def requests(
    variant: Any,
    *,
    spaces: Sequence[tuple[str, str]] | None = None,
    dtypes: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
) -> st.SearchStrategy[CopyCase]:
    """Return a strategy of test cases that match a variant's record. The variant may decline some of the cases.

    Args:
        variant: a record, a module or object with the hooks, or the name of an installed variant.
        spaces: ``(source, destination)`` pairs; by default those of the record.
        dtypes: element types.
        targets: targets; by default all of the record.
    """
    if isinstance(variant, tc.Variant):
        record = variant
    else:
        try:
            record = VariantUnderTest.of(variant).record
        except tc.PluginError as error:
            raise tc.PluginError(f"requests: variant {short_repr(variant)}: {error}") from error
    return cases(CaseSpace.of(record, spaces, dtypes, targets))
