"""Names and fields of 0.1 that were renamed or moved: the error says what to write."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core import plugin
from tilecopy_core.registry.renamed import RENAMED

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", [name for name in RENAMED if name.isidentifier()])
def test_a_name_of_0_1_says_what_to_write(name: str) -> None:
    assert name not in plugin.__all__
    with pytest.raises(ImportError, match=mentions(name, RENAMED[name])):
        exec(f"from tilecopy_core.plugin import {name}")
    page = (ROOT / "docs" / "from_0_1_to_0_2.md").read_text()
    assert f"`{name}`" in page
    module, _, attribute = RENAMED[name].split(",")[0].split()[-1].rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


def test_a_name_that_never_was_is_an_attribute_error() -> None:
    assert not hasattr(plugin, "synthesise")


def test_asking_whether_the_contract_has_a_name_of_0_1_is_an_answer() -> None:
    assert not hasattr(plugin, "synthesize") and getattr(plugin, "synthesize", None) is None
    with pytest.raises(AttributeError, match=mentions("synthesize", RENAMED["synthesize"])):
        plugin.synthesize


@pytest.mark.parametrize("field", [name for name in RENAMED if not name.isidentifier()])
def test_a_field_of_0_1_says_what_to_write(field: str) -> None:
    with pytest.raises(TypeError, match=mentions(field.rstrip("="), RENAMED[field])):
        tc.Variant("acme", "copy", 1, "a test", (("global", "shared"),), **{field.rstrip("="): 90})
