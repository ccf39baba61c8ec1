"""The lock file, read offline: on every platform and Python that the packages name, whatever is installed has a wheel."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker, default_environment
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "uv.lock").exists(), reason="this is not a checkout")
PROJECT = (
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if (ROOT / "uv.lock").exists()
    else {}
)
PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT.get("classifiers", ())))


def manylinux(machine: str) -> list[str]:
    """Tags of the wheels that a distribution with glibc 2.28 (2018) installs."""
    return [*(f"manylinux_2_{minor}_{machine}" for minor in range(28, 4, -1)), f"manylinux2014_{machine}"]


PLATFORMS: dict[str, tuple[dict[str, str], list[str]]] = {
    "linux-x86_64": ({"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"}, manylinux("x86_64")),
    "linux-aarch64": ({"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "aarch64"}, manylinux("aarch64")),
    "macos-arm64": ({"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"}, list(mac_platforms((14, 0), "arm64"))),
    "windows-x64": ({"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"}, ["win_amd64"]),
}  # fmt: skip
"""The values of environment markers, and the platform tags of wheels."""


WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def test_the_workflow_runs_the_commands_of_the_readme() -> None:
    commands = re.findall(r"- run: (.*)", WORKFLOW.read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(commands) == 3 and "\n".join(commands) in readme


def test_the_workflow_runs_the_oldest_and_the_newest_python_of_the_classifiers() -> None:
    (row,) = re.findall(r"python: \[(.*)\]", WORKFLOW.read_text(encoding="utf-8"))
    assert re.findall(r"\d+\.\d+", row) == [PYTHONS[0], PYTHONS[-1]]


def locked() -> list[dict[str, Any]]:
    return list(tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"])


def requirements(package: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a package of the lock may require: its own packages with every extra and group, others with those asked for."""
    yield from package.get("dependencies", ())
    for rows in package.get("optional-dependencies", {}).values():
        yield from rows
    for rows in package.get("dev-dependencies", {}).values():
        yield from rows


def installed(packages: list[dict[str, Any]], environment: dict[str, str]) -> list[dict[str, Any]]:
    """The packages that are installed somewhere, from the workspace's on, for one environment."""
    queue = [package for package in packages if "editable" in package["source"] or "virtual" in package["source"]]
    reached: dict[tuple[str, str], dict[str, Any]] = {}
    while queue:
        package = queue.pop()
        key = package["name"], package.get("version", "")
        if key in reached:
            continue
        reached[key] = package
        for row in requirements(package):
            if "marker" in row and not Marker(row["marker"]).evaluate(environment):
                continue
            queue += [
                p
                for p in packages
                if p["name"] == row["name"] and row.get("version", p.get("version")) == p.get("version")
            ]
    return list(reached.values())


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_locked_package_has_a_wheel(platform: str, python: str) -> None:
    values, tags = PLATFORMS[platform]
    version = tuple(int(part) for part in python.split("."))
    full = {"python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython"}
    environment = {**default_environment(), **values, **full, "platform_python_implementation": "CPython", "extra": ""}
    supported: set[Tag] = {
        *cpython_tags(version, platforms=tags),
        *compatible_tags(version, f"cp{version[0]}{version[1]}", tags),
    }
    without = [
        package["name"]
        for package in installed(locked(), environment)
        if "registry" in package["source"]
        and not any(
            supported & parse_wheel_filename(wheel["url"].rsplit("/", 1)[-1])[3] for wheel in package.get("wheels", ())
        )
    ]
    assert not without
    assert len(installed(locked(), environment)) > len(list((ROOT / "plugins").glob("*/pyproject.toml"))) + 20


def test_the_check_sees_a_package_without_a_wheel() -> None:
    """nvidia-nvjitlink has no wheel for macOS: what requires it there without a marker is reached by the check."""
    packages = [
        {"name": "ours", "source": {"editable": "."}, "dependencies": [{"name": "nvidia-nvjitlink"}]},
        {"name": "nvidia-nvjitlink", "version": "13", "source": {"registry": ""}},
    ]
    assert [package["name"] for package in installed(packages, dict(default_environment()))] == [
        "ours",
        "nvidia-nvjitlink",
    ]
