"""The modules of relayout import downwards only, inside functions too."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tilecopy_relayout

SOURCE = Path(tilecopy_relayout.__file__).parent
LAYERS = ("arrays", "planner", "local", "frameworks", "distributed", "files")
"""The folders, the lowest first."""


def imports_of(path: Path) -> set[str]:
    """Return the modules of relayout that a module imports, by their dotted names inside the package."""
    folder = path.relative_to(SOURCE).parts[:-1]
    imports: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = [*folder[: len(folder) + 1 - node.level], *(node.module or "").split(".")]
            for alias in node.names:
                whole = SOURCE.joinpath(*parts, f"{alias.name}.py").exists()
                imports.add(".".join(part for part in [*parts, alias.name if whole else ""] if part) or "__init__")
    return imports


MODULES = {".".join(path.relative_to(SOURCE).with_suffix("").parts): imports_of(path) for path in SOURCE.rglob("*.py")}


def test_no_circle() -> None:
    order = list(TopologicalSorter(MODULES).static_order())
    assert set(order) == set(MODULES) and order.index("api") > order.index("distributed.exchange")


def test_no_folder_imports_one_above_it() -> None:
    heights = {layer: height for height, layer in enumerate(LAYERS)}
    for module, imports in MODULES.items():
        height = heights.get(module.partition(".")[0], len(LAYERS))
        assert all(heights.get(name.partition(".")[0], -1) <= height for name in imports), module
        assert height == len(LAYERS) or not imports & {"api", "cli", "__init__"}, module
