"""How many lines the packages and the rooms of the core have: going past a budget is a decision, made here with its reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "core": 9_270,
    "bulk": 275,
    "cli": 2_000,
    "cuda": 1_800,
    "draw": 2_500,
    "dsmem": 150,
    "emulator": 20_500,
    "export": 1_625,
    "gmem_smem": 100,
    "kernel": 8_285,
    "ldgsts": 100,
    "ldmatrix": 600,
    "partitions": 1_300,
    "ragged": 525,
    "reg": 450,
    "regperm": 1_550,
    "relayout": 5_100,
    "tcgen05_cp": 500,
    "tcgen05_ldst": 800,
    "testkit": 6_575,
    "tma": 645,
}
"""Lines of Python of each package, docstrings and blank ones too: the core, then the folders of plugins/."""
ROOMS = {
    "integers": 850,
    "layout": 1_095,
    "memory": 650,
    "description": 1_155,
    "registry": 1_440,
    "dispatch": 820,
    "ptx": 2_570,
    "errors": 415,
    "plugin": 130,
    "__init__": 100,
}
"""The core's rooms, and its modules beside them."""
TABLE = 400
"""Lines of the table of opcodes, which is data."""
FILES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "tilecopy_core/*.py", "plugins/*/src/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if (ROOT / name).exists()
]
pytestmark = pytest.mark.skipif(not FILES, reason="this is no checkout")


def lines(folder: str, room: str = "") -> int:
    """Lines of the files in a folder, or of one module or package of it."""
    parts = [(path, path.relative_to(ROOT / folder).parts) for path in FILES if path.is_relative_to(ROOT / folder)]
    kept = [path for path, names in parts if room in ("", names[0].removesuffix(".py"))]
    return sum(len(path.read_text().splitlines()) for path in kept)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_keeps_to_its_lines(name: str) -> None:
    assert lines("tilecopy_core" if name == "core" else f"plugins/{name}/src") <= PACKAGES[name]


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_of_the_core_keeps_to_its_lines(name: str) -> None:
    assert lines("tilecopy_core", name) <= ROOMS[name]


def test_the_table_of_opcodes_keeps_to_its_lines() -> None:
    assert len((ROOT / "tilecopy_core" / "ptx" / "opcodes.txt").read_text().splitlines()) <= TABLE


def test_everything_has_a_budget() -> None:
    assert set(PACKAGES) == {"core", *(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))}
    found = {
        path.relative_to(ROOT / "tilecopy_core").parts[0].removesuffix(".py")
        for path in FILES
        if path.is_relative_to(ROOT / "tilecopy_core")
        and "__pyinstaller" not in path.parts  # never imported by the core
    }
    assert set(ROOMS) == found
    assert len(found) <= 11  # with py.typed a dozen entries: the way of a copy at one look
