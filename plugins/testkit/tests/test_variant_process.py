"""A variant's answers in other processes: what must be the same there, and a module that no process can run."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import tilecopy as tc
from tilecopy_test_helpers.many_variants import MODULE
from tilecopy_test_helpers.mentions import mentions
from tilecopy_testkit import Counterexample, VariantUnderTest
from tilecopy_testkit.checks import same_elsewhere


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> ModuleType:
    """A module of a variant, in a folder where other processes find it."""
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name)


def test_a_priority_must_not_depend_on_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = MODULE.format(name="acme_steady", priority=99)
    steady = module(tmp_path, monkeypatch, "acme_steady", text)
    assert same_elsewhere(VariantUnderTest.of(steady))
    text = MODULE.format(name="acme_moody", priority=99)
    moody = module(tmp_path, monkeypatch, "acme_moody", text.replace("Accept()", 'Accept(hash("priority") % 1000)'))
    with pytest.raises(Counterexample, match=mentions("priority")):
        same_elsewhere(VariantUnderTest.of(moody))


def test_a_module_that_another_process_cannot_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = module(tmp_path, monkeypatch, "acme_gone", MODULE.format(name="acme_gone", priority=99))
    (tmp_path / "acme_gone.py").unlink()
    with pytest.raises(tc.PluginError, match=mentions("acme_gone")):
        same_elsewhere(VariantUnderTest.of(gone))
