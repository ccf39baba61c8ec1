"""ragged and ragged_async hold what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestRagged(VariantSuite):
    plugin = "ragged"


class TestRaggedAsync(VariantSuite):
    plugin = "ragged_async"
