"""The emulator's rooms have an order: a module imports from its own room and from those before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import tilecopy_emulator

SOURCE = Path(tilecopy_emulator.__file__).parent
ROOMS = (
    "argument_checks",
    "debug_info",
    "program",
    "memory_model",
    "alu",
    "effects",
    "hazards",
    "threads",
    "memory",
    "machine",
    "parser",
    "opcodes",
    "extending",
    "bulk mma",
    "run signatures",
    "arguments",
    "argument_literals",
    "api executor",
    "cuda_cpp",
    "command __init__",
)
"""Folders, and modules that stand beside them."""
RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names.split()}
MODULES = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]


def room_of(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_imports_from_rooms_before_its_own(module: Path) -> None:
    """Imports inside functions and of type checkers too; circles inside a room are tests/integration/test_packages.py's."""
    rank = RANK[room_of(module.parts)]
    for node in ast.walk(ast.parse((SOURCE / module).read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = module.parts[: len(module.parts) - node.level]
            base = (*above, *(node.module or "").split(".")) if node.module else above
            for alias in node.names:
                assert RANK[room_of((*base, alias.name))] <= rank, f"{module}:{node.lineno}"
