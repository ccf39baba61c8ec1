"""Packages as folders of metadata on ``sys.path``, as installers leave them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tilecopy_core.registry import installed_sources

GROUP = "acme.plugins.v1"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a package into a folder, which is put at the end of ``sys.path``; returns the folder of its metadata."""

    def install(folder: str, name: str, version: str, points: str = "", requires: str = "", group: str = GROUP) -> Path:
        if str(tmp_path / folder) not in sys.path:
            monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / folder)])
        info = tmp_path / folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        head = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n{requires}\n"
        (info / "METADATA").write_text(head, encoding="utf-8")
        if points:
            (info / "entry_points.txt").write_text(f"[{group}]\n{points}\n", encoding="utf-8")
        return info

    return install


def sources() -> list[tuple[str, str]]:
    return [(source.name, source.owner) for source in installed_sources(GROUP)]
