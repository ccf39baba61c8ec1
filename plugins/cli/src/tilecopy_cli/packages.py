"""What is wrong with the installed packages that extend tilecopy: copies, groups, requirements, names that are taken twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from tilecopy.executor_registry import EXECUTORS_GROUP

from tilecopy_core.errors import did_you_mean
from tilecopy_core.registry import VARIANTS_GROUP, Installed, distributions

READERS = {
    VARIANTS_GROUP: "tilecopy-core",
    "tilecopy.exports.v1": "tilecopy-core",
    "tilecopy.known.v1": "tilecopy-core",
    EXECUTORS_GROUP: "tilecopy",
    "tilecopy.commands.v1": "tilecopy-cli",
    "tilecopy.instructions.v1": "tilecopy-emulator",
}
"""Entry-point group -> the package that reads it."""


def packages() -> list[Installed]:
    """Return the installed distributions that declare an entry point of tilecopy, or mean to."""
    return distributions(declaring="tilecopy")


def problems() -> dict[str, list[str]]:
    """Return what is wrong with each of :func:`packages`, by name; a package with nothing wrong has an empty list."""
    installed = packages()
    claims: dict[tuple[str, str], list[str]] = {}
    for package in installed:
        for group, name in _points(package):
            if package.name not in (owners := claims.setdefault((group, name), [])):
                owners.append(package.name)
    return {
        package.name: [
            *_copies(package),
            *_unknown_groups(package),
            *_unmet(package),
            *(
                f"{' and '.join(claims[point])} both declare {point[1]!r} of {point[0]}: uninstall one of them"
                for point in dict.fromkeys(_points(package))
                if len(claims[point]) > 1
            ),
        ]
        for package in installed
    }


def _points(package: Installed) -> list[tuple[str, str]]:
    """Return group and name of each entry point of tilecopy's groups; none where they cannot be read."""
    try:
        return [
            (point.group, point.name) for point in package.metadata.entry_points if point.group.startswith("tilecopy.")
        ]
    except Exception:  # the registry says so where it loads them
        return []


def _copies(package: Installed) -> Iterator[str]:
    if package.other_versions:
        others = ", ".join(package.other_versions)
        yield f"{Path(package.location).parent} also has {others}: delete what an earlier installation left behind"
    for location in package.shadowed:
        yield f"{location} is not used, because {Path(package.location).parent} comes first on sys.path"


def _unknown_groups(package: Installed) -> Iterator[str]:
    try:
        text = package.metadata.read_text("entry_points.txt") or ""
    except UnicodeDecodeError:
        yield "entry_points.txt is not UTF-8, so no group of it is read: save it as UTF-8"
        return
    if text.startswith("\ufeff"):
        yield "entry_points.txt starts with a byte order mark, so its first group is not read: save it without one"
    for group in dict.fromkeys(re.findall(r"^\ufeff?\[\s*(tilecopy[^\]]*?)\s*\]", text, re.MULTILINE | re.IGNORECASE)):
        if group not in READERS:
            yield f"the entry-point group {group!r} is not read by any package{did_you_mean(group, READERS)}"


def _unmet(package: Installed) -> Iterator[str]:
    """Return the requirements that are not met in this environment, those of extras left out."""
    for text in package.requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            yield f"its requirement {text!r} is not valid (PEP 508)"
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            have = version(requirement.name)
        except PackageNotFoundError:
            yield f"it requires {requirement}, which is not installed: pip install '{requirement}'"
            continue
        if not requirement.specifier.contains(have, prereleases=True):
            yield f"it requires {requirement}, and {requirement.name} {have} is installed"
