"""tma and tma_store hold what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestTma(VariantSuite):
    plugin = "tma"
    examples = 40


class TestTmaStore(VariantSuite):
    plugin = "tma_store"
    examples = 40
