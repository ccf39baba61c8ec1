"""A variant under test: what the kit finds out about an installed variant."""

from __future__ import annotations

import pytest
from tilecopy_testkit import VariantUnderTest


@pytest.mark.parametrize("name", ["gmem_smem", "ldgsts", "tma", "tcgen05_cp"])
def test_the_kit_knows_how_the_copies_of_installed_variants_complete(name: str) -> None:
    assert VariantUnderTest.of(name).completion_is_known is True
