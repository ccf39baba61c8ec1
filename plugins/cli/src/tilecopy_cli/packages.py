"""Problems of packages that extend tilecopy, such as unknown entry-point groups and unmet requirements."""

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


def problems() -> dict[str, list[str]]:
    """Return a dict from each package that declares tilecopy entry points to messages about its problems."""
    installed = distributions(declaring="tilecopy")
    claims: dict[tuple[str, str], list[str]] = {}
    for package in installed:
        for point in _points(package):
            claims.setdefault(point, []).append(package.name)
    faults = {}
    for package in installed:
        texts = [*_copies(package), *_unknown_groups(package), *_unmet(package)]
        for point in _points(package):
            if len(claims[point]) > 1:
                owners = " and ".join(claims[point])
                texts.append(f"{owners} declare the same entry point {point[1]!r} of {point[0]}: uninstall all but one")
        faults[package.name] = texts
    return faults


def _points(package: Installed) -> list[tuple[str, str]]:
    """Return the (group, name) pairs of the entry points in tilecopy's groups. Return [] if they cannot be read."""
    try:
        points = [(point.group, point.name) for point in package.metadata.entry_points]
    except Exception:  # the registry reports it when it loads them
        return []
    return [point for point in dict.fromkeys(points) if point[0].startswith("tilecopy.")]


def _copies(package: Installed) -> Iterator[str]:
    if package.other_versions:
        others = ", ".join(package.other_versions)
        yield f"{Path(package.location).parent} also has version {others}, installed earlier: delete that version"
    for location in package.shadowed:
        yield f"{location} is not used, because {Path(package.location).parent} comes first on sys.path"


def _unknown_groups(package: Installed) -> Iterator[str]:
    try:
        text = package.metadata.read_text("entry_points.txt") or ""
    except UnicodeDecodeError:
        yield "entry_points.txt must be UTF-8, so that tilecopy can read the entry-point groups: save the file as UTF-8"
        return
    if text.startswith("\ufeff"):
        yield "entry_points.txt must not start with a byte order mark, because the first group is then ignored: save the file without the mark"
    for group in dict.fromkeys(re.findall(r"^\ufeff?\[\s*(tilecopy[^\]]*?)\s*\]", text, re.MULTILINE | re.IGNORECASE)):
        if group not in READERS:
            yield f"no package reads the entry-point group {group!r}{did_you_mean(group, READERS)}"


def _unmet(package: Installed) -> Iterator[str]:
    """Yield a sentence per requirement that is not met in this environment. Requirements of extras are left out."""
    for text in package.requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            yield f"each requirement must be valid under PEP 508, got {text!r}"
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        requirement.marker = None  # it holds here, and is not printed
        try:
            have = version(requirement.name)
        except PackageNotFoundError:
            yield f"the package requires {requirement}, but no version is installed: pip install '{requirement}'"
            continue
        if not requirement.specifier.contains(have, prereleases=True):
            yield f"the package requires {requirement}, got {requirement.name} {have}: pip install '{requirement}'"
