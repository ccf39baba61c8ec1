"""Check packages and wheels before a release, and print their faults: `python tests/tools/release.py [PACKAGE ...] [WHEEL ...]`.

``--oldest-core PACKAGE`` prints the oldest released core that the package supports. ``--requirements`` prints the dependencies of the
packages and their tests, one per line. A package is a folder of plugins/, or ``core``. docs/releasing.md has the steps of a release.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
CORE = "tilecopy-core"
LICENCE = "Apache-2.0"
CLASSIFIERS = {"Programming Language :: Python :: 3", "Typing :: Typed"} | {
    f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)
}
ENTRY = re.compile(r"^## (\S+) - (?:unreleased|\d{4}-\d\d-\d\d)$", re.M)
"""The head of a changelog's entry."""
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https://|#)([^)]*)\)")
"""A link that leads nowhere on the page of a package index, which has the README and no file beside it; of a picture it shows the words."""


@attrs.frozen
class Package:
    """A package of the tree.

    Attributes:
        folder: where its pyproject.toml is.
        project: the table of that name.
        source: the importable package.
    """

    folder: Path
    project: dict[str, Any]
    source: Path

    @property
    def name(self) -> str:
        """Of the distribution."""
        return str(self.project["name"])

    @property
    def version(self) -> str:
        """As declared."""
        return str(self.project["version"])

    @property
    def requirements(self) -> list[Requirement]:
        """Of itself and its extras."""
        extras = self.project.get("optional-dependencies", {}).values()
        return [Requirement(text) for text in [*self.project.get("dependencies", ()), *(t for e in extras for t in e)]]


def package_in(folder: Path) -> Package:
    """The package of a folder: its module is under src, or beside the pyproject.toml."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    module = str(project["name"]).replace("-", "_")
    return Package(folder, project, folder / "src" / module if (folder / "src").exists() else folder / module)


def packages(root: Path = ROOT) -> dict[str, Package]:
    """The packages of a tree, the core first."""
    folders = sorted(path.parent for path in root.glob("plugins/*/pyproject.toml"))
    return {"core": package_in(root)} | {folder.name: package_in(folder) for folder in folders}


def examples(root: Path = ROOT) -> dict[str, Package]:
    """The packages of docs/examples: downstreams, which do not go out."""
    folders = sorted(path.parent for path in root.glob("docs/examples/*/pyproject.toml"))
    return {folder.name: package_in(folder) for folder in folders}


def claimed(package: Package) -> SpecifierSet:
    """The cores that a package says it works with."""
    found = SpecifierSet()
    for requirement in package.requirements:
        if requirement.name == CORE:
            found &= requirement.specifier
    return found


def oldest_core(package: Package, released: Iterable[str], present: str) -> str:
    """The oldest released core that a package claims; ``present``, the version of the tree, where none is released."""
    return min((each for each in released if each in claimed(package)), key=Version, default=present)


def released_cores(root: Path = ROOT) -> list[str]:
    """The versions of the core that have a tag, ``tilecopy-core-X.Y.Z``."""
    tags = subprocess.run(
        ["git", "tag", "--list", f"{CORE}-*"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    return [tag.removeprefix(f"{CORE}-") for tag in tags.split()]


def of_others(tree: dict[str, Package], root: Path = ROOT) -> list[Requirement]:
    """What the packages of a tree require of others, extras too, and what their tests alone require."""
    ours = {each.name for each in tree.values()}
    found = {each for package in tree.values() for each in package.requirements if each.name not in ours}
    group = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]["test"]
    found |= {each for each in map(Requirement, group) if each.name not in ours | {other.name for other in found}}
    return sorted(found, key=str)


def bounds_faults(package: Package, known: Iterable[Package]) -> Iterator[str]:
    """Requirements of packages of the tree that this tree does not meet, or that have no bounds.

    The core's own extras have no upper bounds: a plugin bounds the core, and the core must not bound it in turn.
    """
    versions = {each.name: each.version for each in known}
    for requirement in package.requirements:
        name, bounds = requirement.name, str(requirement.specifier)
        if name not in versions:
            continue
        if versions[name] not in requirement.specifier:
            yield f"it requires {requirement}, and the tree has {name} {versions[name]}"
        if bounds and package.name != CORE and not (">=" in bounds and "<" in bounds):
            yield f"it requires {requirement}: write {name}>=X,<Y"
    if package.name != CORE and not claimed(package):
        yield f"it requires no {CORE}>=X,<Y"


def private_imports(package: Package) -> Iterator[str]:
    """Names with an underscore that a package imports from another of ours."""
    for path in sorted(package.source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            module = (node.module or "") if isinstance(node, ast.ImportFrom) and not node.level else ""
            for name in [f"{module}.{each}" if module else each for each in names]:
                parts = name.split(".")
                private = [part for part in parts if part.startswith("_") and not part.startswith("__")]
                if parts[0].startswith("tilecopy") and parts[0] != package.source.name and private:
                    yield f"{path.relative_to(package.folder)}:{node.lineno}: a private import: {name}"


def faults(package: Package, tree: dict[str, Package]) -> list[str]:
    """What is wrong with a package of a tree."""
    found, core = [], tree["core"]
    log = package.folder / "CHANGELOG.md"
    entry = ENTRY.search(log.read_text()) if log.exists() else None
    if entry is None:
        found.append(f"CHANGELOG.md has no entry '## {package.version} - unreleased' (or a date for unreleased)")
    elif entry[1] != package.version:
        found.append(f"its version is {package.version}, the top entry of CHANGELOG.md {entry[1]}")
    for said in package.source.rglob("version.py"):
        if f'"{package.version}"' not in said.read_text():
            found.append(f"its version is {package.version}, which {said.name} does not say")
    if package.project.get("requires-python") != core.project["requires-python"]:
        found.append(f"requires-python is {package.project.get('requires-python')}, the core's differs")
    if package.project.get("license") != LICENCE or not (package.folder / "LICENSE").exists():
        found.append(f"its licence is not {LICENCE}, or it has no file LICENSE")
    if missing := sorted(CLASSIFIERS - set(package.project.get("classifiers", ()))):
        found.append(f"classifiers lack {', '.join(missing)}")
    if not (package.folder / "README.md").exists() or package.project.get("readme") != "README.md":
        found.append("it has no README.md, or does not declare it")
    elif links := LINK.findall((package.folder / "README.md").read_text()):
        found.append(f"README.md has links that lead nowhere on a package index: {', '.join(links)}")
    if package.project.get("urls") != core.project.get("urls"):
        found.append("its urls are not the core's")
    if not (package.source / "py.typed").exists():
        found.append(f"{package.source.name} has no py.typed")
    return [*found, *bounds_faults(package, tree.values()), *private_imports(package)]


def wheel_faults(wheel: Path) -> list[str]:
    """What a wheel lacks."""
    names = zipfile.ZipFile(wheel).namelist()
    module, version, *_ = wheel.name.split("-")
    wanted = (f"{module}/__init__.py", f"{module}/py.typed", f"{module}-{version}.dist-info/licenses/LICENSE")
    return [f"it lacks {name}" for name in wanted if name not in names]


def main(words: list[str]) -> None:
    """Look at packages of the tree (all, or those that are named) and at wheels."""
    tree = packages()
    if words[:1] == ["--oldest-core"]:
        print(oldest_core(tree[words[1]], released_cores(), tree["core"].version))
        return
    if words == ["--requirements"]:
        print(*of_others(tree), sep="\n")
        return
    chosen = [word for word in words if not word.endswith(".whl")] or ([] if words else list(tree))
    if unknown := sorted(set(chosen) - set(tree)):
        sys.exit(f"no package is named {', '.join(unknown)}; there are {', '.join(tree)}")
    found = [f"{tree[name].name}: {fault}" for name in chosen for fault in faults(tree[name], tree)]
    if not words:
        found += [
            f"{each.name}: {fault}" for each in examples().values() for fault in bounds_faults(each, tree.values())
        ]
    for path in (Path(word) for word in words if word.endswith(".whl")):
        found += [f"{path.name}: {fault}" for fault in wheel_faults(path)]
    if found:
        sys.exit("\n".join(found))
    print(f"{', '.join(words) or ', '.join(tree)}: nothing to say against")


if __name__ == "__main__":
    main(sys.argv[1:])
