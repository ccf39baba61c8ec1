"""dsmem holds what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestDsmem(VariantSuite):
    plugin = "dsmem"
    examples = 30
