"""ragged and ragged_async hold what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestRagged(VariantSuite):
    plugin = "ragged"
    expected_narrow = {"fragments are moved element by element": lambda description: "local" in description.spaces}


class TestRaggedAsync(VariantSuite):
    plugin = "ragged_async"
