"""The checks of a release find what is wrong with a package."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import release

ROOT = release.ROOT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The core's metadata and one plugin, whole."""
    for path in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "tilecopy_core/registry/version.py",
        "tilecopy_core/py.typed",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    shutil.copytree(ROOT / "plugins" / "reg", tmp_path / "plugins" / "reg")
    return tmp_path


def found(tree: Path, name: str = "reg") -> list[str]:
    packages = release.packages(tree)
    return release.faults(packages[name], packages)


def replaced(path: str, old: str, new: str) -> Callable[[Path], None]:
    def act(tree: Path) -> None:
        text = (tree / path).read_text()
        assert old in text
        (tree / path).write_text(text.replace(old, new))

    return act


def removed(path: str) -> Callable[[Path], None]:
    return lambda tree: (tree / path).unlink()


REG = "plugins/reg/pyproject.toml"
SOURCE = "plugins/reg/src/tilecopy_reg"


def test_a_whole_package_has_no_fault(tree: Path) -> None:
    assert found(tree) == [] == found(tree, "core")


@pytest.mark.parametrize(
    ("act", "name", "fault"),
    [
        (removed("plugins/reg/CHANGELOG.md"), "reg", "CHANGELOG.md has no entry '## 0.2.0 - unreleased'"),
        (replaced(REG, 'version = "0.2.0"', 'version = "0.2.1"'), "reg", "0.2.1, the top entry of CHANGELOG.md 0.2.0"),
        (
            replaced("tilecopy_core/registry/version.py", "0.2.0", "0.2.1"),
            "core",
            "its version is 0.2.0, which version.py does not",
        ),
        (replaced(REG, ">=3.11", ">=3.12"), "reg", "requires-python is >=3.12, the core's differs"),
        (replaced(REG, 'license = "Apache-2.0"', 'license = "MIT"'), "reg", "its licence is not Apache-2.0"),
        (removed("plugins/reg/LICENSE"), "reg", "has no file LICENSE"),
        (replaced(REG, '    "Typing :: Typed",\n', ""), "reg", "classifiers lack Typing :: Typed"),
        (removed("plugins/reg/README.md"), "reg", "it has no README.md"),
        (
            replaced("plugins/reg/README.md", "copies between", "[copies](../x.md) between"),
            "reg",
            "on a package index: ../x.md",
        ),
        (
            replaced(REG, "[project.optional", '[project.urls]\nHomepage = "https://a"\n\n[project.optional'),
            "reg",
            "its urls are not the core's",
        ),
        (removed(f"{SOURCE}/py.typed"), "reg", "tilecopy_reg has no py.typed"),
        (replaced(REG, "core>=0.2,<0.3", "core>=0.3,<0.4"), "reg", "and the tree has tilecopy-core 0.2.0"),
        (replaced(REG, "core>=0.2,<0.3", "core>=0.1"), "reg", "write tilecopy-core>=X,<Y"),
        (replaced(REG, '"tilecopy-core>=0.2,<0.3"', '"attrs"'), "reg", "it requires no tilecopy-core>=X,<Y"),
        (
            replaced(
                f"{SOURCE}/__init__.py",
                "from __future__ import annotations\n",
                "from tilecopy_core.plugin import _door\n",
            ),
            "reg",
            "a private import: tilecopy_core.plugin._door",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(act: Callable[[Path], None], name: str, fault: str, tree: Path) -> None:
    act(tree)
    assert any(fault in each for each in found(tree, name)), found(tree, name)


def test_the_oldest_core_that_a_package_claims(tree: Path) -> None:
    package = release.packages(tree)["reg"]
    assert release.oldest_core(package, [], "0.2.4") == "0.2.4", "none is released: the tree itself"
    assert release.oldest_core(package, ["0.2.10", "0.2.2", "0.1.9", "0.3.0"], "0.2.11") == "0.2.2"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["tag", "tilecopy-core-0.1.2"],
        ["tag", "v1"],
    ):
        subprocess.run([*git, *words], cwd=tree, check=True)
    assert release.released_cores(tree) == ["0.1.2"]


def test_a_wheel_that_lacks_what_installers_need(tmp_path: Path) -> None:
    wheel = tmp_path / "tilecopy_reg-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tilecopy_reg/__init__.py", "")
    assert release.wheel_faults(wheel) == [
        "it lacks tilecopy_reg/py.typed",
        "it lacks tilecopy_reg-0.2.0.dist-info/licenses/LICENSE",
    ]


def test_every_package_of_the_examples_is_a_downstream_that_fits() -> None:
    tree = release.packages()
    assert "tilecopy_observe" in release.examples()
    for package in release.examples().values():
        assert list(release.bounds_faults(package, tree.values())) == []
