"""bulk and bulk_store hold what tilecopy-testkit demands of every variant."""

import tilecopy_bulk.store
from tilecopy_testkit import VariantSuite

from tilecopy_core.plugin import VariantPlugin

variants: list[VariantPlugin] = [tilecopy_bulk, tilecopy_bulk.store]
"""For mypy, which compares the record and the hooks with the types of the contract."""


class TestBulk(VariantSuite):
    plugin = "bulk"


class TestBulkStore(VariantSuite):
    plugin = "bulk_store"
