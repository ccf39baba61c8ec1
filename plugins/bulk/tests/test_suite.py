"""bulk and bulk_store hold what tilecopy-testkit demands of every variant."""

from tilecopy_testkit import VariantSuite


class TestBulk(VariantSuite):
    plugin = "bulk"


class TestBulkStore(VariantSuite):
    plugin = "bulk_store"
