"""ldgsts holds what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestLdgsts(VariantSuite):
    plugin = "ldgsts"
    widths_bits = (128, 64, 32)
