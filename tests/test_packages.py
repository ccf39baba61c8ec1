"""What the packages declare, held against each other and against the code."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest
import release

from tilecopy_core.known import KNOWN_EXECUTORS, KNOWN_VARIANTS
from tilecopy_core.registry import VARIANTS_GROUP, default_registry
from tilecopy_core.running import EXECUTORS_GROUP

ROOT = Path(__file__).parent.parent
TESTKIT = "tilecopy-testkit"
PROJECTS = {
    path.parent: tomllib.loads(path.read_text())["project"]
    for path in [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]
}


def test_the_table_of_known_variants_is_what_the_plugins_declare() -> None:
    declared = {
        name: project["name"]
        for project in PROJECTS.values()
        for name in project.get("entry-points", {}).get(VARIANTS_GROUP, {})
    }
    assert declared == {name: known.package for name, known in KNOWN_VARIANTS.items()}
    records = {plugin.name: plugin.variant for plugin in default_registry().plugins() if plugin.variant}
    for name, known in KNOWN_VARIANTS.items():
        assert (records[name].op, set(records[name].spaces)) == (known.op, set(known.spaces))
        assert {option.name for option in records[name].options} == set(known.options)
        assert records[name].edges == known.edges


def test_the_table_of_known_executors_is_what_the_packages_declare() -> None:
    declared = {
        name: project["name"]
        for project in PROJECTS.values()
        for name in project.get("entry-points", {}).get(EXECUTORS_GROUP, {})
    }
    assert declared == KNOWN_EXECUTORS


def test_every_variant_runs_the_suite_from_its_own_folder() -> None:
    for folder, project in PROJECTS.items():
        names = project.get("entry-points", {}).get(VARIANTS_GROUP, {})
        if names:
            assert f"{TESTKIT}>=0.1,<0.2" in project["optional-dependencies"]["test"]
            text = (folder / "tests" / "test_suite.py").read_text()
            assert all(f'plugin = "{name}"' in text for name in names), folder


def test_the_core_keeps_to_its_four_dependencies() -> None:
    names = {dependency.split(">")[0].split("[")[0].strip() for dependency in PROJECTS[ROOT]["dependencies"]}
    assert names == {"attrs", "cuda-python", "msgspec", "numpy", "pluggy"}


def test_the_extra_all_brings_every_plugin_but_numba_s_and_the_testkit() -> None:
    """Numba is a large dependency that brings its own bounds on NumPy; the testkit is for authors of variants."""
    extras = dict(PROJECTS[ROOT]["optional-dependencies"])
    brought = {entry.split(">")[0] for entry in extras.pop("all")}
    assert {project["name"] for folder, project in PROJECTS.items() if folder != ROOT} - {
        "tilecopy-numba",
        TESTKIT,
    } <= brought
    assert f"tilecopy-core[{','.join(sorted(extras))}]" in brought


@pytest.mark.parametrize("name", release.packages())
def test_a_package_could_go_out(name: str) -> None:
    """What `nox -s release` checks of the tree: versions, bounds, changelogs, licences, types, private imports."""
    tree = release.packages()
    assert release.faults(tree[name], tree) == []


@pytest.mark.parametrize("folder", [folder for folder in PROJECTS if folder != ROOT], ids=lambda folder: folder.name)
def test_a_plugin_stands_on_the_core_alone(folder: Path) -> None:
    project = PROJECTS[folder]
    assert (folder / "tests").exists()
    needed = [d for d in project["dependencies"] if d.startswith("tilecopy-") and not d.startswith("tilecopy-core")]
    if project["name"] == TESTKIT:
        assert needed == ["tilecopy-emulator>=0.1,<0.2"]
    else:  # relayout is the one that is made of variants
        assert not needed or folder.name == "relayout"
    package = next((folder / "src").iterdir())
    for path in package.rglob("*.py"):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]) and words[1].startswith("tilecopy_"):
                others = ("tilecopy_emulator",) if project["name"] == TESTKIT else ()
                if path.stem == "instructions":  # loaded by the emulator alone
                    others = ("tilecopy_emulator.extending",)
                assert words[1].startswith(("tilecopy_core", package.name, *others)), f"{path}: {line}"


def test_top_level_holds_only_what_the_design_names() -> None:
    allowed = {
        "pyproject.toml",
        "README.md",
        "tilecopy_core",
        "plugins",
        "tests",
        "docs",
        "noxfile.py",
        "LICENSE",
        "CHANGELOG.md",
        "uv.lock",
    }
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - {"dist", "build"} <= allowed


@pytest.mark.parametrize("folder", [folder for folder in PROJECTS if folder != ROOT], ids=lambda folder: folder.name)
def test_first_party_variants_import_what_third_parties_do(folder: Path) -> None:
    """A variant's modules know the core by ``tilecopy_core.plugin`` alone (and itself, for the type checkers)."""
    if VARIANTS_GROUP not in PROJECTS[folder].get("entry-points", {}):
        pytest.skip(f"{folder.name} is no variant")
    for module in (folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [n for n in names if n.startswith("tilecopy_core") and n != "tilecopy_core.plugin"], module


PUBLIC = {
    name: importlib.import_module(name)
    for name in (
        "tilecopy_core",
        "tilecopy_core.assemblers",
        "tilecopy_core.command",
        "tilecopy_core.executors",
        "tilecopy_core.export",
        "tilecopy_core.instructions",
        "tilecopy_core.plugin",
        "tilecopy_core.registry",
    )
}
"""The modules of the core that packages import from, by who imports them: docs/reference.md says which is whose."""


@pytest.mark.parametrize("folder", [folder for folder in PROJECTS if folder != ROOT], ids=lambda folder: folder.name)
def test_packages_import_public_names(folder: Path) -> None:
    """From the public modules, what these list; from no other module of the core."""
    for module in (folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                inner = [alias.name for alias in node.names if alias.name.startswith("tilecopy_core.")]
                assert not inner, f"{module}: import {inner}"
            elif (
                isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("tilecopy_core")
            ):
                assert node.module in PUBLIC, f"{module}: {node.module} is not public"
                listed = {*PUBLIC[node.module].__all__, *(["plugin"] if node.module == "tilecopy_core" else [])}
                unlisted = {alias.name for alias in node.names} - listed
                assert not unlisted, f"{module}: {node.module} does not list {unlisted}"


@pytest.mark.parametrize("name", PUBLIC)
def test_public_modules_have_what_they_list(name: str) -> None:
    """Each once; what is imported later too."""
    listed = PUBLIC[name].__all__
    assert len(set(listed)) == len(listed)
    assert not [each for each in listed if not hasattr(PUBLIC[name], each)]
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert not [each for each in listed if each != "__version__" and not re.search(rf"\b{each}\b", pages)]


def test_imports_of_the_core_have_no_circle() -> None:
    """Over every import statement of the core, those inside functions and of type checkers included."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "tilecopy_core").rglob("*.py")
    }
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, *([node.module] if node.module else [])])
                for alias in node.names:
                    target = f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base
                    if target in modules and target != name:
                        edges[name].add(target)
    while True:
        leaves = {name for name, found in edges.items() if not found}
        if not leaves:
            break
        edges = {name: found - leaves for name, found in edges.items() if name not in leaves}
    assert not edges, edges
