"""tma and tma_store hold what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestTma(VariantSuite):
    plugin = "tma"


class TestTmaStore(VariantSuite):
    plugin = "tma_store"
