"""docs/plugins.md against the code: every public name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tilecopy_testkit import VariantSuite

from tilecopy_core import plugin
from tilecopy_core.registry.hookspecs import HOOKS, VARIANTS_GROUP

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the repository's docs are not here")
def test_the_page_names_everything_that_a_variant_may_import() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.split("## Every name")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", table.split("|---|---|")[1].split("\n\n")[0]))
    assert set(plugin.__all__) <= named
    assert VARIANTS_GROUP in text and all(hook in text for hook in HOOKS)
    suite = text.split("## The suite")[1].split("\n## ")[0]
    for name in VariantSuite.__annotations__:
        assert f"`{name}`" in suite or f"{name} =" in suite
    tests = [name for name in vars(VariantSuite) if name.startswith("test_")]
    assert suite.count("\n| ") - suite.count("\n| attribute") - suite.count("\n| test") >= len(tests)
