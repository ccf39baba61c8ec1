"""What the packages declare, held against each other and against the code."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
import release
import tilecopy as tc
from tilecopy.catalog import KNOWN_COMMANDS, KNOWN_EXECUTORS
from tilecopy.executor_registry import EXECUTORS_GROUP
from tilecopy_cli.group import COMMANDS_GROUP
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.description.request import Option
from tilecopy_core.description.target import FEATURES
from tilecopy_core.registry import (
    VARIANTS_GROUP,
    PluginWarning,
    default_registry,
    known_variants,
)
from tilecopy_partitions.catalog import KNOWN_VARIANTS, install_line

ROOT = Path(__file__).parents[2]
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
        assert records[name].edges == known.edges


def test_mypy_compares_every_variant_with_the_contract() -> None:
    listed = runpy.run_path(str(ROOT / "tests" / "typing" / "variants.py"))["VARIANTS"]
    assert sorted(plugin.variant.name for plugin in listed) == sorted(KNOWN_VARIANTS)


def test_the_table_of_known_executors_is_what_the_packages_declare() -> None:
    declared = {
        name: project["name"]
        for project in PROJECTS.values()
        for name in project.get("entry-points", {}).get(EXECUTORS_GROUP, {})
    }
    assert declared == KNOWN_EXECUTORS


def test_the_table_of_known_commands_is_what_the_packages_declare() -> None:
    groups = [(project["name"], project.get("entry-points", {})) for project in PROJECTS.values()]
    assert {command: name for name, points in groups for command in points.get(COMMANDS_GROUP, {})} == KNOWN_COMMANDS


def test_every_variant_runs_the_suite_from_its_own_folder() -> None:
    for folder, project in PROJECTS.items():
        names = project.get("entry-points", {}).get(VARIANTS_GROUP, {})
        if names:
            assert f"{TESTKIT}>=0.2,<0.3" in project["optional-dependencies"]["test"]
            text = (folder / "tests" / "test_suite.py").read_text()
            assert all(f'plugin = "{name}"' in text for name in names), folder


def test_what_to_install_is_a_folder_of_the_checkout() -> None:
    assert dict(known_variants()) == KNOWN_VARIANTS
    folders = {project["name"]: folder for folder, project in PROJECTS.items()}
    for package in {*KNOWN_EXECUTORS.values(), *(known.package for known in KNOWN_VARIANTS.values())}:
        where = folders[package].relative_to(ROOT)
        assert install_line(package) == f"install {package} (from a checkout: pip install {where})"


def test_the_core_keeps_to_its_three_dependencies() -> None:
    names = {dependency.split(">")[0].split("[")[0].strip() for dependency in PROJECTS[ROOT]["dependencies"]}
    assert names == {"attrs", "numpy", "pluggy"}


def test_a_distribution_has_one_floor_in_all_packages() -> None:
    """So that `nox -s floor` tests every one in one environment."""
    floors: dict[str, set[str]] = {}
    for requirement in release.of_others(release.packages()):
        lowest = [str(each) for each in requirement.specifier if each.operator not in ("<", "<=", "!=")]
        floors.setdefault(requirement.name, set()).add(",".join(lowest))
    assert [name for name, found in floors.items() if len(found) > 1] == []


def test_the_extra_all_brings_every_package_but_numba_and_the_testkit() -> None:
    """Numba is a large dependency that brings its own bounds on NumPy; the testkit is for authors of variants."""
    (kernel,) = (each for each in PROJECTS.values() if each["name"] == "tilecopy")
    extras = dict(kernel["optional-dependencies"])
    named = {name for name in extras if name not in ("all", "test")}
    first, *others = extras["all"]
    assert first == f"tilecopy[{','.join(sorted(named))}]"
    named_by_all = [*others, *(entry for name in named for entry in extras[name])]
    brought = {re.split(r"[>\[]", entry)[0] for entry in [*named_by_all, *kernel["dependencies"]]}
    assert {project["name"] for project in PROJECTS.values()} - {"tilecopy", TESTKIT} <= brought


@pytest.mark.parametrize("name", release.packages())
def test_a_package_could_go_out(name: str) -> None:
    """What `nox -s release` checks of the tree: versions, bounds, changelogs, licences, types, private imports."""
    tree = release.packages()
    assert release.faults(tree[name], tree) == []


COMMANDS = "tilecopy_cli.command"
GRAPH = {
    "tilecopy_core": (),
    "tilecopy_partitions": ("tilecopy_core",),
    "tilecopy": ("tilecopy_core", "tilecopy_partitions"),
    "tilecopy_cuda": ("tilecopy_core", "tilecopy", COMMANDS),
    "tilecopy_cli": ("tilecopy_core", "tilecopy", "tilecopy_cuda"),
    "tilecopy_export": ("tilecopy_core", "tilecopy_partitions", "tilecopy", COMMANDS),
    "tilecopy_emulator": ("tilecopy_core", "tilecopy", COMMANDS),
    "tilecopy_draw": ("tilecopy_core", "tilecopy", "tilecopy_emulator", COMMANDS),
    "tilecopy_relayout": ("tilecopy_core", "tilecopy", "tilecopy_cuda", COMMANDS),
    "tilecopy_testkit": ("tilecopy_core", "tilecopy_partitions", "tilecopy", "tilecopy_emulator", COMMANDS),
}
"""What each package imports of ours (docs/design.md); a variant has ``tilecopy_core.plugin`` and ``tilecopy_partitions``."""
WHEN_ASKED = {("tilecopy_cli", "tilecopy_cuda"), ("tilecopy_relayout", "tilecopy_cuda")}
"""Imported inside functions alone: on a machine with a GPU, and where it is installed."""
PUBLIC = {
    name: importlib.import_module(name)
    for name in (
        "tilecopy",
        "tilecopy.assemblers",
        "tilecopy.costs",
        "tilecopy.executors",
        "tilecopy.atomic_files",
        "tilecopy.harness",
        "tilecopy.nvidia_packages",
        "tilecopy.overlap",
        "tilecopy.validators",
        "tilecopy_cli.command",
        "tilecopy_core",
        "tilecopy_core.errors",
        "tilecopy_core.ptx.instructions",
        "tilecopy_core.ptx.lines",
        "tilecopy_core.plugin",
        "tilecopy_core.registry",
        "tilecopy_cuda",
        "tilecopy_export",
        "tilecopy_partitions",
        "tilecopy_partitions.catalog",
    )
}
"""The modules that packages import from, by who imports them: docs/reference.md says which is whose."""
INSIDE = ("tilecopy", "tilecopy_partitions", "tilecopy_cuda", "tilecopy_cli", "tilecopy_export")
"""Packages that were made with the core and go out with it: they import from the rooms of the core and the modules of ``tilecopy``, too."""
ROOMS = {f"tilecopy_core.{path.parent.name}" for path in (ROOT / "tilecopy_core").glob("*/__init__.py")} | {
    "tilecopy_core.errors"
}
"""What the packages inside import of the core: whole rooms, never a module in one."""
SOURCES = {release.package_in(folder).source: project for folder, project in PROJECTS.items()}


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Every node of a file's tree."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports_of_ours(path: Path) -> list[tuple[str, list[str], bool]]:
    """Module, names and whether it is imported at once, for every absolute import of our packages."""
    nodes, found = nodes_of(path), []
    blocks = [
        node
        for node in nodes
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    later = {id(inner) for node in blocks for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.module or "", [alias.name for alias in node.names], id(node) not in later))
        elif isinstance(node, ast.Import):
            found += [(alias.name, [], id(node) not in later) for alias in node.names]
    return [each for each in found if each[0].split(".")[0].startswith("tilecopy")]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_packages_import_what_is_below_them(source: Path) -> None:
    """As the table says, from public modules, and what these list; what is imported is required."""
    variant = VARIANTS_GROUP in SOURCES[source].get("entry-points", {})
    assert variant or source.name in GRAPH
    assert source.parent == ROOT or (source.parent.parent / "tests").exists()
    required = {each.name.replace("-", "_") for each in release.package_in(_folder(source)).requirements}
    for path in source.rglob("*.py"):
        for module, names, at_once in imports_of_ours(path):
            package, where = module.split(".")[0], f"{path.relative_to(ROOT)}: {module}"
            if package == source.name:
                continue
            below = ("tilecopy_core.plugin", "tilecopy_partitions") if variant else GRAPH[source.name]
            if path.stem == "instructions" and variant:  # loaded by the emulator alone
                below = (*below, "tilecopy_emulator.extending")
            assert module in below or package in below, where
            assert not at_once or (source.name, package) not in WHEN_ASKED, where
            assert package in required or path.stem == "instructions", where
            inside = source.name in INSIDE and (module in ROOMS or package == "tilecopy")
            if package == "tilecopy_emulator" or inside:
                continue
            assert module in PUBLIC, f"{where} is not public"
            listed = {*PUBLIC[module].__all__, "*"}  # a star imports what is listed
            unlisted = {*names} - listed - {*(["plugin"] if module == "tilecopy_core" else [])}
            assert not unlisted, f"{where} does not list {unlisted}"


def _folder(source: Path) -> Path:
    return source.parent if source.parent == ROOT else source.parent.parent


ALSO_OTHER_WORDS = {*FEATURES, "reg", "ldgsts"}
"""Variants that share a feature's or a memory space's name, and the one that examples name."""
NAMES = [
    re.compile(r"(?<![\w.])tilecopy[-_](?!core\b|predicate\b|partition\b|emit\b|dispatch\b|hooks\b)\w+"),
    re.compile(r"\btilecopy\.(?!(variants|exports|known)\b)\w+|import tilecopy\b|\bplugins/"),
    re.compile("|".join(f"""["'`]{name}["'`]""" for name in {*KNOWN_VARIANTS, *KNOWN_EXECUTORS} - ALSO_OTHER_WORDS)),
]
"""Packages, modules and folders of ours; variants and executors in quotes."""


@pytest.mark.parametrize("path", sorted((ROOT / "tilecopy_core").rglob("*.py")), ids=lambda path: path.stem)
def test_the_core_names_no_package_of_ours(path: Path) -> None:
    """But for the tables of what other packages bring, and of names that have moved to them."""
    if path.name in ("lazy_names.py", "renamed.py"):
        return
    found = [match[0] for name in NAMES for match in name.finditer(path.read_text())]
    assert found == []


def test_tilecopy_has_every_name_of_the_core() -> None:
    core, ours = PUBLIC["tilecopy_core"], PUBLIC["tilecopy"]
    assert set(core.__all__) < set(ours.__all__)
    assert [name for name in core.__all__ if getattr(core, name) is not getattr(ours, name)] == []


@pytest.mark.parametrize("name", sorted({*PUBLIC["tilecopy"].__all__} - {*PUBLIC["tilecopy_core"].__all__}))
def test_the_core_says_who_has_what_it_has_not(name: str) -> None:
    with pytest.raises(AttributeError, match=mentions("tilecopy_core", name, "tilecopy")):
        getattr(PUBLIC["tilecopy_core"], name)


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


def test_the_contract_is_small() -> None:
    """At most 75 names, each of which a package imports or docs/plugins.md explains."""
    names = {*PUBLIC["tilecopy_core.plugin"].__all__}
    assert len(names) <= 75
    imported = {
        name
        for source in SOURCES
        for path in source.rglob("*.py")
        for module, found, _ in imports_of_ours(path)
        if module == "tilecopy_core.plugin"
        for name in found
    }
    page = (ROOT / "docs" / "plugins.md").read_text()
    assert [name for name in sorted(names - imported) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_public_modules_have_what_they_list(name: str) -> None:
    """Each once; what is imported later too."""
    listed = PUBLIC[name].__all__
    assert len(set(listed)) == len(listed)
    assert not [each for each in listed if not hasattr(PUBLIC[name], each)]
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert not [each for each in listed if each != "__version__" and not re.search(rf"\b{each}\b", pages)]


READ_PTX = ("tilecopy_core/ptx", "tilecopy_emulator/parser")
"""Folders that take text of PTX apart; the others ask :mod:`tilecopy_core.ptx` of its lines."""
OTHER_TEXT = {
    "printing.py": "formats of printf",
    "debug_info.py": "line tables of DWARF",
    "compiler.py": "the output of NVRTC",
    "driver.py": "errors of a loader",
    "expression_text.py": "integers of Python",
}
"""Modules with regular expressions that look like those over PTX -> what they read."""


def test_one_folder_has_the_regular_expressions_over_ptx() -> None:
    opcodes = {
        word for line in (ROOT / READ_PTX[0] / "opcodes.txt").read_text().splitlines() for word in _opcodes(line)
    }
    assert {"ld", "bra", "tcgen05"} <= opcodes
    directive = re.compile(r"%|\.(?:version|target|entry|func|reg|param|visible)\b|\.\[?[bsufv]+\]?[\d(\\]")
    found = [
        (path.name, text)
        for source in SOURCES
        for path in source.rglob("*.py")
        if not any(folder in path.as_posix() for folder in READ_PTX) and path.name not in OTHER_TEXT
        for text in _regular_expressions(path)
        if directive.search(text.replace("\\.", "."))
        or {*re.findall(r"[a-z]\w*", re.sub(r"\\\w", " ", text))} & opcodes
    ]
    assert found == []


def _opcodes(line: str) -> list[str]:
    """Return the first words of the opcodes that a line of the table has."""
    forms = re.sub(r"[({].*?[)}]", "", line).split() if line.startswith("    ") else ()
    return [word for form in forms for word in re.findall(r"(?:^\[?|(?<=\|))([a-z]\w*)", form)]


def _regular_expressions(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).partition(".")[0] in ("re", "pattern"):
            parts = (part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant))
            yield "".join(part.value for part in parts if isinstance(part.value, str))


def imports_inside(source: Path) -> dict[Path, set[Path]]:
    """Return the modules of a package -> those of it that each imports, by every import statement: in functions and for type checkers, too."""
    modules = {path.relative_to(source.parent).with_suffix("").parts: path for path in source.rglob("*.py")}
    modules = {parts[:-1] if parts[-1] == "__init__" else parts: path for parts, path in modules.items()}
    imports: dict[Path, set[Path]] = {path: set() for path in modules.values()}
    for parts, path in modules.items():
        package = parts if path.name == "__init__.py" else parts[:-1]
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom):
                base = (*package[: len(package) - node.level + 1], *(node.module or "").split("."))
                base = tuple(filter(None, base if node.level else (node.module or "").split(".")))
                imported = [modules.get((*base, alias.name), modules.get(base)) for alias in node.names]
            elif isinstance(node, ast.Import):
                imported = [modules.get(tuple(alias.name.split("."))) for alias in node.names]
            else:
                continue
            imports[path] |= {other for other in imported if other not in (None, path)}
    return imports


def circle(edges: Mapping[Path, set[Path]]) -> dict[Path, set[Path]]:
    """Return what is left of a graph when every node that points at no other is taken away again and again."""
    while leaves := {node for node, others in edges.items() if not others}:
        edges = {node: others - leaves for node, others in edges.items() if node not in leaves}
    return dict(edges)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_imports_of_a_package_have_no_circle(source: Path) -> None:
    """Neither between modules nor between folders, so that each folder has a layer; the package's own folder is above and below the others."""
    imports = imports_inside(source)
    assert circle(imports) == {}
    folders: dict[Path, set[Path]] = {path.parent: set() for path in imports}
    for path, others in imports.items():
        folders[path.parent] |= {other.parent for other in others} - {path.parent, source}
    assert circle({**folders, source: set()}) == {}


def test_a_circle_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "lib"
    (package / "low").mkdir(parents=True)
    (package / "__init__.py").write_text("from .top import run")
    (package / "top.py").write_text("from .low.base import Base\ndef run(): import lib.other")
    (package / "low" / "base.py").write_text("def late(): from ..top import run")
    (package / "other.py").write_text("import json")
    assert {path.name for path in circle(imports_inside(package))} == {"__init__.py", "top.py", "base.py"}


def test_entry_point_groups_are_those_of_the_contract() -> None:
    """Packages of others register under these names, so a change of one is a new version."""
    contract = {
        f"tilecopy.{kind}.v1" for kind in ("variants", "executors", "commands", "exports", "known", "instructions")
    }
    groups = {group for project in SOURCES.values() for group in project.get("entry-points", {})}
    assert groups == contract | {"pyinstaller40"}


def test_what_authors_and_users_of_plugins_name_is_public() -> None:
    assert tc.Option is Option and tc.PluginWarning is PluginWarning
    assert {"Option", "PluginWarning"} <= set(tc.__all__)


def test_the_first_party_variants_declare_what_completes_them() -> None:
    records = {p.name: p.variant for p in tc.default_registry().plugins() if p.variant is not None}
    assert {name: record.completion for name, record in records.items()} == {
        "gmem_smem": "barrier",
        "reg": "barrier",
        "ldmatrix": "barrier",
        "stmatrix": "barrier",
        "regperm": "barrier",
        "regperm_shfl": "barrier",
        "ldgsts": "cp_async_group",
        "ragged": "barrier",
        "ragged_async": "cp_async_group",
        "bulk": "mbarrier",
        "bulk_store": "bulk_group",
        "tma": "mbarrier",
        "tma_store": "bulk_group",
        "dsmem": "mbarrier",
        "tcgen05_cp": "tcgen05_commit",
        "tcgen05_ld": "barrier",
        "tcgen05_st": "barrier",
    }
    assert {name: record.threads for name, record in records.items() if record.threads != "all"} == {
        "bulk": "one",
        "bulk_store": "one",
        "tma": "one",
        "tma_store": "one",
        "dsmem": "one",
        "tcgen05_cp": "one",
    }
    assert {name: [option.name for option in record.options] for name, record in records.items() if record.options} == {
        "bulk": ["mbar", "prefetch"],
        "dsmem": ["mbar", "remote_cta_id"],
        "gmem_smem": ["relaxed"],
        "ragged": ["relaxed"],
        "reg": ["relaxed"],
        "tcgen05_cp": ["cta_group"],
        "tcgen05_ld": ["wait"],
        "tcgen05_st": ["wait"],
        "tma": ["mbar", "multicast"],
    }
