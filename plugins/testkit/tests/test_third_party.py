"""Correct third-party variants pass the suite: nothing right is flagged."""

import thirdparty
from tilecopy_testkit import VariantSuite


class TestElementwise(VariantSuite):
    plugin = thirdparty.elementwise


class TestBulkStore(VariantSuite):
    plugin = thirdparty.bulk_store


class TestRenamed(VariantSuite):
    plugin = thirdparty.renamed
