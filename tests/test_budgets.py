"""How many lines the packages and the rooms of the core have: going past a budget is a decision, made here with its reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "core": 10_650,
    "bulk": 275,
    "cli": 1_825,
    "cuda": 1_750,
    "dsmem": 150,
    "emulator": 13_350,
    "export": 1_500,
    "gmem_smem": 100,
    "kernel": 4_850,
    "ldgsts": 100,
    "ragged": 550,
    "reg": 450,
    "regperm": 1_600,
    "relayout": 3_625,
    "tcgen05_cp": 450,
    "testkit": 5_575,
}
"""Lines of Python of each package, docstrings and blank ones too: the core, then the folders of plugins/."""
ROOMS = {
    "integers and conditions": ("expr conditions", 950),
    "layouts": ("layout", 1_100),
    "memory": ("dtypes memory views outside", 975),
    "scope and target": ("scope target", 500),
    "one copy": ("request checks notes dispatch", 1_300),
    "hooks and plugins": ("hookspecs hookcalls loading registry once plugin", 1_400),
    "what other packages bring": ("names known", 125),
    "PTX": ("ptx emitted standalone instructions", 2_900),
    "what variants share": ("partition rounds fragments chunks", 1_175),
    "the package": ("__init__ errors version", 500),
}
"""The core's rooms: their modules, and their lines together."""
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


def lines(folder: str, *modules: str) -> int:
    """Lines of the files in a folder, or of some modules and packages of it."""
    parts = [(path, path.relative_to(ROOT / folder).parts) for path in FILES if path.is_relative_to(ROOT / folder)]
    kept = [path for path, names in parts if not modules or names[0].removesuffix(".py") in modules]
    return sum(len(path.read_text().splitlines()) for path in kept)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_keeps_to_its_lines(name: str) -> None:
    assert lines("tilecopy_core" if name == "core" else f"plugins/{name}/src") <= PACKAGES[name]


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_of_the_core_keeps_to_its_lines(name: str) -> None:
    modules, most = ROOMS[name]
    assert lines("tilecopy_core", *modules.split()) <= most


def test_everything_has_a_budget() -> None:
    assert set(PACKAGES) == {"core", *(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))}
    rooms = [module for modules, _ in ROOMS.values() for module in modules.split()]
    found = {
        path.relative_to(ROOT / "tilecopy_core").parts[0].removesuffix(".py")
        for path in FILES
        if path.is_relative_to(ROOT / "tilecopy_core")
    }
    assert sorted(rooms) == sorted(found)
