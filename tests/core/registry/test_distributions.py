"""Which of the packages along sys.path count.

Packages are folders as installers leave them; most cases are faults that users of other tools reported.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib.metadata import Distribution
from pathlib import Path

import pytest
import tilecopy as tc
from packaging.version import Version
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.metadata_folders import GROUP, sources

from tilecopy_core import PluginError
from tilecopy_core.registry import Installed, distributions, installed_sources


@pytest.mark.parametrize("versions", [("0.1.0", "0.3.0"), ("1.2", "2.2"), ("10.0", "9.0"), ("2.0", "2.0.1")])
def test_of_two_versions_in_one_folder_the_highest_counts(
    versions: tuple[str, str], package: Callable[..., Path]
) -> None:
    """``pip install --target --upgrade`` leaves both (pypa/pip#8063)."""
    for version in versions:
        package("site", "acme_one", version, f"v{version.replace('.', '_')} = acme")
    highest = max(versions, key=lambda version: [int(part) for part in version.split(".")])
    assert sources() == [(f"v{highest.replace('.', '_')}", f"acme-one {highest}")]
    (one,) = [found for found in distributions() if found.name == "acme-one"]
    assert one.other_versions == tuple(version for version in versions if version != highest)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2.0rc1", "2.0"),
        ("2.0.dev3", "2.0a1"),
        ("2.0b2", "2.0rc1"),
        ("2.0alpha3", "2.0preview1"),
        ("2.0", "2.0.post1"),
        ("2.0rc2", "2.0rc10"),
        ("2.0", "2.0+local"),
        ("9.0", "1!0.1"),
    ],
)
def test_pre_releases_epochs_and_local_versions_are_ordered_as_packaging_orders_them(
    older: str, newer: str, package: Callable[..., Path]
) -> None:
    assert Version(older) < Version(newer)
    for folder, versions in (("one", (older, newer)), ("two", (newer, older))):
        for version in versions:
            package(folder, f"acme_{folder}", version, "plugin = acme")
    assert sources() == [("plugin", f"acme-{folder} {newer}") for folder in ("one", "two")]


def test_empty_fields_of_metadata_are_those_of_the_folder(package: Callable[..., Path]) -> None:
    info = package("site", "acme_one", "1.0", "plugin = acme")
    (info / "METADATA").write_text("Name: \nVersion: \n")
    assert sources() == [("plugin", "acme-one 1.0")]


def test_the_first_folder_counts_as_for_import(package: Callable[..., Path]) -> None:
    package("front", "acme_one", "1.0", "one = acme")
    behind = package("back", "acme_one", "2.0", "one = acme\ntwo = acme")
    assert sources() == [("one", "acme-one 1.0")]
    (one,) = [found for found in distributions() if found.name == "acme-one"]
    assert one.shadowed == (str(behind),)


def test_a_copy_behind_one_without_the_group_is_not_used(package: Callable[..., Path]) -> None:
    package("front", "acme_one", "2.0")
    package("back", "acme_one", "1.0", "one = acme")
    assert sources() == []


def test_packages_without_metadata_are_named_by_their_folders(package: Callable[..., Path]) -> None:
    for name in ("acme_one", "acme_two"):
        (package("site", name, "1.0", f"{name[5:]} = acme") / "METADATA").unlink()
    assert sources() == [("one", "acme-one 1.0"), ("two", "acme-two 1.0")]


def test_what_pip_is_about_to_delete_does_not_count(package: Callable[..., Path]) -> None:
    """jaraco/keyring#451: folders that start with ``~``."""
    info = package("site", "acme_one", "1.0", "one = acme")
    shutil.copytree(info, info.with_name("~cme_one-0.9.dist-info"))
    assert sources() == [("one", "acme-one 1.0")]


def test_requirements_of_an_egg_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "acme_one.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 1.2\nName: acme-one\nVersion: 1.0\n", encoding="utf-8")
    (info / "requires.txt").write_text("tilecopy-core>=9\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\none = json\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (source,) = installed_sources(GROUP)
    assert source.owner == "acme-one 1.0" and "tilecopy-core>=9" in source.needs


@pytest.mark.parametrize("entry", [None, b"/usr/lib"])
def test_entries_of_the_path_that_import_skips_are_skipped(
    entry: object, package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    package("site", "acme_one", "1.0", "one = acme")
    monkeypatch.setattr(sys, "path", [*sys.path, entry])
    assert sources() == [("one", "acme-one 1.0")]


def test_a_metadata_finder_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(context: object = None) -> list[object]:
            raise RuntimeError("finder of somebody else")

    for finder in (Broken, Broken()):
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
        with pytest.raises(PluginError, match=mentions(Broken.__qualname__, "finder of somebody else")):
            installed_sources(GROUP)
        monkeypatch.undo()


def test_the_metadata_of_packages_are_read_once_for_all_groups(
    package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    package("site", "acme_one", "1.0", "one = acme")
    reads: list[str] = []
    listing = sys.modules[Installed.__module__]
    text_of = listing.text_of

    def counted(metadata: Distribution, name: str) -> str:
        reads.append(name)
        return text_of(metadata, name)

    monkeypatch.setattr(listing, "text_of", counted)  # whichever package's finder gives the metadata
    assert sources() == [("one", "acme-one 1.0")] and "METADATA" in reads
    reads.clear()
    assert sources() == [("one", "acme-one 1.0")] and not installed_sources("acme.others.v1") and not reads
    package("site", "acme_two", "1.0", "two = acme")
    assert sources() == [("one", "acme-one 1.0"), ("two", "acme-two 1.0")]


def test_a_copy_that_an_installed_variant_declines_by_name_reads_no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons and explanations ask one variant after the other."""
    k = tc.KernelBuilder("k", threads=32)
    source, tile = k.param("A", (32, 8), "float32"), k.shared((32, 8), "float32")
    searches: list[object] = []

    class Counting:
        find_spec = staticmethod(lambda *_: None)
        find_distributions = staticmethod(lambda context=None: searches.append(context) or [])

    def declined(variant: str) -> None:
        with pytest.raises(tc.NoVariantError):
            tc.plan(tile[:, :], source[:, :], scope=tc.cta(32), target="sm_90", variant=variant)

    declined("dsmem")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Counting])
    declined("dsmem")
    assert not searches
    declined("late_copy")
    assert searches


@pytest.mark.parametrize("again", ["{}/", "{}/.", "{}"])
def test_a_folder_that_is_on_the_path_twice_counts_once(
    again: str, package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = package("site", "acme_one", "1.0", "one = acme").parent
    monkeypatch.setattr(sys, "path", [*sys.path, again.format(site)])
    (one,) = [installed for installed in distributions() if installed.name == "acme-one"]
    assert not one.other_versions and not one.shadowed


@pytest.mark.parametrize("folder", ["acme_copy-1.0-1.dist-info", "acme--1.0.dist-info", "acme-1.0-dev.dist-info"])
def test_a_folder_with_an_unusual_name_has_the_name_in_its_metadata(folder: str, package: Callable[..., Path]) -> None:
    location = package("site", "acme_one", "1.0", "one = acme")
    location.rename(location.with_name(folder))
    assert sources() == [("one", "acme-one 1.0")]


def test_a_finder_without_distributions_is_skipped_and_a_path_with_a_null_byte_is_refused(
    package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    package("site", "acme_one", "1.0", "one = acme")

    class Silent:
        find_spec = staticmethod(lambda *_: None)
        find_distributions = None

    monkeypatch.setattr(sys, "meta_path", [Silent, *sys.meta_path])
    assert sources() == [("one", "acme-one 1.0")]
    monkeypatch.setattr(sys, "path", ["no\0folder", *sys.path])
    with pytest.raises(PluginError, match=mentions("ValueError")):
        sources()
