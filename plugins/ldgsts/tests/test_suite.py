"""ldgsts holds what tilecopy-testkit demands of every variant."""

from __future__ import annotations

from tilecopy_testkit import VariantSuite


class TestLdgsts(VariantSuite):
    plugin = "ldgsts"
