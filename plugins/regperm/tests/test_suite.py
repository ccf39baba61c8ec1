"""The conformance suite, for both variants of this package."""

from tilecopy_testkit import VariantSuite


class TestRegperm(VariantSuite):
    plugin = "regperm"


class TestRegpermShfl(VariantSuite):
    plugin = "regperm_shfl"
