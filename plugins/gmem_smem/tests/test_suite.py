"""gmem_smem holds what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestGmemSmem(VariantSuite):
    plugin = "gmem_smem"
