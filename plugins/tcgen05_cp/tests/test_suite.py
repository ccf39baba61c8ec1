"""tcgen05_cp holds what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestTcgen05Cp(VariantSuite):
    plugin = "tcgen05_cp"
    examples = 30
