"""``tilecopy doctor`` about packages: where each lies, and what keeps one from being used as its author meant."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tilecopy_cli.doctor import DoctorCheck, check_machine
from tilecopy_cli.packages import problems

POINTS = "[tilecopy.variants.v1]\none = acme\n"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a package into a folder, which is put at the end of ``sys.path``; returns the folder of its metadata."""

    def package(folder: str, name: str, version: str, points: str = POINTS, requires: str = "") -> Path:
        if str(tmp_path / folder) not in sys.path:
            monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / folder)])
        info = tmp_path / folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        requirement = f"Requires-Dist: {requires}\n" if requires else ""
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}\n"
        (info / "METADATA").write_text(head, encoding="utf-8")
        (info / "entry_points.txt").write_text(points, encoding="utf-8")
        return info

    return package


def told(name: str = "acme") -> str:
    (text,) = problems()[name] or [""]
    return text


def test_nothing_is_said_of_what_is_right(install: Callable[..., Path]) -> None:
    install("site", "acme", "1.0", requires="attrs>=23; python_version >= '3.8'")
    install("site", "other", "1.0", "[tilecopy.variants.v1]\ntwo = other\n", "not-there; extra == 'more'")
    assert problems()["acme"] == problems()["other"] == []
    assert problems()["tilecopy-gmem-smem"] == []


def test_other_copies_are_named_with_their_places(install: Callable[..., Path]) -> None:
    install("site", "acme", "1.0")
    install("site", "acme", "2.0")
    assert "1.0" in told()
    behind = install("back", "acme", "3.0")
    assert any(str(behind) in text for text in problems()["acme"])


@pytest.mark.parametrize(
    "group",
    ["tilecopy.variants", "tilecopy.variant.v1", "tilecopy.variants.V1", "tilecopy.variants.v2", "tilecopy.comands.v1"],
)
def test_a_group_that_nobody_reads_is_named(group: str, install: Callable[..., Path]) -> None:
    install("site", "acme", "1.0", f"[{group}]\none = acme\n")
    assert group in told()


def test_a_byte_order_mark_is_named(install: Callable[..., Path]) -> None:
    info = install("site", "acme", "1.0")
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8-sig")
    assert told()


@pytest.mark.parametrize(
    "requires",
    [
        "not-there>=2",
        "attrs<1",
        "tilecopy-core==0.0.9",
        "tilecopy>=5",
        "tilecopy-core>=9; python_version >= '3.8'",
        "attrs>>1",
    ],
)
def test_a_requirement_that_is_not_met_is_named(requires: str, install: Callable[..., Path]) -> None:
    install("site", "acme", "1.0", requires=requires)
    message = told()
    assert requires.partition(">")[0].partition("=")[0].partition("<")[0] in message and "python_version" not in message


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("variants", "one"),
        ("exports", "explain"),
        ("executors", "emulator"),
        ("commands", "mine"),
        ("instructions", "mine"),
    ],
)
def test_a_name_that_two_packages_declare_is_named(group: str, name: str, install: Callable[..., Path]) -> None:
    points = f"[tilecopy.{group}.v1]\n{name} = acme\n"
    install("site", "acme", "1.0", points)
    install("site", "other", "1.0", points)
    assert any("acme" in text and "other" in text and name in text for text in problems()["acme"])


def test_doctor_has_a_line_for_each_package_with_its_place(install: Callable[..., Path]) -> None:
    info = install("site", "acme", "1.0", "[tilecopy.commands.v1]\nmine = acme\n", requires="not-there>=2")
    (row,) = [row for row in check_machine() if row.what == "package acme"]
    assert isinstance(row, DoctorCheck) and row.state == "unusable" and str(info.parent) in row.detail
