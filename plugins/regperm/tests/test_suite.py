"""The conformance suite, for both variants of this package."""

from tilecopy_testkit import VariantSuite


class TestRegperm(VariantSuite):
    plugin = "regperm"
    examples = 40


class TestRegpermShfl(VariantSuite):
    plugin = "regperm_shfl"
    examples = 40
