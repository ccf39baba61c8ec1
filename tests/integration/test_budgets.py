"""How many lines the packages have: going past a budget is a decision, made here with its reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "core": 7_900,
    "bulk": 230,
    "cli": 2_020,
    "cuda": 1_780,
    "draw": 2_380,
    "dsmem": 140,
    "emulator": 19_750,
    "export": 1_640,
    "gmem_smem": 70,
    "kernel": 9_300,
    "ldgsts": 70,
    "ldmatrix": 580,
    "partitions": 1_990,
    "ragged": 450,
    "reg": 410,
    "regperm": 1_430,
    "relayout": 4_670,
    "tcgen05_cp": 510,
    "tcgen05_ldst": 740,
    "testkit": 4_800,
    "tma": 640,
}
"""Lines of Python of each package, docstrings and blank ones too: the core, then the folders of plugins/."""
PRODUCT = 40_000
"""Lines of Python of all packages but the emulator."""
TABLE = 420
"""Lines of the table of opcodes, which is data."""
FILES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "tilecopy_core/*.py", "plugins/*/src/*.py", "plugins/*/src/*.cuh"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if (ROOT / name).exists()
]
pytestmark = pytest.mark.skipif(not FILES, reason="this is no checkout")


def lines(folder: str) -> int:
    """Return the lines of the files in a folder."""
    return sum(len(path.read_text().splitlines()) for path in FILES if path.is_relative_to(ROOT / folder))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_keeps_to_its_lines(name: str) -> None:
    assert lines("tilecopy_core" if name == "core" else f"plugins/{name}/src") <= PACKAGES[name]


def test_the_product_keeps_to_its_lines() -> None:
    python = [path for path in FILES if path.suffix == ".py" and not path.is_relative_to(ROOT / "plugins/emulator")]
    assert sum(len(path.read_text().splitlines()) for path in python) <= PRODUCT


def test_the_table_of_opcodes_keeps_to_its_lines() -> None:
    assert len((ROOT / "tilecopy_core" / "ptx" / "opcodes.txt").read_text().splitlines()) <= TABLE


def test_everything_has_a_budget() -> None:
    assert set(PACKAGES) == {"core", *(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))}
