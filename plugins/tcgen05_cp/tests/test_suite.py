"""tcgen05_cp holds what tilecopy-testkit demands of every variant."""

from __future__ import annotations

from tilecopy_testkit import VariantSuite


class TestTcgen05_cp(VariantSuite):
    plugin = "tcgen05_cp"
