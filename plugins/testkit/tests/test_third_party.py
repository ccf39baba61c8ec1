"""Correct third-party variants pass the suite: nothing right is flagged."""

from tilecopy_test_helpers import third_party_variants
from tilecopy_testkit import VariantSuite


class TestElementwise(VariantSuite):
    plugin = third_party_variants.elementwise
    examples = 20


class TestBulkStore(VariantSuite):
    plugin = third_party_variants.bulk_store
    examples = 20


class TestRenamed(VariantSuite):
    plugin = third_party_variants.renamed
    examples = 20
