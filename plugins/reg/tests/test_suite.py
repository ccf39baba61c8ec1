"""reg holds what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestReg(VariantSuite):
    plugin = "reg"
