"""A package that ``tilecopy new-variant`` writes holds the suite as it is, whatever it was asked for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_testkit import Subject
from tilecopy_testkit.command import new_variant
from tilecopy_testkit.scaffold import PLAIN, write_package
from tilecopy_testkit.suite import first_finding


@pytest.mark.parametrize(("op", "source", "destination"), PLAIN)
def test_a_new_variant_holds_the_suite(
    op: str, source: str, destination: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"new_{op}_{source}_{destination}"
    write_package(tmp_path / "package", name, op, source, destination)
    monkeypatch.syspath_prepend(tmp_path / "package" / "src")
    plugin = importlib.import_module(f"tilecopy_{name}")
    try:
        finding = first_finding(Subject.of(plugin), examples=25)
    finally:
        del sys.modules[plugin.__name__]
    assert finding is None, finding


def test_the_command_writes_and_refuses(tmp_path: Path) -> None:
    runner = CliRunner()
    folder = str(tmp_path / "mine")
    words = ["my_copy", "--op", "copy", "--from", "global", "--to", "shared", "--directory", folder]
    done = runner.invoke(new_variant, words)
    assert done.exit_code == 0, done.output
    assert 'my_copy = "tilecopy_my_copy"' in (tmp_path / "mine" / "pyproject.toml").read_text()
    assert "@" not in (tmp_path / "mine" / "tests" / "test_suite.py").read_text()
    for wrong, message in (
        (words, "not empty"),
        (["My-Copy", *words[1:]], "is not a name"),
        (["mine_", *words[1:]], "is not a name"),
        (["gmem_smem", *words[1:]], "'gmem_smem' is a variant of tilecopy-gmem-smem"),
        (["other", "--op", "copy", "--from", "tmem", "--to", "shared", "--directory", f"{folder}2"], "no plain case"),
    ):
        refused = runner.invoke(new_variant, wrong)
        assert isinstance(refused.exception, tc.RequestError) and message in str(refused.exception)
