"""ldmatrix and stmatrix hold what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestLdmatrix(VariantSuite):
    plugin = "ldmatrix"


class TestStmatrix(VariantSuite):
    plugin = "stmatrix"
