"""A package that ``tilecopy new-variant`` writes holds the suite as it is, whatever it was asked for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.suites import first_counterexample
from tilecopy_testkit import VariantUnderTest
from tilecopy_testkit.command import new_variant
from tilecopy_testkit.scaffold import PLAIN, write_package

FIRST_OF_TEMPLATE = {template: pair for pair, template in reversed(PLAIN.items())}


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")  # as the suite does: drawn copies may be slow
@pytest.mark.parametrize(("op", "source", "destination"), PLAIN)
def test_a_new_variant_holds_the_suite(
    op: str, source: str, destination: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"new_{op}_{source}_{destination}"
    write_package(tmp_path / "package", name, op, source, destination)
    monkeypatch.syspath_prepend(tmp_path / "package" / "src")
    plugin = importlib.import_module(f"tilecopy_{name}")
    try:
        first = FIRST_OF_TEMPLATE[PLAIN[op, source, destination]] == (op, source, destination)
        others = () if first else ("processes",)  # two Python processes, which have the same text of the template
        counterexample = first_counterexample(VariantUnderTest.of(plugin), examples=10, without=others)
    finally:
        del sys.modules[plugin.__name__]
    assert counterexample is None, counterexample


def test_the_command_writes_and_refuses(tmp_path: Path) -> None:
    runner = CliRunner()
    folder = str(tmp_path / "mine")
    words = ["my_copy", "--op", "copy", "--from", "global", "--to", "shared", "--directory", folder]
    done = runner.invoke(new_variant, words)
    assert done.exit_code == 0, done.output
    assert 'my_copy = "tilecopy_my_copy"' in (tmp_path / "mine" / "pyproject.toml").read_text()
    assert "@" not in (tmp_path / "mine" / "tests" / "test_suite.py").read_text()
    for wrong, message in (
        (words, ()),
        (["My-Copy", *words[1:]], ("My-Copy",)),
        (["mine_", *words[1:]], ("mine_",)),
        (["gmem_smem", *words[1:]], ("gmem_smem",)),
        (["other", "--op", "copy", "--from", "tmem", "--to", "shared", "--directory", f"{folder}2"], ()),
    ):
        refused = runner.invoke(new_variant, wrong)
        assert isinstance(refused.exception, tc.RequestError) and mentions(*message).search(str(refused.exception))


@pytest.mark.parametrize(
    "name", ["core", "cli", "emulator", "testkit", "cuda", "draw", "export", "relayout", "gmem_smem", "tcgen05_cp"]
)
def test_a_name_whose_package_is_tilecopys_own_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(tc.RequestError) as error:
        write_package(tmp_path / "new", name, "copy", "global", "shared")
    assert name in str(error.value) and not (tmp_path / "new").exists()


def test_a_name_whose_package_is_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "site" / "tilecopy_mine-3.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tilecopy-mine\nVersion: 3.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[tilecopy.variants.v1]\nother = other\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    with pytest.raises(tc.RequestError) as error:
        write_package(tmp_path / "new", "mine", "copy", "global", "shared")
    assert "tilecopy-mine 3.0" in str(error.value)
