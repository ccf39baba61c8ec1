"""Both variants hold what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestTcgen05Ld(VariantSuite):
    plugin = "tcgen05_ld"
    examples = 24


class TestTcgen05St(VariantSuite):
    plugin = "tcgen05_st"
    examples = 24
